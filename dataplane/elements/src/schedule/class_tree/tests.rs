use super::*;
use crate::plumbing::frames::udp;
use crate::schedule::{Pump, Transmitter, TransmitterConfig};
use perhop_element::testkit::Bench;
use perhop_units::{Bytes, Duration, QueueLimit};

const LEN: u32 = 1000;

fn link() -> TreeLink {
    TreeLink { rate: Rate::from_mbit(8), max_frame: LEN, overhead_bytes: 0 }
}

fn bound(mbit: u64) -> Option<Bound> {
    Some(Bound { rate: Rate::from_mbit(mbit), burst: Bytes(2 * u64::from(LEN)) })
}

fn spec(index: u32, params: NodeParams) -> NodeSpec {
    NodeSpec { index: NodeIndex(index), name: format!("c{index}").into(), params }
}

fn leaf(parent: Option<u32>) -> NodeParams {
    let queue = Some(LeafParams { limit: QueueLimit::Packets(100_000), kind: LeafKind::Fifo });
    NodeParams { queue, ..NodeParams::leaf(parent.map(NodeIndex)) }
}

fn interior(parent: Option<u32>) -> NodeParams {
    NodeParams::interior(parent.map(NodeIndex))
}

/// A pump at 8 Mbit/s: a packet of 1,000 bytes a millisecond.
fn bench(specs: &[NodeSpec]) -> Bench {
    ClassTree::validate(specs, &link()).expect("the test's tree is valid");
    let tree = ClassTree::with_classes(link(), Instant::ZERO, specs);
    let line = Transmitter::new(TransmitterConfig { rate: link().rate, ..Default::default() });
    Bench::new(Pump::new(Box::new(tree), line, None), 1)
}

fn offer(bench: &mut Bench, leaf: u32, packets: usize) {
    for _ in 0..packets {
        let mut packet = bench.packet(&udp((LEN - 14) as u16));
        packet.meta_mut().leaf = LeafId(leaf);
        bench.push_packet(0, packet);
    }
}

/// Packets that have left, by leaf.
fn sent(bench: &Bench, leaves: u32) -> Vec<usize> {
    let mut counts = vec![0; leaves as usize];
    for (_, packet) in &bench.sink(0).arrived {
        counts[packet.meta().leaf.index()] += 1;
    }
    counts
}

#[test]
fn excess_is_shared_by_weight() {
    let specs =
        [spec(0, NodeParams { weight: 1, ..leaf(None) }), spec(1, NodeParams { weight: 3, ..leaf(None) })];
    let mut bench = bench(&specs);
    offer(&mut bench, 0, 500);
    offer(&mut bench, 1, 500);
    bench.run_for(Duration::from_millis(400));
    let counts = sent(&bench, 2);
    assert_eq!(counts.iter().sum::<usize>(), 401, "the line never idles");
    assert!(counts[1].abs_diff(3 * counts[0]) <= 6, "{counts:?}");
}

#[test]
fn guarantees_come_before_weights() {
    let specs = [
        spec(0, NodeParams { guarantee: bound(6), tier: 0, ..leaf(None) }),
        spec(1, NodeParams { weight: 1000, ..leaf(None) }),
    ];
    let mut bench = bench(&specs);
    offer(&mut bench, 1, 900);
    offer(&mut bench, 0, 900);
    bench.run_for(Duration::from_millis(800));
    let counts = sent(&bench, 2);
    assert!((599..=605).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[0] + counts[1], 801);
}

#[test]
fn a_parents_unused_guarantee_goes_to_its_other_children() {
    let specs = [
        spec(0, NodeParams { guarantee: bound(6), ..interior(None) }),
        spec(1, NodeParams { guarantee: bound(5), ..leaf(Some(0)) }),
        spec(2, leaf(Some(0))),
        spec(3, NodeParams { weight: 1000, ..leaf(None) }),
    ];
    let mut bench = bench(&specs);
    offer(&mut bench, 2, 900);
    offer(&mut bench, 3, 900);
    bench.run_for(Duration::from_millis(800));
    let counts = sent(&bench, 4);
    assert!((596..=606).contains(&counts[2]), "{counts:?}");
}

#[test]
fn a_ceiling_holds_and_nothing_else_makes_the_line_idle() {
    let specs = [
        spec(0, NodeParams { ceiling: bound(2), ..interior(None) }),
        spec(1, leaf(Some(0))),
        spec(2, leaf(None)),
    ];
    let mut bench = bench(&specs);
    offer(&mut bench, 1, 300);
    offer(&mut bench, 2, 100);
    bench.run_for(Duration::from_millis(1000));
    let counts = sent(&bench, 3);
    // 2 Mbit/s for 1 s are 250 packets, and 2 of burst.
    assert!((250..=252).contains(&counts[1]), "{counts:?}");
    assert_eq!(counts[2], 100);
    bench.run_for(Duration::from_millis(1000));
    assert_eq!(sent(&bench, 3)[1], 300, "woken by the wheel alone");
}

#[test]
fn unknown_leaves_are_counted_not_queued() {
    let mut bench = bench(&[spec(0, leaf(None)), spec(1, interior(None))]);
    for leaf in [1, 7, 300_000, u32::MAX] {
        offer(&mut bench, leaf, 1);
    }
    let drops = bench.driver.counters(bench.node).expect("it exists").drops[DropReason::NoClass.index()];
    assert_eq!(drops, 4);
}
