//! What is recorded of one direction. A promise is not yet a fact: line time, bytes and waits count when a packet begins
//! on the line.

use super::course::Passage;
use crate::series::SeriesRecorder;
use perhop_elements::queue::ThinnedLog;
use perhop_measure::{LinkRecord, QueueSeries};
use perhop_packet::DropReason;
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;

/// Most waiting times kept of one direction; beyond it every second, then every fourth … is.
const MAX_WAITS: usize = 1 << 18;

/// Most throughput bins kept.
const MAX_BINS: usize = 10_000_000;

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
    /// Packets that the nodes at its ends lost, by the index of the reason: those that were to come here and those that had
    /// arrived. They are outside the direction, so not in its books.
    lost_at_ends: BTreeMap<usize, u64>,
    /// Bytes of the packets that began on the line.
    wire_bytes: u64,
    /// Line time of the packets that began on it, to their ends.
    busy: Duration,
}

/// What is counted of a packet that begins on the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    came: Instant,
    pub(super) begins: Instant,
    ends: Instant,
    pub(super) wire: u32,
}

impl Start {
    /// Of a packet.
    pub(super) fn of(passage: &Passage) -> Self {
        let Passage { came, begins, ends, wire, .. } = *passage;
        Self { came, begins, ends, wire }
    }
}

/// Counters, waits, bins and the queue's length.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) counters: WayCounters,
    /// When the last bit leaves of the packet that began last.
    line_ends: Instant,
    window: (Instant, Instant),
    waits: ThinnedLog<u64>,
    queue: Option<SeriesRecorder>,
    wanted: bool,
    bin: Duration,
    bins: Vec<u64>,
    at_start: Option<WayCounters>,
    at_end: Option<WayCounters>,
}

impl Recorder {
    /// Nothing happened yet.
    pub(super) fn new(window: (Instant, Instant), bin: Duration) -> Self {
        Self {
            counters: WayCounters::default(),
            line_ends: Instant::ZERO,
            window,
            waits: ThinnedLog::new(MAX_WAITS),
            queue: None,
            wanted: false,
            bin,
            bins: Vec::new(),
            at_start: None,
            at_end: None,
        }
    }

    /// Records the queue's length at this interval; kept if it dropped anything or is `wanted` in any case.
    pub(super) fn record_queue(&mut self, interval: Duration, wanted: bool) {
        self.wanted = wanted;
        self.queue = Some(SeriesRecorder::new("queue", interval));
    }

    /// When the last bit leaves of the packet that began last.
    pub(super) fn line_ends(&self) -> Instant {
        self.line_ends
    }

    /// The queue has `bytes` from `at` on.
    pub(super) fn length(&mut self, at: Instant, bytes: u64) {
        if let Some(queue) = &mut self.queue {
            queue.length(at, bytes);
        }
    }

    /// Packets are dropped.
    pub(super) fn dropped(&mut self, now: Instant, reason: DropReason, packets: u32) {
        if packets == 0 {
            return;
        }
        *self.counters.drops.entry(name_of(reason)).or_default() += u64::from(packets);
        if let Some(queue) = &mut self.queue {
            queue.dropped(now, packets);
        }
    }

    /// A node at an end lost packets for the reason of this index.
    pub(super) fn lost_at_end(&mut self, reason: usize, packets: u64) {
        *self.counters.lost_at_ends.entry(reason).or_default() += packets;
    }

    /// A packet begins on the line.
    pub(super) fn begins(&mut self, Start { came, begins, ends, wire }: Start) {
        self.line_ends = ends;
        self.counters.busy = self.counters.busy + ends.since(begins);
        self.counters.wire_bytes += u64::from(wire);
        if begins >= self.window.0 && begins < self.window.1 {
            self.waits.note(begins.since(came).as_nanos());
        }
        self.add_to_bin(ends, i64::from(wire));
    }

    /// The last bit of a packet on the line never leaves.
    pub(super) fn broken_off(&mut self, passage: &Passage) {
        self.counters.wire_bytes -= u64::from(passage.wire);
        self.add_to_bin(passage.ends, -i64::from(passage.wire));
    }

    /// The line carries nothing from now on.
    pub(super) fn cut(&mut self, now: Instant) {
        self.counters.busy = self.counters.busy - self.line_ends.since(now);
        self.line_ends = now;
        self.length(now, 0);
    }

    /// More, or fewer, bytes whose last bit leaves at `ends`.
    fn add_to_bin(&mut self, ends: Instant, bytes: i64) {
        let slot = (ends.as_nanos() / self.bin.as_nanos().max(1)) as usize;
        if slot < MAX_BINS {
            if self.bins.len() <= slot {
                self.bins.resize(slot + 1, 0);
            }
            self.bins[slot] = self.bins[slot].saturating_add_signed(bytes);
        }
    }

    /// The window begins: what was counted so far does not count.
    pub(super) fn window_begins(&mut self, now: Instant) {
        self.at_start = Some(self.counted_by(now));
    }

    /// The window ends: what is counted from now on does not count.
    pub(super) fn window_ends(&mut self, now: Instant) {
        self.at_end = Some(self.counted_by(now));
    }

    /// What was counted by `now`, without the line time behind it of the packet on the line.
    fn counted_by(&self, now: Instant) -> WayCounters {
        let mut counters = self.counters.clone();
        counters.busy = counters.busy - self.line_ends.since(now);
        counters
    }

    /// What was recorded.
    pub(super) fn finish(
        mut self,
        link: usize,
        way: usize,
        end: Instant,
    ) -> (LinkRecord, Option<QueueSeries>) {
        let shown = self.wanted || !self.counters.drops.is_empty();
        if self.at_end.is_none() {
            self.window_ends(end);
        }
        let before = self.at_start.unwrap_or_default();
        let after = self.at_end.unwrap_or_default();
        let mut drops = BTreeMap::new();
        for (reason, count) in &after.drops {
            let inside = count - before.drops.get(reason).copied().unwrap_or(0);
            if inside > 0 {
                drops.insert((*reason).to_owned(), inside);
            }
        }
        for (reason, count) in &after.lost_at_ends {
            let inside = count - before.lost_at_ends.get(reason).copied().unwrap_or(0);
            if inside > 0 {
                let name = DropReason::name_of_index(*reason).unwrap_or_default();
                *drops.entry(name).or_default() += inside;
            }
        }
        let record = LinkRecord {
            link,
            way,
            busy: after.busy - before.busy,
            wire_bytes: after.wire_bytes.saturating_sub(before.wire_bytes),
            drops,
            waits_ns: self.waits.into_kept(),
            queues: Vec::new(),
            bins: self.bins,
        };
        (record, self.queue.filter(|_| shown).map(|queue| queue.finish(end)))
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
