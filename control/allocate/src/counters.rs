//! What happened to a class's allocation, and how well it was used.

use perhop_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// Counters of one class; all only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Allocations raised.
    pub increases: u64,
    /// Allocations lowered.
    pub decreases: u64,
    /// Requests made.
    pub asked: u64,
    /// Requests granted in full.
    pub granted: u64,
    /// Requests granted in part.
    pub partial: u64,
    /// Requests refused, or granted so little that it would have taken away.
    pub refused: u64,
    /// Requests without an answer in time.
    pub timed_out: u64,
    /// Grants that came after their time-out and were used; counted as granted or partial too.
    pub late: u64,
    /// Grants that the router did not put in force; counted as granted or partial too.
    #[serde(default)]
    pub withdrawn: u64,
    /// Answers to no request of which an answer was awaited.
    pub ignored_answers: u64,
    /// Wake-ups for a reading at which none came.
    pub missed_readings: u64,
    /// Measurement intervals closed.
    pub intervals: u64,
    /// Those that used more than the estimate at their beginning: what a meter that follows the load misses.
    pub intervals_above: u64,
    /// Time in congestion, guard times included.
    pub congested: Duration,
    /// Sums of the efficiency.
    pub efficiency: Efficiency,
}

/// Integrals over time from which efficiencies come (§ efficiency of the source: mean used by mean allocated). Two
/// readings can be subtracted to leave out a warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Efficiency {
    /// Bits carried in closed intervals.
    pub carried_bits: u64,
    /// What was allocated in all time, 10⁻⁹ bit.
    pub allocated_nanobits: u128,
    /// Estimates at the ends of closed intervals times their lengths, 10⁻⁹ bit.
    pub estimated_nanobits: u128,
}

impl Efficiency {
    /// Mean carried by mean allocated; `None` before anything was allocated for any time.
    pub fn carried(&self) -> Option<f64> {
        self.of_allocated(self.carried_bits as f64 * 1e9)
    }

    /// Mean estimate by mean allocated. Higher than [`Efficiency::carried`], because the meter holds peaks.
    pub fn estimated(&self) -> Option<f64> {
        self.of_allocated(self.estimated_nanobits as f64)
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            carried_bits: self.carried_bits.saturating_sub(earlier.carried_bits),
            allocated_nanobits: self.allocated_nanobits.saturating_sub(earlier.allocated_nanobits),
            estimated_nanobits: self.estimated_nanobits.saturating_sub(earlier.estimated_nanobits),
        }
    }

    fn of_allocated(&self, nanobits: f64) -> Option<f64> {
        (self.allocated_nanobits > 0).then(|| nanobits / self.allocated_nanobits as f64)
    }
}

impl Counters {
    /// Requests ended one way or another.
    pub fn answered(&self) -> u64 {
        self.granted + self.partial + self.refused + self.timed_out - self.late
    }

    pub(crate) fn allocated_for(&mut self, rate: Rate, time: Duration) {
        self.efficiency.allocated_nanobits += u128::from(rate.0) * u128::from(time.0);
    }

    /// An interval ended; `above`: it used more than the estimate before it.
    pub(crate) fn closed_interval(
        &mut self,
        carried_bits: u64,
        estimate: Rate,
        above: bool,
        elapsed: Duration,
    ) {
        self.intervals += 1;
        self.intervals_above += u64::from(above);
        self.efficiency.carried_bits = self.efficiency.carried_bits.saturating_add(carried_bits);
        self.efficiency.estimated_nanobits += u128::from(estimate.0) * u128::from(elapsed.0);
    }
}
