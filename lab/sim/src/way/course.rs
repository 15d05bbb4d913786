//! Packets of one direction that have been promised an arrival.

use perhop_packet::{Packet, prefetch};
use perhop_units::Instant;
use std::collections::VecDeque;

/// A packet that has been promised an arrival.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) packet: Packet,
    /// Its place in the order of the line.
    pub(super) number: u64,
    /// When it came to this machine: routers and disciplines before the line count as waiting too.
    pub(super) came: Instant,
    /// When its first bit goes on the line: until then it is in the queue.
    pub(super) begins: Instant,
    /// When its last bit has left.
    pub(super) ends: Instant,
    /// When it arrives.
    pub(super) arrives: Instant,
    /// Bytes on the wire: here, so that the queue is counted without touching memory that has left the cache.
    pub(super) wire: u32,
    /// Lost on the way.
    pub(super) lost: bool,
}

/// Packets that do not overtake each other, waiting or on their way: they begin and arrive in one order.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub(super) passages: VecDeque<Passage>,
    /// How many of them have begun.
    begun: usize,
}

impl Course {
    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.passages.len() - self.begun
    }

    /// The first that waits.
    pub(super) fn first_waiting(&self) -> Option<&Passage> {
        self.passages.get(self.begun)
    }

    /// The first that waits has begun.
    pub(super) fn begin_first(&mut self) {
        self.begun += 1;
    }

    /// A packet joins those that wait; it arrives with its predecessor at the earliest.
    pub(super) fn push(&mut self, mut passage: Passage) {
        if let Some(before) = self.passages.back() {
            passage.arrives = passage.arrives.max(before.arrives);
        }
        self.passages.push_back(passage);
    }

    /// Takes out what waits.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = Passage> + '_ {
        self.passages.drain(self.begun..)
    }

    /// Takes the first out, which has arrived and so has begun.
    pub(super) fn pop(&mut self) -> Option<Passage> {
        let first = self.passages.pop_front()?;
        self.begun = self.begun.saturating_sub(1);
        self.fetch_ahead();
        Some(first)
    }

    /// Asks for the memory of the packets that arrive next: where many are on the way it has left the cache.
    fn fetch_ahead(&self) {
        if let Some(second) = self.passages.get(1) {
            prefetch(second.packet.meta());
        }
        // Its metadata, where the frame's place stands, was asked for a packet ago.
        if let Some(first) = self.passages.front() {
            prefetch(first.packet.frame());
        }
    }
}
