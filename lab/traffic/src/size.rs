//! Distributions of sizes: packets of several modes, files and objects with a long tail.

use crate::error::TrafficError;
use crate::random::Generator;
use crate::source::{MAX_PAYLOAD, check_range};
use crate::stamp::STAMP_LEN;

/// Modes of a packet-size mixture.
pub const SIZE_MODES: usize = 4;
/// Largest file or object: 1 TB.
pub const MAX_OBJECT_BYTES: u64 = 1_000_000_000_000;

/// One mode of a mixture: a Gaussian of IP lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeMode {
    /// Share of the packets, relative to the other weights.
    pub weight: u16,
    /// Mean IP length in bytes.
    pub mean_bytes: u16,
    /// Standard deviation in bytes.
    pub deviation_bytes: u16,
}

/// A mixture of four Gaussians. A draw outside the limits becomes the nearer limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeMixture {
    /// The modes; at least one has a weight above 0.
    pub modes: [SizeMode; SIZE_MODES],
    /// Largest IP length in bytes. The least is what headers and stamp take.
    pub most_bytes: u16,
}

impl SizeMixture {
    /// Short, two middle and full packets up to 1500 B. Our own choice: the thesis behind the background scenarios
    /// gives four Gaussians and no parameters.
    pub const FOUR_MODES: Self = Self {
        modes: [
            SizeMode { weight: 40, mean_bytes: 64, deviation_bytes: 12 },
            SizeMode { weight: 15, mean_bytes: 300, deviation_bytes: 80 },
            SizeMode { weight: 20, mean_bytes: 576, deviation_bytes: 40 },
            SizeMode { weight: 25, mean_bytes: 1460, deviation_bytes: 30 },
        ],
        most_bytes: 1500,
    };

    pub(crate) fn check(&self, overhead_bytes: u16) -> Result<(), TrafficError> {
        let least = self.least(overhead_bytes);
        let most = u64::from(MAX_PAYLOAD) + u64::from(overhead_bytes);
        check_range("largest packet in bytes", u64::from(self.most_bytes), least, most)?;
        if self.modes.iter().all(|mode| mode.weight == 0) {
            return Err(TrafficError::Zero { what: "sum of the size weights" });
        }
        Ok(())
    }

    fn least(&self, overhead_bytes: u16) -> u64 {
        u64::from(overhead_bytes) + STAMP_LEN as u64
    }

    fn weights(&self) -> u64 {
        self.modes.iter().map(|mode| u64::from(mode.weight)).sum()
    }

    /// Mean IP length in bytes of what is drawn, with the limits' effect.
    pub fn mean_bytes(&self, overhead_bytes: u16) -> f64 {
        let (least, most) = (self.least(overhead_bytes) as f64, f64::from(self.most_bytes));
        let sum: f64 = self.modes.iter().map(|m| f64::from(m.weight) * clamped_mean(m, least, most)).sum();
        sum / self.weights() as f64
    }

    /// Draws an IP length.
    pub(crate) fn draw(&self, overhead_bytes: u16, generator: &mut Generator) -> u16 {
        let mut choice = generator.below(self.weights());
        let normal = generator.normal();
        for mode in &self.modes {
            let weight = u64::from(mode.weight);
            if choice < weight {
                let length = f64::from(mode.mean_bytes) + normal * f64::from(mode.deviation_bytes);
                let least = self.least(overhead_bytes) as f64;
                return libm::round(length.clamp(least, f64::from(self.most_bytes).max(least))) as u16;
            }
            choice -= weight;
        }
        self.most_bytes
    }
}

/// Mean of a Gaussian whose draws are moved to [least, most].
fn clamped_mean(mode: &SizeMode, least: f64, most: f64) -> f64 {
    let (mean, deviation) = (f64::from(mode.mean_bytes), f64::from(mode.deviation_bytes));
    if mode.deviation_bytes == 0 {
        return mean.clamp(least, most);
    }
    let below = |x: f64| 0.5 * libm::erfc((mean - x) / (deviation * core::f64::consts::SQRT_2));
    let density = |x: f64| {
        let z = (x - mean) / deviation;
        libm::exp(-z * z / 2.0) / libm::sqrt(2.0 * core::f64::consts::PI)
    };
    let (low, high) = (below(least), below(most));
    least * low + most * (1.0 - high) + mean * (high - low) - deviation * (density(most) - density(least))
}

/// A lognormal distribution of file or object sizes, cut to 1 B … `most_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LognormalSize {
    /// Geometric mean, which is the median, in bytes: 1 … [`MAX_OBJECT_BYTES`].
    pub geometric_mean_bytes: u64,
    /// Standard deviation of the natural logarithm in thousandths, 0 … 4000; 0 makes all sizes equal.
    pub sigma_milli: u32,
    /// Largest size in bytes, geometric mean … [`MAX_OBJECT_BYTES`].
    pub most_bytes: u64,
}

impl LognormalSize {
    /// Sigma 0.5 is ours: the published measurements give geometric means only.
    const SIGMA_MILLI: u32 = 500;
    /// Objects of web pages: geometric mean 10 kB.
    pub const WEB_OBJECT: Self =
        Self { geometric_mean_bytes: 10_000, sigma_milli: Self::SIGMA_MILLI, most_bytes: MAX_OBJECT_BYTES };
    /// Files: geometric mean 3 MB.
    pub const FILE: Self = Self {
        geometric_mean_bytes: 3_000_000,
        sigma_milli: Self::SIGMA_MILLI,
        most_bytes: MAX_OBJECT_BYTES,
    };

    /// Arithmetic mean before the cut, in bytes: geometric mean · exp(σ² / 2).
    pub fn mean_bytes(&self) -> f64 {
        let sigma = f64::from(self.sigma_milli) / 1000.0;
        self.geometric_mean_bytes as f64 * libm::exp(sigma * sigma / 2.0)
    }

    pub(crate) fn check(&self) -> Result<(), TrafficError> {
        let mean = self.geometric_mean_bytes;
        check_range("geometric mean of sizes in bytes", mean, 1, MAX_OBJECT_BYTES)?;
        check_range("sigma of sizes in thousandths", u64::from(self.sigma_milli), 0, 4000)?;
        check_range("largest size in bytes", self.most_bytes, mean, MAX_OBJECT_BYTES)
    }

    pub(crate) fn draw(&self, generator: &mut Generator) -> u64 {
        let deviation = f64::from(self.sigma_milli) / 1000.0 * generator.normal();
        let size = libm::round(self.geometric_mean_bytes as f64 * libm::exp(deviation));
        (size as u64).clamp(1, self.most_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn packets_have_the_computed_mean_and_their_modes() {
        let mut generator = Seed::new(1).generator(0);
        let wide = SizeMixture {
            modes: [SizeMode { weight: 1, mean_bytes: 100, deviation_bytes: 400 }; SIZE_MODES],
            most_bytes: 600,
        };
        for mixture in [SizeMixture::FOUR_MODES, wide] {
            let n = 100_000;
            let draws: Vec<f64> = (0..n).map(|_| f64::from(mixture.draw(28, &mut generator))).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(n);
            assert!((mean / mixture.mean_bytes(28) - 1.0).abs() < 0.01, "{mean}");
            assert!(draws.iter().all(|d| (44.0..=f64::from(mixture.most_bytes)).contains(d)));
        }
        let short = (0..10_000).filter(|_| SizeMixture::FOUR_MODES.draw(28, &mut generator) < 110).count();
        assert!((short as f64 / 10_000.0 - 0.4).abs() < 0.02, "{short}");
    }

    /// The logarithms are normal: mean ln(median), deviation sigma; and the arithmetic mean is the formula's.
    #[test]
    fn objects_are_lognormal() {
        let mut generator = Seed::new(2).generator(0);
        let size =
            LognormalSize { geometric_mean_bytes: 10_000, sigma_milli: 1000, most_bytes: MAX_OBJECT_BYTES };
        let n = 100_000.0;
        let draws: Vec<f64> = (0..100_000).map(|_| size.draw(&mut generator) as f64).collect();
        let logs: Vec<f64> = draws.iter().map(|d| libm::log(*d)).collect();
        let mean = logs.iter().sum::<f64>() / n;
        let deviation = libm::sqrt(logs.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>() / n);
        assert!((libm::exp(mean) / 10_000.0 - 1.0).abs() < 0.01, "{}", libm::exp(mean));
        assert!((deviation - 1.0).abs() < 0.01, "{deviation}");
        assert!((draws.iter().sum::<f64>() / n / size.mean_bytes() - 1.0).abs() < 0.02);
    }

    #[test]
    fn wrong_parameters_are_named() {
        let size = LognormalSize { most_bytes: 9_999, ..LognormalSize::WEB_OBJECT };
        assert_eq!(
            size.check().map_err(|e| e.to_string()),
            Err("largest size in bytes is 9999; allowed is 10000 to 1000000000000".to_owned())
        );
        let mixture = SizeMixture { most_bytes: 43, ..SizeMixture::FOUR_MODES };
        assert!(mixture.check(27).is_ok() && mixture.check(28).is_err());
    }
}
