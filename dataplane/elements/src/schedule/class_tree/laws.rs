//! The tree's promises, checked over random trees and arrivals, and against a slow model that recomputes everything.

use super::*;
use crate::plumbing::frames::UdpFrame;
use crate::schedule::{Pump, Transmitter, TransmitterConfig};
use perhop_element::testkit::Bench;
use perhop_packet::LeafId;
use perhop_units::{Bytes, Framing, QueueLimit};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Largest frame.
pub(super) const L: u64 = 1000;
/// 8 Mbit/s: a byte a microsecond.
pub(super) const C: u64 = 8_000_000;
pub(super) const BYTE: u64 = 1_000;

pub(super) fn link() -> TreeLink {
    TreeLink { rate: Rate(C), max_frame: L as u32, overhead_bytes: 0, framing: Framing::PLAIN }
}

/// A recipe for a node, scaled into a valid tree by [`grow`].
#[derive(Clone, Debug)]
pub(super) struct Seed {
    parent: u32,
    is_leaf: bool,
    share: u32,
    burst: u64,
    ceiling: Option<(u32, u64)>,
    weight: u32,
    tier: u8,
}

pub(super) fn seed() -> impl Strategy<Value = Seed> {
    (
        any::<u32>(),
        prop::bool::weighted(0.65),
        0u32..100,
        2 * L..8 * L,
        prop::option::weighted(0.25, (0u32..100, 2 * L..6 * L)),
        1u32..8,
        0u8..4,
    )
        .prop_map(|(parent, is_leaf, share, burst, ceiling, weight, tier)| Seed {
            parent,
            is_leaf,
            share,
            burst,
            ceiling,
            weight,
            tier,
        })
}

/// Makes a valid tree of at most 5 levels: guarantees are parts of what the parent has left, at most `percent` of the
/// link in all.
pub(super) fn grow(seeds: &[Seed], ceilings: bool, percent: u64) -> Vec<NodeSpec> {
    let mut specs: Vec<NodeSpec> = Vec::new();
    let mut depth: Vec<u32> = Vec::new();
    let mut left: Vec<u64> = Vec::new();
    let mut top = C / 100 * percent;
    for (n, seed) in seeds.iter().enumerate() {
        let parents: Vec<usize> =
            (0..n).filter(|i| specs[*i].params.queue.is_none() && depth[*i] < 5).collect();
        // Two nodes in three go below the latest that can take them, so that trees become deep.
        let pick = seed.parent as usize / 3 % (parents.len() + 1);
        let deep = !seed.parent.is_multiple_of(3);
        let parent = if deep { parents.last() } else { parents.get(pick) }.copied();
        let pool = parent.map_or(&mut top, |p| &mut left[p]);
        let rate = *pool * u64::from(seed.share) / 200;
        *pool -= rate;
        let burst = Bytes(seed.burst);
        let ceiling = seed.ceiling.filter(|_| ceilings).map(|(share, burst)| Bound {
            rate: Rate(rate.max(1) + C * u64::from(share) / 200),
            burst: Bytes(burst),
        });
        depth.push(parent.map_or(1, |p| depth[p] + 1));
        left.push(rate);
        let queue = LeafParams { limit: QueueLimit::Packets(1 << 20), kind: LeafKind::Fifo };
        specs.push(NodeSpec {
            index: NodeIndex(n as u32),
            name: format!("c{n}").into(),
            params: NodeParams {
                parent: parent.map(|p| NodeIndex(p as u32)),
                guarantee: (rate > 0).then_some(Bound { rate: Rate(rate), burst }),
                ceiling,
                weight: seed.weight,
                tier: seed.tier,
                queue: (seed.is_leaf || depth[n] == 5).then_some(queue),
            },
        });
    }
    ClassTree::validate(&specs, &link()).expect("grown trees are valid");
    specs
}

pub(super) fn leaves(specs: &[NodeSpec]) -> Vec<u32> {
    specs.iter().filter(|s| s.params.queue.is_some()).map(|s| s.index.0).collect()
}

/// A node and everything above it.
fn path(specs: &[NodeSpec], of: u32) -> Vec<u32> {
    let mut path = vec![of];
    while let Some(parent) = specs[path[path.len() - 1] as usize].params.parent {
        path.push(parent.0);
    }
    path
}

/// One packet's arrival: time in ns, leaf, frame length.
type Arrival = (u64, u32, u64);
/// One packet's departure: time at which its last bit has left, leaf, frame length, time of arrival.
type Departure = (u64, u32, u64, u64);

struct Run {
    bench: Bench,
}

impl Run {
    fn new(specs: &[NodeSpec]) -> Self {
        let tree = ClassTree::with_classes(link(), Instant::ZERO, specs);
        let line = Transmitter::new(TransmitterConfig { rate: Rate(C), ..Default::default() });
        Self { bench: Bench::new(Pump::new(Box::new(tree), line, None), 1) }
    }

    fn arrive(&mut self, (at, leaf, len): Arrival) {
        self.bench.run_until(Instant(at));
        let frame = UdpFrame { ip_len: len as u16 - 14, ..UdpFrame::default() }.to_vec();
        assert_eq!(frame.len() as u64, len);
        let mut packet = self.bench.packet(&frame);
        packet.meta_mut().leaf = LeafId(leaf);
        self.bench.push_packet(0, packet);
    }

    fn departures(&self) -> Vec<Departure> {
        let sent = self.bench.sink(0).arrived.iter();
        sent.map(|(t, p)| {
            let len = p.len() as u64;
            (t.0 + len * BYTE, p.meta().leaf.0, len, p.meta().received_at.0)
        })
        .collect()
    }
}

fn run(specs: &[NodeSpec], arrivals: &[Arrival], until: u64) -> Vec<Departure> {
    let mut run = Run::new(specs);
    for arrival in arrivals {
        run.arrive(*arrival);
    }
    run.bench.run_until(Instant(until));
    run.departures()
}

fn arrivals(count: usize) -> impl Strategy<Value = Vec<(u64, usize, u64)>> {
    prop::collection::vec((0u64..3_000_000, any::<usize>(), 60u64..=L), count / 2..count)
}

/// Gaps become times, picks become leaves.
fn place(leaves: &[u32], raw: &[(u64, usize, u64)], burstiness: u64) -> Vec<Arrival> {
    let mut now = 0;
    raw.iter()
        .map(|(gap, pick, len)| {
            now += if gap % burstiness == 0 { *gap } else { 0 };
            (now, leaves[pick % leaves.len()], *len)
        })
        .collect()
}

/// Everything backlogged from the start.
fn backlog(leaves: &[u32], each: usize, lens: &[u64]) -> Vec<Arrival> {
    let mut all = Vec::new();
    for n in 0..each {
        for (i, leaf) in leaves.iter().enumerate() {
            // Leaves differ in their packets' lengths, so that sharing packets is not sharing bytes.
            all.push((0, *leaf, lens[(n / 50 + i) % lens.len()]));
        }
    }
    all
}

/// The laws below are put to the test at every depth up to the fifth level, there also under classes with ceilings and
/// with guarantees all the way down.
#[test]
fn trees_of_every_depth_are_drawn() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut depths = [0; 6];
    let mut bounded = 0;
    for _ in 0..200 {
        let seeds = prop::collection::vec(seed(), 2..12).new_tree(&mut runner).expect("no filter").current();
        let specs = grow(&seeds, true, 90);
        let deepest = leaves(&specs).into_iter().map(|l| path(&specs, l)).max_by_key(Vec::len);
        let Some(deepest) = deepest else { continue };
        depths[deepest.len()] += 1;
        let params = |ix: &u32| &specs[*ix as usize].params;
        let inner = &deepest[1..];
        let limited = inner.iter().any(|ix| params(ix).ceiling.is_some());
        bounded +=
            u32::from(deepest.len() == 5 && limited && inner.iter().all(|ix| params(ix).guarantee.is_some()));
    }
    assert!(depths[1..].iter().all(|n| *n >= 8) && bounded >= 3, "{depths:?}, {bounded} bounded");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// (Σ bursts of its tier and before + L) / (C − Σ other guarantees of these tiers).
    #[test]
    fn in_profile_packets_keep_the_delay_bound(
        seeds in prop::collection::vec(seed(), 2..12),
        raw in arrivals(600),
        greedy in any::<u32>(),
        percent in 20u64..95,
    ) {
        let specs = grow(&seeds, false, percent);
        let all = leaves(&specs);
        prop_assume!(!all.is_empty());
        // Leaves with a guarantee conform to it; the others, and one greedy leaf, send what they like.
        let mut buckets: Vec<(i128, u64)> =
            specs.iter().map(|s| (s.params.guarantee.map_or(0, |g| i128::from(g.burst.0) * 8_000_000_000), 0)).collect();
        let mut offered = Vec::new();
        for (at, leaf, len) in place(&all, &raw, 3) {
            let spec = &specs[leaf as usize];
            if let Some(g) = spec.params.guarantee {
                let (level, last) = &mut buckets[leaf as usize];
                let earned = i128::from(g.rate.0) * i128::from(at - *last);
                *level = (*level + earned).min(i128::from(g.burst.0) * 8_000_000_000);
                *last = at;
                let cost = i128::from(len) * 8_000_000_000;
                if *level < cost {
                    continue;
                }
                *level -= cost;
            }
            offered.push((at, leaf, len));
        }
        let free: Vec<u32> = all.iter().copied().filter(|l| specs[*l as usize].params.guarantee.is_none()).collect();
        if let Some(leaf) = free.get(greedy as usize % free.len().max(1)) {
            offered.splice(0..0, (0..400).map(|_| (0, *leaf, L)));
        }
        let end = offered.last().map_or(0, |a| a.0) + 2_000_000_000;
        let left = run(&specs, &offered, end);
        prop_assert_eq!(left.len(), offered.len(), "everything leaves in the end");
        for (done, leaf, _, came) in left {
            let mine = &specs[leaf as usize];
            if mine.params.guarantee.is_none() {
                continue;
            }
            let (mut bursts, mut others) = (0, 0);
            for other in all.iter().map(|l| &specs[*l as usize]) {
                if let Some(g) = other.params.guarantee.filter(|_| other.params.tier <= mine.params.tier) {
                    bursts += g.burst.0;
                    others += if other.index == mine.index { 0 } else { g.rate.0 };
                }
            }
            let bound = u128::from(bursts + L) * 8_000_000_000 / u128::from(C - others) + 2;
            prop_assert!(u128::from(done - came) <= bound, "leaf {} waited {} > {}", leaf, done - came, bound);
        }
    }

    /// A backlogged leaf gets ≥ g·t − burst − L over any interval.
    #[test]
    fn backlogged_leaves_get_their_guarantee(
        seeds in prop::collection::vec(seed(), 2..12),
        lens in prop::collection::vec(60u64..=L, 1..9),
    ) {
        let specs = grow(&seeds, false, 100);
        let all = leaves(&specs);
        prop_assume!(!all.is_empty());
        let offered = backlog(&all, 2400 / all.len(), &lens);
        let end: u64 = 900_000_000;
        let left = run(&specs, &offered, end);
        for leaf in all {
            let spec = &specs[leaf as usize];
            let Some(g) = spec.params.guarantee else { continue };
            let mine = offered.iter().filter(|a| a.1 == leaf).count();
            let sent: Vec<_> = left.iter().filter(|d| d.1 == leaf).collect();
            let stop = if sent.len() == mine { sent[mine - 1].0 } else { end };
            // Bits guaranteed minus bits received may never grow by more than burst + L over an interval, beyond what
            // the delay bound costs.
            let first = |s: &&NodeSpec| s.params.queue.is_some() && s.params.tier <= spec.params.tier;
            let before: Vec<Bound> = specs.iter().filter(first).filter_map(|s| s.params.guarantee).collect();
            let bursts: u64 = before.iter().map(|b| b.burst.0).sum();
            let others = before.iter().map(|b| b.rate.0).sum::<u64>() - g.rate.0;
            let delayed = u128::from(g.rate.0) * u128::from(bursts + L) * 8 / u128::from(C - others);
            let slack = (g.burst.0 + L) * 8 + delayed as u64;
            let (mut lowest, mut got) = (0i128, 0i128);
            for (done, _, len, _) in sent.iter().map(|d| **d).chain([(stop, leaf, 0, 0)]) {
                let due = i128::from(g.rate.0) * i128::from(done) / 1_000_000_000;
                let behind = due - got;
                prop_assert!(behind - lowest <= i128::from(slack), "leaf {} is {} bits behind at {}", leaf, behind - lowest, done);
                got += i128::from(len) * 8;
                lowest = lowest.min(due - got);
            }
        }
    }

    /// At most c·t + burst in any interval, for every node with a ceiling.
    #[test]
    fn ceilings_are_never_exceeded(
        seeds in prop::collection::vec(seed(), 2..12),
        raw in arrivals(500),
    ) {
        let specs = grow(&seeds, true, 90);
        let all = leaves(&specs);
        prop_assume!(!all.is_empty());
        let offered = place(&all, &raw, 5);
        let left = run(&specs, &offered, offered.last().map_or(0, |a| a.0) + 500_000_000);
        for spec in &specs {
            let Some(c) = spec.params.ceiling else { continue };
            let (mut level, mut last) = (i128::from(c.burst.0) * 8_000_000_000, 0u64);
            for (done, leaf, len, _) in &left {
                if !path(&specs, *leaf).contains(&spec.index.0) {
                    continue;
                }
                let start = done - len * BYTE;
                let earned = i128::from(c.rate.0) * i128::from(start - last);
                level = (level + earned).min(i128::from(c.burst.0) * 8_000_000_000) - i128::from(*len) * 8_000_000_000;
                last = start;
                prop_assert!(level >= 0, "node {} exceeds its ceiling at {}", spec.index.0, start);
            }
        }
    }

    /// Without ceilings the line never idles while a packet waits; with them only while every waiting leaf is below one
    /// without tokens (the oracle below covers that).
    #[test]
    fn the_line_never_idles_without_ceilings(
        seeds in prop::collection::vec(seed(), 1..12),
        raw in arrivals(400),
    ) {
        let specs = grow(&seeds, false, 100);
        let all = leaves(&specs);
        prop_assume!(!all.is_empty());
        let offered = place(&all, &raw, 2);
        let left = run(&specs, &offered, u64::MAX / 4);
        prop_assert_eq!(left.len(), offered.len());
        // The same work leaves a plain FIFO at the same times, packet lengths apart: compare busy periods.
        let (mut free, mut finish) = (0u64, 0u64);
        for (at, _, len) in &offered {
            free = free.max(*at) + len * BYTE;
            finish = finish.max(free);
        }
        prop_assert_eq!(left.last().map(|d| d.0), Some(finish));
        let mut order: VecDeque<_> = left.iter().collect();
        let mut at = 0;
        let mut waiting = 0i64;
        let mut next = offered.iter().peekable();
        while let Some((done, _, len, _)) = order.pop_front() {
            let start = done - len * BYTE;
            prop_assert!(start == at || waiting == 0, "idle from {} to {}", at, start);
            waiting -= 1;
            at = *done;
            while next.peek().is_some_and(|a| a.0 < at) {
                waiting += 1;
                next.next();
            }
        }
    }

    /// Siblings that are always backlogged share excess by weight within one quantum and one frame each, per level.
    #[test]
    fn excess_follows_the_weights_at_every_level(
        seeds in prop::collection::vec(seed(), 2..10),
        lens in prop::collection::vec(60u64..=L, 1..9),
        millis in 50u64..600,
    ) {
        let mut specs = grow(&seeds, false, 0);
        // An interior class without leaves below never sends: make it a leaf.
        for n in 0..specs.len() {
            if !specs.iter().any(|s| s.params.parent == Some(NodeIndex(n as u32))) {
                specs[n].params.queue.get_or_insert(LeafParams { limit: QueueLimit::Packets(1 << 20), kind: LeafKind::Fifo });
            }
        }
        let all = leaves(&specs);
        let offered = backlog(&all, 3600 / all.len(), &lens);
        let left = run(&specs, &offered, millis * 1_000_000);
        let mut remaining: Vec<usize> = specs.iter().map(|s| offered.iter().filter(|a| a.1 == s.index.0).count()).collect();
        let mut bytes = vec![0u64; specs.len()];
        for (n, (_, leaf, len, _)) in left.iter().enumerate() {
            remaining[*leaf as usize] -= 1;
            if remaining[*leaf as usize] == 0 {
                break;
            }
            // The first packet left before the others had arrived.
            if n > 0 {
                for ix in path(&specs, *leaf) {
                    bytes[ix as usize] += len;
                }
            }
        }
        for a in &specs {
            for b in specs.iter().filter(|b| b.params.parent == a.params.parent) {
                let siblings = specs.iter().filter(|s| s.params.parent == a.params.parent);
                let unit = siblings.map(|s| u64::from(s.params.weight)).min().unwrap_or(1);
                let (wa, wb) = (u64::from(a.params.weight), u64::from(b.params.weight));
                let apart = (bytes[a.index.0 as usize] * wb).abs_diff(bytes[b.index.0 as usize] * wa);
                let bound = (L * wa * wb).div_ceil(unit) + 2 * L * (wa + wb);
                prop_assert!(apart <= bound, "{} and {}: {:?}", a.name, b.name, bytes);
            }
        }
    }
}
