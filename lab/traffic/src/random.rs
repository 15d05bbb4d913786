//! Seeded randomness: one independent generator for every stream of every repetition.

use perhop_units::Duration;
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

    /// The generator of one stream. Adding streams never changes what another stream draws.
    pub(crate) fn generator(self, stream: u16) -> Generator {
        let repetition = u64::from(self.repetition) << 32;
        // Mixed first, because a linear generator started from neighbouring seeds begins alike.
        let high = mixed(self.seed);
        let low = mixed(high ^ repetition ^ u64::from(stream));
        let state = (u128::from(high) << 64) | u128::from(low);
        Generator(Pcg64::new(state, u128::from(repetition | u64::from(stream))))
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every bit.
fn mixed(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
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
        // In (0, 1], so that the logarithm is finite.
        let uniform = ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Duration(libm::round(-libm::log(uniform) * mean.as_nanos() as f64) as u64)
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
