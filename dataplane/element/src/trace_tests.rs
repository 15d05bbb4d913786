use super::DelayTrace;
use crate::{Cx, DelaySample, Driver, Element, NodeId, PortIndex, TimerId, TraceConfig};
use perhop_packet::{Batch, DropReason, Pool, PortId};
use perhop_units::Instant;
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;

thread_local! {
    static TIME: Cell<u64> = const { Cell::new(0) };
    static READINGS: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> u64 {
    READINGS.set(READINGS.get() + 1);
    TIME.get()
}

/// A queue whose every wake sends one packet; drops what is longer than 100 octets.
#[derive(Default)]
struct Queue(VecDeque<perhop_packet::Packet>);

impl Element for Queue {
    fn type_name(&self) -> &'static str {
        "TestQueue"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            if packet.len() > 100 {
                cx.drop(packet, DropReason::QueueFull);
            } else {
                self.0.push_back(packet);
            }
        }
    }
    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        if let Some(packet) = self.0.pop_front() {
            cx.transmit(PortId(1), packet);
        }
    }
    fn held(&self) -> u64 {
        self.0.len() as u64
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct World {
    driver: Driver,
    queue: NodeId,
}

impl World {
    fn new(every: u32, keep: usize) -> Self {
        let mut driver = Driver::new(Pool::new(256), 1);
        driver.set_port_count(2);
        let queue = driver.add("queue", Box::new(Queue::default()), 0);
        driver.set_trace(Some(TraceConfig { clock, every, keep }));
        TIME.set(0);
        Self { driver, queue }
    }

    fn arrive(&mut self, at: u64, lens: &[usize]) {
        let mut batch = Batch::new();
        for len in lens {
            let mut packet = self.driver.pool().packet(&vec![0; *len]).unwrap();
            packet.meta_mut().received_at = Instant(at);
            batch.push(packet);
        }
        self.driver.push(Instant(at), self.queue, 0, &mut batch);
    }

    fn leave(&mut self, at: u64) {
        TIME.set(at);
        self.driver.wake(Instant(at), self.queue, TimerId::MAIN);
        self.driver.transmit_queue(PortId(1)).unwrap().release_all();
    }

    fn samples(&self) -> Vec<DelaySample> {
        self.driver.trace().unwrap().samples().copied().collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.driver.drop_held(self.queue, DropReason::ClassRemoved);
    }
}

#[test]
fn every_packet_has_its_delay_and_what_stood_before_it() {
    let mut w = World::new(1, 10);
    w.arrive(1_000, &[60, 61]);
    w.arrive(1_500, &[62]);
    w.leave(2_000);
    w.arrive(2_500, &[63]);
    for at in [3_000, 4_000, 5_000] {
        w.leave(at);
    }
    let sample = |seq, received, delay_ns, len, queue, burst, ahead| DelaySample {
        seq,
        received_at: Instant(received),
        delay_ns,
        port: PortId(1),
        len,
        queue,
        burst,
        ahead,
    };
    let expected = [
        sample(0, 1_000, 1_000, 60, 0, 2, 0),
        sample(1, 1_000, 2_000, 61, 0, 2, 1),
        sample(2, 1_500, 2_500, 62, 2, 1, 0),
        sample(3, 2_500, 2_500, 63, 2, 1, 0),
    ];
    assert_eq!(w.samples(), expected);
    let trace = w.driver.trace().unwrap();
    assert_eq!((trace.begun(), trace.departed(), trace.delays().max()), (4, 4, 2_500));
}

#[test]
fn a_packet_that_ends_otherwise_leaves_no_sample_nor_does_its_buffer() {
    let pool = Pool::new(1);
    let mut trace = DelayTrace::new(TraceConfig { clock, every: 1, keep: 10 }, 1);
    let packet = |at| {
        let mut packet = pool.packet(&[0; 60]).unwrap();
        packet.meta_mut().received_at = Instant(at);
        packet
    };
    let mut batch = Batch::new();
    batch.push(packet(10));
    trace.arrive(&mut batch);
    batch.release_all();
    // The pool's only buffer has another packet now, which nobody traces.
    let other = packet(20);
    trace.depart(PortId(1), &other);
    other.release();
    assert_eq!((trace.begun(), trace.departed(), trace.samples().count()), (1, 0, 0));

    let mut w = World::new(1, 10);
    w.arrive(10, &[200, 60]);
    w.leave(30);
    assert_eq!(w.samples().iter().map(|s| (s.seq, s.len)).collect::<Vec<_>>(), [(0, 60)]);
    let trace = w.driver.trace().unwrap();
    assert_eq!((trace.begun(), trace.departed()), (2, 1));
}

#[test]
fn the_latest_are_kept_in_order_and_all_are_counted() {
    let mut w = World::new(1, 8);
    for n in 1..=20 {
        w.arrive(n * 100, &[60]);
        w.leave(n * 100 + n);
        let kept = w.samples();
        let delays: Vec<u64> = kept.iter().map(|s| s.delay_ns).collect();
        assert_eq!(delays, (n.saturating_sub(7).max(1)..=n).collect::<Vec<_>>());
        let trace = w.driver.trace().unwrap();
        assert!(kept.iter().all(|s| trace.sample(s.seq) == Some(s)));
        assert_eq!(trace.delays().count(), n);
        assert!(trace.ring.capacity() <= 8, "bounded");
    }
    assert_eq!(w.driver.trace().unwrap().sample(0), None, "long gone");
}

#[test]
fn one_in_so_many_is_traced_and_the_clock_is_read_for_these_only() {
    let mut w = World::new(16, 10_000);
    READINGS.set(0);
    for n in 0..4_000 {
        w.arrive(n, &[60, 60, 60]);
        (0..3).for_each(|_| w.leave(n));
    }
    let n = w.samples().len();
    assert!((660..840).contains(&n), "{n} of 12000");
    assert_eq!(READINGS.get(), n as u64);
    let places = |i| w.samples().iter().filter(|s| s.ahead == i).count();
    assert!((0..3).all(|i| places(i) > n / 5), "every place of a burst is met");
    w.driver.set_trace(None);
    w.arrive(5_000, &[60]);
    w.leave(5_000);
    assert!(w.driver.trace().is_none());
    assert_eq!(READINGS.get(), n as u64);
}
