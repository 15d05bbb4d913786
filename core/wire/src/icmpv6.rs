//! ICMPv6 (RFC 4443). Neighbour discovery messages are in [`crate::ndp`].
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     type      |     code      |  checksum, with pseudo-header |
//! +---------------+---------------+-------------------------------+
//! |     depends on type: identifier and sequence, MTU, ...        |
//! +---------------------------------------------------------------+
//! |   echo data, or the start of the packet that caused an error  |
//! +---------------------------------------------------------------+
//! ```

use crate::HeaderError;
use crate::checksum::Sum;
use crate::field::{be16, put16};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

const UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

/// Codes of [`Repr::Unreachable`] (RFC 4443 §3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Filtered by administration.
    pub const PROHIBITED: u8 = 1;
    /// The address does not answer (neighbour discovery failed).
    pub const ADDRESS: u8 = 3;
    /// No such port.
    pub const PORT: u8 = 4;
}

/// A message: header and body.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at the upper-layer packet of an IPv6 packet.
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
    /// Checksum over pseudo-header and message.
    pub fn checksum(&self) -> u16 {
        be16(self.header, 2)
    }
    /// Bytes 4–7, whose meaning depends on the type.
    pub fn rest(&self) -> [u8; 4] {
        let [_, _, _, _, a, b, c, d] = *self.header;
        [a, b, c, d]
    }
    /// Whether this is an error, whose body quotes a packet. No error may answer an error (RFC 4443 §2.4).
    pub fn is_error(&self) -> bool {
        self.kind() < 128
    }
    /// Whether the checksum is right over `pseudo`. O(len).
    pub fn checksum_is_valid(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.header).bytes(self.body).is_valid()
    }
    /// What follows the header: echo data or the quoted packet ([`crate::ipv6::View::new_quoted`]).
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
    /// Not delivered, by one of the [`mod@unreachable`] codes.
    Unreachable { code: u8 },
    /// The next hop takes at most `mtu` bytes (IP length).
    PacketTooBig { mtu: u32 },
    /// Hop limit used up in transit (code 0) or reassembly timed out (code 1).
    TimeExceeded { code: u8 },
    /// The packet's byte at `pointer` is wrong (code 0), or an unknown header (1) or option (2).
    ParameterProblem { code: u8, pointer: u32 },
    /// Any other.
    Other { kind: u8, code: u8, rest: [u8; 4] },
}

impl Repr {
    /// The fields of `view`. Fields a type leaves unused are not kept.
    pub fn parse(view: &View<'_>) -> Self {
        let code = view.code();
        let rest = view.rest();
        let identifier = u16::from_be_bytes([rest[0], rest[1]]);
        let sequence = u16::from_be_bytes([rest[2], rest[3]]);
        match (view.kind(), code) {
            (ECHO_REQUEST, 0) => Self::EchoRequest { identifier, sequence },
            (ECHO_REPLY, 0) => Self::EchoReply { identifier, sequence },
            (UNREACHABLE, _) => Self::Unreachable { code },
            // Senders set code 0, receivers ignore it (RFC 4443 §3.2).
            (PACKET_TOO_BIG, _) => Self::PacketTooBig { mtu: u32::from_be_bytes(rest) },
            (TIME_EXCEEDED, _) => Self::TimeExceeded { code },
            (PARAMETER_PROBLEM, _) => Self::ParameterProblem { code, pointer: u32::from_be_bytes(rest) },
            (kind, _) => Self::Other { kind, code, rest },
        }
    }
    /// Writes the header to the front of `buffer`, without checksum: see [`fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let words = |high: u16, low: u16| (u32::from(high) << 16 | u32::from(low)).to_be_bytes();
        let (kind, code, rest) = match *self {
            Self::EchoRequest { identifier, sequence } => (ECHO_REQUEST, 0, words(identifier, sequence)),
            Self::EchoReply { identifier, sequence } => (ECHO_REPLY, 0, words(identifier, sequence)),
            Self::Unreachable { code } => (UNREACHABLE, code, [0; 4]),
            Self::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Self::TimeExceeded { code } => (TIME_EXCEEDED, code, [0; 4]),
            Self::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, pointer.to_be_bytes()),
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

/// Computes the checksum of `message` (header and body) over `pseudo` and writes it. O(len).
///
/// # Panics
/// If `message` is shorter than 4 bytes.
pub fn fill_checksum(message: &mut [u8], pseudo: Sum) {
    put16(message, 2, 0);
    let sum = pseudo.bytes(message).checksum();
    put16(message, 2, sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::pseudo_header_v6;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(
            kind in prop_oneof![0u8..6, 127u8..138], code in 0u8..4, rest: [u8; 4],
            body in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let mut bytes = [&[kind, code, 0, 0][..], &rest, &body].concat();
            let pseudo = pseudo_header_v6([1; 16], [2; 16], 58, bytes.len() as u32);
            fill_checksum(&mut bytes, pseudo);
            let view = View::new_checked(&bytes).unwrap();
            prop_assert!(view.checksum_is_valid(pseudo));
            prop_assert_eq!(view.body(), body.as_slice());
            let repr = Repr::parse(&view);
            let mut out = [0xff; HEADER_LEN];
            repr.emit(&mut out);
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), repr);
        }
    }

    #[test]
    fn fields() {
        let parse = |bytes: [u8; 8]| Repr::parse(&View::new_checked(&bytes).unwrap());
        assert_eq!(parse([129, 0, 0, 0, 0, 7, 0, 9]), Repr::EchoReply { identifier: 7, sequence: 9 });
        assert_eq!(parse([2, 0, 0, 0, 0, 0, 5, 0]), Repr::PacketTooBig { mtu: 1280 });
        assert_eq!(parse([4, 1, 0, 0, 0, 0, 0, 40]), Repr::ParameterProblem { code: 1, pointer: 40 });
        assert_eq!(View::new_checked(&[0; 7]).unwrap_err(), HeaderError::Truncated);
    }
}
