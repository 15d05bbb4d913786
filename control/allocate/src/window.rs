//! The window meter: an estimate that rises at once and falls when a window ends.
//!
//! Time is cut into windows of `intervals` measurement intervals. An interval whose average exceeds the estimate raises
//! it at once; at the end of a window the estimate becomes the largest average of that window. So a peak survives at
//! most to the end of the window after its own. One interval a window is the simple meter (late by one interval, too
//! low for rising load); ten follow the envelope of the load.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", IV.2 (bandwidth measurement).

use perhop_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// What the bits given to the meter are. The meter does not care; the conditions on the allocation law do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metering {
    /// What left the class's shaper: never more than what is allocated. The published form.
    #[default]
    Carried,
    /// What arrived at the class's queue.
    Offered,
}

/// Configuration of a window meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowConfig {
    /// S: length of a measurement interval, above 0. Published: 0.8 s.
    pub interval: Duration,
    /// T / S: intervals of a window, at least 1. Published: 10, 50 for bursty sources, 1 for comparison.
    pub intervals: u32,
    /// What the caller counts.
    pub metering: Metering,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self { interval: Duration::from_millis(800), intervals: 10, metering: Metering::Carried }
    }
}

/// The meter. It needs no clock: closing an interval is the caller's act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowMeter {
    intervals: u32,
    /// Intervals of this window closed so far.
    closed: u32,
    /// Largest average of this window.
    current: Rate,
    estimate: Rate,
}

impl WindowMeter {
    /// A meter that has seen nothing: the estimate is 0.
    pub fn new(config: &WindowConfig) -> Self {
        Self { intervals: config.intervals.max(1), closed: 0, current: Rate::ZERO, estimate: Rate::ZERO }
    }

    /// Closes an interval in which `bits` were counted in `elapsed`; gives the new estimate. The average is rounded to
    /// the nearest bit/s; an interval of no length is no interval.
    pub fn close(&mut self, bits: u64, elapsed: Duration) -> Rate {
        if elapsed != Duration::ZERO {
            self.close_average(average(bits, elapsed));
        }
        self.estimate
    }

    /// Closes an interval with this average.
    pub fn close_average(&mut self, average: Rate) -> Rate {
        self.current = self.current.max(average);
        self.estimate = self.estimate.max(average);
        self.closed += 1;
        if self.closed >= self.intervals {
            self.estimate = self.current;
            self.current = Rate::ZERO;
            self.closed = 0;
        }
        self.estimate
    }

    /// B_m: the rate the class is taken to use.
    pub fn estimate(&self) -> Rate {
        self.estimate
    }
}

/// `bits` in `elapsed` as a rate, to the nearest bit/s, saturating; 0 for no time.
pub(crate) fn average(bits: u64, elapsed: Duration) -> Rate {
    if elapsed == Duration::ZERO {
        return Rate::ZERO;
    }
    let (bits_ns, ns) = (u128::from(bits) * 1_000_000_000, u128::from(elapsed.0));
    Rate(u64::try_from((bits_ns + ns / 2) / ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meter(intervals: u32) -> WindowMeter {
        WindowMeter::new(&WindowConfig { intervals, ..WindowConfig::default() })
    }

    #[test]
    fn a_peak_survives_to_the_end_of_the_next_window_and_no_longer() {
        let mut meter = meter(3);
        let load = [10, 90, 20, 30, 20, 40, 10, 10, 10];
        let estimates: Vec<u64> = load.iter().map(|&rate| meter.close_average(Rate(rate)).0).collect();
        assert_eq!(estimates, [10, 90, 90, 90, 90, 40, 40, 40, 10]);
    }

    #[test]
    fn averages_are_exact_to_the_nearest_bit_per_second() {
        let mut meter = meter(1);
        assert_eq!(meter.close(614_400, Duration::from_millis(800)), Rate(768_000));
        assert_eq!(meter.close(2, Duration::from_secs(3)), Rate(1));
        assert_eq!(meter.close(9, Duration::ZERO), Rate(1));
        assert_eq!(average(u64::MAX, Duration(1)), Rate(u64::MAX));
    }

    proptest! {
        /// The oracle keeps every average and applies the definition to the list.
        #[test]
        fn the_estimate_is_the_largest_average_of_this_and_the_last_window(
            intervals in 1u32..12, load in proptest::collection::vec(0u64..1_000_000, 1..80)
        ) {
            let mut meter = meter(intervals);
            let n = intervals as usize;
            for at in 0..load.len() {
                let estimate = meter.close_average(Rate(load[at])).0;
                let seen = at + 1;
                let begin = if seen.is_multiple_of(n) { seen - n } else { (seen / n * n).saturating_sub(n) };
                prop_assert_eq!(estimate, *load[begin..seen].iter().max().unwrap());
            }
        }
    }
}
