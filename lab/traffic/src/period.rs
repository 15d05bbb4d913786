//! Lengths of alternating periods: constant, exponential or Pareto.

use crate::error::TrafficError;
use crate::random::Generator;
use crate::source::check_range;
use perhop_units::Duration;

/// A Pareto period is never longer than this many means; the scale is corrected so that the mean stays what it is.
pub const PARETO_CUT: u64 = 1000;
/// Longest mean period: one day.
pub const MAX_MEAN_PERIOD: Duration = Duration::from_secs(86_400);

/// Distribution of a period's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Always the same.
    Constant {
        /// The length, above 0.
        length: Duration,
    },
    /// Exponential.
    Exponential {
        /// Mean length, above 0.
        mean: Duration,
    },
    /// Pareto, cut at [`PARETO_CUT`] means: many such sources together are self-similar (Willinger, Taqqu, Sherman,
    /// Wilson 1997).
    Pareto {
        /// Mean length, above 0.
        mean: Duration,
        /// Shape in thousandths, 1050 … 10000. Below 2000 the uncut variance is infinite.
        shape_milli: u32,
    },
}

impl Period {
    /// Mean length.
    pub fn mean(&self) -> Duration {
        match *self {
            Self::Constant { length } => length,
            Self::Exponential { mean } | Self::Pareto { mean, .. } => mean,
        }
    }

    /// Checks the mean against `least`, and the shape.
    pub(crate) fn check(&self, what: &'static str, least: Duration) -> Result<(), TrafficError> {
        check_range(what, self.mean().as_nanos(), least.as_nanos().max(1), MAX_MEAN_PERIOD.as_nanos())?;
        match *self {
            Self::Pareto { shape_milli, .. } => {
                check_range("Pareto shape in thousandths", u64::from(shape_milli), 1050, 10_000)
            }
            _ => Ok(()),
        }
    }
}

/// Draws periods; built once, because the scale of a cut Pareto distribution is found by bisection.
#[derive(Clone, Debug)]
pub(crate) struct PeriodSampler {
    period: Period,
    /// Least length of a Pareto period in ns.
    scale_ns: f64,
}

impl PeriodSampler {
    pub(crate) fn new(period: Period) -> Self {
        let scale_ns = match period {
            Period::Pareto { mean, shape_milli } => {
                mean.as_nanos() as f64 * cut_pareto_scale(f64::from(shape_milli) / 1000.0)
            }
            _ => 0.0,
        };
        Self { period, scale_ns }
    }

    pub(crate) fn draw(&self, generator: &mut Generator) -> Duration {
        match self.period {
            Period::Constant { length } => length,
            Period::Exponential { mean } => generator.exponential(mean),
            Period::Pareto { mean, shape_milli } => {
                let length = self.scale_ns * libm::pow(generator.uniform(), -1000.0 / f64::from(shape_milli));
                Duration(libm::round(length) as u64).min(mean.saturating_mul(PARETO_CUT))
            }
        }
    }
}

/// The scale m of a Pareto distribution cut at c = `PARETO_CUT` whose mean is 1: m + ∫ (m/x)^a dx from m to c = 1.
fn cut_pareto_scale(shape: f64) -> f64 {
    let cut = PARETO_CUT as f64;
    let mean = |m: f64| {
        m + libm::pow(m, shape) * (libm::pow(m, 1.0 - shape) - libm::pow(cut, 1.0 - shape)) / (shape - 1.0)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if mean(middle) < 1.0 { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn every_distribution_has_its_mean() {
        let mean = Duration::from_millis(100);
        for (period, bound) in [
            (Period::Constant { length: mean }, 0.0),
            (Period::Exponential { mean }, 0.01),
            (Period::Pareto { mean, shape_milli: 2500 }, 0.01),
            (Period::Pareto { mean, shape_milli: 1500 }, 0.05),
        ] {
            let sampler = PeriodSampler::new(period);
            let mut generator = Seed::new(3).generator(0);
            let n = 200_000;
            let sum: f64 = (0..n).map(|_| sampler.draw(&mut generator).as_millis_f64()).sum();
            let measured = sum / f64::from(n);
            assert!((measured / 100.0 - 1.0).abs() <= bound, "{period:?}: {measured}");
        }
    }

    /// P(X > x) = (scale / x)^shape at three points.
    #[test]
    fn pareto_has_its_tail() {
        let sampler = PeriodSampler::new(Period::Pareto { mean: Duration::from_secs(1), shape_milli: 1500 });
        let mut generator = Seed::new(4).generator(0);
        let draws: Vec<f64> = (0..100_000).map(|_| sampler.draw(&mut generator).0 as f64).collect();
        for factor in [2.0, 5.0, 20.0] {
            let beyond = draws.iter().filter(|x| **x > factor * sampler.scale_ns).count() as f64 / 1e5;
            let expected = libm::pow(factor, -1.5);
            assert!((beyond / expected - 1.0).abs() < 0.1, "{factor}: {beyond} for {expected}");
        }
        assert!(draws.iter().all(|x| *x <= 1000e9 && *x >= sampler.scale_ns - 1.0));
    }
}
