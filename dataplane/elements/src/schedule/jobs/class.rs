//! One class: its queue, its credit, and what it has lost.

use super::law::{Backlog, JobsClass, Losses};
use crate::queue::{FifoQueue, MAX_PACKETS};
use perhop_element::CounterSink;
use perhop_packet::Packet;
use perhop_units::{Bytes, Duration, Instant, QueueLimit, Rate, Tokens};

/// The state of a class.
#[derive(Debug)]
pub(super) struct Class {
    queue: FifoQueue,
    /// What its rate has earned, less what it sent, in 10⁻⁹ bit.
    credit: i128,
    pub(super) losses: Losses,
    pub(super) over_loss: u64,
    packets: u64,
    bytes: u64,
    dropped: u64,
    late: u64,
}

impl Class {
    pub(super) fn new(overhead: u32) -> Self {
        Self {
            // All classes together are bounded elsewhere.
            queue: FifoQueue::new(QueueLimit::Packets(MAX_PACKETS), Rate::ZERO, overhead),
            credit: 0,
            losses: Losses::default(),
            over_loss: 0,
            packets: 0,
            bytes: 0,
            dropped: 0,
            late: 0,
        }
    }

    fn wire(&self, len: usize) -> Bytes {
        Bytes(len as u64 + u64::from(self.queue.overhead()))
    }

    /// Appends a packet; the queue itself has room for all there may be.
    pub(super) fn take(&mut self, packet: Packet) {
        self.losses.offered += self.wire(packet.len()).0;
        if let Err(packet) = self.queue.offer(packet) {
            debug_assert!(false, "more packets than a queue holds");
            packet.release();
        }
    }

    /// Bytes of the oldest packet, overhead included.
    pub(super) fn front_bytes(&self) -> Option<Bytes> {
        self.queue.front_len().map(|len| self.wire(len))
    }

    pub(super) fn front_len(&self) -> Option<usize> {
        self.queue.front_len()
    }

    pub(super) fn packets_waiting(&self) -> u64 {
        self.queue.len() as u64
    }

    pub(super) fn frame_bytes(&self) -> u64 {
        self.queue.frame_bytes()
    }

    pub(super) fn backlog(&self, now: Instant) -> Backlog {
        let waited = self.queue.front_meta().map_or(Duration::ZERO, |meta| now.since(meta.queued_at));
        Backlog { bytes: self.queue.bytes().0, waited }
    }

    pub(super) fn credit(&self) -> i128 {
        self.credit
    }

    /// Earns credit, if it has packets.
    pub(super) fn earn(&mut self, rate: Rate, time: Duration) {
        if !self.queue.is_empty() {
            self.credit += i128::from(rate.earned(time).0);
        }
    }

    /// Begins to have packets with this credit: what it had or owed is forgotten.
    pub(super) fn begin(&mut self, credit: i128) {
        self.credit = credit;
    }

    /// Takes the oldest packet to send it.
    pub(super) fn send(&mut self, now: Instant, bound: Option<Duration>) -> Option<Packet> {
        let packet = self.queue.pop()?;
        self.credit -= i128::from(self.wire(packet.len()).0) * i128::from(Tokens::PER_BYTE);
        self.packets += 1;
        self.bytes += packet.len() as u64;
        self.late += u64::from(bound.is_some_and(|bound| now.since(packet.meta().queued_at) > bound));
        Some(packet)
    }

    /// Takes the oldest packet to drop it, and whether that is more than is allowed.
    pub(super) fn lose(&mut self, config: &JobsClass) -> Option<(Packet, bool)> {
        let packet = self.queue.pop()?;
        let len = self.wire(packet.len());
        let over = !self.losses.allow(config, len);
        self.losses.lost += len.0;
        self.dropped += 1;
        Some((packet, over))
    }

    /// Everything is empty: losses so far do not count any more.
    pub(super) fn begin_anew(&mut self) {
        (self.losses, self.credit) = (Losses::default(), 0);
    }

    pub(super) fn drain(&mut self, mut each: impl FnMut(Packet)) {
        while let Some(packet) = self.queue.pop() {
            each(packet);
        }
        self.begin_anew();
    }

    /// Takes over a predecessor.
    pub(super) fn adopt(&mut self, mut old: Self) {
        self.queue.adopt(&mut old.queue);
        let queue = std::mem::replace(&mut self.queue, old.queue);
        *self = Self { queue, ..old };
    }

    pub(super) fn report(&self, name: &str, sink: &mut dyn CounterSink) {
        let counters = [
            ("packets", self.packets),
            ("bytes", self.bytes),
            ("dropped", self.dropped),
            ("late", self.late),
            ("over_loss", self.over_loss),
        ];
        for (what, value) in counters {
            sink.counter(&format!("{what}_{name}"), value);
        }
        sink.gauge(&format!("backlog_bytes_{name}"), self.queue.frame_bytes());
        sink.gauge(&format!("backlog_packets_{name}"), self.queue.len() as u64);
    }
}
