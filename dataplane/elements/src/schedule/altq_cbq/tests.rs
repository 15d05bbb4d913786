//! Runs of the whole element against what is known of the original.

use super::*;
use crate::plumbing::UdpFrame;
use perhop_element::testkit::args;
use perhop_element::{BuildCx, Driver, Element, NodeId, PortIndex};
use perhop_packet::Pool;
use perhop_units::{Dscp, Duration};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Counts what comes, by code point, and lets it go.
#[derive(Default)]
struct Meter {
    bytes: BTreeMap<u8, u64>,
    last: BTreeMap<u8, Instant>,
    /// Gaps between the packets of a code point.
    gaps: BTreeMap<u8, Vec<u64>>,
    total: u64,
}

impl Element for Meter {
    fn type_name(&self) -> &'static str {
        "TestMeter"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            let dscp = packet.meta().layout.tos >> 2;
            *self.bytes.entry(dscp).or_default() += packet.len() as u64;
            self.total += packet.len() as u64;
            if let Some(last) = self.last.insert(dscp, cx.now()) {
                self.gaps.entry(dscp).or_default().push(cx.now().since(last).0);
            }
            cx.consume(packet);
        }
    }
    fn held(&self) -> u64 {
        0
    }
    as_any!();
}

/// A source of frames of one size and code point at a steady interval.
#[derive(Clone, Copy)]
struct Flow {
    dscp: Dscp,
    frame: u16,
    every: u64,
    next: u64,
}

fn flow(dscp: Dscp, frame: u16, rate_kbit: u64) -> Flow {
    let every = u64::from(frame) * 8_000_000 / rate_kbit;
    // Different phases, so that not everything comes at once.
    Flow { dscp, frame, every, next: u64::from(dscp.get()) * 7_919 }
}

struct World {
    driver: Driver,
    cbq: NodeId,
    meter: NodeId,
    now: Instant,
}

impl World {
    fn new(text: &str) -> Self {
        let mut driver = Driver::new(Pool::new(2048), 5);
        let element = (TYPE.build)(&args(text), &mut BuildCx::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let cbq = driver.add("cbq", element, 1);
        let meter = driver.add("meter", Box::new(Meter::default()), 0);
        driver.connect(cbq, 0, meter, 0).expect("free");
        Self { driver, cbq, meter, now: Instant::ZERO }
    }

    fn push(&mut self, dscp: Dscp, frame: u16) {
        let frame = UdpFrame { ip_len: frame - 14, dscp, ..UdpFrame::default() }.to_vec();
        let mut packet = self.driver.pool().packet(&frame).expect("queues are short");
        let meta = packet.meta_mut();
        (meta.layout, meta.parsed) = (perhop_wire::dissect(&frame).expect("UDP"), true);
        let mut batch = Batch::new();
        batch.push(packet);
        self.driver.push(self.now, self.cbq, 0, &mut batch);
    }

    fn pump(&self) -> &Pump {
        self.driver.element_ref(self.cbq).expect("it is one")
    }

    fn class(&self, name: &str) -> &Class {
        self.pump().discipline::<AltqCbq>().and_then(|d| d.class(name)).expect("there is one")
    }

    fn refill(&mut self, greedy: &[(Dscp, &str, u16)]) {
        for (dscp, name, frame) in greedy {
            while self.class(name).queue.len() < 4 {
                self.push(*dscp, *frame);
            }
        }
    }

    fn run(&mut self, flows: &mut [Flow], until: Duration) {
        self.run_greedy(flows, &[], until);
    }

    /// Runs with sources at their times and with classes that are refilled when they have sent.
    fn run_greedy(&mut self, flows: &mut [Flow], greedy: &[(Dscp, &str, u16)], until: Duration) {
        let end = Instant(until.0);
        loop {
            self.refill(greedy);
            let arrival = flows.iter().map(|f| f.next).min().map_or(Instant::FAR_FUTURE, Instant);
            let wake = self.driver.next_wakeup().unwrap_or(Instant::FAR_FUTURE);
            let next = arrival.min(wake);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            if wake <= arrival {
                self.driver.poll(self.now);
                continue;
            }
            for flow in flows.iter_mut().filter(|flow| flow.next <= arrival.0) {
                self.push(flow.dscp, flow.frame);
                flow.next += flow.every;
            }
        }
        self.now = end;
        self.driver.check_conservation().unwrap_or_else(|e| panic!("{e:?}"));
    }

    fn meter(&self) -> &Meter {
        self.driver.element_ref(self.meter).expect("it is one")
    }

    fn kbit(&self, dscp: Dscp) -> u64 {
        self.meter().bytes.get(&dscp.get()).copied().unwrap_or(0) * 8_000_000 / self.now.0
    }

    fn total_kbit(&self) -> u64 {
        self.meter().total * 8_000_000 / self.now.0
    }

    fn report(&self, name: &str) -> u64 {
        let mut all: Vec<(String, u64)> = vec![];
        self.driver.report(self.cbq, &mut all);
        all.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name} in {all:?}")).1
    }
}

/// The loads of the thesis's provisioning runs: calls and video within their classes, web nearly so, transfers without
/// end.
fn loads() -> [Flow; 4] {
    [
        flow(Dscp::EF, 218, 1744),
        flow(Dscp::AF41, 650, 130),
        flow(Dscp::AF21, 1000, 1700),
        flow(Dscp::BE, 1500, 9800),
    ]
}

fn provisioning(shares: &str, more: &str) -> World {
    World::new(&format!(
        "control voip video http ftp, rate = 10 Mbit/s, share = {shares}, dscp = CS6 EF AF41 AF21 -, \
         limit = 10 5 10 70 130, priority = 7 1 1 1 1, {more}"
    ))
}

/// The same below a middle class that lends what the control class leaves.
fn lending(shares: &str, more: &str) -> World {
    World::new(&format!(
        "control top voip video http ftp, parent = root root top top top top, rate = 10 Mbit/s, \
         share = 2% 98% {shares}, dscp = CS6 none EF AF41 AF21 -, limit = 10 1 5 10 70 130, \
         priority = 7 1 1 1 1 1, {more}"
    ))
}

const BORROW: &str = "borrow = no no yes yes yes yes";

/// One class that always has packets, alone on the link: suspensions end at ticks only.
fn alone(share_kbit: u64, more: &str) -> World {
    let rest = 10_000 - share_kbit;
    World::new(&format!(
        "ftp other, rate = 10 Mbit/s, share = {share_kbit}kbit/s {rest}kbit/s, dscp = BE -, {more}"
    ))
}

#[test]
fn a_class_alone_is_silent_for_the_times_of_the_thesis() {
    // Share in kbit/s and the printed suspension in 0.1 ms.
    let printed = [(1000, 219), (1900, 104), (2000, 98), (2800, 63), (3000, 57), (4800, 26), (6800, 11)];
    for (share, tenths) in printed {
        let mut w = alone(share, "hz = 1000000");
        w.run_greedy(&mut [], &[(Dscp::BE, "ftp", 1500)], Duration::from_secs(5));
        // From the end of one packet to the start of the next, when more than a tick lies between.
        let mut silences: Vec<u64> =
            w.meter().gaps[&0].iter().map(|gap| gap - 1_200_000).filter(|silence| *silence > 1_000).collect();
        silences.sort_unstable();
        let (median, expected) = (silences[silences.len() / 2], tenths * 100_000);
        // The average has a little to recover, and the packet's own time on the line counts as rest.
        assert!(median.abs_diff(expected) < expected / 20, "{share} kbit/s: {median} ns");
    }
}

#[test]
fn longer_bursts_are_paid_for_with_longer_silence() {
    // With two packets a burst the average alone would take as long to recover; with eight the off-time decides.
    let mut w = alone(1000, "hz = 1000000, minburst = 8");
    w.run_greedy(&mut [], &[(Dscp::BE, "ftp", 1500)], Duration::from_secs(5));
    let longest = w.meter().gaps[&0].iter().max().copied().unwrap_or(0);
    let off_time = w.class("ftp").estimator.off_time().0;
    assert!(off_time > 90_000_000 && longest >= off_time, "{longest} of {off_time} ns");
}

#[test]
fn backlogged_classes_get_their_shares() {
    let everybody = [(Dscp::EF, "voip"), (Dscp::AF41, "video"), (Dscp::AF21, "http"), (Dscp::BE, "ftp")];
    for scheduler in ["wrr", "prr"] {
        let mut w = lending("30% 30% 28% 10%", &format!("hz = 1000, scheduler = {scheduler}"));
        // Packets of the average size told: smaller ones keep a class below its share, as in the original.
        w.run_greedy(&mut [], &everybody.map(|(dscp, name)| (dscp, name, 1500)), Duration::from_secs(10));
        for ((dscp, name), share) in everybody.iter().zip([3000, 3000, 2800, 1000]) {
            let got = w.kbit(*dscp);
            assert!(got.abs_diff(share) <= share / 20, "{scheduler} {name}: {got} of {share} kbit/s");
        }
    }
}

#[test]
fn borrowing_lies_between_none_and_efficient() {
    for shares in ["30% 30% 28% 10%", "30% 30% 19% 19%"] {
        let [off, on, efficient] =
            ["", BORROW, "borrow = no no yes yes yes yes, efficient = yes"].map(|more| {
                let mut w = lending(shares, more);
                w.run(&mut loads(), Duration::from_secs(10));
                // Calls and video keep to their shares and lose nothing in any of the three.
                assert_eq!((w.report("dropped_voip"), w.report("dropped_video")), (0, 0));
                assert_eq!(w.report("borrows_voip"), 0);
                w.total_kbit()
            });
        assert!(off + 100 < on && on + 1000 < efficient, "{off} {on} {efficient} kbit/s");
    }
}

#[test]
fn efficient_never_idles() {
    let mut w = lending("30% 30% 28% 10%", "borrow = no no yes yes yes yes, efficient = yes, hz = 100");
    w.run(&mut loads(), Duration::from_secs(5));
    let busy = w.pump().transmitter().busy().0;
    assert!(busy.abs_diff(5_000_000_000) < 3_000_000, "{busy} ns of line time in 5 s");
    assert!(w.report("borrows_ftp") > 1000);
}

#[test]
fn who_lends_without_end_is_used_without_end() {
    // The root is the whole link and never over its share: with the cut-off raised as ALTQ does, borrowing from it wastes
    // nothing; with classes suspended at the cut-off instead, nothing is ever borrowed beside calls.
    let [raised, suspended] = ["yes", "no"].map(|adjust| {
        let mut w = provisioning("2% 30% 30% 28% 10%", &format!("borrow = yes, adjust_cutoff = {adjust}"));
        w.run(&mut loads(), Duration::from_secs(5));
        (w.total_kbit(), w.report("borrows_ftp"))
    });
    assert!(raised.0 > 9_950 && raised.1 > 1000, "{raised:?}");
    assert!(suspended.0 < 4_600 && suspended.1 == 0, "{suspended:?}");
}

#[test]
fn a_faster_kernel_clock_raises_what_is_borrowed() {
    // Nobody else's packets end suspensions early.
    let greedy = [(Dscp::BE, "ftp", 1500), (Dscp::AF21, "http", 1500)];
    let totals = [100, 1000, 10_000].map(|hz| {
        let mut w = lending("30% 30% 28% 10%", &format!("hz = {hz}, {BORROW}"));
        w.run_greedy(&mut [], &greedy, Duration::from_secs(10));
        w.total_kbit()
    });
    assert!(totals.windows(2).all(|t| t[0] < t[1]), "{totals:?}");
}

#[test]
fn red_and_limits_count_packets() {
    let text = "a b, rate = 10 Mbit/s, share = 50% 50%, dscp = EF -, limit = 10 20, queue = fifo red, \
                red_weight = 1, red_max_p = 50 %";
    let mut w = World::new(text);
    (0..30).for_each(|_| w.push(Dscp::EF, 1500));
    // One is on the line.
    assert_eq!((w.class("a").queue.len(), w.report("dropped_a")), (10, 19));
    (0..200).for_each(|_| w.push(Dscp::BE, 100));
    let len = w.class("b").queue.len();
    assert!((6..=20).contains(&len), "{len}");
    let (early, forced) = (w.report("dropped_red_early"), w.report("dropped_red_forced"));
    assert!(early > 0 && forced > 100, "{early} {forced}");
    assert_eq!(w.report("dropped_queue_full"), 19 + w.report("dropped_b") - early - forced);
    assert_eq!(w.report("backlog_bytes_b"), len as u64 * 100);
}

#[test]
fn everything_wrong_is_told_at_once() {
    let errors = |text: &str| {
        let errors = (TYPE.build)(&args(text), &mut BuildCx::default()).err().unwrap_or_default();
        errors.into_iter().map(|e| e.key.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(errors("a b, rate = 1 Mbit/s, share = 50%, dscp = EF -"), [""; 0]);
    assert_eq!(errors(""), ["classes", "rate", "share"]);
    assert_eq!(errors("a a, rate = 1 Mbit/s, share = 50%, dscp = EF -"), ["classes"]);
    assert_eq!(errors("a root, rate = 1 Mbit/s, share = 50%, dscp = EF -"), ["classes"]);
    assert_eq!(errors("a b, rate = 1 Mbit/s, share = 50% 60%, dscp = EF -"), ["share"]);
    assert_eq!(errors("a b, rate = 1 Mbit/s, share = 50% 20% 3%, dscp = EF -"), ["share"]);
    assert_eq!(errors("a b, rate = 1 Mbit/s, share = 2Mbit/s 0%, dscp = EF -"), ["share", "share"]);
    assert_eq!(errors("a b, rate = 1 Mbit/s, share = 50%, dscp = EF EF"), ["dscp", "dscp"]);
    assert_eq!(errors("a b, rate = 1 Mbit/s, share = 50%"), ["dscp"]);
    assert_eq!(errors("a b, parent = root a, rate = 1 Mbit/s, share = 50%, dscp = EF -"), ["dscp"]);
    assert_eq!(errors("a b, parent = b root, rate = 1 Mbit/s, share = 50%, dscp = EF -"), ["parent"]);
    let many = "a b, rate = 1 Mbit/s, share = 50%, dscp = EF -, borrow = maybe no, limit = 0, hz = 0, \
                red_min = 95 %, red_weight = 17, queue = blue";
    let expected = ["borrow", "limit", "limit", "queue", "queue", "hz", "red_max", "red_weight"];
    let mut found = errors(many);
    found.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn state_moves_to_a_tree_of_the_same_classes() {
    let mut w = provisioning("2% 30% 30% 28% 10%", "");
    w.run(&mut loads(), Duration::from_secs(1));
    let (held, sent) = (w.pump().held(), w.report("packets_ftp"));
    let state = w.driver.element_mut::<Pump>(w.cbq).and_then(Pump::export_state).expect("it has state");
    let build = |text| (TYPE.build)(&args(text), &mut BuildCx::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let state =
        build("a b, rate = 1 Mbit/s, share = 50%, dscp = EF -").import_state(state).expect_err("other");
    let mut next = build(
        "control voip video http ftp, rate = 8 Mbit/s, share = 2% 30% 30% 19% 19%, dscp = CS6 EF AF41 AF21 -",
    );
    assert!(next.import_state(state).is_ok());
    assert!(held > 0 && next.held() == held);
    let mut all: Vec<(String, u64)> = vec![];
    next.counters(&mut all);
    assert!(all.contains(&("packets_ftp".to_owned(), sent)));
    // The packets are no longer the first one's: its books are not looked at again.
    let mut out = Batch::new();
    next.drain(&mut out);
    assert_eq!((out.len() as u64, next.held()), (held, 0));
    out.release_all();
}

impl World {
    /// Nobody who is within its share waits while the line is free; whoever else waits wakes at a tick to come.
    fn nobody_stalls(&self) {
        let (pump, now) = (self.pump(), self.now);
        if !pump.transmitter().has_room(now) {
            return;
        }
        let cbq = pump.discipline::<AltqCbq>().expect("it is one");
        for class in cbq.share.classes.iter().filter(|c| !c.queue.is_empty()) {
            let at = class.asleep;
            assert!(at.is_some_and(|at| at > now), "{} waits at {now:?}: {at:?}", class.name);
            assert!(class.estimator.is_over(now), "{} waits within its share", class.name);
            assert!(cbq.next_wakeup() <= at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn random_scripts_keep_the_books_and_nobody_stalls(
        shares in prop::array::uniform4(1u32..24),
        priorities in prop::array::uniform4(0u8..8),
        borrow in prop::array::uniform4(any::<bool>()),
        switches in prop::array::uniform3(any::<bool>()),
        hz in prop::sample::select(vec![100u32, 1000, 10_000, 1_000_000]),
        script in prop::collection::vec((0usize..5, 60u16..1500, 0u64..4_000_000, 1usize..12), 1..120),
    ) {
        let yes = |b: bool| if b { "yes" } else { "no" };
        let [a, b, c, d] = shares;
        let [p, q, r, s] = priorities;
        let [ba, bb, bc, bd] = borrow.map(yes);
        let [efficient, adjust, weighted] = switches;
        let text = format!(
            "m a b c d, parent = root m m root root, rate = 8 Mbit/s, share = {}% {a}% {b}% {c}% {d}%, \
             dscp = none EF AF41 AF21 -, borrow = {bc} {ba} {bb} {bc} {bd}, priority = 1 {p} {q} {r} {s}, hz = {hz}, \
             limit = 8, queue = fifo fifo red fifo red, efficient = {}, adjust_cutoff = {}, scheduler = {}",
            a + b, yes(efficient), yes(adjust), if weighted { "wrr" } else { "prr" },
        );
        let mut w = World::new(&text);
        for (class, len, gap, count) in script {
            let dscp = [Dscp::EF, Dscp::AF41, Dscp::AF21, Dscp::BE, Dscp::CS1][class];
            (0..count).for_each(|_| w.push(dscp, len));
            let until = w.now + Duration(gap);
            while let Some(at) = w.driver.next_wakeup().filter(|at| *at <= until) {
                w.now = w.now.max(at);
                w.driver.poll(w.now);
                w.nobody_stalls();
            }
            w.now = until;
            prop_assert!(w.driver.check_conservation().is_ok());
            // One byte a microsecond, and the packet on the line.
            prop_assert!(w.meter().total <= w.now.0 / 1000 + 1514, "faster than the link");
        }
        // Everything leaves in the end.
        while let Some(at) = w.driver.next_wakeup() {
            w.now = w.now.max(at);
            w.driver.poll(w.now);
            w.nobody_stalls();
        }
        prop_assert_eq!(w.pump().held(), 0);
    }
}
