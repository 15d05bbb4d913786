//! One class: its queue and counters.

use super::super::leaves::Waiting;
use crate::queue::{FifoQueue, MAX_PACKETS};
use perhop_element::CounterSink;
use perhop_packet::Packet;
use perhop_units::{Duration, Instant, QueueLimit, Rate};

/// The state of a class.
#[derive(Debug)]
pub(super) struct Class {
    queue: FifoQueue,
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
            over_loss: 0,
            packets: 0,
            bytes: 0,
            dropped: 0,
            late: 0,
        }
    }

    /// Bytes of a packet on the line.
    pub(super) fn wire(&self, len: usize) -> u64 {
        len as u64 + u64::from(self.queue.overhead())
    }

    /// Appends a packet; the queue itself has room for all there may be.
    pub(super) fn take(&mut self, packet: Packet) {
        if let Err(packet) = self.queue.offer(packet) {
            debug_assert!(false, "more packets than a queue holds");
            packet.release();
        }
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

    pub(super) fn waiting(&self, now: Instant) -> Waiting {
        let waited = self.queue.front_meta().map_or(Duration::ZERO, |meta| now.since(meta.queued_at));
        let head = self.queue.front_len().map_or(0, |len| self.wire(len));
        Waiting { bytes: self.queue.bytes().0, head, waited }
    }

    /// Takes the oldest packet to send it.
    pub(super) fn send(&mut self, now: Instant, bound: Option<Duration>) -> Option<Packet> {
        let packet = self.queue.pop()?;
        self.packets += 1;
        self.bytes += packet.len() as u64;
        self.late += u64::from(bound.is_some_and(|bound| now.since(packet.meta().queued_at) > bound));
        Some(packet)
    }

    /// Takes the oldest packet to drop it.
    pub(super) fn lose(&mut self) -> Option<Packet> {
        let packet = self.queue.pop()?;
        self.dropped += 1;
        Some(packet)
    }

    pub(super) fn drain(&mut self, mut each: impl FnMut(Packet)) {
        while let Some(packet) = self.queue.pop() {
            each(packet);
        }
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
