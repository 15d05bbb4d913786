//! Packet colours of RFC 2697 and 2698.

use serde::{Deserialize, Serialize};

/// Drop precedence given by a meter. Ordered: green is best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Color {
    /// Conforms.
    #[default]
    Green = 0,
    /// Exceeds.
    Yellow = 1,
    /// Violates.
    Red = 2,
}
