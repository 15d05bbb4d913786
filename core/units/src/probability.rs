//! Drop and loss probabilities.

use serde::{Deserialize, Serialize};

/// A probability as Q0.32: `p = raw / 2³²`; 0 … 1 − 2⁻³², and [`Probability::ONE`] stored as the largest value
/// and treated as certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Probability(pub u32);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(u32::MAX);

    /// Whether an event with this probability happens, given 32 uniform random bits.
    pub const fn happens(self, random: u32) -> bool {
        self.0 == u32::MAX || random < self.0
    }
}
