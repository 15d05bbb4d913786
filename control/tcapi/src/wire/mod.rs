//! Messages as octets. `docs/tcapi.md` is the specification; the numbers are here.

mod answer;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod tlv;

pub use answer::{Answer, Refusal, Timing};
pub use request::{
    Alternative, Body, Direction, FlowId, Message, Request, Reservation, Scope, ServiceClass, Verb,
};
pub use stream::{Frame, Frames, Lost};

use perhop_reason::Code;
use thiserror::Error;

/// The version of messages.
pub const VERSION: u32 = 1;
/// Longest message, octets, head included: 64 alternatives of a filter with addresses of IPv6 take 4 KiB.
pub const MAX_MESSAGE: usize = 16_384;
/// Most alternatives of a filter.
pub const MAX_ALTERNATIVES: usize = 64;

/// Numbers of messages.
pub(crate) mod kind {
    pub(crate) const REQUEST: u16 = 0x0001;
    pub(crate) const MODIFY: u16 = 0x0002;
    pub(crate) const RELEASE: u16 = 0x0003;
    pub(crate) const ACK: u16 = 0x0004;
    pub(crate) const NACK: u16 = 0x0005;
    pub(crate) const HELLO: u16 = 0x0006;
}

/// Numbers of what is in messages.
pub(crate) mod part {
    pub(crate) const FLOW_ID: u16 = 0x0101;
    pub(crate) const SERVICE_CLASS: u16 = 0x0102;
    pub(crate) const RESERVATION: u16 = 0x0103;
    pub(crate) const FILTER: u16 = 0x0104;
    pub(crate) const SCOPE: u16 = 0x0105;
    pub(crate) const LIFETIME: u16 = 0x0106;
    pub(crate) const DIRECTION: u16 = 0x0107;
    pub(crate) const CLIENT: u16 = 0x0108;
    pub(crate) const ERROR: u16 = 0x01f0;
    pub(crate) const TIMING: u16 = 0x01f1;
    pub(crate) const EPOCH: u16 = 0x01f2;
    pub(crate) const REFUSAL: u16 = 0x01f3;
}

/// Why octets are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A part is longer than what it is in.
    #[error("octet {at}: a part is longer than what it is in")]
    Cut {
        /// Place in the message.
        at: usize,
    },
    /// What fills a value up is not zero.
    #[error("octet {at}: what fills a value up must be zero")]
    NotZero {
        /// Place in the message.
        at: usize,
    },
    /// A value that its type cannot have.
    #[error("octet {at}: this is no value of a part of type 0x{kind:04x}")]
    Value {
        /// Type of the part.
        kind: u16,
        /// Place in the message.
        at: usize,
    },
    /// A part that must be understood and is not.
    #[error("octet {at}: parts of type 0x{kind:04x} are not known here, and this one must be understood")]
    UnknownPart {
        /// Its type.
        kind: u16,
        /// Place in the message.
        at: usize,
    },
    /// A message that is not known.
    #[error("there is no message of type 0x{kind:04x}")]
    UnknownMessage {
        /// Its type.
        kind: u16,
    },
    /// Another version.
    #[error("messages of version {version} are not known here: {VERSION} is")]
    Version {
        /// Which.
        version: u32,
    },
    /// A part is there twice.
    #[error("octet {at}: a second part of type 0x{kind:04x}")]
    Twice {
        /// Its type.
        kind: u16,
        /// Place in the message.
        at: usize,
    },
    /// A part is missing.
    #[error("a part of type 0x{kind:04x} is missing")]
    Missing {
        /// Its type.
        kind: u16,
    },
    /// Too many alternatives of a filter.
    #[error("octet {at}: more than {MAX_ALTERNATIVES} alternatives of a filter")]
    TooMany {
        /// Place in the message.
        at: usize,
    },
}

impl Malformed {
    /// The reason code that answers it.
    pub fn code(self) -> Code {
        match self {
            Self::UnknownPart { .. } => Code::UnknownField,
            Self::UnknownMessage { .. } => Code::UnknownKind,
            Self::Version { .. } => Code::Unsupported,
            Self::TooMany { .. } => Code::LimitReached,
            _ => Code::Malformed,
        }
    }

    /// Where in the message; 0 = as a whole.
    pub fn at(self) -> usize {
        match self {
            Self::Cut { at }
            | Self::NotZero { at }
            | Self::Value { at, .. }
            | Self::UnknownPart { at, .. }
            | Self::Twice { at, .. }
            | Self::TooMany { at } => at,
            Self::UnknownMessage { .. } | Self::Version { .. } | Self::Missing { .. } => 0,
        }
    }
}
