//! Physical quantities and code points of the data plane, as types.
//!
//! Every quantity is an integer in a base unit (bit/s, byte, ns, 10⁻⁹ bit, 2⁻³²), so arithmetic is exact or
//! saturates where stated. Text forms (`10 Mbit/s`, `30 ms`, `1500 B`, `EF`) live in [`mod@text`]. Beside them [`mix`]
//! mixes words for everybody who draws from a seed.

#![forbid(unsafe_code)]

mod bytes;
mod color;
mod dscp;
mod framing;
mod limit;
pub mod mix;
mod probability;
mod rate;
pub mod text;
mod time;
mod tokens;

pub use bytes::Bytes;
pub use color::Color;
pub use dscp::Dscp;
pub use framing::Framing;
pub use limit::{QueueLimit, Share};
pub use probability::Probability;
pub use rate::Rate;
pub use text::{ParseUnitError, UnitErrorKind};
pub use time::{Duration, Instant};
pub use tokens::Tokens;
