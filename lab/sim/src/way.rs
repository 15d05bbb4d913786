//! One direction of a link: a queue, a line, the time on the way, and what may go wrong there.
//!
//! A first-in first-out queue in front of a line needs no events of its own: when a packet comes, the time at which
//! its last bit leaves follows from those before it (Lindley's recursion). So a packet costs one event a link, its
//! arrival at the far end. Random decisions are taken when a packet joins the queue, in that order.

use crate::buffers::Buffers;
use crate::random::Stream;
use crate::series::SeriesRecorder;
use perhop_elements::emulate::Opportunities;
use perhop_elements::schedule::{Transmitter, TransmitterConfig};
use perhop_measure::{LinkRecord, QueueSeries};
use perhop_packet::{DropReason, Packet};
use perhop_scenario::{Change, DeliveryTrace, GilbertElliott, Jitter, JitterShape};
use perhop_units::{Duration, Instant, Probability, QueueLimit, Rate};
use std::collections::{BTreeMap, VecDeque};

/// Most waiting times kept of one direction; beyond it every second, then every fourth … is.
const MAX_WAITS: usize = 1 << 18;

/// A packet that has been promised an arrival.
#[derive(Debug)]
struct Passage {
    packet: Packet,
    /// When its first bit goes on the line: until then it is in the queue.
    begins: Instant,
    /// When its last bit has left.
    ends: Instant,
    /// When it arrives.
    arrives: Instant,
    /// Lost on the way.
    lost: bool,
}

/// What takes the place of a rate.
#[derive(Debug)]
enum Line {
    /// Bits at a rate (0: no limit).
    Steady(Transmitter),
    /// Opportunities of a trace.
    Opportunities(Opportunities),
}

/// What a direction counts from the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct WayCounters {
    /// Packets offered.
    pub(crate) offered: u64,
    /// Copies made.
    pub(crate) made: u64,
    /// Packets delivered.
    pub(crate) delivered: u64,
    /// Packets dropped, by reason.
    pub(crate) drops: BTreeMap<&'static str, u64>,
    /// Bytes put on the wire.
    pub(crate) wire_bytes: u64,
    /// Line time used.
    pub(crate) busy: Duration,
}

/// Parameters beside the line.
#[derive(Clone, Debug)]
pub(crate) struct WayConfig {
    pub(crate) rate: Rate,
    pub(crate) trace: Option<DeliveryTrace>,
    pub(crate) delay: Duration,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) loss: Probability,
    pub(crate) burst_loss: Option<GilbertElliott>,
    pub(crate) duplicate: Probability,
    pub(crate) reorder: Probability,
    pub(crate) overhead: u32,
    pub(crate) queue: QueueLimit,
}

impl From<&perhop_scenario::Way> for WayConfig {
    fn from(way: &perhop_scenario::Way) -> Self {
        Self {
            rate: way.rate.unwrap_or(Rate(0)),
            trace: way.trace.clone(),
            delay: way.delay,
            jitter: way.jitter,
            loss: way.loss,
            burst_loss: way.burst_loss,
            duplicate: way.duplicate,
            reorder: way.reorder,
            overhead: way.overhead.get() as u32,
            queue: way.queue,
        }
    }
}

/// What is recorded.
#[derive(Debug)]
struct Recorder {
    window: (Instant, Instant),
    waits: Vec<u64>,
    stride: u64,
    seen: u64,
    queue: Option<SeriesRecorder>,
    wanted: bool,
    bin: Duration,
    bins: Vec<u64>,
    at_start: Option<WayCounters>,
    at_end: Option<WayCounters>,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Way {
    config: WayConfig,
    line: Line,
    up: bool,
    /// Packets on their way and in the queue, in order of arrival at the far end.
    passages: VecDeque<Passage>,
    /// Packets that overtook, by time.
    early: Vec<Passage>,
    /// How many of `passages` have begun.
    begun: usize,
    queued_bytes: u64,
    /// The line is taken until then by a packet that began before its rate changed.
    taken_until: Instant,
    bad: bool,
    random: Stream,
    counters: WayCounters,
    recorder: Recorder,
}

impl Way {
    pub(crate) fn new(config: WayConfig, window: (Instant, Instant), bin: Duration, random: Stream) -> Self {
        let line = match &config.trace {
            Some(trace) => Opportunities::new(trace.opportunities_ms.as_slice().into(), Instant::ZERO),
            None => None,
        };
        let line = line.map_or_else(
            || {
                Line::Steady(Transmitter::new(TransmitterConfig {
                    rate: config.rate,
                    overhead_bytes: config.overhead,
                    ..TransmitterConfig::default()
                }))
            },
            Line::Opportunities,
        );
        let recorder = Recorder {
            window,
            waits: Vec::new(),
            stride: 1,
            seen: 0,
            queue: None,
            wanted: false,
            bin,
            bins: Vec::new(),
            at_start: None,
            at_end: None,
        };
        Self {
            config,
            line,
            up: true,
            passages: VecDeque::new(),
            early: Vec::new(),
            begun: 0,
            queued_bytes: 0,
            taken_until: Instant::ZERO,
            bad: false,
            random,
            counters: WayCounters::default(),
            recorder,
        }
    }

    /// Records the queue's length at this interval; kept if it dropped anything or is `wanted` in any case.
    pub(crate) fn record_queue(&mut self, interval: Duration, wanted: bool) {
        self.recorder.wanted = wanted;
        self.recorder.queue = Some(SeriesRecorder::new("queue", interval));
    }

    /// Counters from the start.
    pub(crate) fn counters(&self) -> &WayCounters {
        &self.counters
    }

    /// Packets inside.
    pub(crate) fn held(&self) -> u64 {
        (self.passages.len() + self.early.len()) as u64
    }

    /// When the line is free for another packet.
    pub(crate) fn free_at(&self, now: Instant) -> Instant {
        match &self.line {
            Line::Steady(line) => line.next_room(now).max(self.taken_until),
            Line::Opportunities(_) => self.passages.back().map_or(now, |p| p.ends.max(now)),
        }
    }

    /// A packet joins the queue.
    pub(crate) fn offer(&mut self, now: Instant, packet: Packet, buffers: &mut Buffers) {
        self.begin(now);
        self.counters.offered += 1;
        if !self.up {
            return self.discard(now, packet, DropReason::PortDown);
        }
        let wire = packet.len() as u64 + u64::from(self.config.overhead);
        if self.is_full(now, wire) {
            return self.discard(now, packet, DropReason::QueueFull);
        }
        let copy = (self.config.duplicate != Probability::ZERO
            && self.config.duplicate.happens(self.random.bits()))
        .then(|| buffers.copy(packet.frame()))
        .flatten();
        self.commit(now, packet);
        if let Some(copy) = copy {
            self.counters.made += 1;
            self.commit(now, copy);
        }
    }

    /// Whether a packet of `wire` bytes finds no room. The packet on the line is not in the queue.
    fn is_full(&self, now: Instant, wire: u64) -> bool {
        if self.free_at(now) <= now {
            return false;
        }
        let limit = match self.config.queue {
            QueueLimit::Packets(n) => return self.passages.len() - self.begun >= n as usize,
            QueueLimit::Bytes(n) => n,
            QueueLimit::Time(ns) => self.config.rate.bytes_in(Duration(ns)).get(),
        };
        self.queued_bytes + wire > limit
    }

    /// Promises the packet its times.
    fn commit(&mut self, now: Instant, packet: Packet) {
        let frame = packet.len() as u32;
        let (begins, ends) = self.line_times(now, frame);
        let lost = self.is_lost();
        let skips =
            self.config.reorder != Probability::ZERO && self.config.reorder.happens(self.random.bits());
        let wire = u64::from(frame + self.config.overhead);
        self.counters.wire_bytes += wire;
        // Routers and disciplines before the line count too: since the packet came to this machine.
        self.record(begins, ends, begins.since(packet.meta().received_at), wire);
        if skips {
            self.early.push(Passage { packet, begins, ends, arrives: ends, lost });
            return;
        }
        let mut arrives = ends + self.delay();
        if let Some(before) = self.passages.back() {
            arrives = arrives.max(before.arrives);
        }
        if begins > now {
            self.queued_bytes += wire;
        } else {
            self.begun = self.passages.len() + 1;
        }
        self.passages.push_back(Passage { packet, begins, ends, arrives, lost });
        if let Some(queue) = &mut self.recorder.queue {
            queue.length(now, self.queued_bytes);
        }
    }

    fn line_times(&mut self, now: Instant, frame: u32) -> (Instant, Instant) {
        match &mut self.line {
            Line::Steady(line) => {
                let from = now.max(self.taken_until);
                let begins = line.next_room(from);
                let ends = line.send(from, frame);
                self.counters.busy = self.counters.busy + ends.since(begins);
                (begins, ends)
            }
            Line::Opportunities(trace) => {
                let from = self.passages.back().map_or(now, |before| before.ends.max(now));
                let ends = trace.send(from, frame + self.config.overhead);
                // A packet waits until the opportunity that takes its last byte.
                (if ends > now { ends } else { now }, ends)
            }
        }
    }

    fn is_lost(&mut self) -> bool {
        let mut lost = false;
        if let Some(model) = self.config.burst_loss {
            let flip = if self.bad { model.r } else { model.p };
            if flip.happens(self.random.bits()) {
                self.bad = !self.bad;
            }
            let loss = if self.bad { model.loss_bad } else { model.loss_good };
            lost |= loss != Probability::ZERO && loss.happens(self.random.bits());
        }
        if self.config.loss != Probability::ZERO {
            lost |= self.config.loss.happens(self.random.bits());
        }
        lost
    }

    fn delay(&mut self) -> Duration {
        let Some(jitter) = self.config.jitter else { return self.config.delay };
        let mean = self.config.delay.as_nanos() as f64;
        let spread = jitter.spread.as_nanos() as f64;
        let deviation = match jitter.shape {
            JitterShape::Uniform => (2.0 * self.random.unit() - 1.0) * spread,
            JitterShape::Normal => {
                // Box and Muller 1958.
                let (u, v) = (self.random.unit(), self.random.unit());
                libm::sqrt(-2.0 * libm::log(u)) * libm::cos(std::f64::consts::TAU * v) * spread
            }
            // Pareto of shape 3 and scale m has the standard deviation m·√3/2.
            JitterShape::Pareto => {
                (libm::pow(self.random.unit(), -1.0 / 3.0) - 1.0) * spread * 2.0 / libm::sqrt(3.0)
            }
        };
        Duration((mean + deviation).max(0.0) as u64)
    }

    /// Counts as begun what has begun by `now`.
    fn begin(&mut self, now: Instant) {
        while let Some(passage) = self.passages.get(self.begun).filter(|p| p.begins <= now) {
            self.begun += 1;
            self.queued_bytes -= passage.packet.len() as u64 + u64::from(self.config.overhead);
            if let Some(queue) = &mut self.recorder.queue {
                queue.length(passage.begins, self.queued_bytes);
            }
        }
    }

    fn discard(&mut self, now: Instant, packet: Packet, reason: DropReason) {
        *self.counters.drops.entry(name_of(reason)).or_default() += 1;
        if let Some(queue) = &mut self.recorder.queue {
            queue.dropped(now, 1);
        }
        packet.release();
    }

    fn record(&mut self, begins: Instant, ends: Instant, wait: Duration, wire: u64) {
        let recorder = &mut self.recorder;
        if begins >= recorder.window.0 && begins < recorder.window.1 {
            if recorder.seen.is_multiple_of(recorder.stride) {
                if recorder.waits.len() == MAX_WAITS {
                    let mut keep = false;
                    recorder.waits.retain(|_| {
                        keep = !keep;
                        keep
                    });
                    recorder.stride *= 2;
                }
                recorder.waits.push(wait.as_nanos());
            }
            recorder.seen += 1;
        }
        let slot = (ends.as_nanos() / recorder.bin.as_nanos().max(1)) as usize;
        if slot < 10_000_000 {
            if recorder.bins.len() <= slot {
                recorder.bins.resize(slot + 1, 0);
            }
            recorder.bins[slot] += wire;
        }
    }

    /// When the next packet arrives at the far end.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        let first = self.passages.front().map(|p| p.arrives);
        self.early.iter().map(|p| p.arrives).chain(first).min()
    }

    /// The next packet that has arrived by `now`.
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<Packet> {
        loop {
            let early = self.early.iter().position(|p| p.arrives <= now);
            let passage = if let Some(index) = early {
                self.early.remove(index)
            } else if self.passages.front().is_some_and(|p| p.arrives <= now) {
                self.begin(now);
                self.begun -= 1;
                self.passages.pop_front()?
            } else {
                return None;
            };
            if passage.lost {
                *self.counters.drops.entry(name_of(DropReason::EmulatedLoss)).or_default() += 1;
                if let Some(queue) = &mut self.recorder.queue {
                    queue.dropped(now, 1);
                }
                passage.packet.release();
                continue;
            }
            self.counters.delivered += 1;
            return Some(passage.packet);
        }
    }

    /// Applies a change of the scenario.
    pub(crate) fn change(&mut self, now: Instant, change: &Change) {
        self.begin(now);
        if let Some(loss) = change.loss {
            self.config.loss = loss;
        }
        if let Some(delay) = change.delay {
            self.config.delay = delay;
        }
        if let Some(up) = change.up {
            self.up = up;
            if !up {
                self.cut(now);
            }
        }
        if let Some(rate) = change.rate {
            self.set_rate(now, rate);
        }
    }

    /// A partition: what is on the way or waits is gone.
    fn cut(&mut self, now: Instant) {
        let passages = std::mem::take(&mut self.passages).into_iter().chain(std::mem::take(&mut self.early));
        for passage in passages {
            *self.counters.drops.entry(name_of(DropReason::PortDown)).or_default() += 1;
            passage.packet.release();
        }
        self.begun = 0;
        self.queued_bytes = 0;
        if let Line::Steady(line) = &mut self.line {
            *line = Transmitter::new(line.config());
        }
        if let Some(queue) = &mut self.recorder.queue {
            queue.length(now, 0);
        }
    }

    /// What has begun keeps its times; what waits gets new ones.
    fn set_rate(&mut self, now: Instant, rate: Rate) {
        self.config.rate = rate;
        let Line::Steady(line) = &mut self.line else { return };
        let config = TransmitterConfig { rate, ..line.config() };
        let mut fresh = Transmitter::new(config);
        let waiting: Vec<Passage> = self.passages.drain(self.begun..).collect();
        // The line is taken until the packet on it has left.
        let free = self.passages.back().map_or(now, |p| p.ends.max(now));
        for mut passage in waiting {
            let on_the_way = passage.arrives.since(passage.ends);
            self.counters.busy = Duration(
                self.counters.busy.as_nanos().saturating_sub(passage.ends.since(passage.begins).as_nanos()),
            );
            passage.begins = fresh.next_room(free);
            passage.ends = fresh.send(free, passage.packet.len() as u32);
            self.counters.busy = self.counters.busy + passage.ends.since(passage.begins);
            passage.arrives = passage.ends + on_the_way;
            if let Some(before) = self.passages.back() {
                passage.arrives = passage.arrives.max(before.arrives);
            }
            self.passages.push_back(passage);
        }
        self.taken_until = free;
        self.line = Line::Steady(fresh);
    }

    /// The window begins: what was counted so far does not count.
    pub(crate) fn window_begins(&mut self, now: Instant) {
        self.begin(now);
        self.recorder.at_start = Some(self.counters.clone());
    }

    /// The window ends: what is counted from now on does not count. Line time and bytes that were promised beyond it do
    /// not belong to it.
    pub(crate) fn window_ends(&mut self, now: Instant) {
        self.begin(now);
        let mut counters = self.counters.clone();
        let beyond: u64 = self.passages.iter().map(|p| p.ends.since(p.begins.max(now)).as_nanos()).sum();
        counters.busy = Duration(counters.busy.as_nanos().saturating_sub(beyond));
        let waiting = self.passages.iter().skip(self.begun);
        let waiting: u64 = waiting.map(|p| p.packet.len() as u64 + u64::from(self.config.overhead)).sum();
        counters.wire_bytes = counters.wire_bytes.saturating_sub(waiting);
        self.recorder.at_end = Some(counters);
    }

    /// What was recorded.
    pub(crate) fn finish(
        mut self,
        link: usize,
        way: usize,
        end: Instant,
    ) -> (LinkRecord, Option<QueueSeries>) {
        self.begin(end);
        let dropped = !self.counters.drops.is_empty();
        let wanted = self.recorder.wanted;
        if self.recorder.at_end.is_none() {
            self.window_ends(end);
        }
        let before = self.recorder.at_start.take().unwrap_or_default();
        let after = self.recorder.at_end.take().unwrap_or_default();
        let mut drops = BTreeMap::new();
        for (reason, count) in &after.drops {
            let inside = count - before.drops.get(reason).copied().unwrap_or(0);
            if inside > 0 {
                drops.insert((*reason).to_owned(), inside);
            }
        }
        let record = LinkRecord {
            link,
            way,
            busy: Duration(after.busy.as_nanos().saturating_sub(before.busy.as_nanos())),
            wire_bytes: after.wire_bytes.saturating_sub(before.wire_bytes),
            drops,
            waits_ns: std::mem::take(&mut self.recorder.waits),
            queues: Vec::new(),
            bins: std::mem::take(&mut self.recorder.bins),
        };
        for passage in self.passages.drain(..).chain(self.early.drain(..)) {
            passage.packet.release();
        }
        (record, self.recorder.queue.take().filter(|_| wanted || dropped).map(|q| q.finish(end)))
    }
}

/// Name of a reason; those used here have constant names.
fn name_of(reason: DropReason) -> &'static str {
    match reason {
        DropReason::QueueFull => "queue_full",
        DropReason::EmulatedLoss => "emulated_loss",
        _ => "port_down",
    }
}
