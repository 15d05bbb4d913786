//! Proportions, bounds and laws of the whole element.

use super::*;
use crate::plumbing::UdpFrame;
use perhop_element::testkit::args;
use perhop_element::{Driver, NodeId, PortIndex};
use perhop_packet::Pool;
use perhop_units::Dscp;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Lets packets go; notes the code points in order when asked.
#[derive(Default)]
struct Out {
    order: Vec<u8>,
}

impl Element for Out {
    fn type_name(&self) -> &'static str {
        "TestOut"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            self.order.push(packet.meta().layout.tos >> 2);
            cx.consume(packet);
        }
    }
    as_any!();
}

const DSCPS: [Dscp; 4] = [Dscp::EF, Dscp::AF41, Dscp::AF21, Dscp::BE];

struct World {
    driver: Driver,
    hpd: NodeId,
    out: NodeId,
    now: Instant,
}

impl World {
    fn new(text: &str) -> Self {
        let mut driver = Driver::new(Pool::new(4096), 5);
        let element = build(&args(text), &mut BuildCx::default()).unwrap_or_else(|e| panic!("{e:?}"));
        let hpd = driver.add("hpd", element, 1);
        let out = driver.add("out", Box::new(Out::default()), 0);
        driver.connect(hpd, 0, out, 0).expect("free");
        Self { driver, hpd, out, now: Instant::ZERO }
    }

    fn push(&mut self, class: usize, frame: u16) {
        let frame = UdpFrame { ip_len: frame - 14, dscp: DSCPS[class], ..UdpFrame::default() }.to_vec();
        let mut packet = self.driver.pool().packet(&frame).expect("queues are short");
        let meta = packet.meta_mut();
        (meta.layout, meta.parsed) = (perhop_wire::dissect(&frame).expect("UDP"), true);
        let mut batch = Batch::new();
        batch.push(packet);
        self.driver.push(self.now, self.hpd, 0, &mut batch);
        self.never_idle();
    }

    fn run_until(&mut self, until: Instant) {
        while let Some(at) = self.driver.next_wakeup().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.driver.poll(self.now);
            self.never_idle();
        }
        self.now = until;
    }

    /// Work conserving: who waits, waits for a line that is busy.
    fn never_idle(&self) {
        let pump = self.pump();
        assert!(
            pump.held() == 0 || !pump.transmitter().has_room(self.now),
            "the line idles at {:?}",
            self.now
        );
    }

    fn pump(&self) -> &Pump {
        self.driver.element_ref(self.hpd).expect("it is one")
    }

    fn counters(&self, name: &str) -> DelayCounters {
        let hpd = self.pump().discipline::<Hpd>().expect("it is one");
        hpd.class(name).expect("there is one").counters()
    }

    fn mean_ms(&self, name: &str) -> f64 {
        let c = self.counters(name);
        c.waited_ns as f64 / c.packets as f64 / 1e6
    }

    /// Poisson arrivals of mixed sizes: `load` is each class's part of 8 Mbit/s, in per cent.
    fn load(&mut self, seed: u64, load: &[u64], equal: bool, millis: u64) {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut uniform = move || (f64::from(rng.next_u32()) + 1.0) / 4_294_967_297.0;
        let mean = if equal { 500.0 } else { 0.4 * 100.0 + 0.4 * 500.0 + 0.2 * 1500.0 };
        let mut next: Vec<f64> = load.iter().map(|_| 0.0).collect();
        while let Some(class) = (0..next.len()).min_by(|a, b| next[*a].total_cmp(&next[*b])) {
            let at = next[class];
            if at > millis as f64 * 1e6 {
                break;
            }
            self.run_until(Instant(at as u64));
            let size = match uniform() {
                _ if equal => 500,
                u if u < 0.4 => 100,
                u if u < 0.8 => 500,
                _ => 1500,
            };
            self.push(class, size);
            // One byte is a microsecond.
            next[class] += -uniform().ln() * mean * 1e3 * 100.0 / load[class] as f64;
        }
        self.run_until(Instant(millis * 1_000_000));
        self.driver.check_conservation().unwrap_or_else(|e| panic!("{e:?}"));
    }
}

const FOUR: &str = "a b c d, rate = 8 Mbit/s, limit = 4000 packets, dscp = EF AF41 AF21 -";

#[test]
fn delays_approach_their_proportions_under_load() {
    // However the load is spread, the same delays come out in proportion 1 : 2 : 4 : 8.
    for (seed, load) in [(1, [10, 20, 30, 35]), (2, [24, 24, 24, 24]), (3, [40, 30, 15, 10])] {
        let mut w = World::new(&format!("{FOUR}, delays = 1 2 4 8"));
        w.load(seed, &load, false, 20_000);
        let means = ["a", "b", "c", "d"].map(|name| w.mean_ms(name));
        for (pair, n) in means.windows(2).zip(0..) {
            let ratio = pair[1] / pair[0];
            assert!((1.8..=2.2).contains(&ratio), "classes {n} and {} under {load:?}: {means:?} ms", n + 1);
        }
    }
}

#[test]
fn whoever_goes_first_all_together_wait_the_same() {
    // Kleinrock's conservation law: with packets of one size the sum of all waiting times is that of any order.
    let sums = ["g = 0 %", "g = 87.5 %", "g = 100 %", "delays = 1 1 1 1, g = 0 %", "bounds = 3ms 9ms - -"]
        .map(|more| {
            let mut w = World::new(&format!("{FOUR}, {more}"));
            w.load(7, &[20, 20, 20, 35], true, 4_000);
            let last = w.driver.next_wakeup().map_or(w.now, |_| Instant(9_000_000_000));
            w.run_until(last);
            ["a", "b", "c", "d"].map(|name| w.counters(name).waited_ns).iter().sum::<u64>()
        });
    assert!(sums.iter().all(|sum| *sum == sums[0] && *sum > 0), "{sums:?}");
}

#[test]
fn with_no_long_term_the_longest_wait_in_proportion_goes_first() {
    let mut w = World::new("a b, rate = 8 Mbit/s, delays = 1 4, g = 0 %, dscp = EF -");
    // The line is busy for 10 ms; b comes 7 ms before a.
    w.push(1, 1000);
    (0..9).for_each(|_| w.push(1, 1000));
    w.run_until(Instant(7_500_000));
    w.push(0, 1000);
    w.run_until(Instant(100_000_000));
    // At 8 ms a has waited 0.5, b 8/4 = 2; at 9 ms 1.5 against 2.25; then nobody else is left before it.
    let order = &w.driver.element_ref::<Out>(w.out).expect("it is one").order;
    assert_eq!(order.iter().position(|d| *d == 46), Some(10));
    let mut w = World::new("a b, rate = 8 Mbit/s, delays = 1 40, g = 0 %, dscp = EF -");
    (0..10).for_each(|_| w.push(1, 1000));
    w.run_until(Instant(7_500_000));
    w.push(0, 1000);
    w.run_until(Instant(100_000_000));
    let order = &w.driver.element_ref::<Out>(w.out).expect("it is one").order;
    assert_eq!(order.iter().position(|d| *d == 46), Some(8));
}

#[test]
fn a_bound_holds_against_any_proportion() {
    // The class with the bound is told to wait longest of all, and the others overload the line.
    let mut w = World::new(
        "a b c d, rate = 8 Mbit/s, delays = 1000000 1 1 1, bounds = 10ms - - -, limit = 50 packets, \
         dscp = EF AF41 AF21 -",
    );
    w.load(3, &[20, 60, 60, 60], false, 5_000);
    let c = w.counters("a");
    assert!(c.late == 0 && c.longest_ns <= 10_000_000 && c.packets > 1000, "{c:?}");
    // It is not served before it must be: most of its packets wait nearly as long as they may.
    assert!(c.urgent > c.packets * 9 / 10 && w.mean_ms("a") > 4.0, "{c:?}");
    assert!(w.counters("b").dropped > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Two classes with bounds, each in a token bucket; everybody else floods the line.
    #[test]
    fn feasible_bounds_hold(
        bursts in prop::array::uniform2(1u64..8),
        bounds in prop::array::uniform2(0u64..20),
        overhead in 0u64..40,
        gaps in prop::collection::vec((0u64..12_000_000, 0usize..2, 1u64..9), 1..60),
    ) {
        let size = 400u64;
        let wire = size + overhead;
        // One byte a microsecond: all bursts and one frame fit before the shorter bound. Each bucket fills with a quarter
        // of the line.
        let need = (bursts[0] + bursts[1]) * 2 * wire + 1514 + overhead;
        let [p, q] = bounds.map(|more| need + more * 1000);
        let mut w = World::new(&format!(
            "a b c d, rate = 8 Mbit/s, delays = 100 1000 1 2, bounds = {p}us {q}us - -, limit = 60 packets, \
             dscp = EF AF41 AF21 -, overhead = {overhead} B"
        ));
        let mut tokens = bursts.map(|b| (b * wire * 4000, 0u64));
        for (gap, class, count) in gaps {
            let until = w.now + Duration(gap);
            w.run_until(until);
            (0..20).for_each(|n| w.push(2 + n % 2, 1514));
            // A quarter of a byte a microsecond, in 4,000ths of a byte a ns.
            let (level, since) = &mut tokens[class];
            let full = bursts[class] * wire * 4000;
            *level = (*level + (w.now.0 - *since)).min(full);
            *since = w.now.0;
            for _ in 0..count {
                if tokens[class].0 >= wire * 4000 {
                    tokens[class].0 -= wire * 4000;
                    w.push(class, size as u16);
                }
            }
        }
        w.run_until(w.now + Duration::from_secs(2));
        for (name, bound) in [("a", p), ("b", q)] {
            let c = w.counters(name);
            prop_assert!(c.late == 0 && c.longest_ns <= bound * 1000, "{name} {bound} us: {c:?}");
        }
        prop_assert_eq!(w.pump().held(), 0);
        prop_assert!(w.driver.check_conservation().is_ok());
    }
}

#[test]
fn logical_classes_serve_without_code_points() {
    let mut cx = BuildCx::default();
    let element = build(&args("ef be, rate = 8 Mbit/s"), &mut cx).unwrap_or_else(|e| panic!("{e:?}"));
    let mut bench = perhop_element::testkit::Bench::with_seed(element, 1, 1);
    for class in [cx.class("ef"), cx.class("be"), ClassId(77)] {
        let mut packet = bench.packet(&crate::plumbing::frames::udp(986));
        packet.meta_mut().class = class;
        bench.push_packet(0, packet);
    }
    bench.run_for(Duration::from_millis(10));
    let pump: &mut Pump = bench.element();
    let hpd = pump.discipline::<Hpd>().expect("it is one");
    let sent = |name| hpd.class(name).map(|c| c.counters().packets);
    assert_eq!((sent("ef"), sent("be")), (Some(1), Some(2)));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let errors = |text: &str| {
        let errors = build(&args(text), &mut BuildCx::default()).err().unwrap_or_default();
        let mut keys: Vec<_> = errors.into_iter().map(|e| e.key.unwrap_or_default()).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(errors("a b, rate = 1 Mbit/s"), [""; 0]);
    assert_eq!(errors(""), ["classes", "rate"]);
    assert_eq!(errors("a a, rate = 1 Mbit/s"), ["classes"]);
    assert_eq!(
        errors(&format!("{}, rate = 1 Mbit/s", "x ".repeat(17))).first().map(String::as_str),
        Some("classes")
    );
    let text = "a b, rate = 1 Mbit/s, delays = 0 1, bounds = - 2h, g = 200 %, memory = 1, dscp = EF AF41";
    assert_eq!(errors(text), ["bounds", "delays", "dscp", "g", "memory"]);
    assert_eq!(errors("a b, rate = 1 Mbit/s, delays = 1 2 3"), ["delays"]);
}

#[test]
fn state_moves_with_what_the_packets_have_waited() {
    let text = "a b, rate = 8 Mbit/s, bounds = 30ms -, dscp = EF -";
    let mut w = World::new(text);
    (0..5).for_each(|n| w.push(n % 2, 1000));
    w.run_until(Instant(1_500_000));
    let state = w.driver.element_mut::<Pump>(w.hpd).and_then(Pump::export_state).expect("it has state");
    let make = |text| build(&args(text), &mut BuildCx::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let state = make("a c, rate = 8 Mbit/s").import_state(state).expect_err("other names");
    let mut driver = Driver::new(Pool::new(16), 1);
    let mut next = make(text);
    assert!(next.import_state(state).is_ok());
    assert_eq!(next.held(), 3);
    let hpd = driver.add("hpd", next, 0);
    driver.wake(Instant(50_000_000), hpd, perhop_element::TimerId::MAIN);
    let pump: &Pump = driver.element_ref(hpd).expect("it is one");
    let counters = pump.discipline::<Hpd>().and_then(|h| h.class("a")).expect("there is one").counters();
    // Two went before, the third now, though due at 30 ms.
    assert_eq!((counters.packets, counters.late, counters.longest_ns), (3, 1, 50_000_000));
    let mut out = Batch::new();
    driver.element_mut::<Pump>(hpd).expect("it is one").drain(&mut out);
    assert_eq!(out.len(), 2);
    out.release_all();
}
