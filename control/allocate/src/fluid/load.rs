//! Traffic as a rate that changes at known times.

use crate::random::{Random, SplitMix64};
use perhop_units::{Duration, Instant, Rate};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Length of a period of an ON/OFF source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// Pareto: mean scale · shape / (shape − 1), infinite for a shape of at most 1.
    Pareto {
        /// Shape in thousandths, above 0.
        shape_milli: u32,
        /// Shortest period.
        scale: Duration,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: Duration,
    },
}

impl Period {
    /// Mean in seconds.
    pub fn mean_s(&self) -> f64 {
        match *self {
            Self::Pareto { shape_milli, scale } => {
                let shape = f64::from(shape_milli) / 1_000.0;
                if shape > 1.0 { scale.as_secs_f64() * shape / (shape - 1.0) } else { f64::INFINITY }
            }
            Self::Exponential { mean } => mean.as_secs_f64(),
        }
    }

    fn draw(&self, random: &mut SplitMix64) -> Duration {
        let ns = match *self {
            Self::Pareto { shape_milli, scale } => {
                scale.0 as f64 * libm::pow(random.uniform(), -1_000.0 / f64::from(shape_milli.max(1)))
            }
            Self::Exponential { mean } => -libm::log(random.uniform()) * mean.0 as f64,
        };
        // The conversion saturates: such a period outlasts every run.
        Duration(libm::round(ns) as u64).max(Duration(1))
    }
}

/// Independent sources that send at their peak or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OnOff {
    /// How many.
    pub sources: u32,
    /// Rate of one while on.
    pub peak: Rate,
    /// Length of on periods.
    pub on: Period,
    /// Length of off periods.
    pub off: Period,
}

impl OnOff {
    /// Published type 1: Pareto 1.2, 0.4 s on and 0.6 s off, 32 kbit/s; mean of the aggregate 768 kbit/s.
    pub const TYPE_1: Self = Self { peak: Rate(32_000), ..Self::pareto(400, 600) };
    /// Published type 2: exponential, 1 s each, 26 kbit/s; mean 780 kbit/s.
    pub const TYPE_2: Self = Self {
        sources: 60,
        peak: Rate(26_000),
        on: Period::Exponential { mean: Duration::from_secs(1) },
        off: Period::Exponential { mean: Duration::from_secs(1) },
    };
    /// Published type 3, called 2 beside the delays of congestion control: Pareto 1.2, 0.04 s on and 0.6 s off,
    /// 128 kbit/s; mean 480 kbit/s.
    pub const TYPE_3: Self = Self { peak: Rate(128_000), ..Self::pareto(40, 600) };

    const fn pareto(on_ms: u64, off_ms: u64) -> Self {
        Self {
            sources: 60,
            peak: Rate::ZERO,
            on: Period::Pareto { shape_milli: 1_200, scale: Duration::from_millis(on_ms) },
            off: Period::Pareto { shape_milli: 1_200, scale: Duration::from_millis(off_ms) },
        }
    }

    /// All sources on.
    pub fn peak_of_all(&self) -> Rate {
        Rate(self.peak.0.saturating_mul(u64::from(self.sources)))
    }

    fn share_on(&self) -> f64 {
        let (on, off) = (self.on.mean_s(), self.off.mean_s());
        if on.is_infinite() { 1.0 } else { on / (on + off) }
    }
}

/// A rate that climbs in equal steps and descends again, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Staircase {
    /// Δ: height of a step.
    pub step: Rate,
    /// Steps up; the published staircase has 4.
    pub steps: u32,
    /// Time on every level.
    pub dwell: Duration,
}

/// What a class carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// ON/OFF sources.
    OnOff(OnOff),
    /// A staircase.
    Staircase(Staircase),
    /// Always the same.
    Constant(Rate),
}

/// A running load. It starts at time 0.
#[derive(Clone, Debug)]
pub struct Load {
    rate: Rate,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    OnOff { of: OnOff, random: SplitMix64, on: Vec<bool>, changes: BinaryHeap<Reverse<(Instant, usize)>> },
    Staircase { of: Staircase, level: u64, next: Instant },
    Constant,
}

impl Load {
    /// The load of a seed. Every ON/OFF source begins on with the share of time that it is on.
    pub fn new(traffic: &Traffic, seed: u64) -> Self {
        match *traffic {
            Traffic::Constant(rate) => Self { rate, kind: Kind::Constant },
            Traffic::Staircase(of) => {
                let next = Instant::ZERO + of.dwell.max(Duration(1));
                Self { rate: Rate::ZERO, kind: Kind::Staircase { of, level: 0, next } }
            }
            Traffic::OnOff(of) => {
                let mut random = SplitMix64::new(seed, 1);
                let on: Vec<bool> = (0..of.sources).map(|_| random.uniform() <= of.share_on()).collect();
                let changes = on
                    .iter()
                    .enumerate()
                    .map(|(at, on)| {
                        let period = if *on { of.on } else { of.off };
                        Reverse((Instant::ZERO + period.draw(&mut random), at))
                    })
                    .collect();
                let rate = Rate(of.peak.0.saturating_mul(on.iter().filter(|on| **on).count() as u64));
                Self { rate, kind: Kind::OnOff { of, random, on, changes } }
            }
        }
    }

    /// The rate until [`Load::next_change`].
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// When the rate changes next.
    pub fn next_change(&self) -> Instant {
        match &self.kind {
            Kind::Constant => Instant::FAR_FUTURE,
            Kind::Staircase { next, .. } => *next,
            Kind::OnOff { changes, .. } => changes.peek().map_or(Instant::FAR_FUTURE, |Reverse((at, _))| *at),
        }
    }

    /// Makes the changes due at `now`.
    pub fn advance(&mut self, now: Instant) {
        while self.next_change() <= now && self.next_change() != Instant::FAR_FUTURE {
            self.change();
        }
    }

    fn change(&mut self) {
        match &mut self.kind {
            Kind::Constant => {}
            Kind::Staircase { of, level, next } => {
                let period = 2 * u64::from(of.steps.max(1));
                *level = (*level + 1) % period;
                *next += of.dwell.max(Duration(1));
                self.rate = Rate(of.step.0.saturating_mul((*level).min(period - *level)));
            }
            Kind::OnOff { of, random, on, changes } => {
                let Some(Reverse((at, source))) = changes.pop() else { return };
                on[source] = !on[source];
                let (period, rate) = if on[source] {
                    (of.on, self.rate.saturating_add(of.peak))
                } else {
                    (of.off, self.rate.saturating_sub(of.peak))
                };
                changes.push(Reverse((at + period.draw(random), source)));
                self.rate = rate;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_the_published_types_are_the_computed_ones() {
        let means = [OnOff::TYPE_1, OnOff::TYPE_2, OnOff::TYPE_3]
            .map(|of| libm::round(of.peak_of_all().0 as f64 * of.share_on()));
        assert_eq!(means, [768_000.0, 780_000.0, 480_000.0]);
        assert_eq!(OnOff::TYPE_1.peak_of_all(), Rate(1_920_000));
        assert_eq!(OnOff::TYPE_3.peak_of_all(), Rate(7_680_000));
    }

    #[test]
    fn the_staircase_goes_up_and_down() {
        let of = Staircase { step: Rate(64), steps: 4, dwell: Duration(10) };
        let mut load = Load::new(&Traffic::Staircase(of), 0);
        let mut levels = vec![];
        for at in 0..10 {
            load.advance(Instant(at * 10));
            levels.push(load.rate().0 / 64);
        }
        assert_eq!(levels, [0, 1, 2, 3, 4, 3, 2, 1, 0, 1]);
    }

    #[test]
    fn exponential_sources_have_their_mean() {
        let mut load = Load::new(&Traffic::OnOff(OnOff::TYPE_2), 3);
        let (mut now, mut bits, end) = (Instant::ZERO, 0u128, Instant(2_000_000_000_000));
        while now < end {
            let next = load.next_change().min(end);
            bits += u128::from(load.rate().0) * u128::from(next.since(now).0);
            now = next;
            load.advance(now);
        }
        let mean = bits as f64 / end.0 as f64;
        // Deviation of the mean of 60 sources over 2000 s with a correlation time of 0.5 s: 26 · √(15 / 2000) ≈ 2.3.
        assert!((mean - 780_000.0).abs() < 9_000.0, "{mean}");
    }
}
