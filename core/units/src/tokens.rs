//! Token-bucket fill levels.

use crate::Bytes;
use serde::{Deserialize, Serialize};

/// Tokens in 10⁻⁹ bit: rate in bit/s × time in ns is an exact number of these. Signed, because buckets may be
/// overdrawn; saturates at ±9.2·10⁹ bit (1.15 GB).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub i64);

impl Tokens {
    /// Empty.
    pub const ZERO: Self = Self(0);
    /// The fullest bucket.
    pub const MAX: Self = Self(i64::MAX);
    /// Tokens of one byte.
    pub const PER_BYTE: i64 = 8_000_000_000;

    /// The tokens that `n` bytes cost, saturating.
    pub const fn from_bytes(n: Bytes) -> Self {
        if n.0 > (i64::MAX / Self::PER_BYTE) as u64 { Self::MAX } else { Self(n.0 as i64 * Self::PER_BYTE) }
    }
    /// Sum, saturating.
    #[must_use]
    pub const fn saturating_add(self, o: Self) -> Self {
        Self(self.0.saturating_add(o.0))
    }
    /// Difference, saturating.
    #[must_use]
    pub const fn saturating_sub(self, o: Self) -> Self {
        Self(self.0.saturating_sub(o.0))
    }
}
