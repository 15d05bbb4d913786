//! # Synopsis
//! `Fifo` is the discipline of a bounded first-in first-out queue that drops at its tail.
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `limit` | queue limit | packets, byte or ns | 100 packets | 1 … 4,194,304 packets, 1 … 10⁹ B, 1 ns … 60 s |
//! | `overhead` | number | byte a packet | 0 | 0 … 256 |
//!
//! # Behaviour
//! A packet that does not fit is dropped as `queue_full`; those inside are never touched. Bytes are frame length plus
//! `overhead`. A limit in time holds what the link sends in that time, but an empty queue always takes one packet.
//!
//! # Counters
//! `enqueued_packets`, `enqueued_bytes`, `dropped_packets`, `dropped_bytes` (frame bytes), gauges `packets`, `bytes`,
//! `peak_packets`, `peak_bytes`.
//!
//! # Invariants
//! Packets leave in the order they came; the bound holds after every call.
//!
//! # Example
//! `Shaper(1 Mbit/s, limit = 30 ms)`
//!
//! # Source
//! RFC 3290 §7.1.1 (FIFO queue), §7.1.3 (tail dropping).

use super::FifoQueue;
use crate::drop::Losses;
use crate::plumbing::adapter::{as_any, held_in_queue};
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, ElementState, Head, Reader};
use perhop_packet::{Batch, DropReason, Packet};
use perhop_units::{Bytes, Duration, QueueLimit, Rate};

/// What a FIFO is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoConfig {
    /// Bound of the queue.
    pub limit: QueueLimit,
    /// Rate of the link behind it, for a limit in time.
    pub rate: Rate,
    /// What the link adds to each frame, in bytes.
    pub overhead: u32,
}

impl FifoConfig {
    /// Room for a packet: of a queue that is told its bound later, or that is left behind when a successor takes over what
    /// it held.
    pub(crate) const LEAST: Self = Self { limit: QueueLimit::Packets(1), rate: Rate::ZERO, overhead: 0 };

    /// Whether several queues together, of `packets` with so many frame bytes, hold more than their bound.
    pub(crate) fn is_exceeded_by(&self, packets: u64, bytes: u64) -> bool {
        let bytes = bytes + packets * u64::from(self.overhead);
        match self.limit {
            QueueLimit::Packets(n) => packets > u64::from(n.max(1)),
            QueueLimit::Bytes(n) => bytes > n.0,
            // At a low rate the time may be shorter than one packet's own.
            time @ QueueLimit::Time(_) => {
                packets > 1 && bytes > time.in_bytes(self.rate).unwrap_or_default().0
            }
        }
    }
}

/// Packets and bytes a queue has taken and refused, and its peaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets taken.
    pub enqueued_packets: u64,
    /// Their frame bytes.
    pub enqueued_bytes: u64,
    /// Packets dropped on arrival.
    pub dropped_packets: u64,
    /// Their frame bytes.
    pub dropped_bytes: u64,
    /// Most packets ever inside.
    pub peak_packets: u64,
    /// Most bytes ever inside, as the limit counts them.
    pub peak_bytes: u64,
}

impl QueueCounters {
    /// Counts a packet of `frame_len` that `queue` has just taken.
    #[inline]
    pub fn taken(&mut self, frame_len: usize, queue: &FifoQueue) {
        self.enqueued_packets += 1;
        self.enqueued_bytes += frame_len as u64;
        self.peak_packets = self.peak_packets.max(queue.len() as u64);
        self.peak_bytes = self.peak_bytes.max(queue.bytes().0);
    }

    /// Counts a packet dropped on arrival.
    #[inline]
    pub fn refused(&mut self, packet: &Packet) {
        self.dropped_packets += 1;
        self.dropped_bytes += packet.len() as u64;
    }

    /// Offers a packet to `queue`; one that finds it full is dropped.
    #[inline]
    pub fn offer(&mut self, queue: &mut FifoQueue, cx: &mut Cx<'_>, packet: Packet) {
        let frame_len = packet.len();
        match queue.offer(packet) {
            Ok(()) => self.taken(frame_len, queue),
            Err(packet) => self.refuse(cx, packet, DropReason::QueueFull),
        }
    }

    /// Drops a packet on arrival.
    #[inline]
    pub fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: DropReason) {
        self.refused(&packet);
        cx.drop(packet, reason);
    }

    /// What was lost, `early` of it before the queue was full.
    pub(crate) fn losses(&self, early: u64, marked: u64) -> Losses {
        let full = self.dropped_packets - early;
        Losses { full, early, bytes: self.dropped_bytes, marked }
    }

    /// Reports everything, with the state of `queue`.
    pub fn report(&self, queue: &FifoQueue, sink: &mut dyn CounterSink) {
        sink.counter("enqueued_packets", self.enqueued_packets);
        sink.counter("enqueued_bytes", self.enqueued_bytes);
        sink.counter("dropped_packets", self.dropped_packets);
        sink.counter("dropped_bytes", self.dropped_bytes);
        sink.gauge("packets", queue.len() as u64);
        sink.gauge("bytes", queue.bytes().0);
        sink.gauge("peak_packets", self.peak_packets);
        sink.gauge("peak_bytes", self.peak_bytes);
    }
}

/// The discipline.
#[derive(Debug)]
pub struct Fifo {
    queue: FifoQueue,
    counters: QueueCounters,
}

impl Fifo {
    /// An empty queue.
    pub fn new(config: FifoConfig) -> Self {
        let queue = FifoQueue::new(config.limit, config.rate, config.overhead);
        Self { queue, counters: QueueCounters::default() }
    }

    /// Changes the bound; packets inside stay.
    pub fn reconfigure(&mut self, config: FifoConfig) {
        self.queue.set_limit(config.limit, config.rate, config.overhead);
    }

    /// Taken, refused and peaks so far.
    pub fn totals(&self) -> QueueCounters {
        self.counters
    }
}

impl Discipline for Fifo {
    fn type_name(&self) -> &'static str {
        "Fifo"
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let change = Watch::start(&self.queue);
        for packet in batch.drain() {
            self.counters.offer(&mut self.queue, cx, packet);
        }
        change.end(&self.queue)
    }

    fn peek(&mut self, _cx: &mut Cx<'_>) -> Option<Head> {
        self.queue.front_len().map(|len| Head { len: len as u32 })
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let change = Watch::start(&self.queue);
        take_with(budget, out, || self.queue.pop());
        change.end(&self.queue)
    }

    fn drain(&mut self, out: &mut Batch) {
        while let Some(packet) = self.queue.pop() {
            out.push(packet);
        }
    }

    held_in_queue!();

    fn counters(&self, sink: &mut dyn CounterSink) {
        self.counters.report(&self.queue, sink);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = FifoQueue::new(QueueLimit::Packets(1), Rate::ZERO, 0);
        Some(Box::new((std::mem::replace(&mut self.queue, empty), std::mem::take(&mut self.counters))))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let (mut queue, counters) = *state.downcast::<(FifoQueue, QueueCounters)>()?;
        self.queue.adopt(&mut queue);
        self.counters = counters;
        Ok(())
    }

    as_any!();
}

/// Moves packets to `out` within `budget`; the packet that crosses the byte budget still goes.
pub(crate) fn take_with(budget: Budget, out: &mut Batch, mut next: impl FnMut() -> Option<Packet>) {
    let mut bytes = 0;
    for _ in 0..budget.packets {
        if bytes >= budget.bytes {
            break;
        }
        let Some(packet) = next() else { break };
        bytes += packet.len() as u64;
        out.push(packet);
    }
}

/// Notes a queue's state before a call, to tell the parent what changed.
#[derive(Debug)]
pub(crate) struct Watch {
    packets: u64,
    bytes: u64,
}

impl Watch {
    pub(crate) fn start(queue: &FifoQueue) -> Self {
        Self { packets: queue.len() as u64, bytes: queue.frame_bytes() }
    }

    pub(crate) fn end(self, queue: &FifoQueue) -> Delta {
        Delta::between((self.packets, self.bytes), (queue.len() as u64, queue.frame_bytes()))
    }
}

/// Reads `limit` and `overhead` of a queue behind a link of `rate`.
pub fn read_config(r: &mut Reader<'_>, position: Option<usize>, rate: Rate) -> FifoConfig {
    let limit = r.optional("limit", position).unwrap_or(QueueLimit::Packets(100));
    let good = match limit {
        QueueLimit::Packets(n) => (1..=super::MAX_PACKETS).contains(&n),
        QueueLimit::Bytes(n) => (1..=1_000_000_000).contains(&n.0),
        QueueLimit::Time(time) => (Duration(1)..=Duration::from_secs(60)).contains(&time),
    };
    if !good {
        let allowed = format!("1 to {} packets, 1 B to 1000 MB, 1 ns to 60 s", super::MAX_PACKETS);
        r.fail("limit", format!("limit = {limit} is out of range"), Some(allowed));
    }
    let overhead = r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256));
    FifoConfig { limit, rate, overhead: overhead.0 as u32 }
}

/// A harness that checks what a discipline reports against what it holds.
#[cfg(test)]
pub(crate) mod laws {
    use super::*;
    use perhop_element::testkit::Bench;
    use perhop_element::{Element, PortIndex, TimerId};
    use proptest::prelude::*;

    /// Pushing enqueues; waking timer n dequeues with the n-th budget. With it, what the discipline has told of: a drop at
    /// the head while it is looked at is told of with the next call. And whether what is inside stays until it leaves.
    struct Probe<D: Discipline>(D, (i64, i64), bool);

    const BUDGETS: [Budget; 4] = [
        Budget::ONE,
        Budget { bytes: 1500, packets: 10 },
        Budget { bytes: u64::MAX, packets: 3 },
        Budget { bytes: 0, packets: 5 },
    ];

    impl<D: Discipline> Probe<D> {
        fn checked(&mut self, cx: &mut Cx<'_>, call: impl FnOnce(&mut D, &mut Cx<'_>) -> Delta) -> Delta {
            let before = self.1;
            let delta = call(&mut self.0, cx);
            let after = (self.0.held() as i64, self.0.held_bytes() as i64);
            self.1 = after;
            assert_eq!((delta.packets, delta.bytes), (after.0 - before.0, after.1 - before.1));
            assert_eq!(delta.became_active, before.0 == 0 && after.0 > 0);
            assert_eq!(delta.became_idle, before.0 > 0 && after.0 == 0);
            delta
        }
    }

    impl<D: Discipline> Element for Probe<D> {
        fn type_name(&self) -> &'static str {
            "TestProbe"
        }
        fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
            let delta = self.checked(cx, |d, cx| d.enqueue(cx, batch));
            assert!((delta.packets >= 0 || !self.2) && batch.is_empty());
        }
        fn wake(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
            let budget = BUDGETS[usize::from(timer.0)];
            let head = self.0.peek(cx);
            assert_eq!(head.is_some(), self.0.held() > 0);
            let mut out = Batch::new();
            let _ = self.checked(cx, |d, cx| d.dequeue(cx, budget, &mut out));
            assert!(out.len() <= budget.packets as usize);
            if let (Some(head), Some(first)) = (head, out.as_slice().first()) {
                assert_eq!(head.len as usize, first.len());
            }
            if let [all @ .., _] = out.as_slice() {
                let before_last: u64 = all.iter().map(|p| p.len() as u64).sum();
                assert!(budget.bytes > before_last);
            }
            cx.emit_all(0, &mut out);
        }
        fn held(&self) -> u64 {
            self.0.held()
        }
        as_any!();
    }

    /// Runs random calls; packets must come out in the order they went in, with nothing made up.
    pub(crate) fn check<D: Discipline>(discipline: D, calls: &[(u16, u8)]) {
        let order = run(Probe(discipline, (0, 0), true), calls);
        assert!(order.windows(2).all(|w| w[0] < w[1]), "{order:?}");
    }

    /// The same of a discipline that may change the order and drop what is inside.
    pub(crate) fn check_any_order<D: Discipline>(discipline: D, calls: &[(u16, u8)]) {
        let mut order = run(Probe(discipline, (0, 0), false), calls);
        let count = order.len();
        order.sort_unstable();
        order.dedup();
        assert_eq!(order.len(), count, "each leaves once");
    }

    fn run<D: Discipline>(probe: Probe<D>, calls: &[(u16, u8)]) -> Vec<u16> {
        let mut bench = Bench::new(probe, 1);
        let mut sequence = 0u16;
        for (ip_len, call) in calls {
            bench.run_for(Duration(1_000_000));
            if *call < 4 {
                bench.driver.wake(bench.now(), bench.node, TimerId(*call));
                continue;
            }
            let frame = crate::plumbing::UdpFrame {
                ip_len: *ip_len,
                src_port: sequence,
                ecn: (*call & 1) * 2,
                ..Default::default()
            };
            sequence += 1;
            bench.push(&frame.to_vec());
        }
        bench.sink(0).arrived.iter().map(|(_, p)| p.meta().layout.src_port).collect()
    }

    pub(crate) fn calls() -> impl Strategy<Value = Vec<(u16, u8)>> {
        prop::collection::vec((28u16..1500, 0u8..10), 1..150)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn fifo_reports_what_it_does(calls in calls(), packets in 1u32..20) {
            let limit = QueueLimit::Packets(packets);
            check(Fifo::new(FifoConfig { limit, rate: Rate::ZERO, overhead: 4 }), &calls);
        }
    }
}
