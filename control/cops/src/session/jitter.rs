//! Random spans of time from a seed (SplitMix64).

use perhop_units::{Duration, Instant};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Between a quarter and three quarters of a span from `now`.
    pub(crate) fn within(&mut self, now: Instant, span: Duration) -> Instant {
        let quarter = span.0 / 4;
        let more = u128::from(self.next()) * u128::from(span.0 / 2) >> 64;
        now + Duration(quarter + more as u64)
    }
}
