//! A slow model of the tree that recomputes every rule for every packet, and a judge that holds each departure of the real
//! tree against it, also while classes are changed and removed.

use super::laws::{BYTE, C, L, grow, leaves, link, seed};
use super::*;
use crate::plumbing::frames::UdpFrame;
use crate::schedule::{Pump, Transmitter, TransmitterConfig};
use perhop_element::TimerId;
use perhop_element::testkit::Bench;
use perhop_packet::{DropReason, LeafId};
use perhop_units::Bytes;
use proptest::prelude::*;
use std::collections::VecDeque;

const FULL: i128 = L as i128 * 8_000_000_000;

#[derive(Clone, Debug)]
struct Tokens {
    rate: i128,
    burst: i128,
    level: i128,
}

impl Tokens {
    fn new(bound: Bound) -> Self {
        let burst = i128::from(bound.burst.0) * 8_000_000_000;
        Self { rate: i128::from(bound.rate.0), burst, level: burst }
    }

    fn set(slot: &mut Option<Self>, bound: Option<Bound>) {
        match (slot.as_mut(), bound) {
            (Some(old), Some(new)) => {
                let level = old.level;
                *old = Self::new(new);
                old.level = level.min(old.burst);
            }
            (_, new) => *slot = new.map(Self::new),
        }
    }
}

struct Class {
    parent: Option<usize>,
    tier: u8,
    guarantee: Option<Tokens>,
    ceiling: Option<Tokens>,
    /// Packets waiting: number and length.
    queue: VecDeque<(u32, u64)>,
    is_leaf: bool,
    drain_until: Option<u64>,
}

struct Model {
    classes: Vec<Class>,
    now: u64,
    free: u64,
}

impl Model {
    fn new(specs: &[NodeSpec]) -> Self {
        let class = |s: &NodeSpec| Class {
            parent: s.params.parent.map(|p| p.0 as usize),
            tier: s.params.tier,
            guarantee: s.params.guarantee.map(Tokens::new),
            ceiling: s.params.ceiling.map(Tokens::new),
            queue: VecDeque::new(),
            is_leaf: s.params.queue.is_some(),
            drain_until: None,
        };
        Self { classes: specs.iter().map(class).collect(), now: 0, free: 0 }
    }

    fn advance(&mut self, now: u64) {
        let dt = i128::from(now - self.now);
        self.now = now;
        for class in &mut self.classes {
            for tokens in [&mut class.guarantee, &mut class.ceiling].into_iter().flatten() {
                tokens.level = (tokens.level + tokens.rate * dt).min(tokens.burst);
            }
            if class.drain_until.is_some_and(|until| until <= now) {
                class.queue.clear();
            }
        }
    }

    fn path(&self, leaf: usize) -> Vec<usize> {
        let mut path = vec![leaf];
        while let Some(parent) = self.classes[path[path.len() - 1]].parent {
            path.push(parent);
        }
        path
    }

    /// Leaves that may send now.
    fn able(&self) -> Vec<usize> {
        let open = |ix: &usize| self.classes[*ix].ceiling.as_ref().is_none_or(|c| c.level >= FULL);
        let leaves = (0..self.classes.len()).filter(|ix| self.classes[*ix].is_leaf);
        leaves.filter(|ix| !self.classes[*ix].queue.is_empty() && self.path(*ix).iter().all(open)).collect()
    }

    /// The leaves one of which must be served now, and for stage 2 the depth of the lenders.
    fn allowed(&self) -> (Vec<usize>, Stage) {
        let able = self.able();
        let in_profile = |ix: &usize| {
            let class = &self.classes[*ix];
            let needed = class.queue.front().map_or(0, |(_, len)| i128::from(*len) * 8_000_000_000);
            class.guarantee.as_ref().is_some_and(|g| g.level >= needed)
        };
        let first: Vec<usize> = able.iter().copied().filter(in_profile).collect();
        if let Some(tier) = first.iter().map(|ix| self.classes[*ix].tier).min() {
            return (
                first.into_iter().filter(|ix| self.classes[*ix].tier == tier).collect(),
                Stage::Guaranteed,
            );
        }
        // Depth of the deepest ancestor with a frame's worth of guarantee left.
        let lender = |leaf: &usize| {
            let path = self.path(*leaf);
            let lends = |ix: &usize| self.classes[*ix].guarantee.as_ref().is_some_and(|g| g.level >= FULL);
            let at = path.iter().skip(1).position(lends)?;
            Some(path.len() - 1 - at)
        };
        if let Some(depth) = able.iter().filter_map(lender).max() {
            let under = able.into_iter().filter(|ix| lender(ix) == Some(depth)).collect();
            return (under, Stage::Shared(depth));
        }
        (able, Stage::Excess)
    }

    fn send(&mut self, leaf: usize, stage: Stage) -> Option<(u32, u64)> {
        let (number, len) = self.classes[leaf].queue.pop_front()?;
        let cost = i128::from(len) * 8_000_000_000;
        let path = self.path(leaf);
        for (n, ix) in path.iter().enumerate() {
            let depth = path.len() - n;
            let class = &mut self.classes[*ix];
            if let Some(c) = &mut class.ceiling {
                c.level -= cost;
            }
            if let Some(g) = &mut class.guarantee {
                match stage {
                    Stage::Guaranteed => g.level -= cost,
                    Stage::Shared(lender) if depth <= lender => g.level -= cost,
                    Stage::Shared(_) => g.level = (g.level - cost).max(g.level.min(0)),
                    Stage::Excess => {}
                }
            }
        }
        Some((number, len))
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Guaranteed,
    Shared(usize),
    Excess,
}

#[derive(Clone, Debug)]
enum Event {
    Arrive { leaf: u32, len: u64 },
    Update { node: u32, params: NodeParams },
    Remove { leaf: u32, drain: u64 },
}

/// What happened: time, packets that had left by then, event.
type Log = Vec<(u64, usize, Event)>;

fn params_after(spec: &NodeSpec, percent: u64, tier: u8, ceiling: Option<u64>) -> NodeParams {
    let p = spec.params.clone();
    // Every guarantee keeps the same part of its value, so that sums stay below their parents'.
    let guarantee = p.guarantee.map(|g| Bound { rate: Rate((g.rate.0 * percent / 100).max(1)), ..g });
    let ceiling = match (p.ceiling, ceiling) {
        (Some(c), Some(more)) => {
            Some(Bound { rate: Rate(c.rate.0 + more), burst: Bytes(c.burst.0 + more % 3000) })
        }
        (Some(c), None) => Some(c),
        (None, _) => None,
    };
    NodeParams { guarantee, ceiling, tier, weight: p.weight + u32::from(tier), ..p }
}

fn play(specs: &[NodeSpec], events: &[(u64, Event)], until: u64) -> (Bench, Log) {
    let tree = ClassTree::with_classes(link(), Instant::ZERO, specs);
    let line = Transmitter::new(TransmitterConfig { rate: Rate(C), ..Default::default() });
    let mut bench = Bench::new(Pump::new(Box::new(tree), line, None), 1);
    let mut log = Vec::new();
    for (number, (at, event)) in events.iter().enumerate() {
        bench.run_until(Instant(*at));
        log.push((*at, bench.sink(0).arrived.len(), event.clone()));
        let edit = match event {
            Event::Arrive { leaf, len } => {
                let mut packet =
                    bench.packet(&UdpFrame { ip_len: *len as u16 - 14, ..UdpFrame::default() }.to_vec());
                packet.meta_mut().leaf = LeafId(*leaf);
                packet.meta_mut().connection = number as u32;
                bench.push_packet(0, packet);
                continue;
            }
            Event::Update { node, params } => {
                TreeEdit::Update { index: NodeIndex(*node), params: params.clone() }
            }
            Event::Remove { leaf, drain } => {
                TreeEdit::Remove { index: NodeIndex(*leaf), drain_until: Instant(at + drain) }
            }
        };
        let mut change = TreeChange::prepare(vec![edit]);
        let (now, node) = (Instant(*at), bench.node);
        let pump: &mut Pump = bench.element();
        pump.discipline_mut::<ClassTree>().expect("it is a tree").commit(now, &mut change);
        bench.driver.wake(now, node, TimerId::MAIN);
    }
    bench.run_until(Instant(until));
    (bench, log)
}

fn judge(specs: &[NodeSpec], log: &Log, bench: &Bench, until: u64) -> Result<(), TestCaseError> {
    let mut model = Model::new(specs);
    let mut events = log.iter().enumerate().peekable();
    let sent = bench.sink(0).arrived.iter().map(|(t, p)| (t.0, p.meta().leaf.index(), p.meta().connection));
    for (n, (start, leaf, number)) in sent.enumerate() {
        while let Some((at, (time, _, event))) = events.next_if(|(_, e)| e.1 <= n) {
            model.advance(*time);
            prop_assert!(
                *time < model.free || model.able().is_empty(),
                "idle before event {} at {}",
                at,
                time
            );
            apply(&mut model, at as u32, event);
        }
        prop_assert!(start >= model.free, "two packets at once");
        if start > model.free.max(model.now) {
            model.advance(start - 1);
            prop_assert!(model.able().is_empty(), "idle until {}: {:?} could have sent", start, model.able());
        }
        model.advance(start);
        let (allowed, stage) = model.allowed();
        prop_assert!(
            allowed.contains(&leaf),
            "packet {}: leaf {} served at {}, but {:?} {:?}",
            n,
            leaf,
            start,
            stage,
            allowed
        );
        let (expected, len) = model.send(leaf, stage).expect("an allowed leaf has a packet");
        prop_assert_eq!(expected, number, "order inside leaf {}", leaf);
        model.free = start + len * BYTE;
    }
    for (at, (time, _, event)) in events {
        model.advance(*time);
        prop_assert!(*time < model.free || model.able().is_empty(), "idle before event {} at {}", at, time);
        apply(&mut model, at as u32, event);
    }
    model.advance(until.max(model.free));
    prop_assert!(model.able().is_empty() || model.free > until, "idle at the end");
    let waiting: usize = model.classes.iter().map(|c| c.queue.len()).sum();
    let held = bench.driver.element(bench.node).map_or(0, |e| e.held());
    prop_assert!(held >= waiting as u64, "{} wait, {} are held", waiting, held);
    Ok(())
}

fn apply(model: &mut Model, number: u32, event: &Event) {
    match event {
        Event::Arrive { leaf, len } => {
            let class = &mut model.classes[*leaf as usize];
            if class.drain_until.is_none() {
                class.queue.push_back((number, *len));
            }
        }
        Event::Update { node, params } => {
            let class = &mut model.classes[*node as usize];
            if class.drain_until.is_none() {
                class.tier = params.tier;
                Tokens::set(&mut class.guarantee, params.guarantee);
                Tokens::set(&mut class.ceiling, params.ceiling);
            }
        }
        Event::Remove { leaf, drain } => {
            let now = model.now;
            let class = &mut model.classes[*leaf as usize];
            if class.drain_until.is_none() {
                class.drain_until = Some(now + drain);
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Step {
    gap: u64,
    pick: usize,
    len: u64,
    what: u8,
    percent: u64,
    tier: u8,
    ceiling: Option<u64>,
    drain: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![40 => Just(0u8), 2 => Just(1), 1 => Just(2)];
    let gap = prop_oneof![6 => Just(0u64), 4 => 0u64..2_000_000, 1 => 0u64..20_000_000];
    (gap, any::<usize>(), 60u64..=L, what, 1u64..=100, 0u8..4, prop::option::of(0u64..C), 0u64..30_000_000)
        .prop_map(|(gap, pick, len, what, percent, tier, ceiling, drain)| Step {
            gap,
            pick,
            len,
            what,
            percent,
            tier,
            ceiling,
            drain,
        })
}

fn events(specs: &[NodeSpec], steps: &[Step], edits: bool) -> Vec<(u64, Event)> {
    let all = leaves(specs);
    let mut now = 0;
    let event = |s: &Step| {
        now += s.gap;
        let leaf = all[s.pick % all.len()];
        let event = match s.what {
            1 if edits => {
                let spec = &specs[s.pick % specs.len()];
                Event::Update { node: spec.index.0, params: params_after(spec, s.percent, s.tier, s.ceiling) }
            }
            2 if edits => Event::Remove { leaf, drain: s.drain },
            _ => Event::Arrive { leaf, len: s.len },
        };
        (now, event)
    };
    steps.iter().map(event).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_packet_is_one_the_rules_allow(
        seeds in prop::collection::vec(seed(), 2..14),
        steps in prop::collection::vec(step(), 50..500),
        percent in 0u64..=100,
    ) {
        let specs = grow(&seeds, true, percent);
        prop_assume!(!leaves(&specs).is_empty());
        let events = events(&specs, &steps, false);
        let until = events.last().map_or(0, |e| e.0) + 400_000_000;
        let (bench, log) = play(&specs, &events, until);
        judge(&specs, &log, &bench, until)?;
    }

    /// Untouched leaves lose and reorder nothing; touched ones follow their new parameters from the commit on.
    #[test]
    fn changes_harm_no_packet_they_do_not_concern(
        seeds in prop::collection::vec(seed(), 2..14),
        steps in prop::collection::vec(step(), 50..500),
        percent in 0u64..=100,
    ) {
        let specs = grow(&seeds, true, percent);
        prop_assume!(!leaves(&specs).is_empty());
        let events = events(&specs, &steps, true);
        let until = events.last().map_or(0, |e| e.0) + 400_000_000;
        let (bench, log) = play(&specs, &events, until);
        judge(&specs, &log, &bench, until)?;
        // Only removed leaves have dropped anything: all other drops are none.
        let drops = bench.driver.counters(bench.node).map_or(0, |c| {
            c.dropped - c.drops[DropReason::ClassRemoved.index()] - c.drops[DropReason::NoClass.index()]
        });
        prop_assert_eq!(drops, 0);
    }
}
