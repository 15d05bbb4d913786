//! # Synopsis
//! `Link(rate, delay [, jitter] [, loss] [, limit] [, overhead])` is one direction of an emulated link.
//!
//! # Ports
//! Input 0: packets at the near end. Output 0: packets at the far end.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `rate` (1st) | rate | bit/s at frame length + `overhead` | required | 0 = no limit, 1 … 10¹² |
//! | `delay` (2nd) | time | ns | required | 0 … 1 h |
//! | `jitter` | time | ns | 0 | 0 … `delay` |
//! | `loss` | probability | | 0 | 0 … 100 % |
//! | `up` | yes, no | | yes | |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//!
//! # Behaviour
//! A packet that finds the line busy waits in a drop-tail queue (`queue_full`); the packet on the line is not in the
//! queue. Each occupies the line for its wire time, may then be lost at random (`emulated_loss`) and arrives `delay`
//! ± `jitter` after its last bit left. Nothing overtakes. With `up = no` the link is cut: what is inside and what comes
//! is dropped (`port_down`).
//!
//! # Counters
//! `sent_packets`, `sent_bytes` (put on the line), `lost_packets`, `busy_ns`, gauge `on_the_way`; those of
//! [`crate::queue::fifo`].
//!
//! # Invariants
//! Order is kept. Without jitter a packet arrives at exactly its departure + `delay`, and the line, while busy, runs
//! at exactly `rate` (remainders of a nanosecond are carried).
//!
//! # Example
//! `FromPort(lan) -> Link(10 Mbit/s, 20 ms, limit = 100 packets, loss = 0.1 %) -> ToPort(wan)`
//!
//! # Source
//! A single-server queue (Lindley's recursion) followed by a delay line.

use super::delay::MAX_DELAY;
use super::delay_line::{DelayLine, jittered};
use crate::meter::RATE_RANGE;
use crate::plumbing::reader::{Reader, as_any};
use crate::queue::fifo::{FifoConfig, read_config};
use crate::queue::{FifoQueue, QueueCounters};
use crate::schedule::{Transmitter, TransmitterConfig};
use perhop_element::{CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, TimerId};
use perhop_packet::{Batch, DropReason, Packet};
use perhop_units::{Duration, Instant, Probability, Rate};

/// What a link is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// The queue's bound, the line's rate and what it adds to each frame.
    pub queue: FifoConfig,
    /// Mean propagation delay.
    pub delay: Duration,
    /// Greatest deviation to either side, at most `delay`.
    pub jitter: Duration,
    /// Probability that a packet is lost on the way.
    pub loss: Probability,
    /// Whether anything passes.
    pub up: bool,
}

/// The element.
#[derive(Debug)]
pub struct Link {
    config: LinkConfig,
    state: LinkState,
}

/// What moves to a successor.
#[derive(Debug)]
struct LinkState {
    queue: FifoQueue,
    counters: QueueCounters,
    transmitter: Transmitter,
    line: DelayLine,
    sent_packets: u64,
    sent_bytes: u64,
    lost: u64,
}

impl LinkState {
    fn new(config: &LinkConfig) -> Self {
        let queue = config.queue;
        let transmitter = TransmitterConfig {
            rate: queue.rate,
            overhead_bytes: queue.overhead,
            ..TransmitterConfig::default()
        };
        Self {
            queue: FifoQueue::new(queue.limit, queue.rate, queue.overhead),
            counters: QueueCounters::default(),
            transmitter: Transmitter::new(transmitter),
            line: DelayLine::new(),
            sent_packets: 0,
            sent_bytes: 0,
            lost: 0,
        }
    }
}

impl Link {
    /// An idle link.
    pub fn new(config: LinkConfig) -> Self {
        Self { config, state: LinkState::new(&config) }
    }

    /// Changes every parameter. Packets inside stay; those on the line or on the way keep their times. Wake the
    /// element afterwards: a faster line may be free earlier.
    pub fn reconfigure(&mut self, config: LinkConfig) {
        let queue = config.queue;
        self.state.queue.set_limit(queue.limit, queue.rate, queue.overhead);
        self.state.transmitter.set_rate(queue.rate);
        self.state.transmitter.set_overhead(queue.overhead);
        self.config = config;
    }

    /// Packets waiting for the line.
    pub fn queued_packets(&self) -> usize {
        self.state.queue.len()
    }

    /// Puts a packet on the line, which is free.
    fn send(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let state = &mut self.state;
        let end = state.transmitter.send(cx.now(), packet.len() as u32);
        state.sent_packets += 1;
        state.sent_bytes += packet.len() as u64;
        if self.config.loss != Probability::ZERO && self.config.loss.happens(cx.random()) {
            state.lost += 1;
            return cx.drop(packet, DropReason::EmulatedLoss);
        }
        let random = if self.config.jitter == Duration::ZERO { 0 } else { cx.random() };
        let at = end + jittered(self.config.delay, self.config.jitter, random);
        state.line.push_in_order(at, packet);
    }

    /// Drops everything inside.
    fn cut(&mut self, cx: &mut Cx<'_>) {
        let mut inside = Batch::new();
        self.drain(&mut inside);
        for packet in inside.drain() {
            cx.drop(packet, DropReason::PortDown);
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        if !self.config.up {
            return self.cut(cx);
        }
        let now = cx.now();
        while self.state.transmitter.has_room(now) {
            let Some(packet) = self.state.queue.pop() else { break };
            self.send(cx, packet);
        }
        while let Some(packet) = self.state.line.pop_due(now) {
            cx.emit(0, packet);
        }
        let free = (!self.state.queue.is_empty()).then(|| self.state.transmitter.next_room(now));
        let next: Option<Instant> = free.into_iter().chain(self.state.line.next_due()).min();
        if let Some(at) = next {
            cx.timer_at(at);
        }
    }
}

impl Element for Link {
    fn type_name(&self) -> &'static str {
        "Link"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            let len = packet.len();
            if !self.config.up {
                cx.drop(packet, DropReason::PortDown);
                continue;
            }
            if self.state.queue.is_empty() && self.state.transmitter.has_room(cx.now()) {
                self.send(cx, packet);
                continue;
            }
            let state = &mut self.state;
            match state.queue.offer(packet) {
                Ok(()) => state.counters.taken(len, &state.queue),
                Err(packet) => {
                    state.counters.refused(&packet);
                    cx.drop(packet, DropReason::QueueFull);
                }
            }
        }
        self.run(cx);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.run(cx);
    }

    fn held(&self) -> u64 {
        (self.state.queue.len() + self.state.line.len()) as u64
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        let state = &self.state;
        sink.counter("sent_packets", state.sent_packets);
        sink.counter("sent_bytes", state.sent_bytes);
        sink.counter("lost_packets", state.lost);
        sink.counter("busy_ns", state.transmitter.busy().0);
        sink.gauge("on_the_way", state.line.len() as u64);
        state.counters.report(&state.queue, sink);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = LinkState::new(&self.config);
        Some(Box::new(std::mem::replace(&mut self.state, empty)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        self.state = *state.downcast::<LinkState>()?;
        self.reconfigure(self.config);
        Ok(())
    }

    fn drain(&mut self, out: &mut Batch) {
        self.state.line.drain(out);
        while let Some(packet) = self.state.queue.pop() {
            out.push(packet);
        }
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Link",
    synopsis: "one direction of an emulated link: rate, queue, delay, jitter, loss",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, _| {
        let mut r = Reader::new(args);
        let rate = r.required_in("rate", Some(0), Rate::ZERO..=*RATE_RANGE.end());
        let delay = r.required_in("delay", Some(1), Duration::ZERO..=MAX_DELAY);
        let jitter = r.optional_in("jitter", None, Duration::ZERO, Duration::ZERO..=delay);
        let loss = r.optional("loss", None).unwrap_or_default();
        let up = r.flag("up", true);
        let queue = read_config(&mut r, None, rate);
        r.finish(Box::new(Link::new(LinkConfig { queue, delay, jitter, loss, up })) as _)
    },
    sample: |rng| {
        let (rate, delay) = (100 + rng.next_u32() % 10_000, 1 + rng.next_u32() % 30);
        format!(
            "{rate} kbit/s, {delay} ms, jitter = 1 ms, loss = {} %, limit = 20 packets",
            rng.next_u32() % 20
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use crate::plumbing::reader::tests::args;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_units::QueueLimit;
    use proptest::prelude::*;

    fn bench(text: &str) -> Bench {
        Bench::with_seed((TYPE.build)(&args(text), &mut BuildCx::default()).unwrap(), 1, 7)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        /// Lindley's recursion: start = max(arrival, end of the one before).
        #[test]
        fn arrivals_are_those_of_a_single_server_queue(
            list in prop::collection::vec((0u64..1_500_000, 60u16..1400), 1..100),
            limit in 1u32..6,
            delay in 0u64..5_000_000,
        ) {
            // One byte a µs.
            let mut bench = bench(&format!("8 Mbit/s, {delay} ns, limit = {limit} packets"));
            let (mut starts, mut end, mut expected) = (vec![], 0, vec![]);
            for (gap, ip_len) in list {
                bench.run_for(Duration(gap));
                let now = bench.now().0;
                bench.push(&udp(ip_len));
                let waiting = starts.iter().filter(|start| **start > now).count();
                if waiting >= limit as usize && end > now {
                    continue;
                }
                let start = end.max(now);
                starts.push(start);
                end = start + (u64::from(ip_len) + 14) * 1000;
                expected.push((Instant(end + delay), ip_len));
            }
            bench.run_for(Duration::from_secs(1));
            let sink = &bench.sink(0).arrived;
            let ours: Vec<_> = sink.iter().map(|(t, p)| (*t, p.meta().layout.ip_len)).collect();
            prop_assert_eq!(ours, expected);
        }
    }

    #[test]
    fn script() {
        // Frames of 1,000 bytes take 1 ms; one on the line, two in the queue.
        let mut bench = bench("8 Mbit/s, 10 ms, limit = 2 packets");
        (0..4).for_each(|_| bench.push(&udp(986)));
        bench.run_until(Instant(20_000_000));
        let times: Vec<_> = bench.arrived(0).iter().map(|(t, _)| t.0 / 1_000_000).collect();
        assert_eq!(times, [11, 12, 13]);
        let mut report: Vec<(String, u64)> = vec![];
        bench.driver.report(bench.node, &mut report);
        let expected = [("sent_packets", 3), ("busy_ns", 3_000_000), ("dropped_queue_full", 1), ("held", 0)];
        for (name, value) in expected {
            assert!(report.contains(&(name.to_owned(), value)), "{name} in {report:?}");
        }
    }

    #[test]
    fn loss_and_a_change_of_rate() {
        let mut lossy = bench("8 Mbit/s, 1 ms, loss = 100 %");
        lossy.push(&udp(986));
        lossy.run_for(Duration::from_millis(5));
        assert_eq!(lossy.arrived(0).len(), 0);

        let mut link = bench("8 Mbit/s, 0 ns");
        (0..3).for_each(|_| link.push(&udp(986)));
        let queue = FifoConfig { limit: QueueLimit::Packets(100), rate: Rate::from_mbit(16), overhead: 0 };
        let (delay, loss) = (Duration::ZERO, Probability::ZERO);
        link.element::<Link>().reconfigure(LinkConfig { queue, delay, jitter: delay, loss, up: true });
        link.run_for(Duration::from_millis(5));
        let times: Vec<_> = link.arrived(0).iter().map(|(t, _)| t.0).collect();
        assert_eq!(times, [1_000_000, 1_500_000, 2_000_000]);
    }
}
