//! Which settings are stable, and the nearest ones that are.
//!
//! Every condition that the allocation laws need is checked before a class runs. All violations are told at once, each
//! with the nearest value that would satisfy it, and [`Unstable::nearest`] is a whole configuration that passes.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", IV.3.2, IV.4; conditions that it leaves open
//! (strict inequalities, growth on carried load) as this module states them.

use crate::bounds::WHOLE_PPM;
use crate::congestion::CongestionConfig;
use crate::logarithmic::LogarithmicConfig;
use crate::settings::{Law, Settings};
use crate::threshold::ThresholdConfig;
use crate::window::Metering;
use perhop_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A condition that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Violation {
    /// An allocation of nothing cannot grow by a factor.
    #[error("the least allocation is 0; use at least {} bit/s", nearest.0)]
    LeastZero {
        /// One packet of full size in 20 ms, at most the largest allocation.
        nearest: Rate,
    },
    /// The range is empty.
    #[error("the largest allocation {} bit/s is below the least; use at least {} bit/s", given.0, nearest.0)]
    RangeEmpty {
        /// The largest allocation.
        given: Rate,
        /// The least one.
        nearest: Rate,
    },
    /// The start lies outside the range.
    #[error("the initial allocation {} bit/s lies outside the range; nearest {} bit/s", given.0, nearest.0)]
    InitialOutside {
        /// The initial allocation.
        given: Rate,
        /// Nearest end of the range.
        nearest: Rate,
    },
    /// No grid, or one so coarse that rounding takes every decrease back.
    #[error("a grid of {} bit/s is not possible; use 1 … {} bit/s", given.0, nearest.0)]
    Granularity {
        /// The grid.
        given: Rate,
        /// The coarsest that lets the largest allocation shrink, at least 1 bit/s.
        nearest: Rate,
    },
    /// A measurement interval of no length.
    #[error("the measurement interval is 0; for example {} ns", nearest.0)]
    IntervalZero {
        /// The published value.
        nearest: Duration,
    },
    /// A window of no intervals.
    #[error("the window has no intervals; use at least 1")]
    WindowEmpty,
    /// An increase that does not increase.
    #[error("the factor of an increase {given_ppm} ppm must be above 1000000; at least {nearest_ppm} ppm")]
    IncreaseFactor {
        /// i.
        given_ppm: u32,
        /// The least that is possible.
        nearest_ppm: u32,
    },
    /// A decrease that does not decrease, or to nothing.
    #[error("the factor of a decrease {given_ppm} ppm must be 1 … 999999 ppm; nearest {nearest_ppm} ppm")]
    DecreaseFactor {
        /// d.
        given_ppm: u32,
        /// The nearest end.
        nearest_ppm: u32,
    },
    /// An upper threshold that carried load cannot exceed, or none.
    #[error("the upper threshold {given_ppm} ppm must be 1 … 999999 ppm; nearest {nearest_ppm} ppm")]
    UpperThreshold {
        /// l_max.
        given_ppm: u32,
        /// The nearest end.
        nearest_ppm: u32,
    },
    /// A lower threshold of nothing: the class could never shrink.
    #[error("the lower threshold is 0; use at least {nearest_ppm} ppm")]
    LowerThreshold {
        /// The least that is possible.
        nearest_ppm: u32,
    },
    /// l_max > max(i, 1/d) · l_min does not hold: increases and decreases would alternate.
    #[error(
        "the thresholds {lower_ppm} and {upper_ppm} ppm are too near for these factors: lower at most {nearest_lower_ppm} ppm{}",
        upper_text(*nearest_upper_ppm)
    )]
    Wedge {
        /// l_min.
        lower_ppm: u32,
        /// l_max.
        upper_ppm: u32,
        /// The largest l_min for the other values; 0 if only other factors help.
        nearest_lower_ppm: u32,
        /// The smallest l_max for the other values, if below one whole.
        nearest_upper_ppm: Option<u32>,
    },
    /// A gain of nothing.
    #[error("the gain is 0; use at least {} bit/s", nearest.0)]
    GainZero {
        /// The least that is possible with the other values.
        nearest: Rate,
    },
    /// A margin of nothing or of everything.
    #[error("the margin {given_ppm} ppm must be 1 … 999999 ppm; nearest {nearest_ppm} ppm")]
    Margin {
        /// The margin.
        given_ppm: u32,
        /// The nearest end.
        nearest_ppm: u32,
    },
    /// ΔB_min ≥ K · ln(1/s): with carried load the class could never grow.
    #[error(
        "the least change {} bit/s lets the class never grow on carried load: at most {} bit/s, or a gain of at least {} bit/s",
        given.0, nearest.0, nearest_gain.0
    )]
    LeastChange {
        /// ΔB_min.
        given: Rate,
        /// The largest ΔB_min for this gain and margin.
        nearest: Rate,
        /// The smallest gain for this ΔB_min and margin.
        nearest_gain: Rate,
    },
    /// A queue target of no time.
    #[error("the queue's target time is 0; for example {} ns", nearest.0)]
    TargetZero {
        /// The published value.
        nearest: Duration,
    },
    /// T_g < 2·S: an increase could be undone before the meter has seen it.
    #[error("the guard time {} ns is shorter than two measurement intervals; at least {} ns", given.0, nearest.0)]
    Guard {
        /// T_g.
        given: Duration,
        /// Two intervals.
        nearest: Duration,
    },
    /// A largest packet of no bytes.
    #[error("the packet size of congestion control is 0; for example {} B", nearest.0)]
    MtuZero {
        /// Ethernet's.
        nearest: Bytes,
    },
    /// A time-out of no time.
    #[error("the time-out of requests is 0; for example {} ns", nearest.0)]
    TimeoutZero {
        /// The default.
        nearest: Duration,
    },
    /// A pause of no time: a refusal would be asked about again at once.
    #[error("the first pause after a refusal is 0; for example {} ns", nearest.0)]
    RetryZero {
        /// The default.
        nearest: Duration,
    },
    /// The longest pause is shorter than the first.
    #[error("the longest pause {} ns is shorter than the first; at least {} ns", given.0, nearest.0)]
    RetryOrder {
        /// The longest pause.
        given: Duration,
        /// The first one.
        nearest: Duration,
    },
}

fn upper_text(nearest: Option<u32>) -> String {
    nearest.map(|ppm| format!(", or upper at least {ppm} ppm")).unwrap_or_default()
}

/// Settings that do not satisfy the conditions of stability.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("the allocation would not be stable: {}", texts(violations))]
pub struct Unstable {
    /// All of them, at least one.
    pub violations: Vec<Violation>,
    /// A configuration near the given one that passes: what can be kept is kept.
    pub nearest: Box<Settings>,
}

fn texts(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Settings that were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Stability(Settings);

impl Stability {
    /// Checks every condition.
    ///
    /// # Errors
    /// [`Unstable`] with all violations and the nearest admissible settings.
    pub fn check(settings: &Settings) -> Result<Self, Unstable> {
        let mut check = Check { nearest: *settings, violations: vec![] };
        check.range();
        check.window();
        match settings.law {
            Law::Threshold(config) => check.threshold(config),
            Law::Logarithmic(config) => check.logarithmic(config),
        }
        check.granularity();
        if let Some(config) = settings.congestion {
            check.congestion(config);
        }
        check.patience();
        if check.violations.is_empty() {
            Ok(Self(*settings))
        } else {
            Err(Unstable { violations: check.violations, nearest: Box::new(check.nearest) })
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0
    }
}

/// One packet of 1500 B every 20 ms.
const ONE_PACKET_IN_20_MS: Rate = Rate(600_000);

/// Repairs `nearest` while it notes what was wrong. Later checks see the repaired earlier values.
struct Check {
    nearest: Settings,
    violations: Vec<Violation>,
}

impl Check {
    fn violated(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    fn range(&mut self) {
        let given = self.nearest.bounds;
        if given.least == Rate::ZERO {
            let most = if given.most == Rate::ZERO { ONE_PACKET_IN_20_MS } else { given.most };
            self.nearest.bounds.least = ONE_PACKET_IN_20_MS.min(most);
            self.violated(Violation::LeastZero { nearest: self.nearest.bounds.least });
        }
        let least = self.nearest.bounds.least;
        if given.most < least {
            self.nearest.bounds.most = least;
            self.violated(Violation::RangeEmpty { given: given.most, nearest: least });
        }
        let initial = self.nearest.initial;
        let nearest = initial.clamp(least, self.nearest.bounds.most);
        if nearest != initial {
            self.nearest.initial = nearest;
            self.violated(Violation::InitialOutside { given: initial, nearest });
        }
    }

    fn window(&mut self) {
        let default = crate::window::WindowConfig::default();
        if self.nearest.window.interval == Duration::ZERO {
            self.nearest.window.interval = default.interval;
            self.violated(Violation::IntervalZero { nearest: default.interval });
        }
        if self.nearest.window.intervals == 0 {
            self.nearest.window.intervals = 1;
            self.violated(Violation::WindowEmpty);
        }
    }

    fn threshold(&mut self, given: ThresholdConfig) {
        let mut near = given;
        if given.increase_ppm <= WHOLE_PPM {
            near.increase_ppm = WHOLE_PPM + 1;
            self.violated(Violation::IncreaseFactor {
                given_ppm: given.increase_ppm,
                nearest_ppm: near.increase_ppm,
            });
        }
        near.decrease_ppm = given.decrease_ppm.clamp(1, WHOLE_PPM - 1);
        if near.decrease_ppm != given.decrease_ppm {
            self.violated(Violation::DecreaseFactor {
                given_ppm: given.decrease_ppm,
                nearest_ppm: near.decrease_ppm,
            });
        }
        near.upper_ppm = given.upper_ppm.clamp(1, WHOLE_PPM - 1);
        if near.upper_ppm != given.upper_ppm {
            self.violated(Violation::UpperThreshold {
                given_ppm: given.upper_ppm,
                nearest_ppm: near.upper_ppm,
            });
        }
        if given.lower_ppm == 0 {
            near.lower_ppm = 1;
            self.violated(Violation::LowerThreshold { nearest_ppm: 1 });
        }
        if !near.inside_wedge() {
            let violation = Violation::Wedge {
                lower_ppm: near.lower_ppm,
                upper_ppm: near.upper_ppm,
                nearest_lower_ppm: near.greatest_lower_ppm(),
                nearest_upper_ppm: near.least_upper_ppm(),
            };
            near = into_wedge(near);
            self.violated(violation);
        }
        self.nearest.law = Law::Threshold(near);
    }

    fn logarithmic(&mut self, given: LogarithmicConfig) {
        let mut near = given;
        near.margin_ppm = given.margin_ppm.clamp(1, WHOLE_PPM - 1);
        if near.margin_ppm != given.margin_ppm {
            self.violated(Violation::Margin { given_ppm: given.margin_ppm, nearest_ppm: near.margin_ppm });
        }
        let carried = self.nearest.window.metering == Metering::Carried;
        if given.gain == Rate::ZERO {
            near.gain = if carried { growing_gain(&near) } else { Rate(1) };
            self.violated(Violation::GainZero { nearest: near.gain });
        }
        if carried && near.least_change.0 as f64 >= near.greatest_carried_increase() {
            let (nearest, nearest_gain) = (growing_change(&near), growing_gain(&near));
            self.violated(Violation::LeastChange { given: near.least_change, nearest, nearest_gain });
            near.least_change = nearest;
            // So small a gain that not even a least change of nothing is below what it gives.
            if near.greatest_carried_increase() <= 0.0 {
                near.gain = nearest_gain;
            }
        }
        self.nearest.law = Law::Logarithmic(near);
    }

    /// A class at its largest allocation must be able to shrink by one rounded step.
    fn granularity(&mut self) {
        let (bounds, given) = (self.nearest.bounds, self.nearest.bounds.granularity);
        let coarsest = match self.nearest.law {
            Law::Threshold(config) => {
                crate::bounds::share(bounds.most, WHOLE_PPM - config.decrease_ppm).max(Rate(1))
            }
            Law::Logarithmic(_) => bounds.most,
        };
        if given == Rate::ZERO || given > coarsest {
            self.nearest.bounds.granularity = given.clamp(Rate(1), coarsest);
            self.violated(Violation::Granularity { given, nearest: coarsest });
        }
    }

    fn congestion(&mut self, given: CongestionConfig) {
        let (mut near, default) = (given, CongestionConfig::default());
        if given.target == Duration::ZERO {
            near.target = default.target;
            self.violated(Violation::TargetZero { nearest: near.target });
        }
        let two_intervals = self.nearest.window.interval.saturating_mul(2);
        if given.guard < two_intervals {
            near.guard = two_intervals;
            self.violated(Violation::Guard { given: given.guard, nearest: two_intervals });
        }
        if given.mtu == Bytes(0) {
            near.mtu = default.mtu;
            self.violated(Violation::MtuZero { nearest: near.mtu });
        }
        self.nearest.congestion = Some(near);
    }

    fn patience(&mut self) {
        let default = crate::settings::Patience::default();
        if self.nearest.patience.timeout == Duration::ZERO {
            self.nearest.patience.timeout = default.timeout;
            self.violated(Violation::TimeoutZero { nearest: default.timeout });
        }
        if self.nearest.patience.first_retry == Duration::ZERO {
            self.nearest.patience.first_retry = default.first_retry;
            self.violated(Violation::RetryZero { nearest: default.first_retry });
        }
        let (first, longest) = (self.nearest.patience.first_retry, self.nearest.patience.longest_retry);
        if longest < first {
            self.nearest.patience.longest_retry = first;
            self.violated(Violation::RetryOrder { given: longest, nearest: first });
        }
    }
}

/// Moves the thresholds into the wedge: the lower one down if that suffices, else the default thresholds with factors
/// that suit them.
fn into_wedge(config: ThresholdConfig) -> ThresholdConfig {
    match config.greatest_lower_ppm() {
        0 => ThresholdConfig::default(),
        lower_ppm => ThresholdConfig { lower_ppm, ..config },
    }
}

/// The largest least change with which a class grows on carried load.
fn growing_change(config: &LogarithmicConfig) -> Rate {
    let below = libm::ceil(config.greatest_carried_increase()) - 1.0;
    Rate(below.max(0.0) as u64)
}

/// The smallest gain with which a class grows on carried load.
fn growing_gain(config: &LogarithmicConfig) -> Rate {
    let grows = |gain| {
        LogarithmicConfig { gain, ..*config }.greatest_carried_increase() > config.least_change.0 as f64
    };
    let per_gain = LogarithmicConfig { gain: Rate(1), ..*config }.greatest_carried_increase();
    let mut gain = Rate((libm::floor(config.least_change.0 as f64 / per_gain) as u64).saturating_add(1));
    // Rounding of the quotient may be off by one either way.
    while !grows(gain) && gain.0 < u64::MAX {
        gain = Rate(gain.0.saturating_add(gain.0.max(1 << 50) >> 50));
    }
    gain
}

#[cfg(test)]
#[path = "stability_tests.rs"]
mod tests;
