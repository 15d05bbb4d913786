//! # Synopsis
//! `Link(rate, delay [, jitter] [, shape] [, loss] [, burst] [, duplicate] [, reorder] [, trace] [, limit] [, overhead])`
//! is one direction of an emulated link.
//!
//! # Ports
//! Input 0: packets at the near end. Output 0: packets at the far end.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `rate` (1st) | rate | bit/s at frame length + `overhead` | required | 0 = no limit, 1 … 10¹² |
//! | `delay` (2nd) | time | ns | required | 0 … 1 h |
//! | `jitter` | time | ns | 0 | 0 … 1 h |
//! | `shape` | `uniform`, `normal`, `pareto` | | `uniform` | |
//! | `loss` | probability | | 0 | 0 … 100 % |
//! | `burst` | four probabilities `p r good bad` | | none | 0 … 100 % |
//! | `duplicate`, `reorder` | probability | | 0 | 0 … 100 % |
//! | `trace` | numbers | ms | none | non-decreasing, at most 1,048,576 |
//! | `up` | yes, no | | yes | |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//!
//! # Behaviour
//! A packet that finds the line busy waits in a drop-tail queue (`queue_full`); the packet on the line is not in the
//! queue. Each occupies the line for its wire time, may then be lost at random (`emulated_loss`) and arrives `delay`
//! after its last bit left, moved at random: by up to ± `jitter` (`uniform`), normally distributed with `jitter` as
//! standard deviation, never below zero (`normal`), or later by a Pareto excess of that standard deviation (`pareto`).
//! Nothing overtakes, except a packet that `reorder` lets skip the delay. `loss` is independent; `burst` steps a model of
//! a good and a bad state once a packet (to bad with `p`, back with `r`) and loses with the state's probability. A packet
//! that `duplicate` strikes is queued twice. With `trace` the line has no rate but opportunities at these instants
//! since the link began, repeated after the last; each carries 1,500 bytes of IP packets (Ethernet header and `overhead`
//! cost nothing), and a packet waits for the one that takes its last byte. With `up = no` the link is cut: what is inside and what comes
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
//! A single-server queue (Lindley's recursion) followed by a delay line. Bursts: Gilbert 1960, Elliott 1963. Traces: the
//! form of Mahimahi (Netravali et al. 2015).

use super::chance::{BurstLoss, JitterShape};
use super::delay::MAX_DELAY;
use super::delay_line::DelayLine;
use super::opportunities::Opportunities;
use crate::meter::RATE_RANGE;
use crate::plumbing::adapter::as_any;
use crate::queue::fifo::{FifoConfig, read_config};
use crate::queue::{FifoQueue, LengthRange, MAX_WAITS, QueueCounters, ThinnedLog, Wait};
use crate::schedule::{Transmitter, TransmitterConfig};
use perhop_element::{
    CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, Reader, TimerId,
};
use perhop_packet::{Batch, DropReason, Packet};
use perhop_units::{Duration, Instant, Probability, Rate};
use std::str::FromStr;
use std::sync::Arc;

/// Longest trace.
const MAX_OPPORTUNITIES: usize = 1 << 20;

/// What a link is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// The queue's bound, the line's rate and what it adds to each frame.
    pub queue: FifoConfig,
    /// Mean propagation delay.
    pub delay: Duration,
    /// Greatest (uniform) or standard deviation of the delay.
    pub jitter: Duration,
    /// How the delay deviates.
    pub shape: JitterShape,
    /// Probability that a packet is lost on the way.
    pub loss: Probability,
    /// Bursts of loss.
    pub burst: Option<BurstLoss>,
    /// Probability that a packet is queued twice.
    pub duplicate: Probability,
    /// Probability that a packet skips the delay.
    pub reorder: Probability,
    /// Opportunities of 1,500 bytes of IP packets instead of a rate, ms since the link began; none: the rate.
    pub trace: Option<Arc<[u32]>>,
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
    /// The line of a trace; begins with the first packet or wake-up.
    opportunities: Option<Opportunities>,
    /// When the first packet in the queue has its opportunity.
    taken_at: Option<Instant>,
    /// State of the burst model.
    bad: bool,
    line: DelayLine,
    sent_packets: u64,
    sent_bytes: u64,
    lost: u64,
    /// Nobody asks as a rule.
    waits: Option<Box<ThinnedLog<Wait>>>,
    /// Likewise.
    range: Option<LengthRange>,
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
            opportunities: None,
            taken_at: None,
            bad: false,
            line: DelayLine::new(),
            sent_packets: 0,
            sent_bytes: 0,
            lost: 0,
            waits: None,
            range: None,
        }
    }

    /// The queue is about to change.
    fn lasted(&mut self, now: Instant) {
        if let Some(range) = &mut self.range {
            range.lasted(now, self.queue.bytes().0);
        }
    }
}

impl Link {
    /// An idle link.
    pub fn new(config: LinkConfig) -> Self {
        let state = LinkState::new(&config);
        Self { config, state }
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

    /// Keeps from now on how long each packet waited, from [`perhop_packet::Meta::received_at`] until the line began on
    /// it, or, on the line of a trace, until its opportunity: [`MAX_WAITS`] at most.
    pub fn log_waits(&mut self) {
        self.state.waits.get_or_insert_with(|| Box::new(ThinnedLog::new(MAX_WAITS)));
    }

    /// The waits kept, in the order of the line; keeps no more.
    pub fn take_waits(&mut self) -> Vec<Wait> {
        self.state.waits.take().map_or_else(Vec::new, |log| log.into_kept())
    }

    /// Smallest and largest bytes that waited for the line, overhead included, since the last call; the first one begins.
    pub fn length_range(&mut self, now: Instant) -> [u64; 2] {
        let bytes = self.state.queue.bytes().0;
        self.state.range.get_or_insert(LengthRange::new(now, bytes)).take(now, bytes)
    }

    /// Puts a packet on the line, which is free.
    fn send(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let began = cx.now();
        let end = self.state.transmitter.send(began, packet.len() as u32);
        self.travel(cx, packet, began, end);
    }

    /// A packet that the line began on at `began`, and whose last bit leaves at `end`, goes on its way.
    fn travel(&mut self, cx: &mut Cx<'_>, packet: Packet, began: Instant, end: Instant) {
        let (state, config) = (&mut self.state, &self.config);
        state.sent_packets += 1;
        state.sent_bytes += packet.len() as u64;
        if let Some(waits) = &mut state.waits {
            waits.note(Wait { came: packet.meta().received_at, began });
        }
        let happens = |p: Probability, cx: &mut Cx<'_>| p != Probability::ZERO && p.happens(cx.random());
        let burst = config.burst.is_some_and(|model| model.loses(&mut state.bad, || cx.random()));
        if burst || happens(config.loss, cx) {
            state.lost += 1;
            return cx.drop(packet, DropReason::EmulatedLoss);
        }
        if happens(config.reorder, cx) {
            return state.line.push_by_time(end, packet);
        }
        let delay = config.shape.delay(config.delay, config.jitter, || cx.random());
        state.line.push_in_order(end + delay, packet);
    }

    /// Sends what has its opportunity; when the next has.
    fn take_opportunities(&mut self, cx: &mut Cx<'_>) -> Option<Instant> {
        let now = cx.now();
        loop {
            let state = &mut self.state;
            let len = state.queue.front_len()?;
            let line = state.opportunities.as_mut()?;
            let at = *state.taken_at.get_or_insert_with(|| line.send_frame(now, len as u32));
            if at > now {
                return Some(at);
            }
            state.taken_at = None;
            state.lasted(now);
            let packet = state.queue.pop()?;
            self.travel(cx, packet, at, at);
        }
    }

    /// Begins, ends or exchanges the line of a trace.
    fn follow_trace(&mut self, now: Instant) {
        let state = &mut self.state;
        match (&self.config.trace, &state.opportunities) {
            (Some(trace), Some(line)) if Arc::ptr_eq(line.at_ms(), trace) || line.at_ms() == trace => {}
            (None, None) => {}
            (trace, _) => {
                state.opportunities = trace.clone().and_then(|trace| Opportunities::new(trace, now));
                state.taken_at = None;
            }
        }
    }

    /// Queues a packet or, on a free line, sends it.
    fn offer(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let len = packet.len();
        let traced = self.state.opportunities.is_some();
        if !traced && self.state.queue.is_empty() && self.state.transmitter.has_room(cx.now()) {
            return self.send(cx, packet);
        }
        let state = &mut self.state;
        state.lasted(cx.now());
        match state.queue.offer(packet) {
            Ok(()) => state.counters.taken(len, &state.queue),
            Err(packet) => {
                state.counters.refused(&packet);
                cx.drop(packet, DropReason::QueueFull);
            }
        }
    }

    /// Drops everything inside.
    fn cut(&mut self, cx: &mut Cx<'_>) {
        let mut inside = Batch::new();
        self.state.lasted(cx.now());
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
        self.follow_trace(now);
        let free = if self.state.opportunities.is_some() {
            self.take_opportunities(cx)
        } else {
            self.state.lasted(now);
            while self.state.transmitter.has_room(now) {
                let Some(packet) = self.state.queue.pop() else { break };
                self.send(cx, packet);
            }
            (!self.state.queue.is_empty()).then(|| self.state.transmitter.next_room(now))
        };
        while let Some(packet) = self.state.line.pop_due(now) {
            cx.emit(0, packet);
        }
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
        self.follow_trace(cx.now());
        for packet in batch.drain() {
            if !self.config.up {
                cx.drop(packet, DropReason::PortDown);
                continue;
            }
            let duplicate = self.config.duplicate;
            let twice = duplicate != Probability::ZERO && duplicate.happens(cx.random());
            let copy = if twice { cx.clone(&packet) } else { None };
            self.offer(cx, packet);
            if let Some(copy) = copy {
                self.offer(cx, copy);
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
        self.reconfigure(self.config.clone());
        Ok(())
    }

    fn drain(&mut self, out: &mut Batch) {
        self.state.line.drain(out);
        self.state.taken_at = None;
        while let Some(packet) = self.state.queue.pop() {
            out.push(packet);
        }
    }

    as_any!();
}

/// `p r good bad`, each a probability; a per cent sign may stand apart.
struct Burst(BurstLoss);

impl FromStr for Burst {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let joined = text.replace(" %", "%");
        let values: Result<Vec<Probability>, _> = joined.split_whitespace().map(str::parse).collect();
        match values.map_err(|e| e.to_string())?.as_slice() {
            &[p, r, loss_good, loss_bad] => Ok(Self(BurstLoss { p, r, loss_good, loss_bad })),
            other => Err(format!(
                "four probabilities are wanted, to bad, back, loss in good, loss in bad; here are {}",
                other.len()
            )),
        }
    }
}

/// Non-decreasing numbers of ms.
struct Trace(Arc<[u32]>);

impl FromStr for Trace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |word: &str| format!("\"{word}\" is no number of ms");
        let values: Result<Vec<u32>, _> =
            text.split_whitespace().map(|word| word.parse().map_err(|_| bad(word))).collect();
        let values = values?;
        if values.is_empty() || values.len() > MAX_OPPORTUNITIES {
            return Err(format!("1 to {MAX_OPPORTUNITIES} instants are wanted; here are {}", values.len()));
        }
        match values.windows(2).find(|pair| pair[0] > pair[1]) {
            Some(pair) => Err(format!("{} comes after {}: instants never go back", pair[1], pair[0])),
            None => Ok(Self(values.into())),
        }
    }
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
        let jitter = r.optional_in("jitter", None, Duration::ZERO, Duration::ZERO..=MAX_DELAY);
        let shapes = [
            ("uniform", JitterShape::Uniform),
            ("normal", JitterShape::Normal),
            ("pareto", JitterShape::Pareto),
        ];
        let shape = r.choice("shape", JitterShape::default(), &shapes);
        let loss = r.optional("loss", None).unwrap_or_default();
        let burst = r.optional::<Burst>("burst", None).map(|burst| burst.0);
        let duplicate = r.optional("duplicate", None).unwrap_or_default();
        let reorder = r.optional("reorder", None).unwrap_or_default();
        let trace = r.optional::<Trace>("trace", None).map(|trace| trace.0);
        let up = r.flag("up", true);
        let queue = read_config(&mut r, None, rate);
        let config = LinkConfig { queue, delay, jitter, shape, loss, burst, duplicate, reorder, trace, up };
        r.finish(Box::new(Link::new(config)) as _)
    },
    sample: |rng| {
        let (rate, delay) = (100 + rng.next_u32() % 10_000, 1 + rng.next_u32() % 30);
        format!(
            "{rate} kbit/s, {delay} ms, jitter = 1 ms, loss = {} %, limit = 20 packets{}",
            rng.next_u32() % 20,
            ["", ", shape = pareto", ", burst = 1 % 20 % 0 90 %", ", trace = 0 3 3 9"]
                [rng.next_u32() as usize % 4]
        )
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
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
    fn waits_are_from_the_arrival_to_the_line_or_the_opportunity() {
        let waits = |text: &str| {
            let mut link = bench(text);
            link.push(&udp(986));
            link.element::<Link>().log_waits();
            link.run_for(Duration::from_micros(400));
            for _ in 0..2 {
                let mut packet = link.packet(&udp(986));
                // On its way here it waited in an element before.
                packet.meta_mut().received_at = Instant(100_000);
                link.push_packet(0, packet);
            }
            let element = link.element::<Link>();
            // The scenario changes something meanwhile.
            element.reconfigure(LinkConfig { delay: Duration::from_millis(2), ..element.config.clone() });
            link.run_for(Duration::from_millis(20));
            let waits = link.element::<Link>().take_waits();
            waits.iter().map(|wait| wait.length().0 / 1000).collect::<Vec<_>>()
        };
        assert_eq!(waits("8 Mbit/s, 1 ms"), [900, 1900]);
        assert_eq!(waits("8 Mbit/s, 1 ms, loss = 100 %"), [900, 1900], "they were on the line");
        // 1,500 bytes of IP at 1 ms and at 3 ms: the first waited from 0 on, the second spans both.
        assert_eq!(waits("0 bit/s, 1 ms, trace = 1 3 7"), [1000, 2900, 2900]);
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
        let element = link.element::<Link>();
        element.reconfigure(LinkConfig { queue, ..element.config.clone() });
        link.run_for(Duration::from_millis(5));
        let times: Vec<_> = link.arrived(0).iter().map(|(t, _)| t.0).collect();
        assert_eq!(times, [1_000_000, 1_500_000, 2_000_000]);
    }

    fn counter(bench: &mut Bench, name: &str) -> u64 {
        let mut report: Vec<(String, u64)> = vec![];
        bench.driver.report(bench.node, &mut report);
        report.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v)
    }

    #[test]
    fn a_link_without_a_rate_only_delays_and_a_cut_one_drops_all() {
        let mut link = bench("0 bit/s, 3 ms");
        (0..3).for_each(|_| link.push(&udp(986)));
        link.run_until(Instant(2_999_999));
        assert_eq!(link.arrived(0).len(), 0);
        link.run_until(Instant(3_000_000));
        assert_eq!(link.arrived(0).len(), 3);
        link.push(&udp(986));
        let element = link.element::<Link>();
        element.reconfigure(LinkConfig { up: false, ..element.config.clone() });
        link.driver.wake(link.now(), link.node, TimerId::MAIN);
        link.push(&udp(986));
        link.run_for(Duration::from_millis(9));
        assert_eq!((link.arrived(0).len(), counter(&mut link, "dropped_port_down")), (3, 2));
    }

    #[test]
    fn duplicates_and_packets_that_overtake() {
        let mut twice = bench("8 Mbit/s, 1 ms, duplicate = 100 %, limit = 2 packets");
        twice.push(&udp(986));
        twice.push(&udp(486));
        twice.run_for(Duration::from_millis(9));
        let times: Vec<_> = twice.arrived(0).iter().map(|(t, _)| t.0 / 1000).collect();
        // The fourth finds two in the queue.
        assert_eq!(times, [2_000, 3_000, 3_500]);
        let mut fast = bench("8 Mbit/s, 10 ms, reorder = 50 %");
        (0..200).for_each(|_| fast.push(&udp(986)));
        fast.run_for(Duration::from_millis(300));
        let times: Vec<u64> = fast.arrived(0).iter().map(|(t, _)| t.0 / 1_000_000).collect();
        assert_eq!(times.len(), 101, "one on the line, 100 in the queue");
        assert!(times[0] < 11 && times.windows(2).any(|w| w[0] == w[1]), "{times:?}");
    }

    #[test]
    fn a_trace_lets_packets_go_at_its_instants() {
        let mut link = bench("0 bit/s, 1 ms, trace = 2 2 10, limit = 3 packets");
        (0..4).for_each(|_| link.push(&udp(986)));
        link.run_for(Duration::from_millis(40));
        let times: Vec<_> = link.arrived(0).iter().map(|(t, _)| t.0 / 1_000_000).collect();
        // 3,000 bytes at 2 ms, which three frames of 1,000 bytes fill; the fourth was refused.
        assert_eq!(times, [3, 3, 3]);
        assert_eq!(counter(&mut link, "dropped_queue_full"), 1);
        link.push(&udp(986));
        link.run_for(Duration::from_millis(40));
        assert_eq!(
            link.arrived(0).last().map(|(t, _)| t.0 / 1_000_000),
            Some(41),
            "the last of the fourth pass"
        );
    }

    #[test]
    fn an_opportunity_carries_a_full_packet_whatever_its_frame_adds() {
        let mut link = bench("0 bit/s, 0 ns, trace = 1 2 3, limit = 10 packets, overhead = 24 B");
        [1500, 1500, 750, 750].into_iter().for_each(|ip_len| link.push(&udp(ip_len)));
        link.run_for(Duration::from_millis(9));
        let times: Vec<_> = link.arrived(0).iter().map(|(t, _)| t.0 / 1_000_000).collect();
        assert_eq!(times, [1, 2, 3, 3]);
    }

    #[test]
    fn wrong_bursts_and_traces_are_refused_with_what_is_wanted() {
        let refused = |text: &str| {
            let built = (TYPE.build)(&args(text), &mut BuildCx::default());
            built.err().expect("an error")[0].message.clone()
        };
        assert!(refused("0 bit/s, 0 ns, burst = 1 % 2 %").contains("four probabilities"));
        assert!(refused("0 bit/s, 0 ns, trace = 3 2").contains("2 comes after 3"));
        assert!(refused("0 bit/s, 0 ns, trace = 3 x").contains("\"x\""));
        assert!(refused("0 bit/s, 0 ns, shape = flat").contains("flat"));
        let fine = "0 bit/s, 0 ns, burst = 1 % 20 % 0 0.9, shape = normal, jitter = 5 ms";
        assert!((TYPE.build)(&args(fine), &mut BuildCx::default()).is_ok());
    }
}
