//! Leaves that drop by a discipline of their own, against that discipline alone.

use super::super::*;
use crate::drop::{
    Averages, Blue, BlueConfig, CoDel, CoDelConfig, FqCoDel, FqCoDelConfig, Pie, PieConfig, Wfq, WfqConfig,
    Wred, WredConfig,
};
use crate::plumbing::UdpFrame;
use crate::queue::FifoConfig;
use crate::queue::fifo::laws::{calls, check_any_order};
use crate::schedule::{Pump, Transmitter, TransmitterConfig};
use perhop_element::testkit::Bench;
use perhop_packet::{DropReason, LeafId};
use perhop_units::{Bytes, Color, Duration, Framing, Probability, QueueLimit};
use proptest::prelude::*;

const LIMIT: u32 = 60;
const OVERHEAD: u32 = 24;

/// 8 Mbit/s: a byte a microsecond.
fn link() -> TreeLink {
    TreeLink { rate: Rate::from_mbit(8), max_frame: 1514, overhead_bytes: OVERHEAD, framing: Framing::PLAIN }
}

fn curve(min_ppm: u32, max_ppm: u32, part: u32) -> Curve {
    Curve { min_ppm, max_ppm, max_p: Probability(u32::MAX / part) }
}

fn kinds() -> impl Strategy<Value = EarlyDrop> {
    let curves = [curve(300_000, 600_000, 50), curve(100_000, 300_000, 20), curve(50_000, 100_000, 10)];
    let ms = Duration::from_millis;
    let averages = prop_oneof![Just(Averages::Total), Just(Averages::Coupled), Just(Averages::Decoupled)];
    let codel = (1u64..10, any::<bool>()).prop_map(move |(target, ecn)| CoDelConfig {
        target: ms(target),
        interval: ms(5 * target),
        ecn,
        ..CoDelConfig::default()
    });
    prop_oneof![
        (averages, any::<bool>(), any::<bool>()).prop_map(move |(averages, by_dscp, ecn)| EarlyDrop::Wred {
            curves,
            averages,
            by_dscp,
            ecn
        }),
        codel.clone().prop_map(EarlyDrop::CoDel),
        any::<bool>().prop_map(move |ecn| EarlyDrop::Pie(PieConfig {
            max_burst: ms(5),
            target: ms(3),
            ecn,
            ..PieConfig::default()
        })),
        any::<bool>().prop_map(move |ecn| EarlyDrop::Blue(BlueConfig {
            increase: Probability(u32::MAX / 10),
            freeze: ms(2),
            ecn,
            ..BlueConfig::default()
        })),
        (codel, 1u32..9).prop_map(|(codel, flows)| EarlyDrop::FqCoDel(FqCoDelConfig {
            codel,
            flows,
            ..FqCoDelConfig::default()
        })),
        (1u32..9, any::<bool>())
            .prop_map(|(flows, by_precedence)| EarlyDrop::Wfq(WfqConfig { flows, by_precedence })),
    ]
}

/// The discipline alone, with the parameters that a leaf gives it.
fn alone(early: EarlyDrop) -> Box<dyn Discipline> {
    let queue =
        FifoConfig { limit: QueueLimit::Packets(LIMIT), rate: Rate::from_mbit(8), overhead: OVERHEAD };
    let bytes = Bytes(u64::from(LIMIT) * link().max_cost());
    let mtu = Bytes(link().max_cost());
    match early {
        EarlyDrop::Red { .. } => unreachable!("it is a queue of another type"),
        EarlyDrop::Wred { curves, averages, by_dscp, ecn } => {
            let curves = curves.map(|c| super::red_config(&c, ecn, bytes, link().rate));
            Box::new(Wred::new(WredConfig { curves, averages, by_dscp }, queue))
        }
        EarlyDrop::CoDel(c) => Box::new(CoDel::new(CoDelConfig { mtu, ..c }, queue)),
        EarlyDrop::Pie(c) => Box::new(Pie::new(c, queue)),
        EarlyDrop::Blue(c) => Box::new(Blue::new(c, queue)),
        EarlyDrop::FqCoDel(c) => {
            let codel = CoDelConfig { mtu, ..c.codel };
            Box::new(FqCoDel::new(FqCoDelConfig { codel, ..c }, queue))
        }
        EarlyDrop::Wfq(c) => Box::new(Wfq::new(c, queue)),
    }
}

fn queue(kind: impl Into<LeafKind>) -> Option<LeafParams> {
    Some(LeafParams { limit: QueueLimit::Packets(LIMIT), kind: kind.into() })
}

fn tree_of(early: EarlyDrop) -> ClassTree {
    let params = NodeParams { queue: queue(early), ..NodeParams::leaf(None) };
    let spec = NodeSpec { index: NodeIndex(0), name: "all".into(), params };
    ClassTree::validate(std::slice::from_ref(&spec), &link()).expect("the test's tree is valid");
    ClassTree::with_classes(link(), Instant::ZERO, &[spec])
}

/// A discipline whose head is decided right after each call, as a leaf's is; its packets go to leaf 0.
struct Decided(Box<dyn Discipline>);

impl Discipline for Decided {
    fn type_name(&self) -> &'static str {
        "Decided"
    }
    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let before = (self.held(), self.held_bytes());
        for mut packet in batch.drain() {
            packet.meta_mut().leaf = LeafId(0);
            let mut one = Batch::new();
            one.push(packet);
            let _ = self.0.enqueue(cx, &mut one);
            let _ = self.0.peek(cx);
        }
        Delta::between(before, (self.held(), self.held_bytes()))
    }
    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        self.0.peek(cx)
    }
    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let before = (self.held(), self.held_bytes());
        let mut left = budget;
        while left.packets > 0 && left.bytes > 0 {
            let count = out.len();
            let _ = self.0.dequeue(cx, Budget::ONE, out);
            let Some(packet) = out.as_slice().get(count) else { break };
            left.packets -= 1;
            left.bytes = left.bytes.saturating_sub(packet.len() as u64);
            let _ = self.0.peek(cx);
        }
        Delta::between(before, (self.held(), self.held_bytes()))
    }
    fn next_wakeup(&self) -> Option<Instant> {
        self.0.next_wakeup()
    }
    fn held(&self) -> u64 {
        self.0.held()
    }
    fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }
    fn counters(&self, sink: &mut dyn CounterSink) {
        self.0.counters(sink);
    }
    fn drain(&mut self, out: &mut Batch) {
        self.0.drain(out);
    }
    as_any!();
}

/// One packet: after how many µs, IP length, flow, whether it can be marked, colour.
type Arrival = (u64, u16, u16, bool, u8);

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    prop::collection::vec((0u64..900, 60u16..1500, 0u16..4, any::<bool>(), 0u8..3), 50..400)
}

fn line(discipline: Box<dyn Discipline>) -> Bench {
    let line = TransmitterConfig { rate: link().rate, overhead_bytes: OVERHEAD, ..Default::default() };
    Bench::with_seed(Box::new(Pump::new(discipline, Transmitter::new(line), None)), 1, 7)
}

fn push(bench: &mut Bench, sequence: usize, leaf: u32, arrival: &Arrival) {
    let (_, ip_len, flow, capable, color) = *arrival;
    let frame = UdpFrame { src_port: flow, ip_len, ecn: if capable { 2 } else { 0 }, ..Default::default() };
    let mut bytes = frame.to_vec();
    bytes[NUMBER].copy_from_slice(&(sequence as u16).to_be_bytes());
    let mut packet = bench.packet(&bytes);
    packet.meta_mut().leaf = LeafId(leaf);
    packet.meta_mut().color = [Color::Green, Color::Yellow, Color::Red][usize::from(color)];
    bench.push_packet(0, packet);
}

/// Where a packet carries its number.
const NUMBER: std::ops::Range<usize> = 42..44;

fn number(packet: &perhop_packet::Packet) -> u16 {
    packet.frame()[NUMBER].try_into().map_or(0, u16::from_be_bytes)
}

/// What left: time, number, ECN field.
fn left(bench: &Bench) -> Vec<(u64, u16, u8)> {
    let arrived = &bench.sink(0).arrived;
    arrived.iter().map(|(at, p)| (at.0, number(p), p.meta().layout.tos & 3)).collect()
}

fn drops(bench: &Bench) -> [u64; 6] {
    let drops = &bench.driver.counters(bench.node).expect("it exists").drops;
    [
        DropReason::QueueFull,
        DropReason::RedEarly,
        DropReason::RedForced,
        DropReason::CoDel,
        DropReason::Blue,
        DropReason::Pie,
    ]
    .map(|reason| drops[reason.index()])
}

fn tree(bench: &mut Bench) -> &mut ClassTree {
    let pump: &mut Pump = bench.element();
    pump.discipline_mut().expect("it is a tree")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The packets that leave, when, with which mark, and what is dropped why: all as without the tree.
    #[test]
    fn the_only_leaf_drops_as_its_discipline_alone(early in kinds(), arrivals in arrivals()) {
        let mut ours = line(Box::new(Decided(Box::new(tree_of(early)))));
        let mut theirs = line(Box::new(Decided(alone(early))));
        for (n, arrival) in arrivals.iter().enumerate() {
            for bench in [&mut ours, &mut theirs] {
                bench.run_for(Duration::from_micros(arrival.0));
                push(bench, n, 0, arrival);
            }
        }
        ours.run_for(Duration::from_secs(1));
        theirs.run_for(Duration::from_secs(1));
        prop_assert_eq!(left(&ours), left(&theirs));
        prop_assert_eq!(drops(&ours), drops(&theirs));
    }

    #[test]
    fn what_the_tree_reports_is_what_it_holds(early in kinds(), calls in calls()) {
        check_any_order(Decided(Box::new(tree_of(early))), &calls);
    }

    /// Three leaves, one of them slow: what came to a class has left, is lost for a reason that is counted, or waits; and
    /// the reasons of the classes add up to those of the element.
    #[test]
    fn every_packet_of_a_class_is_accounted_for(
        kinds in prop::array::uniform3(kinds()),
        arrivals in arrivals(),
        changes in prop::collection::vec((0usize..400, 0u32..3, kinds()), 0..6),
        removed in prop::option::of(0usize..400),
    ) {
        let bound = |mbit| Some(Bound { rate: Rate::from_mbit(mbit), burst: Bytes(4000) });
        let params = |n: usize, early| NodeParams {
            guarantee: if n == 0 { bound(2) } else { None },
            ceiling: if n == 1 { bound(1) } else { None },
            queue: queue(early),
            ..NodeParams::leaf(None)
        };
        let spec = |n: usize| NodeSpec {
            index: NodeIndex(n as u32),
            name: format!("c{n}").into(),
            params: params(n, kinds[n]),
        };
        let specs: Vec<_> = (0..3).map(spec).collect();
        let mut bench = line(Box::new(ClassTree::with_classes(link(), Instant::ZERO, &specs)));
        let mut came = [(0u64, 0u64); 3];
        for (n, arrival) in arrivals.iter().enumerate() {
            bench.run_for(Duration::from_micros(arrival.0 / 3));
            let (now, node) = (bench.now(), bench.node);
            for (_, leaf, early) in changes.iter().filter(|(at, ..)| *at == n) {
                let index = NodeIndex(*leaf);
                let params = params(*leaf as usize, *early);
                let held = tree(&mut bench).held();
                let mut change = TreeChange::prepare(vec![TreeEdit::Update { index, params }]);
                tree(&mut bench).commit(now, &mut change);
                prop_assert_eq!(tree(&mut bench).held(), held, "a change loses nothing");
                bench.driver.wake(now, node, perhop_element::TimerId::MAIN);
            }
            if removed == Some(n) {
                let remove = TreeEdit::Remove { index: NodeIndex(1), drain_until: now + Duration::from_millis(9) };
                tree(&mut bench).commit(now, &mut TreeChange::prepare(vec![remove]));
            }
            let leaf = u32::from(arrival.2) % 3;
            let alive = tree(&mut bench).class(NodeIndex(leaf)).is_some();
            push(&mut bench, n, leaf, arrival);
            if alive {
                came[leaf as usize].0 += 1;
                came[leaf as usize].1 += u64::from(arrival.1).max(46) + 14 + u64::from(OVERHEAD);
            }
        }
        let mut lost = [0; 2];
        for (n, came) in came.iter().enumerate() {
            let Some(class) = tree(&mut bench).class(NodeIndex(n as u32)) else { continue };
            let c = class.counters;
            let dropped = c.dropped_queue_full + c.dropped_early + c.dropped_class_removed;
            prop_assert_eq!(c.packets + dropped + class.backlog_packets, came.0, "{:?}", c);
            prop_assert_eq!(c.bytes + c.dropped_bytes + class.backlog_bytes, came.1, "{:?}", c);
            lost = [lost[0] + c.dropped_queue_full, lost[1] + c.dropped_early];
        }
        let [full, early @ ..] = drops(&bench);
        if removed.is_none() {
            prop_assert_eq!(lost, [full, early.iter().sum::<u64>()]);
        }
        let (held, packets) = (tree(&mut bench).held(), bench.sink(0).arrived.len() as u64);
        let gone: u64 = bench.driver.counters(bench.node).expect("it exists").drops.iter().sum();
        prop_assert_eq!(held + packets + gone, arrivals.len() as u64);
        bench.run_for(Duration::from_secs(2));
        prop_assert_eq!(tree(&mut bench).held(), 0, "everything leaves");
    }

    /// Whatever its queue becomes, a class sends each flow's packets in the order they came, and nothing that waits is lost
    /// by the change itself. With targets that are never reached nothing is lost at all.
    #[test]
    fn a_queue_that_becomes_another_keeps_every_flow_in_order(
        arrivals in arrivals(),
        changes in prop::collection::vec((0usize..400, 0usize..6), 1..8),
    ) {
        let never = CoDelConfig { target: Duration::from_secs(900), interval: Duration::from_secs(999), ..CoDelConfig::default() };
        let kinds = [
            LeafKind::Fifo,
            EarlyDrop::Red { curve: curve(999_999, 1_000_000, 1_000_000), ecn: false }.into(),
            EarlyDrop::Wred {
                curves: [curve(999_999, 1_000_000, 1_000_000); 3],
                averages: Averages::Total,
                by_dscp: false,
                ecn: false,
            }.into(),
            EarlyDrop::CoDel(never).into(),
            EarlyDrop::Pie(PieConfig { target: Duration::from_secs(900), ..PieConfig::default() }).into(),
            EarlyDrop::FqCoDel(FqCoDelConfig { flows: 64, codel: never, ..FqCoDelConfig::default() }).into(),
        ];
        let params = |n: usize| NodeParams {
            queue: Some(LeafParams { limit: QueueLimit::Packets(1 << 20), kind: kinds[n].clone() }),
            ..NodeParams::leaf(None)
        };
        let spec = NodeSpec { index: NodeIndex(0), name: "all".into(), params: params(0) };
        let mut bench = line(Box::new(ClassTree::with_classes(link(), Instant::ZERO, &[spec])));
        for (n, arrival) in arrivals.iter().enumerate() {
            bench.run_for(Duration::from_micros(arrival.0 / 4));
            for (_, kind) in changes.iter().filter(|(at, _)| *at == n) {
                let update = TreeEdit::Update { index: NodeIndex(0), params: params(*kind) };
                let (now, node) = (bench.now(), bench.node);
                tree(&mut bench).commit(now, &mut TreeChange::prepare(vec![update]));
                bench.driver.wake(now, node, perhop_element::TimerId::MAIN);
            }
            push(&mut bench, n, 0, arrival);
        }
        bench.run_for(Duration::from_secs(9));
        let sent = &bench.sink(0).arrived;
        prop_assert_eq!(sent.len(), arrivals.len(), "nothing is lost");
        for flow in 0..4 {
            let of_flow = sent.iter().filter(|(_, p)| p.meta().layout.src_port == flow);
            let numbers: Vec<u16> = of_flow.map(|(_, p)| number(p)).collect();
            prop_assert!(numbers.is_sorted(), "flow {}: {:?}", flow, numbers);
        }
    }
}
