use crate::testkit::{Bench, Sink};
use crate::{CostConfig, Cx, Driver, Element, ElementCost, NodeId, PortIndex, TimerId};
use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use proptest::prelude::*;
use std::any::Any;
use std::cell::Cell;

thread_local! {
    static TIME: Cell<u64> = const { Cell::new(0) };
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

/// Time passes only when an element says so.
fn scripted() -> u64 {
    READINGS.set(READINGS.get() + 1);
    TIME.get()
}

/// Each reading takes 7 ns.
fn slow() -> u64 {
    TIME.set(TIME.get() + 7);
    TIME.get()
}

fn pass(ns: u64) {
    TIME.set(TIME.get() + ns);
}

/// Takes a known time: so much a push and a packet of it, and so much a wake, which lets go of all it holds.
#[derive(Default)]
struct Takes {
    push: u64,
    packet: u64,
    wake: u64,
    holds: bool,
    held: Batch,
}

impl Element for Takes {
    fn type_name(&self) -> &'static str {
        "Takes"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        pass(self.push + self.packet * batch.len() as u64);
        if self.holds {
            self.held.append(batch);
            cx.timer_at(cx.now());
        } else {
            cx.emit_all(0, batch);
        }
    }
    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        pass(self.wake);
        cx.emit_all(0, &mut self.held);
    }
    fn held(&self) -> u64 {
        self.held.len() as u64
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn every(every: u32) -> Option<CostConfig> {
    Some(CostConfig { clock: scripted, clock_ns: 0, every })
}

/// A chain of elements into a sink.
fn chain(elements: Vec<Takes>) -> (Driver, Vec<NodeId>) {
    let mut driver = Driver::new(Pool::new(1024), 1);
    let mut ids: Vec<NodeId> =
        elements.into_iter().enumerate().map(|(i, e)| driver.add(&format!("e{i}"), Box::new(e), 1)).collect();
    ids.push(driver.add("sink", Box::new(Sink::default()), 0));
    for pair in ids.windows(2) {
        driver.connect(pair[0], 0, pair[1], 0).unwrap();
    }
    (driver, ids)
}

fn send(driver: &mut Driver, to: NodeId, packets: usize) {
    let mut batch = Batch::new();
    (0..packets).for_each(|_| batch.push(driver.pool().alloc().unwrap()));
    driver.push(driver.now(), to, 0, &mut batch);
}

fn empty(driver: &mut Driver, sink: NodeId) {
    for (_, packet) in driver.element_mut::<Sink>(sink).unwrap().arrived.drain(..) {
        packet.release();
    }
}

fn cost(driver: &Driver, id: NodeId) -> &ElementCost {
    driver.cost(id).unwrap()
}

#[test]
fn an_element_gets_exactly_the_time_it_takes_and_none_of_those_behind_it() {
    let first = Takes { push: 1_000, packet: 40, ..Takes::default() };
    let second = Takes { push: 0, packet: 500, ..Takes::default() };
    let (mut driver, ids) = chain(vec![first, second]);
    driver.set_costs(every(1));
    for packets in [10, 1, 5] {
        send(&mut driver, ids[0], packets);
    }
    let c = &cost(&driver, ids[0]).push;
    assert_eq!((c.calls, c.packets, c.sampled_calls, c.sampled_packets), (3, 16, 3, 16));
    assert_eq!(c.sampled_ns, 3 * 1_000 + 16 * 40);
    // 140, 1,040 and 240 ns a packet of the three calls.
    assert_eq!((c.histogram.count(), c.histogram.max()), (16, 1_040_000));
    assert!((140_000..=144_375).contains(&c.histogram.quantile(625)), "ten of sixteen");
    assert!((240_000..=247_500).contains(&c.histogram.quantile(937)), "fifteen of sixteen");
    let c = cost(&driver, ids[1]);
    assert_eq!((c.push.sampled_ns, c.push.packets), (16 * 500, 16));
    assert!((c.ns_per_packet() - 500.0).abs() < 1e-9);
    assert_eq!(cost(&driver, ids[2]).push.sampled_ns, 0, "the sink takes no time");
    empty(&mut driver, ids[2]);
}

#[test]
fn what_a_wake_takes_belongs_to_the_packets_it_moves() {
    let queue = Takes { packet: 30, wake: 90, holds: true, ..Takes::default() };
    let (mut driver, ids) = chain(vec![queue]);
    driver.set_costs(every(1));
    send(&mut driver, ids[0], 3);
    driver.poll(Instant(1));
    driver.wake(Instant(1), ids[0], TimerId::MAIN);
    let c = cost(&driver, ids[0]);
    assert_eq!((c.wake.calls, c.wake.packets, c.wake.sampled_ns), (2, 3, 180));
    assert_eq!(c.wake.histogram.count(), 3, "a wake that moves nothing has no packet to name");
    assert_eq!(c.wake.histogram.max(), 30_000);
    assert!((c.estimated_ns() - 270.0).abs() < 1e-9);
    assert!((c.ns_per_packet() - 90.0).abs() < 1e-9);
    empty(&mut driver, ids[1]);
}

#[test]
fn no_clock_is_read_unless_costs_are_taken() {
    let (mut driver, ids) = chain(vec![Takes::default()]);
    send(&mut driver, ids[0], 4);
    assert!(driver.cost(ids[0]).is_none());
    driver.set_costs(every(1));
    send(&mut driver, ids[0], 4);
    let read = READINGS.get();
    assert_eq!(read, 4, "twice around each of two elements");
    driver.set_costs(None);
    send(&mut driver, ids[0], 4);
    driver.poll(Instant(1));
    assert_eq!(READINGS.get(), read);
    assert!(driver.cost(ids[0]).is_none());
    empty(&mut driver, ids[1]);
}

#[test]
fn the_price_of_the_clock_is_measured_and_subtracted() {
    let config = CostConfig::calibrated(slow, 1);
    assert_eq!(config.clock_ns, 7);
    let (mut driver, ids) = chain(vec![Takes { push: 100, ..Takes::default() }]);
    driver.set_costs(Some(config));
    send(&mut driver, ids[0], 1);
    assert_eq!(cost(&driver, ids[0]).push.sampled_ns, 100);
    empty(&mut driver, ids[1]);
}

#[test]
fn an_element_that_comes_later_is_metered_and_a_successor_goes_on() {
    let (mut driver, ids) = chain(vec![Takes { packet: 10, ..Takes::default() }]);
    driver.set_costs(every(1));
    send(&mut driver, ids[0], 1);
    driver.replace(ids[0], Box::new(Takes { packet: 30, ..Takes::default() }));
    send(&mut driver, ids[0], 1);
    assert_eq!(cost(&driver, ids[0]).push.sampled_ns, 40);
    let new = driver.add("new", Box::new(Takes { packet: 5, ..Takes::default() }), 1);
    driver.connect(new, 0, ids[0], 0).unwrap();
    send(&mut driver, new, 2);
    assert_eq!((cost(&driver, new).push.sampled_ns, cost(&driver, ids[0]).push.sampled_ns), (10, 100));
    driver.set_costs(every(1));
    assert_eq!(cost(&driver, new).push.calls, 0, "anew");
    empty(&mut driver, ids[1]);
}

#[test]
fn what_is_random_in_the_data_path_is_as_without_costs() {
    struct Dice(Vec<u32>);
    impl Element for Dice {
        fn type_name(&self) -> &'static str {
            "Dice"
        }
        fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
            self.0.push(cx.random());
            cx.emit_all(0, batch);
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }
    let thrown = |config| {
        let mut bench = Bench::new(Dice(Vec::new()), 1);
        bench.driver.set_costs(config);
        (0..50).for_each(|_| send(&mut bench.driver, bench.node, 1));
        bench.driver.element_ref::<Dice>(bench.node).unwrap().0.clone()
    };
    assert_eq!(thrown(None), thrown(every(3)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_sample_estimates_the_whole_and_reads_the_clock_as_seldom_as_it_says(
        k in 2u32..200,
        period in 2usize..9,
        dear in 1u64..5_000,
    ) {
        // Every so many calls one is dear: no distance of samples may stay in step with that.
        let (mut driver, ids) = chain(vec![Takes::default()]);
        driver.set_costs(every(k));
        READINGS.set(0);
        let calls = 400 * k as usize;
        for i in 0..calls {
            driver.element_mut::<Takes>(ids[0]).unwrap().packet = if i % period == 0 { 10 + dear } else { 10 };
            send(&mut driver, ids[0], 1);
            empty(&mut driver, ids[1]);
        }
        let c = cost(&driver, ids[0]);
        let mean = 10.0 + dear as f64 / period as f64;
        // 400 samples of two values: six standard errors.
        let share = 1.0 / period as f64;
        let error = 6.0 * dear as f64 * (share * (1.0 - share) / 400.0).sqrt() + 1.0;
        prop_assert!((c.ns_per_packet() - mean).abs() < error, "{} for {mean} ± {error}", c.ns_per_packet());
        prop_assert!((340..460).contains(&c.push.sampled_calls), "{} of {calls}", c.push.sampled_calls);
        let sampled = c.push.sampled_calls + cost(&driver, ids[1]).push.sampled_calls;
        prop_assert_eq!(READINGS.get(), 2 * sampled);
    }
}
