//! The rate of an aggregate by intervals and windows of them: an estimate that follows a peak at once and keeps it until
//! the end of the next window.

use perhop_units::{Duration, Rate};

/// Averages over intervals S; the estimate is raised by every higher one, and at the end of `n` of them becomes their
/// maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowMeter {
    bytes: u64,
    estimate: u64,
    highest: u64,
    intervals: u32,
}

impl WindowMeter {
    /// Counts a packet into the interval that is going on.
    #[inline]
    pub(super) fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Ends an interval of `interval` in windows of `n`. Returns its average.
    pub(super) fn close(&mut self, interval: Duration, n: u32) -> Rate {
        let average = rate(self.bytes, interval);
        self.bytes = 0;
        self.highest = self.highest.max(average.0);
        self.estimate = self.estimate.max(average.0);
        self.intervals += 1;
        if self.intervals >= n {
            self.estimate = self.highest;
            self.restart();
        }
        average
    }

    /// A flow of `rate` is no longer in the aggregate: the estimate is that much less and a window begins.
    pub(super) fn less(&mut self, rate: Rate) {
        self.estimate = self.estimate.saturating_sub(rate.0);
        self.restart();
    }

    fn restart(&mut self) {
        self.highest = 0;
        self.intervals = 0;
    }

    /// The estimate.
    pub(super) fn used(&self) -> Rate {
        Rate(self.estimate)
    }
}

/// `bytes` in `time`, rounded down to whole bit/s.
pub(super) fn rate(bytes: u64, time: Duration) -> Rate {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    Rate(u64::try_from(bits / u128::from(time.0.max(1))).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_millis(800);

    fn closes(meter: &mut WindowMeter, n: u32, kbits: &[u64]) -> Vec<u64> {
        let close = |kbit: &u64| {
            meter.count(kbit * 100);
            meter.close(S, n);
            meter.used().0 / 1_000
        };
        kbits.iter().map(close).collect()
    }

    #[test]
    fn a_peak_stays_until_the_end_of_the_next_window() {
        let mut meter = WindowMeter::default();
        assert_eq!(closes(&mut meter, 3, &[1, 5, 2, 1, 1, 1, 1]), [1, 5, 5, 5, 5, 1, 1]);
        assert_eq!(closes(&mut WindowMeter::default(), 1, &[1, 5, 2, 0]), [1, 5, 2, 0]);
    }

    #[test]
    fn a_flow_less_begins_a_window() {
        let mut meter = WindowMeter::default();
        closes(&mut meter, 3, &[1, 5]);
        meter.less(Rate(2_000));
        assert_eq!(closes(&mut meter, 3, &[2, 2, 2]), [3, 3, 2]);
        meter.less(Rate(9_000));
        assert_eq!(meter.used(), Rate(0));
    }
}
