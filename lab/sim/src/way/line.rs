//! The line of one direction: bits at a rate, or opportunities of a trace.

use perhop_elements::emulate::Opportunities;
use perhop_elements::schedule::{Transmitter, TransmitterConfig};
use perhop_units::{Instant, Rate};
use std::sync::Arc;

/// What carries.
#[derive(Debug)]
enum Server {
    /// Bits at a rate (0: no limit).
    Steady(Transmitter),
    /// Opportunities of a trace.
    Opportunities(Opportunities),
}

/// A line with what it was promised.
#[derive(Debug)]
pub(super) struct Line {
    rate: Rate,
    overhead: u32,
    trace: Option<Arc<[u32]>>,
    server: Server,
    /// When the last bit leaves of the packet that was promised last.
    free: Instant,
    /// The line is taken until then by a packet that began before its rate changed.
    taken_until: Instant,
}

impl Line {
    /// A line that nothing was promised.
    pub(super) fn new(way: &perhop_scenario::Way) -> Self {
        let (rate, overhead) = (way.rate.unwrap_or(Rate(0)), way.overhead.get() as u32);
        let trace = way.trace.as_ref().map(|trace| Arc::from(trace.opportunities_ms.as_slice()));
        let server = server(rate, overhead, trace.as_ref());
        Self { rate, overhead, trace, server, free: Instant::ZERO, taken_until: Instant::ZERO }
    }

    /// The rate; 0: no limit.
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Bytes on the wire of a frame.
    pub(super) fn wire(&self, frame: usize) -> u32 {
        frame as u32 + self.overhead
    }

    /// When it is free for another packet.
    pub(super) fn free_at(&self, now: Instant) -> Instant {
        match &self.server {
            Server::Steady(line) => line.next_room(now).max(self.taken_until),
            Server::Opportunities(_) => self.free.max(now),
        }
    }

    /// Promises a frame of so many bytes the time behind all others: when its first bit goes on the line, and when its
    /// last has left.
    pub(super) fn promise(&mut self, now: Instant, frame: u32) -> (Instant, Instant) {
        let (begins, ends) = match &mut self.server {
            Server::Steady(line) => {
                let from = now.max(self.taken_until);
                let begins = line.next_room(from);
                (begins, line.send(from, frame))
            }
            Server::Opportunities(trace) => {
                // A packet waits until the opportunity that takes its last byte.
                let ends = trace.send_frame(self.free.max(now), frame);
                (ends.max(now), ends)
            }
        };
        self.free = ends;
        (begins, ends)
    }

    /// Another rate; all promises but those of packets that began before, the last of which leaves at `taken_until`, are
    /// void and to be made again. `false`: the line has no rate, and nothing changed.
    pub(super) fn set_rate(&mut self, rate: Rate, taken_until: Instant) -> bool {
        self.rate = rate;
        if let Server::Opportunities(_) = self.server {
            return false;
        }
        self.void(taken_until);
        true
    }

    /// Takes all promises back but that of the packet that leaves at `taken_until`.
    pub(super) fn void(&mut self, taken_until: Instant) {
        self.server = server(self.rate, self.overhead, self.trace.as_ref());
        (self.free, self.taken_until) = (taken_until, taken_until);
    }
}

fn server(rate: Rate, overhead_bytes: u32, trace: Option<&Arc<[u32]>>) -> Server {
    let trace = trace.and_then(|trace| Opportunities::new(trace.clone(), Instant::ZERO));
    let config = TransmitterConfig { rate, overhead_bytes, ..TransmitterConfig::default() };
    trace.map_or_else(|| Server::Steady(Transmitter::new(config)), Server::Opportunities)
}
