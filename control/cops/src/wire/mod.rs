//! Messages and objects as octets: RFC 2748 §2 and §3, RFC 4261 §4. An object a file.
//!
//! Objects come in the order of the RFC's grammars. What is reserved is written as zero and not looked at. Every other
//! departure is a [`Malformed`] with its place and the error by which the RFC answers it.

mod client_si;
mod context;
mod decision;
mod error;
mod handle;
mod header;
pub(crate) mod integrity;
mod interface;
mod message;
pub(crate) mod numbers;
pub(crate) mod object;
mod pdp_address;
mod pep_id;
mod reason;
mod report_type;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod timer;

pub use client_si::ClientSi;
pub use context::Context;
pub use decision::{Command, Decision, LocalDecision, Verdict};
pub use error::{Error, ErrorCode};
pub use handle::Handle;
pub use header::{ClientType, HEADER, Header, OpCode};
pub use integrity::{DIGEST, Integrity};
pub use interface::Interface;
pub use message::{Accept, Body, Close, Decided, Fault, Message, Open, Report, Request};
pub use object::{MAX_CONTENTS, Opaque, TooLong, object_name};
pub use pep_id::PepId;
pub use reason::{Reason, ReasonCode};
pub use report_type::ReportType;
pub use stream::{Frame, Frames, Lost};

/// Port of a PDP (RFC 2748 §2.3).
pub const PORT: u16 = 3288;
/// Longest message that is taken, octets: two of the longest objects.
pub const MAX_MESSAGE: usize = 131_072;
/// Longest handle that is taken, octets.
pub const MAX_HANDLE: usize = 64;
/// Longest name of a PEP, octets.
pub const MAX_PEP_ID: usize = 255;

/// Why octets are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// An object is longer than what is left, or shorter than its head.
    #[error("octet {at}: the length of an object is none")]
    Cut {
        /// Place in the message.
        at: usize,
    },
    /// There is no such operation.
    #[error("there is no operation {op}")]
    UnknownOp {
        /// Its number.
        op: u8,
    },
    /// There is no such object, or not of this type.
    #[error("octet {at}: there is no object of C-Num {c_num} and C-Type {c_type}")]
    UnknownObject {
        /// Its number.
        c_num: u8,
        /// Its type.
        c_type: u8,
        /// Place in the message.
        at: usize,
    },
    /// An object is missing.
    #[error("octet {at}: {} is missing", name(*.c_num))]
    Missing {
        /// Its number.
        c_num: u8,
        /// Where it should be.
        at: usize,
    },
    /// An object has no place there.
    #[error("octet {at}: {} has no place here", name(*.c_num))]
    Unexpected {
        /// Its number.
        c_num: u8,
        /// Place in the message.
        at: usize,
    },
    /// Contents that this object cannot have.
    #[error("octet {at}: this is no {}", name(*.c_num))]
    Value {
        /// Its number.
        c_num: u8,
        /// Place in the message.
        at: usize,
    },
    /// A handle without octets, or with too many.
    #[error("octet {at}: a handle has 1 to {MAX_HANDLE} octets")]
    Handle {
        /// Place in the message.
        at: usize,
    },
    /// A message of the connection with a client-type, or the other way round.
    #[error("client-type {client_type} has no such message")]
    ClientType {
        /// Which.
        client_type: ClientType,
    },
}

fn name(c_num: u8) -> &'static str {
    object_name(c_num).unwrap_or("an object")
}

impl Malformed {
    /// The error that answers it (RFC 2748 §2.2.8).
    pub const fn error(self) -> Error {
        match self {
            Self::UnknownObject { c_num, c_type, .. } => {
                Error { code: ErrorCode::UNKNOWN_OBJECT, sub_code: u16::from_be_bytes([c_num, c_type]) }
            }
            Self::Missing { c_num, .. } => {
                Error { code: ErrorCode::MANDATORY_OBJECT_MISSING, sub_code: u16::from_be_bytes([c_num, 0]) }
            }
            Self::Handle { .. } => Error::of(ErrorCode::BAD_HANDLE),
            _ => Error::of(ErrorCode::BAD_MESSAGE_FORMAT),
        }
    }

    /// The reason for which a request is deleted whose decision has it (RFC 2748 §3.4).
    pub const fn reason(self) -> Reason {
        match self {
            Self::UnknownObject { c_num, c_type, .. } => {
                Reason { code: ReasonCode::UNKNOWN_OBJECT, sub_code: u16::from_be_bytes([c_num, c_type]) }
            }
            _ => Reason::of(ReasonCode::MALFORMED_DECISION),
        }
    }

    /// Where in the message; 0 = as a whole.
    pub const fn at(self) -> usize {
        match self {
            Self::Cut { at }
            | Self::UnknownObject { at, .. }
            | Self::Missing { at, .. }
            | Self::Unexpected { at, .. }
            | Self::Value { at, .. }
            | Self::Handle { at } => at,
            Self::UnknownOp { .. } | Self::ClientType { .. } => 0,
        }
    }
}
