//! Mean and spread of a result over seeds.

use serde::{Deserialize, Serialize};

/// Mean, deviation and extremes of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many values.
    pub count: u32,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation, 0 for one value.
    pub deviation: f64,
    /// Least value.
    pub least: f64,
    /// Greatest value.
    pub greatest: f64,
}

impl Spread {
    /// Of these values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
        let mean = values.iter().sum::<f64>() / f64::from(count);
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = if count > 1 { libm::sqrt(squares / f64::from(count - 1)) } else { 0.0 };
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { count, mean, deviation, least, greatest })
    }

    /// Half the width of the 95 % confidence interval of the mean by Student's t.
    pub fn half_width_95(&self) -> f64 {
        /// Quantiles for 1, 2, 3 … degrees of freedom.
        const T: [f64; 14] = [
            12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        ];
        if self.count < 2 {
            return f64::INFINITY;
        }
        let freedom = self.count as usize - 1;
        // Beyond the table the expansion 1.96 + 2.4 / ν is right to 0.3 %.
        let t = T.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64);
        t * self.deviation / libm::sqrt(f64::from(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_known_values() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).expect("there are values");
        assert_eq!((spread.mean, spread.least, spread.greatest), (5.0, 2.0, 9.0));
        assert!((spread.deviation - 2.138_089_9).abs() < 1e-6);
        assert!((spread.half_width_95() - 2.365 * 2.138_089_9 / 8f64.sqrt()).abs() < 1e-6);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0]).map(|one| one.half_width_95()), Some(f64::INFINITY));
    }
}
