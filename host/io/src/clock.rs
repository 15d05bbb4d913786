//! The machine's clocks as [`Instant`]s.

use perhop_units::Instant;
use rustix::time::{ClockId, clock_gettime};

fn nanos(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64)
}

/// `CLOCK_MONOTONIC` now. One for all processes and namespaces of a machine, so one-way delays may be taken across them.
pub fn monotonic() -> Instant {
    Instant(nanos(ClockId::Monotonic))
}

/// The clock of the wall: ns since 1970 UTC. It may be set, also backwards.
pub fn wall() -> Instant {
    Instant(nanos(ClockId::Realtime))
}

/// Time since the epoch minus [`monotonic`], ns: what turns an [`Instant`] into a date. Real time may be set later.
pub fn real_minus_monotonic() -> u64 {
    nanos(ClockId::Realtime).saturating_sub(nanos(ClockId::Monotonic))
}

/// Readings of one measurement at the most.
const ATTEMPTS: usize = 8;
/// A reading that took no longer than this was not interrupted.
const UNDISTURBED_NS: u64 = 1_000;

/// Turns the kernel's `CLOCK_REALTIME` stamps into monotonic instants.
#[derive(Clone, Copy, Debug)]
pub struct RealtimeOffset {
    /// Real time minus monotonic time, ns.
    offset: i128,
    last: Instant,
}

impl Default for RealtimeOffset {
    fn default() -> Self {
        Self::new()
    }
}

impl RealtimeOffset {
    /// Measured now.
    pub fn new() -> Self {
        let mut clock = Self { offset: 0, last: Instant::ZERO };
        clock.measure();
        clock
    }
    /// Measures again: real time may have been set. Three clock reads, or up to eight times as many when the
    /// thread is interrupted between them: the reading that took least counts.
    pub fn measure(&mut self) {
        let mut least = u64::MAX;
        for _ in 0..ATTEMPTS {
            let before = nanos(ClockId::Monotonic);
            let real = nanos(ClockId::Realtime);
            let after = nanos(ClockId::Monotonic);
            let took = after.saturating_sub(before);
            if took < least {
                least = took;
                self.offset = i128::from(real) - i128::from(before) - i128::from(took / 2);
            }
            if took <= UNDISTURBED_NS {
                break;
            }
        }
    }
    /// The monotonic instant of a real-time stamp: never decreasing, never after `now`.
    pub fn convert(&mut self, real_ns: u64, now: Instant) -> Instant {
        let mono = (i128::from(real_ns) - self.offset).clamp(0, i128::from(now.0)) as u64;
        self.last = self.last.max(Instant(mono)).min(now);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_never_go_back_and_never_lie_ahead() {
        let mut c = RealtimeOffset { offset: 1_000, last: Instant::ZERO };
        assert_eq!(c.convert(1_500, Instant(10_000)), Instant(500));
        assert_eq!(c.convert(1_200, Instant(10_000)), Instant(500));
        assert_eq!(c.convert(99_000, Instant(10_000)), Instant(10_000));
        assert_eq!(c.convert(0, Instant(20_000)), Instant(10_000));
    }
}
