//! The way of single packets through the graph: when each came, when it left, and what stood before it.
//!
//! A sample of the packets that the driver is given is noted by buffer; each noted packet that is handed to a port's
//! transmitter becomes a [`DelaySample`]. The last ones are kept in a ring, all of them in a [`Histogram`].

use crate::Histogram;
use crate::cost::{Clock, Pace};
use perhop_packet::{Batch, Packet, PortId};
use perhop_units::Instant;

/// What is traced.
#[derive(Clone, Copy, Debug)]
pub struct TraceConfig {
    /// The clock that the packets' [`perhop_packet::Meta::received_at`] is of.
    pub clock: Clock,
    /// One packet in so many is traced, on average; 0 counts as 1, every packet.
    pub every: u32,
    /// Samples kept, at least 1: the latest.
    pub keep: usize,
}

impl TraceConfig {
    /// Packets of which one is traced, unless somebody says otherwise.
    pub const EVERY: u32 = 256;
    /// Samples kept, unless somebody says otherwise.
    pub const KEEP: usize = 65_536;
}

/// The delay of one packet between two points of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelaySample {
    /// Number of the sample, from 0.
    pub seq: u64,
    /// When it was received: [`perhop_packet::Meta::received_at`].
    pub received_at: Instant,
    /// From there until it was handed to the port's transmitter, ns.
    pub delay_ns: u64,
    /// The port it left by.
    pub port: PortId,
    /// Frame bytes at departure.
    pub len: u32,
    /// Packets waiting where it came to wait, the most if there are several such places; without those of its own batch.
    pub queue: u32,
    /// Packets received together with it, itself included.
    pub burst: u32,
    /// How many of these came before it.
    pub ahead: u32,
}

/// A packet under way.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Its buffer + 1; 0: nobody.
    buffer: u32,
    queue: u32,
    burst: u32,
    ahead: u32,
    received_at: Instant,
}

/// Packets under way that are told apart: more, and some are not found again, which is counted.
const MARKS: usize = 1 << 16;

/// Takes the samples. Memory is bounded by the pool's buffers (24 bytes each, of 65,536 at most) and the samples kept.
#[derive(Debug)]
pub struct DelayTrace {
    config: TraceConfig,
    pace: Pace,
    /// Packets until the next that is traced.
    left: u32,
    /// By the low bits of the buffer's number.
    marks: Box<[Mark]>,
    /// Whether packets just marked are on their way to where they wait.
    looking: bool,
    ring: Vec<DelaySample>,
    begun: u64,
    departed: u64,
    delays: Histogram,
}

impl DelayTrace {
    pub(crate) fn new(config: TraceConfig, buffers: usize) -> Self {
        let config = TraceConfig { keep: config.keep.max(1), ..config };
        let mut pace = Pace::new(config.every);
        let left = pace.next();
        let slots = buffers.next_power_of_two().min(MARKS);
        let marks = vec![Mark::default(); slots].into();
        let (ring, delays) = (Vec::with_capacity(config.keep), Histogram::default());
        Self { config, pace, left, marks, looking: false, ring, begun: 0, departed: 0, delays }
    }

    /// Packets chosen.
    pub fn begun(&self) -> u64 {
        self.begun
    }
    /// Those of them that left by a port. The others were dropped, ended here, or still wait.
    pub fn departed(&self) -> u64 {
        self.departed
    }
    /// ns of all samples, those no longer kept included.
    pub fn delays(&self) -> &Histogram {
        &self.delays
    }
    /// The samples kept, oldest first: up to [`TraceConfig::keep`] of the latest.
    pub fn samples(&self) -> impl Iterator<Item = &DelaySample> {
        let oldest = if self.ring.len() < self.config.keep { 0 } else { self.at(self.departed) };
        let (new, old) = self.ring.split_at(oldest);
        old.iter().chain(new)
    }
    /// The sample of a number, if it is kept. O(1).
    pub fn sample(&self, seq: u64) -> Option<&DelaySample> {
        self.ring.get(self.at(seq)).filter(|s| s.seq == seq)
    }

    fn at(&self, seq: u64) -> usize {
        (seq % self.config.keep as u64) as usize
    }

    fn slot(&self, buffer: u32) -> usize {
        buffer as usize & (self.marks.len() - 1)
    }

    /// The slot of a packet that is marked. Every packet that leaves is asked, and few are marked: what it says of itself
    /// is near, where the marks are not. A copy says it too, but has a buffer of its own.
    #[inline]
    fn slot_of_marked(&self, packet: &Packet) -> Option<usize> {
        if !packet.meta().traced {
            return None;
        }
        let slot = self.slot(packet.buffer_index());
        (self.marks[slot].buffer == packet.buffer_index() + 1).then_some(slot)
    }

    /// A batch comes into the graph.
    #[inline]
    pub(crate) fn arrive(&mut self, batch: &mut Batch) {
        let n = batch.len() as u32;
        if self.left > n {
            self.left -= n;
        } else {
            self.mark(batch.as_mut_slice());
        }
    }

    fn mark(&mut self, packets: &mut [Packet]) {
        let burst = packets.len() as u32;
        while self.left <= burst {
            let ahead = self.left - 1;
            let packet = &mut packets[ahead as usize];
            packet.meta_mut().traced = true;
            let (buffer, received_at) = (packet.buffer_index(), packet.meta().received_at);
            let slot = self.slot(buffer);
            self.marks[slot] = Mark { buffer: buffer + 1, queue: 0, burst, ahead, received_at };
            self.begun += 1;
            self.left = self.left.saturating_add(self.pace.next());
        }
        self.left -= burst;
        self.looking = true;
    }

    /// Whether packets just marked are on their way to where they wait.
    #[inline]
    pub(crate) fn is_looking(&self) -> bool {
        self.looking
    }

    /// A batch comes to an element that holds so many packets.
    pub(crate) fn meet(&mut self, batch: &Batch, held: u64) {
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        for packet in batch.iter() {
            let Some(slot) = self.slot_of_marked(packet) else { continue };
            let mark = &mut self.marks[slot];
            mark.queue = mark.queue.max(held);
        }
    }

    /// Everything marked has come to where it waits, or farther.
    #[inline]
    pub(crate) fn settled(&mut self) {
        self.looking = false;
    }

    /// A packet is handed to the transmitter of `port`.
    #[inline]
    pub(crate) fn depart(&mut self, port: PortId, packet: &Packet) {
        if let Some(slot) = self.slot_of_marked(packet) {
            self.take(slot, port, packet);
        }
    }

    #[cold]
    fn take(&mut self, slot: usize, port: PortId, packet: &Packet) {
        let Mark { queue, burst, ahead, received_at, .. } = std::mem::take(&mut self.marks[slot]);
        // The marked packet ended elsewhere, and its buffer has another now.
        if packet.meta().received_at != received_at {
            return;
        }
        let delay_ns = (self.config.clock)().saturating_sub(received_at.0);
        let (seq, len) = (self.departed, packet.len() as u32);
        let sample = DelaySample { seq, received_at, delay_ns, port, len, queue, burst, ahead };
        let at = self.at(seq);
        match self.ring.get_mut(at) {
            Some(old) => *old = sample,
            None => self.ring.push(sample),
        }
        self.departed += 1;
        self.delays.record(delay_ns);
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
