//! What chance does to packets on an emulated line: bursts of loss, shapes of delay.

use super::delay_line::jittered;
use perhop_units::{Duration, Probability};

/// Two-state loss (Gilbert 1960, Elliott 1963), stepped once a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstLoss {
    /// From good to bad.
    pub p: Probability,
    /// From bad to good.
    pub r: Probability,
    /// Loss in the good state.
    pub loss_good: Probability,
    /// Loss in the bad state.
    pub loss_bad: Probability,
}

impl BurstLoss {
    /// Steps the state (`true`: bad) for a packet; whether the packet is lost.
    pub fn loses(&self, bad: &mut bool, mut random: impl FnMut() -> u32) -> bool {
        let flip = if *bad { self.r } else { self.p };
        *bad ^= flip.happens(random());
        let loss = if *bad { self.loss_bad } else { self.loss_good };
        loss != Probability::ZERO && loss.happens(random())
    }
}

/// Shape of a random delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterShape {
    /// Uniform, up to the spread to either side.
    #[default]
    Uniform,
    /// Normal with the spread as standard deviation.
    Normal,
    /// The delay plus a Pareto excess (shape 3) with the spread as standard deviation: a long tail.
    Pareto,
}

impl JitterShape {
    /// A delay of this shape; never below zero.
    pub fn delay(self, delay: Duration, spread: Duration, mut random: impl FnMut() -> u32) -> Duration {
        if spread == Duration::ZERO {
            return delay;
        }
        // Over (0, 1], so that its logarithm exists.
        let mut unit = || (f64::from(random()) + 1.0) / 4_294_967_296.0;
        let (mean, sigma) = (delay.0 as f64, spread.0 as f64);
        let drawn = match self {
            Self::Uniform => return jittered(delay, spread, random()),
            // Box and Muller 1958.
            Self::Normal => {
                let (u, v) = (unit(), unit());
                mean + libm::sqrt(-2.0 * libm::log(u)) * libm::cos(std::f64::consts::TAU * v) * sigma
            }
            // Pareto of shape 3 and scale m has the standard deviation m·√3/2.
            Self::Pareto => mean + (libm::cbrt(1.0 / unit()) - 1.0) * sigma * 2.0 / libm::sqrt(3.0),
        };
        Duration(drawn.max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn moments(shape: JitterShape) -> (f64, f64, u64) {
        let mut rng = Pcg64Mcg::seed_from_u64(11);
        let n = 100_000;
        let draw = |_| shape.delay(Duration(50_000_000), Duration(2_000_000), || rng.next_u32()).0;
        let values: Vec<u64> = (0..n).map(draw).collect();
        let mean = values.iter().sum::<u64>() as f64 / f64::from(n);
        let variance = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / f64::from(n);
        (mean, variance.sqrt(), values.iter().copied().min().unwrap_or(0))
    }

    /// Mean and standard deviation of each law; the Pareto one converges slowly.
    #[test]
    fn shapes_have_their_moments() {
        let (mean, sigma, least) = moments(JitterShape::Uniform);
        assert!((mean - 5e7).abs() < 2e4 && (sigma - 2e6 / 3f64.sqrt()).abs() < 2e4, "{mean} {sigma}");
        assert!(least >= 48_000_000);
        let (mean, sigma, _) = moments(JitterShape::Normal);
        assert!((mean - 5e7).abs() < 4e4 && (sigma - 2e6).abs() < 3e4, "{mean} {sigma}");
        let (mean, sigma, least) = moments(JitterShape::Pareto);
        // The excess has the mean m/2 with m = 2σ/√3.
        assert!((mean - 5e7 - 2e6 / 3f64.sqrt()).abs() < 5e4, "{mean}");
        assert!((1.5e6..3e6).contains(&sigma) && least >= 50_000_000, "{sigma} {least}");
    }

    #[test]
    fn a_spread_beyond_the_delay_ends_at_zero() {
        for shape in [JitterShape::Uniform, JitterShape::Normal] {
            let mut rng = Pcg64Mcg::seed_from_u64(3);
            let delays: Vec<u64> =
                (0..1000).map(|_| shape.delay(Duration(10), Duration(1000), || rng.next_u32()).0).collect();
            assert!(delays.contains(&0) && delays.iter().any(|d| *d > 500), "{shape:?}");
        }
    }

    /// Share of bad packets p/(p + r), bursts of 1/r packets.
    #[test]
    fn bursts_have_their_share_and_length() {
        let probability = |p: f64| Probability((p * 4_294_967_296.0) as u32);
        let model = BurstLoss {
            p: probability(0.01),
            r: probability(0.19),
            loss_good: Probability::ZERO,
            loss_bad: Probability::ONE,
        };
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let (mut bad, mut lost, mut bursts, mut before) = (false, 0u32, 0u32, false);
        for _ in 0..200_000 {
            let loses = model.loses(&mut bad, || rng.next_u32());
            lost += u32::from(loses);
            bursts += u32::from(loses && !before);
            before = loses;
        }
        let share = f64::from(lost) / 200_000.0;
        let length = f64::from(lost) / f64::from(bursts);
        assert!((share - 0.05).abs() < 0.005, "{share}");
        assert!((length - 1.0 / 0.19).abs() < 0.4, "{length}");
    }
}
