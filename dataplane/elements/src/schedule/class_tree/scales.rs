//! The same promises at every scale: rates from 8 kbit/s to 100 Gbit/s, overhead, weights far apart, frames longer than
//! announced, hours without a packet.

use super::*;
use crate::plumbing::{ToPort, frames::UdpFrame};
use crate::schedule::{Pump, Transmitter, TransmitterConfig};
use perhop_element::Element;
use perhop_element::testkit::Bench;
use perhop_packet::{LeafId, PortId};
use perhop_units::{Bytes, Duration, Framing, QueueLimit};
use proptest::prelude::*;

const L: u64 = 1000;
/// Tokens of a byte.
const BYTE: i128 = 8_000_000_000;

fn queue() -> Option<LeafParams> {
    Some(LeafParams { limit: QueueLimit::Packets(1 << 20), kind: LeafKind::Fifo })
}

fn leaf(parent: Option<u32>) -> NodeParams {
    NodeParams { queue: queue(), ..NodeParams::leaf(parent.map(NodeIndex)) }
}

fn specs(params: &[NodeParams]) -> Vec<NodeSpec> {
    let spec = |(n, p): (usize, &NodeParams)| NodeSpec {
        index: NodeIndex(n as u32),
        name: format!("c{n}").into(),
        params: p.clone(),
    };
    params.iter().enumerate().map(spec).collect()
}

fn pump(link: TreeLink, params: &[NodeParams]) -> Pump {
    let tree = ClassTree::with_classes(link, Instant::ZERO, &specs(params));
    let line = TransmitterConfig {
        rate: link.rate,
        overhead_bytes: link.overhead_bytes,
        framing: link.framing,
        ..TransmitterConfig::default()
    };
    Pump::new(Box::new(tree), Transmitter::new(line), None)
}

fn bench(link: TreeLink, params: &[NodeParams]) -> Bench {
    Bench::new(pump(link, params), 1)
}

fn offer(bench: &mut Bench, leaf: u32, len: u64) {
    let frame = UdpFrame { ip_len: len as u16 - 14, ..UdpFrame::default() }.to_vec();
    let mut packet = bench.packet(&frame);
    packet.meta_mut().leaf = LeafId(leaf);
    bench.push_packet(0, packet);
}

/// Sent packets: start on the line, leaf, frame length.
fn sent(bench: &Bench) -> Vec<(u64, u32, u64)> {
    bench.sink(0).arrived.iter().map(|(t, p)| (t.0, p.meta().leaf.0, p.len() as u64)).collect()
}

/// Whether charges at these times stay below `bound` over every interval.
fn conforms(bound: Bound, charges: impl Iterator<Item = (u64, u64)>) -> bool {
    let burst = i128::from(bound.burst.0) * BYTE;
    let (mut level, mut last) = (burst, 0);
    charges.into_iter().all(|(at, bytes)| {
        level =
            (level + i128::from(bound.rate.0) * i128::from(at - last)).min(burst) - i128::from(bytes) * BYTE;
        last = at;
        level >= 0
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn ceilings_and_guarantees_hold_at_every_rate_and_whatever_the_line_makes_of_frames(
        rate in prop::sample::select(vec![8_000u64, 64_000, 999_999, 2_048_000, 1_000_000_007, 100_000_000_000]),
        overhead in 0u32..64,
        framing in prop::sample::select(vec![Framing::PLAIN, Framing::new(4, 84, false), Framing::new(0, 0, true), Framing::new(0, 300, true)]),
        lens in prop::collection::vec(60u64..=L, 1..9),
        hours in 1u64..50,
    ) {
        let link = TreeLink { rate: Rate(rate), max_frame: L as u32, overhead_bytes: overhead, framing };
        let bound = |percent: u64| Bound { rate: Rate(rate / 100 * percent), burst: Bytes(2 * link.max_cost()) };
        // A throttled subtree with a guaranteed leaf in it, and two more leaves beside it.
        let params = [
            NodeParams { guarantee: Some(bound(30)), ceiling: Some(bound(45)), ..NodeParams::interior(None) },
            NodeParams { guarantee: Some(bound(20)), tier: 1, ..leaf(Some(0)) },
            leaf(Some(0)),
            NodeParams { guarantee: Some(bound(25)), tier: 0, ..leaf(None) },
            leaf(None),
        ];
        prop_assert!(ClassTree::validate(&specs(&params), &link).is_ok());
        let mut bench = bench(link, &params);
        let count = 300;
        let mut begin = 0;
        for round in 0..2 {
            for n in 0..count {
                for (i, leaf) in [1, 2, 3, 4].into_iter().enumerate() {
                    offer(&mut bench, leaf, lens[(n / 20 + i) % lens.len()]);
                }
            }
            // As long as every leaf surely has packets: the least any of them has, at the whole rate.
            let charge = |len: u64| framing.of(len + u64::from(overhead));
            let least = lens.iter().map(|l| charge(*l)).min().unwrap_or(1) * count as u64;
            let time = Duration((u128::from(least) * 8_000_000_000 / u128::from(rate)) as u64);
            bench.run_until(Instant(begin) + time);
            let all = sent(&bench);
            let in_round = || all.iter().filter(move |s| s.0 >= begin);
            let bits = |of: &[u32]| {
                in_round().filter(|s| of.contains(&s.1)).map(|s| i128::from(charge(s.2)) * 8).sum::<i128>()
            };
            let due = |percent: u64| i128::from(rate / 100 * percent) * i128::from(time.0) / 1_000_000_000;
            // What a guarantee may be behind by: its burst, a frame, and the delay bound of its tier.
            let slack = 8 * i128::from(8 * link.max_cost());
            for (leaf, percent) in [(1, 20), (3, 25)] {
                prop_assert!(bits(&[leaf]) + slack >= due(percent), "leaf {} round {}", leaf, round);
            }
            prop_assert!(bits(&[1, 2]) + slack >= due(30), "the parent's guarantee, round {}", round);
            prop_assert!(bits(&[1, 2, 3, 4]) + 8 * i128::from(link.max_cost()) >= i128::from(rate) * i128::from(time.0) / 1_000_000_000, "idle");
            // Everything leaves, the throttled subtree last and at its ceiling; then hours pass.
            bench.run_for(Duration(time.0.saturating_mul(200)));
            prop_assert_eq!(bench.element::<Pump>().held(), 0);
            let below = sent(&bench).into_iter().filter(|s| s.1 == 1 || s.1 == 2).map(|s| (s.0, charge(s.2)));
            prop_assert!(conforms(bound(45), below), "ceiling, round {}", round);
            bench.run_for(Duration(hours * 3_600_000_000_000));
            begin = bench.now().0;
        }
    }

    #[test]
    fn weights_hold_to_a_turn_over_long_runs_of_very_different_frames(
        weights in prop::array::uniform3(1u32..40),
        lens in prop::array::uniform3(60u64..=L),
        overhead in 0u32..40,
    ) {
        let link = TreeLink { rate: Rate(1_000_000_000), max_frame: L as u32, overhead_bytes: overhead, framing: Framing::PLAIN };
        let params = weights.map(|weight| NodeParams { weight, ..leaf(None) });
        let mut bench = Bench::new(pump(link, &params), 0);
        bench.driver.set_port_count(1);
        let out = bench.driver.add("out", Box::new(ToPort::new(PortId(0))), 0);
        bench.driver.connect(bench.node, 0, out, 0).expect("it is free");
        let mut bytes = [0u64; 3];
        let mut first = true;
        for _ in 0..30 {
            // They are filled again before one of them could run out.
            for (n, len) in lens.iter().enumerate() {
                let tree: &ClassTree = bench.element::<Pump>().discipline().expect("a tree");
                let have = tree.class(NodeIndex(n as u32)).expect("it exists").backlog_packets;
                (have..900).for_each(|_| offer(&mut bench, n as u32, *len));
            }
            bench.run_for(Duration(60 * 8 * 400));
            for packet in bench.driver.transmit_queue(PortId(0)).expect("a port").drain() {
                // The first packet left before the others were there.
                bytes[packet.meta().leaf.index()] += if first { 0 } else { packet.len() as u64 + u64::from(overhead) };
                first = false;
                packet.release();
            }
        }
        let unit = u64::from(*weights.iter().min().expect("three"));
        let cost = link.max_cost();
        for a in 0..3 {
            for b in 0..3 {
                let (wa, wb) = (u64::from(weights[a]), u64::from(weights[b]));
                let apart = (bytes[a] * wb).abs_diff(bytes[b] * wa);
                let bound = (cost * wa * wb).div_ceil(unit) + 2 * cost * (wa + wb);
                prop_assert!(apart <= bound, "{:?} of {:?}: {} > {}", bytes, weights, apart, bound);
            }
        }
    }
}

fn link() -> TreeLink {
    TreeLink { rate: Rate::from_mbit(8), max_frame: L as u32, overhead_bytes: 0, framing: Framing::PLAIN }
}

fn commit(bench: &mut Bench, edits: Vec<TreeEdit>) {
    let now = bench.now();
    let tree: &mut ClassTree = bench.element::<Pump>().discipline_mut().expect("a tree");
    tree.commit(now, &mut TreeChange::prepare(edits));
}

fn update(bench: &mut Bench, n: u32, weight: u32) {
    let params = NodeParams { weight, ..leaf(None) };
    commit(bench, vec![TreeEdit::Update { index: NodeIndex(n), params }]);
}

fn packets_of(bench: &Bench, leaf: u32) -> usize {
    sent(bench).iter().filter(|s| s.1 == leaf).count()
}

#[test]
fn weights_are_in_proportion_to_the_lightest_there_is_not_to_one_there_was() {
    let mut bench = bench(link(), &[leaf(None), leaf(None)]);
    // Each step is within the allowed ratio of 1,000; from the first to the last it is more.
    update(&mut bench, 1, 1_000);
    update(&mut bench, 0, 100_000);
    update(&mut bench, 1, 300_000);
    for _ in 0..400 {
        offer(&mut bench, 0, L);
        offer(&mut bench, 1, L);
    }
    bench.run_for(Duration::from_millis(400));
    let (a, b) = (packets_of(&bench, 0), packets_of(&bench, 1));
    assert!(b.abs_diff(3 * a) <= 6, "{a} {b}");
}

#[test]
fn a_removed_light_class_does_not_lengthen_the_turns_of_the_others() {
    let heavy = NodeParams { weight: 900, ..leaf(None) };
    let mut bench = bench(link(), &[leaf(None), heavy.clone(), heavy]);
    let drain_until = Instant(1_000_000_000);
    (0..10).for_each(|_| offer(&mut bench, 0, L));
    commit(&mut bench, vec![TreeEdit::Remove { index: NodeIndex(0), drain_until }]);
    for _ in 0..100 {
        offer(&mut bench, 1, L);
        offer(&mut bench, 2, L);
    }
    bench.run_for(Duration::from_millis(150));
    let turns: Vec<u32> = sent(&bench).iter().map(|s| s.1).collect();
    let longest = turns.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
    assert!(longest <= 2, "a turn of {longest} frames");
}

#[test]
fn frames_longer_than_announced_are_shared_by_weight_too() {
    let short = TreeLink { max_frame: 64, ..link() };
    let mut bench = bench(short, &[leaf(None), NodeParams { weight: 3, ..leaf(None) }]);
    for _ in 0..400 {
        offer(&mut bench, 0, L);
        offer(&mut bench, 1, L);
    }
    bench.run_for(Duration::from_millis(400));
    let (a, b) = (packets_of(&bench, 0), packets_of(&bench, 1));
    assert!(b.abs_diff(3 * a) <= 6, "{a} {b}");
}

#[test]
fn frames_longer_than_a_burst_still_get_their_guarantee() {
    let short = TreeLink { max_frame: 300, ..link() };
    let half = Some(Bound { rate: Rate::from_mbit(4), burst: Bytes(600) });
    let mut bench = bench(
        short,
        &[NodeParams { guarantee: half, ..leaf(None) }, NodeParams { weight: 900, ..leaf(None) }],
    );
    for _ in 0..900 {
        offer(&mut bench, 0, L);
        offer(&mut bench, 1, L);
    }
    bench.run_for(Duration::from_millis(800));
    let guaranteed = packets_of(&bench, 0);
    assert!((395..=410).contains(&guaranteed), "{guaranteed} of 400");
}

#[test]
fn a_class_whose_burst_is_short_of_a_new_links_frame_goes_on_at_its_ceiling() {
    let ceiling = Some(Bound { rate: Rate::from_mbit(4), burst: Bytes(2 * L) });
    let mut bench = bench(link(), &[NodeParams { ceiling, ..leaf(None) }]);
    for _ in 0..300 {
        offer(&mut bench, 0, L);
    }
    let tree: &mut ClassTree = bench.element::<Pump>().discipline_mut().expect("a tree");
    let state = tree.export_state().expect("it has state");
    let mut next = ClassTree::new(TreeLink { max_frame: 9000, ..link() });
    assert!(next.import_state(state).is_ok());
    *bench.element::<Pump>().discipline_mut::<ClassTree>().expect("a tree") = next;
    bench.run_for(Duration::from_millis(500));
    let packets = packets_of(&bench, 0);
    assert!((250..=253).contains(&packets), "{packets} of 250");
}
