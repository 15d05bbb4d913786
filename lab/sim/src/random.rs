//! Random streams: one for each entity, so that adding one changes nothing for the others.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The stream of one entity.
#[derive(Clone, Debug)]
pub(crate) struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream `number` of a repetition.
    pub(crate) fn new(seed: u64, repetition: u32, number: u64) -> Self {
        // SplitMix64 (Steele, Lea, Flood 2014) spreads neighbouring seeds over the whole state.
        let mut word = seed ^ (u64::from(repetition) << 40) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut next = || {
            word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = word;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        next();
        Self(Pcg64Mcg::seed_from_u64(next()))
    }

    /// 32 random bits.
    pub(crate) fn bits(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Uniform over (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}
