//! Packets on their way, each with the time it arrives.

use perhop_packet::{Batch, Packet};
use perhop_units::{Duration, Instant};
use std::collections::VecDeque;

/// Holds packets until they are due. Grows to what it holds and keeps that memory.
#[derive(Debug, Default)]
pub struct DelayLine {
    on_the_way: VecDeque<(Instant, Packet)>,
}

impl DelayLine {
    /// Nothing on the way.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a packet off, due at `at` but not before its predecessors. O(1).
    pub fn push_in_order(&mut self, at: Instant, packet: Packet) {
        let at = self.on_the_way.back().map_or(at, |(last, _)| at.max(*last));
        self.on_the_way.push_back((at, packet));
    }

    /// Sends a packet off, due at `at` even if it overtakes. O(log n) to find its place, O(overtaken) to make room.
    pub fn push_by_time(&mut self, at: Instant, packet: Packet) {
        let place = self.on_the_way.partition_point(|(due, _)| *due <= at);
        self.on_the_way.insert(place, (at, packet));
    }

    /// The first packet that is due at `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<Packet> {
        if self.next_due()? > now {
            return None;
        }
        self.on_the_way.pop_front().map(|(_, packet)| packet)
    }

    /// When the first packet is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.on_the_way.front().map(|(due, _)| *due)
    }

    /// Packets inside.
    pub fn len(&self) -> usize {
        self.on_the_way.len()
    }

    /// Whether none is inside.
    pub fn is_empty(&self) -> bool {
        self.on_the_way.is_empty()
    }

    /// Hands out everything, in order of arrival.
    pub fn drain(&mut self, out: &mut Batch) {
        for (_, packet) in self.on_the_way.drain(..) {
            out.push(packet);
        }
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        for (_, packet) in self.on_the_way.drain(..) {
            packet.release();
        }
    }
}

/// `delay` moved by up to ± `jitter`, uniform in `random`; never below zero.
pub fn jittered(delay: Duration, jitter: Duration, random: u32) -> Duration {
    if jitter == Duration::ZERO {
        return delay;
    }
    let span = u128::from(jitter.0) * 2 + 1;
    let offset = ((span * u128::from(random)) >> 32) as u64;
    (delay + Duration(offset)) - jitter
}
