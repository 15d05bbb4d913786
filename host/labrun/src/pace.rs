//! Waiting until an absolute instant of `CLOCK_MONOTONIC`, and how late that was.

use perhop_io::clock::monotonic;
use perhop_units::{Duration, Instant};
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute, set_current_timer_slack};
use std::num::NonZeroU64;

/// Lets the calling thread's timers fire as precisely as the kernel can (prctl(2), `PR_SET_TIMERSLACK`), instead of up
/// to 50 µs late. A kernel that refuses costs precision, which is measured anyway.
pub(crate) fn precise_timers() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Sleeps until `at`; returns at once if that is past. An absolute deadline, so that errors do not add up.
pub(crate) fn sleep_until(at: Instant) {
    let request = Timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 };
    while monotonic() < at {
        // A signal ends the sleep early; the loop goes on.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &request);
    }
}

/// How late things happened. Keeps every value: senders have at most a few hundred thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    values_ns: Vec<u64>,
}

impl Lateness {
    pub(crate) fn record(&mut self, due: Instant, now: Instant) {
        self.values_ns.push(now.since(due).as_nanos());
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.values_ns.extend_from_slice(&other.values_ns);
    }

    /// Lateness that 99 % did not exceed.
    pub(crate) fn p99(&self) -> Duration {
        let mut sorted = self.values_ns.clone();
        sorted.sort_unstable();
        Duration(sorted.get(sorted.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(0))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration(self.values_ns.iter().copied().max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_and_maximum_of_a_known_set() {
        let mut late = Lateness::default();
        for ns in (1..=100).rev() {
            late.record(Instant(1000), Instant(1000 + ns));
        }
        assert_eq!((late.p99(), late.max()), (Duration(99), Duration(100)));
        late.record(Instant(1000), Instant(1));
        assert_eq!(late.values_ns.last(), Some(&0));
    }

    #[test]
    fn a_sleep_never_ends_early() {
        precise_timers();
        let due = monotonic() + Duration::from_millis(2);
        sleep_until(due);
        assert!(monotonic() >= due);
    }
}
