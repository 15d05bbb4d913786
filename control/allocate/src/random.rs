//! Where random bits come from: the caller, or a seed.

use perhop_units::mix;
use serde::{Deserialize, Serialize};

/// A supplier of random bits. Any closure that gives 64 uniform bits is one, for example `|| rng.next_u64()`.
pub trait Random {
    /// 64 uniform random bits.
    fn bits(&mut self) -> u64;

    /// Uniform in [0, limit), 0 for an empty range. The bias of the multiplication is below limit / 2⁶⁴.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Uniform in (0, 1], so that its logarithm is finite.
    fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

impl<F: FnMut() -> u64> Random for F {
    fn bits(&mut self) -> u64 {
        self()
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): a small generator whose whole state is one word, so that a model that draws
/// from it can be stored and continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The generator of stream `stream` of a seed. Streams are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix::spread(seed) ^ mix::spread(!stream) }
    }
}

impl Random for SplitMix64 {
    fn bits(&mut self) -> u64 {
        mix::next(&mut self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_draws_stay_in_range() {
        let (mut a, mut b) = (SplitMix64::new(1, 0), SplitMix64::new(1, 1));
        assert_ne!(a.bits(), b.bits());
        assert_eq!(a.below(0), 0);
        for _ in 0..1000 {
            assert!(a.below(7) < 7);
            let u = b.uniform();
            assert!(u > 0.0 && u <= 1.0);
        }
    }
}
