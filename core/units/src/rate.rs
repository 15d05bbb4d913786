//! Bit rates.

use crate::{Bytes, Duration, Tokens};
use serde::{Deserialize, Serialize};

/// A rate in whole bit/s, 0 … 2⁶⁴−1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

impl Rate {
    /// Nothing passes.
    pub const ZERO: Self = Self(0);

    /// `n` bit/s.
    pub const fn from_bits_per_sec(n: u64) -> Self {
        Self(n)
    }
    /// `n` kbit/s (10³), saturating.
    pub const fn from_kbit(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }
    /// `n` Mbit/s (10⁶), saturating.
    pub const fn from_mbit(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }
    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }
    /// What this rate earns in `dt`: rate × Δt is exact in 10⁻⁹ bit; saturates at [`Tokens::MAX`].
    pub const fn earned(self, dt: Duration) -> Tokens {
        let product = self.0 as u128 * dt.0 as u128;
        if product > i64::MAX as u128 { Tokens::MAX } else { Tokens(product as i64) }
    }
    /// Time to send `len` at this rate, rounded up to a whole ns; [`Duration::MAX`] at rate zero.
    pub const fn time_for(self, len: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let bits_ns = len.0 as u128 * 8 * 1_000_000_000;
        let ns = bits_ns.div_ceil(self.0 as u128);
        if ns > u64::MAX as u128 { Duration::MAX } else { Duration(ns as u64) }
    }
    /// Time until `deficit` tokens are earned, rounded up; zero for none, [`Duration::MAX`] at rate zero.
    pub const fn time_to_earn(self, deficit: Tokens) -> Duration {
        if deficit.0 <= 0 {
            return Duration::ZERO;
        }
        if self.0 == 0 {
            return Duration::MAX;
        }
        Duration((deficit.0 as u64).div_ceil(self.0))
    }
    /// Bytes sent in `dt` at this rate, rounded down, saturating.
    pub const fn bytes_in(self, dt: Duration) -> Bytes {
        let bytes = self.0 as u128 * dt.0 as u128 / 8_000_000_000;
        if bytes > u64::MAX as u128 { Bytes(u64::MAX) } else { Bytes(bytes as u64) }
    }
}
