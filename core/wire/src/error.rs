//! What can be wrong with one header, and what keeps it from going on.

use thiserror::Error;

/// Why bytes are not the header they should be. Whole frames are judged by [`crate::Malformed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum HeaderError {
    /// Fewer bytes than the header needs.
    #[error("header cut short")]
    Truncated,
    /// The version field has another value than this protocol's.
    #[error("wrong version field")]
    Version,
    /// A length field contradicts the header or the bytes at hand.
    #[error("length field contradicts the packet")]
    Length,
    /// The header's own checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// An option without its length, with a wrong one, or reaching past the options.
    #[error("malformed option")]
    MalformedOption,
    /// A type field names something else than this header.
    #[error("wrong type field")]
    Type,
}

/// The TTL or hop limit is used up: the packet must not be forwarded and deserves an ICMP time exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("time to live expired in transit")]
pub struct TtlExpired;
