//! Seeded randomness: one independent generator for every stream of every repetition.

use perhop_units::{Duration, mix};
use rand::Rng as _;
use rand_pcg::Pcg64;

/// Seed of a run and number of the repetition; together with a stream number they select a generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed {
    /// Seed of the whole run.
    pub seed: u64,
    /// Repetition, from 0.
    pub repetition: u32,
}

impl Seed {
    /// Seed `seed`, first repetition.
    pub const fn new(seed: u64) -> Self {
        Self { seed, repetition: 0 }
    }

    /// A time from 0 to `within`, for one stream: when it starts, so that a source without any chance in it meets others at
    /// another phase in every repetition. Sources that draw themselves need none.
    pub fn moment(self, stream: u16, within: Duration) -> Duration {
        self.member(STARTS, stream).between(Duration::ZERO, within)
    }

    /// The generator of one stream. Adding streams never changes what another stream draws.
    pub(crate) fn generator(self, stream: u16) -> Generator {
        let repetition = u64::from(self.repetition) << 32;
        // Mixed first, because a linear generator started from neighbouring seeds begins alike.
        let high = mixed(self.seed);
        let low = mixed(high ^ repetition ^ u64::from(stream));
        let state = (u128::from(high) << 64) | u128::from(low);
        Generator(Pcg64::new(state, u128::from(repetition | u64::from(stream))))
    }

    /// The generator of one member of a group, for example one user of an application. Groups share nothing with
    /// each other or with streams of the same number.
    pub(crate) fn member(self, group: u16, member: u16) -> Generator {
        Self { seed: mixed(self.seed ^ mixed(GROUPS | u64::from(group))), ..self }.generator(member)
    }
}

/// Sets the seeds of groups apart from those of streams.
const GROUPS: u64 = 1 << 48;

/// The group of what [`Seed::moment`] draws; drivers of applications are numbered from 0.
const STARTS: u16 = u16::MAX;

/// A bijection that spreads every bit.
fn mixed(mut value: u64) -> u64 {
    mix::next(&mut value)
}

/// A stream's generator with the draws sources need.
#[derive(Clone, Debug)]
pub(crate) struct Generator(Pcg64);

impl Generator {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, limit), 0 for an empty range. The bias of the multiplication is below limit / 2⁶⁴.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Exponential with this mean, in whole ns.
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        Duration(libm::round(-libm::log(self.uniform()) * mean.as_nanos() as f64) as u64)
    }

    /// Uniform in (0, 1], so that its logarithm is finite.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [least, most] whole ns; `least` if the range is empty.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + Duration(self.below((most - least).as_nanos().saturating_add(1)))
    }

    /// Standard normal, by the method of Box and Muller (1958); the second value of the pair is not kept.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.uniform()));
        radius * libm::cos(2.0 * core::f64::consts::PI * self.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_differ_by_seed_repetition_and_stream() {
        let first = |seed, repetition, stream| Seed { seed, repetition }.generator(stream).bits();
        let mut draws: Vec<u64> = Vec::new();
        for seed in 0..8 {
            for repetition in 0..8 {
                for stream in 0..8 {
                    draws.push(first(seed, repetition, stream));
                }
            }
        }
        assert_eq!(first(3, 2, 1), first(3, 2, 1));
        draws.sort_unstable();
        draws.dedup();
        assert_eq!(draws.len(), 512);
    }

    #[test]
    fn moments_fill_their_range_and_differ_by_repetition() {
        let within = Duration::from_secs(20);
        let moment = |repetition| Seed { seed: 7, repetition }.moment(3, within);
        let mut moments: Vec<Duration> = (0..200).map(moment).collect();
        assert_eq!(moment(5), moments[5]);
        moments.sort_unstable();
        // 200 uniform draws leave a tenth of the range empty at an end with a chance of 0.9 to the 200th, 7e-10.
        assert!(moments[0] < Duration::from_secs(2) && moments[199] > Duration::from_secs(18));
        assert!(moments[199] <= within && moments.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(Seed::new(1).moment(0, Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn groups_draw_apart_from_each_other_and_from_streams() {
        let seed = Seed::new(5);
        let mut draws: Vec<u64> = (0..16).map(|stream| seed.generator(stream).bits()).collect();
        for group in 0..16 {
            draws.extend((0..16).map(|member| seed.member(group, member).bits()));
        }
        draws.sort_unstable();
        draws.dedup();
        assert_eq!(draws.len(), 16 * 17);
    }

    /// Moments of the standard normal: mean 0, variance 1, kurtosis 3.
    #[test]
    fn normal_has_its_moments() {
        let mut generator = Seed::new(2).generator(0);
        let draws: Vec<f64> = (0..100_000).map(|_| generator.normal()).collect();
        let moment = |power| draws.iter().map(|x| libm::pow(*x, power)).sum::<f64>() / draws.len() as f64;
        assert!(moment(1.0).abs() < 0.015, "{}", moment(1.0));
        assert!((moment(2.0) - 1.0).abs() < 0.02, "{}", moment(2.0));
        assert!((moment(4.0) - 3.0).abs() < 0.15, "{}", moment(4.0));
    }

    #[test]
    fn exponential_has_its_mean_and_deviation() {
        let mut generator = Seed::new(7).generator(0);
        let n = 100_000;
        let draws: Vec<f64> =
            (0..n).map(|_| generator.exponential(Duration::from_millis(10)).as_millis_f64()).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(n);
        assert!((mean - 10.0).abs() < 0.15, "{mean}");
        assert!((variance.sqrt() - 10.0).abs() < 0.3, "{}", variance.sqrt());
    }
}
