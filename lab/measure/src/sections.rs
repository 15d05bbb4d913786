//! The time of a repetition, cut wherever a part begins or ends that a figure is of: bytes that are counted by section can
//! be summed over any of these parts, whatever the bins of the plots are.

use crate::bins::Bins;
use perhop_scenario::Scenario;
use perhop_units::{Duration, Instant};

/// Where the sections of a repetition begin: section 0 at its start, section n + 1 at the nth cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    cuts: Vec<Instant>,
}

impl Sections {
    /// Of a scenario: the window, the part in which all of its traffic sends, its phases.
    pub fn of(scenario: &Scenario) -> Self {
        let at = |time: Duration| Instant(time.as_nanos());
        let window = (at(scenario.warm_up), at(scenario.length()));
        let (from, until) = common_part(scenario, window);
        let phases = scenario.probes.phases.iter().flat_map(|phase| [at(phase.from), at(phase.until)]);
        let mut cuts: Vec<Instant> = [window.0, window.1, from, until].into_iter().chain(phases).collect();
        cuts.sort_unstable();
        cuts.dedup();
        Self { cuts }
    }

    /// The section of an instant.
    pub fn at(&self, at: Instant) -> u64 {
        self.cuts.partition_point(|cut| *cut <= at) as u64
    }

    /// What was counted by section in a part of the time: from one cut until before another, or until a repetition was
    /// stopped, behind which nothing was counted.
    pub(crate) fn sum(&self, sums: &Bins, (from, until): (Instant, Instant)) -> u64 {
        if from >= until {
            return 0;
        }
        let inside = self.at(from)..=self.at(Instant(until.as_nanos() - 1));
        sums.iter().filter(|(section, _)| inside.contains(section)).map(|(_, bytes)| bytes).sum()
    }
}

/// The part of a window in which all traffic sends; all of the window where there is none.
pub(crate) fn common_part(scenario: &Scenario, window: (Instant, Instant)) -> (Instant, Instant) {
    let starts = scenario.traffic.iter().map(|traffic| Instant(traffic.start.as_nanos()));
    let stops = scenario.traffic.iter().map(|traffic| Instant(traffic.stop.as_nanos()));
    let part = (starts.fold(window.0, Instant::max), stops.fold(window.1, Instant::min));
    if part.0 < part.1 { part } else { window }
}
