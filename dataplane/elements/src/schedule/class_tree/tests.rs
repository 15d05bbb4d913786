use super::*;
use crate::plumbing::frames::udp;
use crate::schedule::{Pump, Transmitter, TransmitterConfig};
use perhop_element::testkit::Bench;
use perhop_packet::{DropReason, LeafId};
use perhop_units::{Bytes, Duration, Framing, QueueLimit};

const LEN: u32 = 1000;

fn link() -> TreeLink {
    TreeLink { rate: Rate::from_mbit(8), max_frame: LEN, overhead_bytes: 0, framing: Framing::PLAIN }
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

#[test]
fn every_kind_of_impossible_class_is_named() {
    use TreeErrorKind as K;
    let over = |rate: u64, burst: u64| Some(Bound { rate: Rate(rate), burst: Bytes(burst) });
    let queue = |limit| Some(LeafParams { limit, kind: LeafKind::Fifo });
    let red = LeafKind::from(EarlyDrop::Red {
        curve: Curve { min_ppm: 5, max_ppm: 5, max_p: perhop_units::Probability::ONE },
        ecn: false,
    });
    let red = Some(LeafParams { limit: QueueLimit::Packets(9), kind: red });
    let top = || spec(0, NodeParams { guarantee: bound(1), ceiling: bound(1), ..interior(None) });
    let deep: Vec<_> = (0..9).map(|n: u32| spec(n, interior(n.checked_sub(1)))).collect();
    let cases: Vec<(K, Vec<NodeSpec>)> = vec![
        (K::SlotTaken, vec![spec(0, leaf(None)), spec(0, leaf(None))]),
        (K::SlotRange, vec![spec(MAX_NODES, leaf(None))]),
        (K::NoParent, vec![spec(0, leaf(Some(5)))]),
        (K::ParentIsLeaf, vec![spec(0, leaf(None)), spec(1, leaf(Some(0)))]),
        (K::Cycle, vec![spec(0, interior(Some(1))), spec(1, interior(Some(0)))]),
        (K::TooDeep, deep),
        (
            K::GuaranteesExceedParent,
            vec![top(), spec(1, NodeParams { guarantee: bound(2), ..leaf(Some(0)) })],
        ),
        (K::CeilingBelowChild, vec![top(), spec(1, NodeParams { guarantee: bound(2), ..leaf(Some(0)) })]),
        (K::GuaranteesExceedLink, vec![spec(0, NodeParams { guarantee: bound(9), ..leaf(None) })]),
        (
            K::GuaranteeAboveCeiling,
            vec![spec(0, NodeParams { guarantee: bound(2), ceiling: bound(1), ..leaf(None) })],
        ),
        (K::ZeroCeiling, vec![spec(0, NodeParams { ceiling: over(0, 9000), ..leaf(None) })]),
        (K::GuaranteeBurst, vec![spec(0, NodeParams { guarantee: over(1, 1999), ..leaf(None) })]),
        (K::CeilingBurst, vec![spec(0, NodeParams { ceiling: over(1, MAX_BURST + 1), ..leaf(None) })]),
        (K::Weight, vec![spec(0, NodeParams { weight: 0, ..leaf(None) })]),
        (K::WeightRatio, vec![spec(0, NodeParams { weight: 1001, ..leaf(None) }), spec(1, leaf(None))]),
        (K::Tier, vec![spec(0, NodeParams { tier: 16, ..leaf(None) })]),
        (
            K::QueueTooShort,
            vec![spec(0, NodeParams { queue: queue(QueueLimit::Bytes(Bytes(999))), ..leaf(None) })],
        ),
        (K::QueueTooShort, vec![spec(0, NodeParams { queue: queue(QueueLimit::Packets(0)), ..leaf(None) })]),
        (K::RedThresholds, vec![spec(0, NodeParams { queue: red, ..leaf(None) })]),
    ];
    for (kind, specs) in cases {
        let errors = ClassTree::validate(&specs, &link()).expect_err("it is impossible");
        assert!(errors.iter().any(|e| e.kind == kind), "{kind:?}: {errors:?}");
        assert!(errors.iter().all(|e| !e.allowed.is_empty() && e.to_string().contains(&*e.node)));
    }
}

fn commit(bench: &mut Bench, edits: Vec<TreeEdit>, slice: usize) -> usize {
    let mut change = TreeChange::prepare(edits);
    let (now, node) = (bench.now(), bench.node);
    let tree: &mut ClassTree = bench.element::<Pump>().discipline_mut().expect("it is a tree");
    let mut slices = 1;
    while !tree.stage(now, &mut change, slice) {
        slices += 1;
    }
    tree.commit(now, &mut change);
    bench.driver.wake(now, node, perhop_element::TimerId::MAIN);
    slices
}

fn tree(bench: &mut Bench) -> &mut ClassTree {
    bench.element::<Pump>().discipline_mut().expect("it is a tree")
}

#[test]
fn classes_come_in_slices_and_go_when_empty() {
    let mut bench = bench(&[spec(0, leaf(None))]);
    offer(&mut bench, 0, 40);
    let mut edits = vec![TreeEdit::Add { index: NodeIndex(1), name: "in".into(), params: interior(None) }];
    for n in 2..2000 {
        edits.push(TreeEdit::Add {
            index: NodeIndex(n),
            name: format!("c{n}").into(),
            params: leaf(Some(1)),
        });
    }
    assert_eq!(commit(&mut bench, edits, 100), 20);
    assert_eq!(tree(&mut bench).classes(), 2000);
    offer(&mut bench, 1999, 20);
    offer(&mut bench, 2, 20);
    bench.run_for(Duration::from_millis(10));
    // A class goes with those below it; what they hold is still sent until the time given.
    let until = bench.now() + Duration::from_millis(15);
    let gone = |n| TreeEdit::Remove { index: NodeIndex(n), drain_until: until };
    commit(&mut bench, (1..2000).map(gone).collect(), usize::MAX);
    let mut freed = Vec::new();
    tree(&mut bench).take_freed(&mut freed);
    assert_eq!(freed.len(), 1996, "all but the two that hold packets, and the class above them");
    offer(&mut bench, 2, 1);
    bench.run_for(Duration::from_millis(60));
    freed.clear();
    tree(&mut bench).take_freed(&mut freed);
    freed.sort_by_key(|f| f.index);
    let slots: Vec<_> = freed.iter().map(|f| f.index.0).collect();
    assert_eq!(slots, [1, 2, 1999]);
    let dropped: u64 = freed.iter().map(|f| f.counters.dropped_class_removed).sum();
    assert_eq!(tree(&mut bench).classes(), 1);
    assert_eq!(sent(&bench, 2000)[0], 40, "the class that was not named has lost nothing");
    let drops = bench.driver.counters(bench.node).expect("it exists").drops[DropReason::ClassRemoved.index()];
    assert_eq!(drops + bench.arrived(0).len() as u64, 81);
    assert!(drops > 1);
    assert_eq!(dropped, drops, "told with the slot");
    // The slots serve again.
    commit(
        &mut bench,
        vec![TreeEdit::Add { index: NodeIndex(2), name: "new".into(), params: leaf(None) }],
        1,
    );
    offer(&mut bench, 2, 3);
    bench.run_for(Duration::from_millis(10));
    assert_eq!(tree(&mut bench).class(NodeIndex(2)).expect("it exists").counters.packets, 3);
}

/// Two classes of weight 20, of which the second comes when the first goes, beside an idle one. The first has sent 18
/// packets, holds four more and has 10 ms. In which order they leave, and how many of them are dropped.
fn goes_beside_an_equal(idle: u32) -> (Vec<u32>, u64) {
    let heavy = || NodeParams { weight: 20, ..leaf(None) };
    let mut bench = bench(&[spec(0, heavy()), spec(1, NodeParams { weight: idle, ..leaf(None) })]);
    offer(&mut bench, 0, 22);
    bench.run_for(Duration::from_micros(17_500));
    let before = bench.sink(0).arrived.len();
    assert_eq!(before, 18);
    let drain_until = bench.now() + Duration::from_millis(10);
    let edits = vec![
        TreeEdit::Add { index: NodeIndex(2), name: "again".into(), params: heavy() },
        TreeEdit::Remove { index: NodeIndex(0), drain_until },
    ];
    commit(&mut bench, edits, usize::MAX);
    offer(&mut bench, 2, 40);
    // The end of the drain is seen when the next packet is chosen.
    bench.run_until(drain_until + Duration::from_millis(1));
    let leaves = bench.sink(0).arrived[before..].iter().map(|(_, p)| p.meta().leaf.0).collect();
    let mut freed = Vec::new();
    tree(&mut bench).take_freed(&mut freed);
    (leaves, freed.iter().map(|f| f.counters.dropped_class_removed).sum())
}

#[test]
fn what_drains_waits_for_a_turn_of_its_sibling_which_the_smallest_weight_makes_long() {
    // A turn is 20 packets: three are left of its own, which began with the second packet, as the first found the line
    // idle. Then the other's takes longer than it may stay.
    assert_eq!(goes_beside_an_equal(1), (vec![0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2], 1));
    // A turn is one packet.
    assert_eq!(goes_beside_an_equal(20), (vec![0, 2, 0, 2, 0, 2, 0, 2, 2, 2, 2], 0));
}

#[test]
fn a_class_out_of_use_makes_no_turn_longer_and_no_large_weights_alike() {
    let specs = [
        spec(0, leaf(None)),
        spec(1, NodeParams { weight: 5_000, ..leaf(None) }),
        spec(2, NodeParams { weight: 10_000, ..leaf(None) }),
    ];
    let classes = ClassTree::with_classes(link(), Instant::ZERO, &specs);
    let line = Transmitter::new(TransmitterConfig { rate: link().rate, ..Default::default() });
    let mut bench = Bench::new(Pump::new(Box::new(classes), line, None), 1);
    tree(&mut bench).set_in_use(NodeIndex(0), false);
    offer(&mut bench, 1, 100);
    offer(&mut bench, 2, 100);
    bench.run_for(Duration::from_millis(60));
    let counts = sent(&bench, 3);
    assert!(counts[2].abs_diff(2 * counts[1]) <= 3, "{counts:?}");
    // Another weight of its own is none of theirs, nor is its end.
    let edits =
        vec![TreeEdit::Update { index: NodeIndex(0), params: NodeParams { weight: 2, ..leaf(None) } }];
    commit(&mut bench, edits, usize::MAX);
    tree(&mut bench).set_in_use(NodeIndex(0), true);
    tree(&mut bench).set_in_use(NodeIndex(0), false);
    let edits = vec![TreeEdit::Remove { index: NodeIndex(0), drain_until: Instant::ZERO }];
    commit(&mut bench, edits, usize::MAX);
    bench.run_for(Duration::from_millis(30));
    let counts = sent(&bench, 3);
    assert!(counts[2].abs_diff(2 * counts[1]) <= 3, "{counts:?}");
}

#[test]
fn a_smaller_limit_drops_nothing_queued_and_a_new_kind_keeps_the_queue() {
    let mut bench = bench(&[spec(0, leaf(None))]);
    offer(&mut bench, 0, 50);
    for kind in [LeafKind::red(), LeafKind::Fifo] {
        let queue = Some(LeafParams { limit: QueueLimit::Packets(10), kind });
        let params = NodeParams { queue, ..leaf(None) };
        commit(&mut bench, vec![TreeEdit::Update { index: NodeIndex(0), params }], 1);
        assert_eq!(tree(&mut bench).held(), 49);
        offer(&mut bench, 0, 1);
    }
    let view = tree(&mut bench).class(NodeIndex(0)).expect("it exists").counters;
    assert_eq!(view.dropped_queue_full + view.dropped_early, 2);
    bench.run_for(Duration::from_millis(60));
    assert_eq!(bench.arrived(0).len(), 50);
}

#[test]
fn time_limits_follow_the_rate_a_class_can_at_least_get() {
    let queue = Some(LeafParams { limit: QueueLimit::Time(Duration(10_000_000)), kind: LeafKind::Fifo });
    let specs = [
        spec(0, NodeParams { queue: queue.clone(), ..leaf(None) }),
        spec(1, NodeParams { queue: queue.clone(), guarantee: bound(4), ..leaf(None) }),
        spec(2, NodeParams { queue, ceiling: bound(6), ..leaf(None) }),
    ];
    let mut bench = bench(&specs);
    bench.driver.set_port_room(perhop_packet::PortId(0), 0);
    for class in 0..3 {
        offer(&mut bench, class, 30);
    }
    let held = |bench: &mut Bench, n| tree(bench).class(NodeIndex(n)).expect("it exists").backlog_packets;
    // 10 ms at 8, 4 and 6 Mbit/s, and the one packet that left at once.
    assert_eq!([held(&mut bench, 0), held(&mut bench, 1), held(&mut bench, 2)], [10, 5, 7]);
    commit(&mut bench, vec![TreeEdit::Rate(Rate::from_mbit(16))], 1);
    offer(&mut bench, 0, 30);
    assert_eq!(held(&mut bench, 0), 20);
}

#[test]
fn memory_of_a_class_is_bounded() {
    let (leaf, _) = ClassTree::bytes_per_class();
    assert!(leaf <= 512, "{leaf}");
}

#[test]
fn children_may_be_named_before_their_parents() {
    let mut bench = bench(&[
        spec(0, leaf(Some(1))),
        spec(1, NodeParams { ceiling: bound(4), ..interior(Some(2)) }),
        spec(2, interior(None)),
    ]);
    offer(&mut bench, 0, 100);
    bench.run_for(Duration::from_millis(100));
    // 4 Mbit/s for 100 ms and the burst.
    assert_eq!(bench.arrived(0).len(), 52);
}

/// Packets that wait inside class `n`.
fn waiting(bench: &mut Bench, n: u32) -> u64 {
    tree(bench).class(NodeIndex(n)).map_or(0, |c| c.backlog_packets)
}

#[test]
fn no_turn_takes_more_steps_than_it_may_however_large_the_change() {
    const LEAVES: u32 = 20_000;
    const TURN: usize = 64;
    let share = |rate: u64| Some(Bound { rate: Rate(rate), burst: Bytes(2 * u64::from(LEN)) });
    let mut edits = vec![TreeEdit::Add { index: NodeIndex(0), name: "all".into(), params: interior(None) }];
    edits.extend((1..=LEAVES).map(|n| TreeEdit::Add {
        index: NodeIndex(n),
        name: format!("c{n}").into(),
        params: NodeParams { guarantee: share(100 + u64::from(n % 2)), ..leaf(Some(0)) },
    }));
    let mut bench = bench(&[]);
    commit(&mut bench, edits, usize::MAX);
    // Every tenth removed leaf holds packets, all to be dropped at one of three instants.
    for n in (1..=10_000).step_by(10) {
        offer(&mut bench, n, 3);
    }
    let until = bench.now();
    let mut edits: Vec<_> = (10_001..=LEAVES)
        .map(|n| {
            // Half of them get more, half of them less.
            let params = NodeParams {
                guarantee: share(101 - u64::from(n % 2)),
                ceiling: bound(4),
                weight: 7,
                ..leaf(Some(0))
            };
            TreeEdit::Update { index: NodeIndex(n), params }
        })
        .collect();
    edits.extend((1..=10_000).map(|n| TreeEdit::Remove {
        index: NodeIndex(n),
        drain_until: until + Duration::from_micros(u64::from(n % 3)),
    }));
    edits.push(TreeEdit::Rate(Rate::from_mbit(16)));
    let mut change = TreeChange::prepare(edits);
    let (now, node) = (bench.now(), bench.node);
    let before = tree(&mut bench).change_steps();
    assert!(tree(&mut bench).stage(now, &mut change, TURN));
    tree(&mut bench).flip(now, &mut change);
    assert!(tree(&mut bench).change_steps() - before <= 2, "the flip is one step");
    let guaranteed = |tree: &ClassTree| tree.iter().map(|c| c.params.guaranteed().0).sum::<u64>();
    let most = guaranteed(tree(&mut bench));
    let mut turns = 0;
    loop {
        let before = tree(&mut bench).change_steps();
        let done = tree(&mut bench).finish(now, &mut change, TURN);
        let steps = tree(&mut bench).change_steps() - before;
        assert!(steps <= 2 * TURN as u64, "{steps} steps in one turn");
        turns += 1;
        if turns % 50 == 0 {
            assert!(guaranteed(tree(&mut bench)) <= most, "never more guaranteed than before or after");
        }
        if done {
            break;
        }
    }
    assert_eq!(turns, (2 * 20_001usize).div_ceil(TURN));
    assert_eq!(tree(&mut bench).classes(), LEAVES + 1 - 9_000);
    // Their time ends in turns of no more steps than that.
    let held = tree(&mut bench).held();
    let mut most = 0;
    bench.driver.wake(now, node, perhop_element::TimerId::MAIN);
    while let Some(next) = bench.driver.next_wakeup() {
        let before = tree(&mut bench).change_steps();
        bench.run_until(next);
        most = most.max(tree(&mut bench).change_steps() - before);
    }
    assert!(most <= 130, "{most} steps in one turn");
    assert_eq!(tree(&mut bench).held(), 0, "of {held}");
    assert_eq!(tree(&mut bench).classes(), LEAVES + 1 - 10_000);
    let view = tree(&mut bench).class(NodeIndex(10_001)).expect("it stays");
    assert_eq!((view.params.weight, view.params.guaranteed()), (7, Rate(100)));
    let mut freed = Vec::new();
    tree(&mut bench).take_freed(&mut freed);
    assert_eq!(freed.len(), 10_000);
}

#[test]
fn queue_limits_follow_a_new_rate_without_a_visit_to_every_class() {
    let mut bench = bench(&[]);
    let edits = (0..5_000).map(|n| TreeEdit::Add {
        index: NodeIndex(n),
        name: format!("c{n}").into(),
        params: NodeParams::leaf(None),
    });
    commit(&mut bench, edits.collect(), usize::MAX);
    let before = tree(&mut bench).change_steps();
    commit(&mut bench, vec![TreeEdit::Rate(Rate::from_mbit(80))], 64);
    assert!(tree(&mut bench).change_steps() - before <= 3);
    // 100 ms at 80 Mbit/s are 1,000 of these packets; the first left at once.
    offer(&mut bench, 4_321, 1_100);
    assert_eq!(waiting(&mut bench, 4_321), 1_000);
}

/// An agent compares what was sent, was dropped and waits with an allocation, which counts frames with their overhead.
#[test]
fn sent_dropped_and_waiting_bytes_count_the_overhead_and_are_all_that_came() {
    let queue = Some(LeafParams { limit: QueueLimit::Packets(10), kind: LeafKind::Fifo });
    let specs = [spec(0, NodeParams { queue, ..leaf(None) })];
    let link = TreeLink { overhead_bytes: 50, ..link() };
    let classes = ClassTree::with_classes(link, Instant::ZERO, &specs);
    let config = TransmitterConfig { rate: link.rate, overhead_bytes: 50, ..Default::default() };
    let mut bench = Bench::new(Pump::new(Box::new(classes), Transmitter::new(config), None), 1);
    offer(&mut bench, 0, 30);
    bench.run_for(Duration::from_millis(3));
    let view = tree(&mut bench).class(NodeIndex(0)).expect("it exists");
    let packets = [view.counters.packets, view.counters.dropped_queue_full, view.backlog_packets];
    assert!(packets.iter().all(|n| *n > 0) && packets.iter().sum::<u64>() == 30, "{packets:?}");
    let bytes = [view.counters.bytes, view.counters.dropped_bytes, view.backlog_bytes];
    assert_eq!(bytes, packets.map(|n| n * 1050));
    assert_eq!(view.backlog_frame_bytes, view.backlog_packets * 1000);
}
