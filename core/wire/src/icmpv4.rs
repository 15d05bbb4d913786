//! ICMP for IPv4 (RFC 792; fragmentation needed RFC 1191).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     type      |     code      |           checksum            |
//! +---------------+---------------+-------------------------------+
//! |     depends on type: identifier and sequence, MTU, ...        |
//! +---------------------------------------------------------------+
//! |   echo data, or the start of the packet that caused an error  |
//! +---------------------------------------------------------------+
//! ```

use crate::HeaderError;
use crate::checksum::Sum;
use crate::field::{be16, put16};
use std::net::Ipv4Addr;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;
/// The code of "unreachable" that carries an MTU.
const FRAGMENTATION_NEEDED: u8 = 4;

/// Codes of [`Repr::Unreachable`] (RFC 792, RFC 1812 §5.2.7.1).
pub mod unreachable {
    /// No route to the network.
    pub const NETWORK: u8 = 0;
    /// The host does not answer (ARP failed).
    pub const HOST: u8 = 1;
    /// No such protocol.
    pub const PROTOCOL: u8 = 2;
    /// No such port.
    pub const PORT: u8 = 3;
    /// Filtered by administration.
    pub const PROHIBITED: u8 = 13;
}

/// A message: header and body.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at an IPv4 payload.
    ///
    /// # Errors
    /// `Truncated` below 8 bytes.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (header, body) = bytes.split_first_chunk().ok_or(HeaderError::Truncated)?;
        Ok(Self { header, body })
    }
    /// Type.
    pub fn kind(&self) -> u8 {
        self.header[0]
    }
    /// Code.
    pub fn code(&self) -> u8 {
        self.header[1]
    }
    /// Checksum over the message.
    pub fn checksum(&self) -> u16 {
        be16(self.header, 2)
    }
    /// Bytes 4–7, whose meaning depends on the type.
    pub fn rest(&self) -> [u8; 4] {
        let [_, _, _, _, a, b, c, d] = *self.header;
        [a, b, c, d]
    }
    /// Whether this is an error, whose body quotes a packet. No error may answer an error (RFC 1122 §3.2.2).
    pub fn is_error(&self) -> bool {
        matches!(self.kind(), UNREACHABLE | 4 | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
    }
    /// Whether the checksum is right. O(len).
    pub fn checksum_is_valid(&self) -> bool {
        Sum::ZERO.bytes(self.header).bytes(self.body).is_valid()
    }
    /// What follows the header: echo data or the quoted packet ([`crate::ipv4::View::new_quoted`]).
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named as in the RFC")]
pub enum Repr {
    /// Are you there?
    EchoRequest { identifier: u16, sequence: u16 },
    /// I am.
    EchoReply { identifier: u16, sequence: u16 },
    /// Not delivered, by one of the [`mod@unreachable`] codes but "fragmentation needed".
    Unreachable { code: u8 },
    /// The next hop takes at most `mtu` bytes (IP length) and the packet forbids fragmentation; 0 if not said.
    FragmentationNeeded { mtu: u16 },
    /// TTL used up in transit (code 0) or reassembly timed out (code 1).
    TimeExceeded { code: u8 },
    /// The header's byte at `pointer` is wrong (code 0).
    ParameterProblem { code: u8, pointer: u8 },
    /// `gateway` is the better next hop.
    Redirect { code: u8, gateway: Ipv4Addr },
    /// Any other.
    Other { kind: u8, code: u8, rest: [u8; 4] },
}

impl Repr {
    /// The fields of `view`. Fields a type leaves unused are not kept.
    pub fn parse(view: &View<'_>) -> Self {
        let code = view.code();
        let rest = view.rest();
        let (high, low) = (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]]));
        match (view.kind(), code) {
            (ECHO_REQUEST, 0) => Self::EchoRequest { identifier: high, sequence: low },
            (ECHO_REPLY, 0) => Self::EchoReply { identifier: high, sequence: low },
            (UNREACHABLE, FRAGMENTATION_NEEDED) => Self::FragmentationNeeded { mtu: low },
            (UNREACHABLE, _) => Self::Unreachable { code },
            (TIME_EXCEEDED, _) => Self::TimeExceeded { code },
            (PARAMETER_PROBLEM, _) => Self::ParameterProblem { code, pointer: rest[0] },
            (REDIRECT, _) => Self::Redirect { code, gateway: rest.into() },
            (kind, _) => Self::Other { kind, code, rest },
        }
    }
    /// Writes the header to the front of `buffer`, without checksum: see [`fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let words = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            Self::EchoRequest { identifier, sequence } => (ECHO_REQUEST, 0, words(identifier, sequence)),
            Self::EchoReply { identifier, sequence } => (ECHO_REPLY, 0, words(identifier, sequence)),
            Self::Unreachable { code } => (UNREACHABLE, code, [0; 4]),
            Self::FragmentationNeeded { mtu } => (UNREACHABLE, FRAGMENTATION_NEEDED, words(0, mtu)),
            Self::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0]),
            Self::Redirect { code, gateway } => (REDIRECT, code, gateway.octets()),
            Self::Other { kind, code, rest } => (kind, code, rest),
        };
        buffer[..4].copy_from_slice(&[kind, code, 0, 0]);
        buffer[4..8].copy_from_slice(&rest);
    }
    /// Bytes that [`Self::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_LEN
    }
}

/// Computes the checksum of `message` (header and body) and writes it. O(len).
///
/// # Panics
/// If `message` is shorter than the header.
pub fn fill_checksum(message: &mut [u8]) {
    put16(message, 2, 0);
    let sum = Sum::ZERO.bytes(message).checksum();
    put16(message, 2, sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(
            kind in 0u8..14, code in 0u8..16, rest: [u8; 4], body in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let mut bytes = [&[kind, code, 0, 0][..], &rest, &body].concat();
            fill_checksum(&mut bytes);
            let view = View::new_checked(&bytes).unwrap();
            prop_assert!(view.checksum_is_valid());
            prop_assert_eq!(view.body(), body.as_slice());
            let repr = Repr::parse(&view);
            let mut out = [0xff; HEADER_LEN];
            repr.emit(&mut out);
            prop_assert_eq!((out[0], out[1]), (kind, code));
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }

    #[test]
    fn fields() {
        let parse = |bytes: [u8; 8]| Repr::parse(&View::new_checked(&bytes).unwrap());
        assert_eq!(parse([8, 0, 0, 0, 0, 7, 0, 9]), Repr::EchoRequest { identifier: 7, sequence: 9 });
        assert_eq!(parse([3, 4, 0, 0, 0, 0, 5, 220]), Repr::FragmentationNeeded { mtu: 1500 });
        assert_eq!(parse([3, 1, 0, 0, 0, 0, 0, 0]), Repr::Unreachable { code: unreachable::HOST });
        assert_eq!(
            parse([5, 1, 0, 0, 10, 0, 0, 1]),
            Repr::Redirect { code: 1, gateway: [10, 0, 0, 1].into() }
        );
        assert_eq!(View::new_checked(&[0; 7]).unwrap_err(), HeaderError::Truncated);
    }
}
