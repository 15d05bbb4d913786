//! Sizes in bytes.

use serde::{Deserialize, Serialize};

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Whole bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Sum, saturating.
    #[must_use]
    pub const fn saturating_add(self, o: Self) -> Self {
        Self(self.0.saturating_add(o.0))
    }
    /// Difference, zero if `o` is larger.
    #[must_use]
    pub const fn saturating_sub(self, o: Self) -> Self {
        Self(self.0.saturating_sub(o.0))
    }
}

impl From<Bytes> for u64 {
    fn from(bytes: Bytes) -> u64 {
        bytes.0
    }
}
