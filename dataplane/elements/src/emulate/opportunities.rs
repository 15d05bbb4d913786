//! A line that carries 1,500 bytes of IP packets at given instants instead of bits at a rate: a trace of a radio link.

use perhop_units::{Duration, Instant};
use perhop_wire::ethernet::HEADER_LEN;
use std::sync::Arc;

/// Bytes of IP packets that one opportunity carries.
pub const OPPORTUNITY_BYTES: u32 = 1500;

/// Opportunities in order of time, repeated to the end.
#[derive(Clone, Debug)]
pub struct Opportunities {
    /// Non-decreasing ms since the start of a pass; the last is the length of a pass.
    at_ms: Arc<[u32]>,
    begin: Instant,
    pass: u64,
    next: usize,
    /// Bytes left of the opportunity used last.
    left: u32,
    /// When it was.
    last: Instant,
}

impl Opportunities {
    /// The opportunities `at_ms`, non-decreasing, from `begin` on; `None` without any.
    pub fn new(at_ms: Arc<[u32]>, begin: Instant) -> Option<Self> {
        let fresh = Self { at_ms, begin, pass: 0, next: 0, left: 0, last: begin };
        (!fresh.at_ms.is_empty()).then_some(fresh)
    }

    /// The instants of a pass.
    pub fn at_ms(&self) -> &Arc<[u32]> {
        &self.at_ms
    }

    fn period_ms(&self) -> u64 {
        u64::from(self.at_ms.last().copied().unwrap_or(1).max(1))
    }

    fn time(&self) -> Instant {
        let ms = self.pass * self.period_ms() + u64::from(self.at_ms[self.next]);
        self.begin + Duration(ms * 1_000_000)
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next == self.at_ms.len() {
            self.next = 0;
            self.pass += 1;
        }
    }

    /// Passes whole periods that are over without a step for each of their opportunities.
    fn skip_to(&mut self, now: Instant) {
        let periods = now.since(self.begin).0 / 1_000_000 / self.period_ms();
        if periods > self.pass + 1 {
            self.pass = periods - 1;
        }
        while self.time() < now {
            self.advance();
        }
    }

    /// When a frame of `bytes` that is first in line at `now` has gone. An opportunity carries IP packets of 1,500 bytes
    /// together, so the Ethernet header costs nothing. As [`Opportunities::send`].
    pub fn send_frame(&mut self, now: Instant, bytes: u32) -> Instant {
        self.send(now, bytes.saturating_sub(HEADER_LEN as u32).max(1))
    }

    /// When a packet of `bytes` that is first in line at `now` has gone. O(opportunities that passed unused in the
    /// present period).
    pub fn send(&mut self, now: Instant, bytes: u32) -> Instant {
        if self.last < now {
            // What was left of an opportunity that passed unused is gone.
            self.left = 0;
        }
        let mut bytes = bytes;
        while bytes > 0 {
            if self.left == 0 {
                self.skip_to(now);
                self.last = self.time();
                self.left = OPPORTUNITY_BYTES;
                self.advance();
            }
            let used = bytes.min(self.left);
            self.left -= used;
            bytes -= used;
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant(1_000_000 * (100 + n))
    }

    #[test]
    fn packets_go_when_their_last_byte_does() {
        let mut line = Opportunities::new([0, 5, 5, 20].into(), ms(0)).expect("some");
        // Small packets share an opportunity, a large one takes two of the same instant.
        assert_eq!(line.send(ms(0), 700), ms(0));
        assert_eq!(line.send(ms(0), 800), ms(0));
        assert_eq!(line.send(ms(0), 2000), ms(5));
        assert_eq!(line.send(ms(5), 1000), ms(5));
        // What was left is gone later on.
        assert_eq!(line.send(ms(6), 100), ms(20));
        // The second pass begins where the first ended.
        assert_eq!(line.send(ms(20), 1400), ms(20));
        assert_eq!(line.send(ms(20), 1400), ms(20));
        assert_eq!(line.send(ms(20), 1400), ms(25));
        assert_eq!(line.send(ms(1_000_021), 1), ms(1_000_025));
        assert!(Opportunities::new([].into(), ms(0)).is_none());
    }
}
