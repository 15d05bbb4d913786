use super::super::*;
use crate::plumbing::UdpFrame;
use crate::schedule::altq_cbq::{self, CbqClass, CbqLine};
use crate::schedule::hfsc::{self, Curve, Curves};
use crate::schedule::hpd::{self, HpdGoal};
use crate::schedule::htb::{self, HtbClass};
use crate::schedule::jobs::{self, JobsClass};
use crate::schedule::levels::LevelClass;
use crate::schedule::priority;
use crate::schedule::{Pump, Transmitter, TransmitterConfig};
use perhop_element::testkit::{Bench, args};
use perhop_element::{BuildCx, Element, ElementType, TimerId};
use perhop_packet::{ClassId, LeafId, Packet};
use perhop_units::{Bytes, Dscp, Duration, Framing, QueueLimit};
use proptest::prelude::*;

const RATE: Rate = Rate(10_000_000);
const LIMIT: u32 = 30;

fn link() -> TreeLink {
    TreeLink { rate: RATE, max_frame: 1514, overhead_bytes: 0, framing: Framing::PLAIN }
}

fn params(parent: Option<u32>, leaf: bool) -> NodeParams {
    let queue = leaf.then_some(LeafParams { limit: QueueLimit::Packets(LIMIT), kind: LeafKind::Fifo });
    NodeParams { queue, ..NodeParams::leaf(parent.map(NodeIndex)) }
}

/// voice 0, data 1, web 2 and bulk 3 inside data; at slots of their own.
const SLOTS: [u32; 4] = [5, 1, 9, 2];

fn specs() -> Vec<NodeSpec> {
    let spec = |n: usize, parent: Option<usize>, leaf| NodeSpec {
        index: NodeIndex(SLOTS[n]),
        name: ["voice", "data", "web", "bulk"][n].into(),
        params: params(parent.map(|p| SLOTS[p]), leaf),
    };
    vec![spec(0, None, true), spec(1, None, false), spec(2, Some(1), true), spec(3, Some(1), true)]
}

fn hfsc() -> RuleSpec {
    let mbit = |n| Curve::linear(Rate::from_mbit(n));
    let voice = Curve { m1: Rate::from_mbit(3), d: Duration::from_millis(10), m2: Rate::from_mbit(2) };
    let class = |parent, real_time, share, upper_limit| Curves {
        parent,
        real_time,
        link_share: Some(share),
        upper_limit,
    };
    let classes = [
        class(None, Some(voice), mbit(2), None),
        class(None, None, mbit(8), Some(mbit(9))),
        class(Some(1), Some(mbit(1)), mbit(5), None),
        class(Some(1), None, mbit(3), None),
    ];
    let classes = SLOTS.iter().map(|n| NodeIndex(*n)).zip(classes).collect();
    RuleSpec::Hfsc(classes, RATE.time_for(Bytes(1514)))
}

fn htb() -> RuleSpec {
    let class = |parent, mbit, ceil, priority, quantum| HtbClass {
        parent,
        rate: Rate::from_mbit(mbit),
        ceil: Rate::from_mbit(ceil),
        burst: Bytes(4000),
        cburst: Bytes(4000),
        priority,
        quantum,
    };
    let classes = [
        class(None, 2, 3, 0, 1514),
        class(None, 8, 9, 0, 1514),
        class(Some(1), 5, 9, 1, 2500),
        class(Some(1), 3, 9, 1, 1514),
    ];
    RuleSpec::Htb(SLOTS.iter().map(|n| NodeIndex(*n)).zip(classes).collect())
}

fn wf2q() -> RuleSpec {
    let leaves = [(0, 2), (2, 5), (3, 3)];
    RuleSpec::Wf2q(leaves.map(|(n, weight): (usize, u32)| (NodeIndex(SLOTS[n]), weight)).to_vec(), 1514)
}

/// The leaves, for laws without classes above each other.
const LEAVES: [usize; 3] = [0, 2, 3];
const LINE: RuledLine = RuledLine { rate: RATE, frame: 1514 };

fn leaves<T>(told: [T; 3]) -> Vec<(NodeIndex, T)> {
    LEAVES.iter().map(|n| NodeIndex(SLOTS[*n])).zip(told).collect()
}

fn priority(ceiling: Option<(Rate, Bytes)>) -> RuleSpec {
    let class = |level, ceiling| LevelClass { level, quantum: 1514, ceiling };
    RuleSpec::Priority(leaves([class(0, ceiling), class(7, None), class(15, None)]))
}

fn cbq() -> RuleSpec {
    let class = |parent, mbit, borrow, priority| CbqClass {
        parent,
        share: Rate::from_mbit(mbit),
        borrow,
        priority,
        maxburst: Some(16),
    };
    let classes = [
        class(None, 2, false, 7),
        class(None, 8, true, 1),
        class(Some(1), 5, true, 1),
        class(Some(1), 3, true, 1),
    ];
    let line = CbqLine { rate: RATE, frame: 1514, hz: 1000, efficient: false };
    RuleSpec::Cbq(SLOTS.iter().map(|n| NodeIndex(*n)).zip(classes).collect(), line)
}

fn hpd(bound: Option<Duration>) -> RuleSpec {
    let goal = |delay, bound| HpdGoal { delay, bound };
    RuleSpec::Hpd(leaves([goal(1, bound), goal(3, None), goal(9, None)]), LINE)
}

fn jobs(limit: u32) -> RuleSpec {
    let class = |delay, loss| JobsClass { delay, bound: None, loss, loss_bound: None, rate: Rate::ZERO };
    let voice = JobsClass { bound: Some(Duration::from_millis(20)), ..class(None, 1) };
    let web = JobsClass { rate: Rate::from_mbit(3), ..class(Some(1), 2) };
    RuleSpec::Jobs(leaves([voice, web, class(Some(4), 4)]), LINE, QueueLimit::Packets(limit))
}

fn ruled(spec: Option<&RuleSpec>) -> Bench {
    limited(spec, LIMIT)
}

/// With leaves of `limit` packets.
fn limited(spec: Option<&RuleSpec>, limit: u32) -> Bench {
    let of = |params: NodeParams| NodeParams {
        queue: params.queue.map(|leaf| LeafParams { limit: QueueLimit::Packets(limit), ..leaf }),
        ..params
    };
    let add = |s: NodeSpec| TreeEdit::Add { index: s.index, name: s.name, params: of(s.params) };
    let mut change = TreeChange::prepare(specs().into_iter().map(add).collect()).ruled(spec);
    let mut tree = ClassTree::new(link());
    tree.commit(Instant::ZERO, &mut change);
    let line = Transmitter::new(TransmitterConfig { rate: RATE, ..Default::default() });
    Bench::new(Pump::new(Box::new(tree), line, None), 1)
}

/// The same classes as an element of the graph text, told apart by code point.
fn alone(kind: &ElementType, text: &str) -> Bench {
    element(
        kind,
        &format!(
            "voice data web bulk, parent = root root data data, rate = 10 Mbit/s, {text}, limit = {LIMIT}packets, \
             dscp = EF none AF21 -"
        ),
    )
}

/// The same without the class that has others below.
fn alone_flat(kind: &ElementType, text: &str, limit: u32) -> Bench {
    element(
        kind,
        &format!("voice web bulk, rate = 10 Mbit/s, {text}, limit = {limit}packets, dscp = EF AF21 -"),
    )
}

fn element(kind: &ElementType, text: &str) -> Bench {
    let element: Box<dyn Element> =
        (kind.build)(&args(text), &mut BuildCx::default()).unwrap_or_else(|e| panic!("{e:?}"));
    Bench::with_seed(element, 1, 1)
}

const NUMBER: std::ops::Range<usize> = 42..44;

fn number(packet: &Packet) -> u16 {
    packet.frame()[NUMBER].try_into().map_or(0, u16::from_be_bytes)
}

/// A numbered packet of leaf 0 (voice), 2 or 3.
fn push(bench: &mut Bench, class: usize, ip_len: u16, sequence: usize) {
    push_as(bench, class, ip_len, sequence, ClassId::default());
}

/// The same, with a logical class.
fn push_as(bench: &mut Bench, class: usize, ip_len: u16, sequence: usize, id: ClassId) {
    let dscp = [Dscp::EF, Dscp::CS1, Dscp::AF21, Dscp::BE][class];
    let mut bytes = UdpFrame { dscp, ip_len, ..Default::default() }.to_vec();
    bytes[NUMBER].copy_from_slice(&(sequence as u16).to_be_bytes());
    let mut packet = bench.packet(&bytes);
    packet.meta_mut().leaf = LeafId(SLOTS[class]);
    packet.meta_mut().class = id;
    bench.push_packet(0, packet);
}

fn left_whole(bench: &Bench) -> impl Iterator<Item = (u64, &Packet)> {
    bench.sink(0).arrived.iter().map(|(at, p)| (at.0, p))
}

fn left(bench: &Bench) -> Vec<(u64, u16)> {
    bench.sink(0).arrived.iter().map(|(at, p)| (at.0, number(p))).collect()
}

fn tree(bench: &mut Bench) -> &mut ClassTree {
    let pump: &mut Pump = bench.element();
    pump.discipline_mut().expect("it is a tree")
}

fn commit(bench: &mut Bench, mut change: TreeChange) {
    let (now, node) = (bench.now(), bench.node);
    tree(bench).commit(now, &mut change);
    bench.driver.wake(now, node, TimerId::MAIN);
}

type Arrival = (u64, usize, u16);

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let class = prop_oneof![Just(0usize), Just(2), Just(3)];
    prop::collection::vec((0u64..1_200, class, 60u16..1500), 20..300)
}

/// Gives the same to both at the same times, and then so long for the rest.
fn run_both(
    mut benches: [&mut Bench; 2],
    arrivals: &[Arrival],
    push: impl Fn(&mut Bench, usize, u16, usize),
    rest: Duration,
) {
    for (n, (gap, class, ip_len)) in arrivals.iter().enumerate() {
        for bench in &mut benches {
            bench.run_for(Duration::from_micros(*gap));
            push(bench, *class, *ip_len, n);
        }
    }
    benches.into_iter().for_each(|bench| bench.run_for(rest));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What leaves, and when, is what leaves the discipline of that law in the graph text.
    #[test]
    fn a_ruled_tree_sends_as_the_discipline_of_its_law(arrivals in arrivals()) {
        let hfsc_text = "rt = 3Mbit/s:10ms:2Mbit/s - 1Mbit/s -, ls = 2Mbit/s 8Mbit/s 5Mbit/s 3Mbit/s, ul = - 9Mbit/s - -";
        let htb_text = "rates = 2Mbit/s 8Mbit/s 5Mbit/s 3Mbit/s, ceils = 3Mbit/s 9Mbit/s 9Mbit/s 9Mbit/s, \
                        bursts = 4000B, cbursts = 4000B, priority = 0 0 1 1, quanta = 1514B 1514B 2500B 1514B";
        for (spec, kind, text) in [(hfsc(), &hfsc::TYPE, hfsc_text), (htb(), &htb::TYPE, htb_text)] {
            let (mut ours, mut theirs) = (ruled(Some(&spec)), alone(kind, text));
            run_both([&mut ours, &mut theirs], &arrivals, push, Duration::from_secs(1));
            prop_assert_eq!(left(&ours), left(&theirs), "{:?}", spec);
        }
    }

    /// The same of laws whose classes are all at the top, or whose limits are written otherwise.
    #[test]
    fn a_ruled_tree_sends_as_the_discipline_of_its_flat_law(arrivals in arrivals(), limit in 3u32..60) {
        let cbq_text = "share = 2Mbit/s 8Mbit/s 5Mbit/s 3Mbit/s, borrow = no yes yes yes, priority = 7 1 1 1, \
                        maxburst = 16, packet = 1514, mtu = 1514B";
        let cbq_text = format!(
            "voice data web bulk, parent = root root data data, rate = 10 Mbit/s, {cbq_text}, limit = {LIMIT}, \
             dscp = EF none AF21 -"
        );
        let jobs_text = "delays = - 1 4, bounds = 20ms - -, losses = 1 2 4, rates = - 3Mbit/s -";
        let pairs = [
            (ruled(Some(&cbq())), element(&altq_cbq::TYPE, &cbq_text)),
            (ruled(Some(&hpd(None))), alone_flat(&hpd::TYPE, "delays = 1 3 9", LIMIT)),
            (limited(Some(&jobs(limit)), 100_000), alone_flat(&jobs::TYPE, jobs_text, limit)),
        ];
        for (law, (mut ours, mut theirs)) in pairs.into_iter().enumerate() {
            run_both([&mut ours, &mut theirs], &arrivals, push, Duration::from_secs(5));
            prop_assert_eq!(left(&ours), left(&theirs), "law {}", law);
        }
    }

    /// Strict priority against the discipline of that name.
    #[test]
    fn levels_are_strict_priority(arrivals in arrivals()) {
        let mut ours = ruled(Some(&priority(None)));
        let text = format!("voice web bulk, rate = 10 Mbit/s, limit = {LIMIT} packets");
        let mut cx = BuildCx::default();
        let element = (priority::TYPE.build)(&args(&text), &mut cx).unwrap_or_else(|e| panic!("{e:?}"));
        let mut theirs = Bench::with_seed(element, 1, 1);
        let ids = [cx.class("voice"), cx.class("voice"), cx.class("web"), cx.class("bulk")];
        let push = |bench: &mut Bench, class, ip_len, n| push_as(bench, class, ip_len, n, ids[class]);
        run_both([&mut ours, &mut theirs], &arrivals, push, Duration::from_secs(1));
        prop_assert_eq!(left(&ours), left(&theirs));
    }

    /// Two classes in token buckets keep bounds that can be kept while the third floods the line.
    #[test]
    fn bounds_of_a_ruled_tree_hold_where_they_can(
        bursts in prop::array::uniform2(1u64..8),
        more_us in prop::array::uniform2(0u64..9_000),
        gaps in prop::collection::vec((0u64..6_000, 0usize..2, 1u64..9), 1..60),
    ) {
        // 10 Mbit/s: all bursts, each with what its bucket earns meanwhile, and one frame before the shorter bound.
        let need = RATE.time_for(Bytes((bursts[0] + bursts[1]) * 2 * 414 + 1514));
        let bounds = more_us.map(|more| need + Duration::from_micros(more));
        let goal = |delay, bound| HpdGoal { delay, bound };
        let goals = [goal(100, Some(bounds[0])), goal(1_000, Some(bounds[1])), goal(1, None)];
        let mut bench = limited(Some(&RuleSpec::Hpd(leaves(goals), LINE)), 60);
        // In quarters of the line: a byte of a class every 3,200 ns.
        let mut tokens = bursts.map(|b| (b * 414 * 3_200, 0u64));
        let mut came = Vec::new();
        for (gap_us, class, count) in gaps {
            bench.run_for(Duration::from_micros(gap_us));
            let now = bench.now().0;
            (0..20).for_each(|_| push(&mut bench, 3, 1500, 0xffff));
            let (level, since) = &mut tokens[class];
            *level = (*level + (now - *since)).min(bursts[class] * 414 * 3_200);
            *since = now;
            for _ in 0..count {
                if *level >= 414 * 3_200 {
                    *level -= 414 * 3_200;
                    push(&mut bench, LEAVES[class], 400, came.len());
                    came.push((now, class));
                }
            }
        }
        bench.run_for(Duration::from_secs(1));
        let mut seen = 0;
        for (at, packet) in left_whole(&bench) {
            let number = usize::from(number(packet));
            if number == 0xffff {
                continue;
            }
            let (since, class) = came[number];
            seen += 1;
            let waited = at - since;
            prop_assert!(waited <= bounds[class].0, "class {} waited {} ns of {}", class, waited, bounds[class]);
        }
        prop_assert_eq!(seen, came.len());
    }

    /// Laws come and go, classes go, and everything that found room leaves, each leaf's packets in order.
    #[test]
    fn another_law_loses_and_reorders_nothing(
        arrivals in arrivals(),
        changes in prop::collection::vec((0usize..300, 0usize..8), 0..8),
        removed in prop::option::of(0usize..300),
    ) {
        let ceiling = Some((Rate::from_mbit(3), Bytes(4_000)));
        let laws = [
            None,
            Some(hfsc()),
            Some(htb()),
            Some(wf2q()),
            Some(priority(ceiling)),
            Some(cbq()),
            Some(hpd(Some(Duration::from_millis(30)))),
            Some(jobs(1_000)),
        ];
        let mut bench = ruled(None);
        for (n, (gap, class, ip_len)) in arrivals.iter().enumerate() {
            bench.run_for(Duration::from_micros(*gap));
            for (_, law) in changes.iter().filter(|(at, _)| *at == n) {
                let held = tree(&mut bench).held();
                let lost: u64 = bench.driver.counters(bench.node).expect("it exists").drops.iter().sum();
                commit(&mut bench, TreeChange::prepare(Vec::new()).ruled(laws[*law].as_ref()));
                prop_assert_eq!(tree(&mut bench).is_ruled(), *law != 0);
                let dropped: u64 = bench.driver.counters(bench.node).expect("it exists").drops.iter().sum();
                prop_assert!(held - tree(&mut bench).held() <= 1 + dropped - lost, "the line may have been free");
            }
            if removed == Some(n) {
                let index = NodeIndex(SLOTS[3]);
                let drain_until = bench.now() + Duration::from_millis(4);
                commit(&mut bench, TreeChange::prepare(vec![TreeEdit::Remove { index, drain_until }]));
            }
            push(&mut bench, *class, *ip_len, n);
        }
        bench.run_for(Duration::from_secs(1));
        prop_assert_eq!(tree(&mut bench).held(), 0, "everything leaves");
        let sent = left(&bench);
        for class in [0, 2, 3] {
            let of_class: Vec<u16> = sent.iter().map(|(_, n)| *n).filter(|n| arrivals[usize::from(*n)].1 == class).collect();
            prop_assert!(of_class.is_sorted(), "class {}: {:?}", class, of_class);
        }
        let dropped: u64 = bench.driver.counters(bench.node).expect("it exists").drops.iter().sum();
        prop_assert_eq!(sent.len() as u64 + dropped, arrivals.len() as u64);
    }
}

#[test]
fn weights_share_a_ruled_tree_to_a_packet() {
    let mut bench = ruled(Some(&wf2q()));
    for n in 0..30 {
        for class in [0, 2, 3] {
            push(&mut bench, class, 1000, n);
        }
    }
    bench.run_for(Duration::from_micros(811 * 40));
    let count = |leaf: usize| {
        bench.sink(0).arrived.iter().filter(|(_, p)| p.meta().leaf == LeafId(SLOTS[leaf])).count() as i64
    };
    let (sent, all) = ([0, 2, 3].map(count), bench.sink(0).arrived.len() as i64);
    assert!(all >= 39, "{all}");
    for (got, weight) in sent.into_iter().zip([2, 5, 3]) {
        assert!((got - all * weight / 10).abs() <= 1, "{sent:?} of {all}");
    }
}

#[test]
fn a_tree_that_goes_back_to_its_own_law_keeps_guarantees_again() {
    let mut bench = ruled(Some(&wf2q()));
    for n in 0..25 {
        for class in [0, 2, 3] {
            push(&mut bench, class, 1000, n);
        }
    }
    let voice = NodeParams {
        guarantee: Some(Bound { rate: Rate::from_mbit(8), burst: Bytes(20_000) }),
        tier: 0,
        ..params(None, true)
    };
    let update = TreeEdit::Update { index: NodeIndex(SLOTS[0]), params: voice };
    commit(&mut bench, TreeChange::prepare(vec![update]).ruled(None));
    let before = bench.sink(0).arrived.len();
    bench.run_for(Duration::from_millis(16));
    let after: Vec<LeafId> = bench.sink(0).arrived[before..].iter().map(|(_, p)| p.meta().leaf).collect();
    let voices = after.iter().filter(|leaf| **leaf == LeafId(SLOTS[0])).count();
    assert!(voices + 2 >= after.len() && after.len() > 15, "{after:?}");
}

/// The same but for how often: each time a class that nobody uses gets another share.
fn told_often(spec: &RuleSpec, n: u64) -> RuleSpec {
    let mut spec = spec.clone();
    match &mut spec {
        RuleSpec::Hfsc(classes, _) => {
            classes[2].1.link_share = Some(Curve::linear(Rate::from_kbit(3_000 + n % 7)))
        }
        RuleSpec::Htb(classes) => classes[2].1.quantum = 2_000 + (n % 7) as u32,
        RuleSpec::Cbq(classes, _) => classes[2].1.maxburst = Some(10 + (n % 7) as u32),
        RuleSpec::Priority(classes) => classes[1].1.quantum = 2_000 + (n % 7) as u32,
        RuleSpec::Wf2q(..) | RuleSpec::Hpd(..) | RuleSpec::Jobs(..) => {}
    }
    spec
}

/// Bytes that voice, of which there is always too much, gets in a second in which the law is changed every 5 ms, beside one
/// in which it is not.
fn of_voice(spec: &RuleSpec) -> [u64; 2] {
    [true, false].map(|changing| {
        let mut bench = ruled(Some(spec));
        for n in 0..1000u64 {
            if changing && n % 5 == 0 {
                let told = told_often(spec, n);
                commit(&mut bench, TreeChange::prepare(Vec::new()).ruled(Some(&told)));
            }
            push(&mut bench, 0, 986, 0);
            push(&mut bench, 3, 986, 0);
            push(&mut bench, 3, 986, 0);
            bench.run_for(Duration::from_millis(1));
        }
        let voice = bench.sink(0).arrived.iter().filter(|(_, p)| p.meta().leaf == LeafId(SLOTS[0]));
        voice.map(|(_, p)| p.len() as u64).sum()
    })
}

#[test]
fn a_law_that_is_changed_often_gives_no_bursts_away() {
    // At its ceiling of 3 Mbit/s by HTB, at its limit of 2.5 Mbit/s by HFSC, at the 2 Mbit/s of its curve without a share.
    let RuleSpec::Hfsc(curves, slack) = hfsc() else { unreachable!("it is one") };
    let (mut by_limit, mut by_curve) = (RuleSpec::Hfsc(curves.clone(), slack), RuleSpec::Hfsc(curves, slack));
    if let RuleSpec::Hfsc(classes, _) = &mut by_limit {
        classes[0].1.real_time = None;
        classes[0].1.upper_limit = Some(Curve::linear(Rate::from_kbit(2_500)));
        classes[0].1.link_share = Some(Curve::linear(Rate::from_mbit(8)));
    }
    if let RuleSpec::Hfsc(classes, _) = &mut by_curve {
        classes[0].1.link_share = None;
    }
    let level = priority(Some((Rate::from_mbit(3), Bytes(4_000))));
    for (spec, rate) in [(htb(), 3_000_000), (by_limit, 2_500_000), (by_curve, 2_000_000), (level, 3_000_000)]
    {
        let [changing, still] = of_voice(&spec);
        let most = rate / 8 + 4_000 + 2 * 1_000;
        assert!(changing <= most && still <= most, "{changing} and {still} of {most}: {spec:?}");
        assert!(changing * 100 >= still * 97, "{changing} and {still}: {spec:?}");
    }
}
