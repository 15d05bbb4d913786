//! Limits of queues and shares of a link, as users write them.

use crate::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// How long a queue may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// At most this many packets.
    Packets(u32),
    /// At most this many bytes (IP length plus link overhead).
    Bytes(Bytes),
    /// At most what the rate of the queue's class (its guarantee, else its ceiling, else the port's rate) sends in this
    /// time.
    Time(Duration),
}

/// A rate as an absolute value or as parts per million of the enclosing rate (`"40 %"` = 400 000).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// The rate itself.
    Rate(Rate),
    /// Parts per million of the enclosing rate, 0 … 1 000 000.
    Ppm(u32),
}

impl QueueLimit {
    /// The limit in bytes on a link of `rate`; `None` for a packet limit.
    pub fn in_bytes(self, rate: Rate) -> Option<Bytes> {
        match self {
            Self::Packets(_) => None,
            Self::Bytes(n) => Some(n),
            Self::Time(time) => Some(rate.bytes_in(time)),
        }
    }
}

impl Share {
    /// Whether it is nothing of whatever encloses it.
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Rate(Rate::ZERO) | Self::Ppm(0))
    }

    /// The absolute rate inside an enclosing rate, rounded down.
    pub fn of(self, whole: Rate) -> Rate {
        match self {
            Self::Rate(r) => r,
            Self::Ppm(p) => Rate((whole.0 as u128 * p as u128 / 1_000_000) as u64),
        }
    }
}
