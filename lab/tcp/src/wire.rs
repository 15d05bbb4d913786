//! Segments as bytes: what travels is a real segment with a checksum, which a middlebox may rewrite.
//!
//! Source: RFC 9293 §3.1, pseudo-headers of RFC 793 §3.1 (IPv4) and RFC 8200 §8.1 (IPv6).

use crate::segment::{Segment, SegmentOut};
use perhop_wire::checksum::{Sum, pseudo_header_v4, pseudo_header_v6};
use perhop_wire::tcp::{Repr, View, fill_checksum};
use perhop_wire::{Ecn, HeaderError, protocol};
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// The addresses a checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Sender.
        source: Ipv4Addr,
        /// Receiver.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Sender.
        source: Ipv6Addr,
        /// Receiver.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    fn pseudo_header(&self, len: u32) -> Sum {
        match self {
            Self::V4 { source, destination } => {
                pseudo_header_v4(source.octets(), destination.octets(), protocol::TCP, len as u16)
            }
            Self::V6 { source, destination } => {
                pseudo_header_v6(source.octets(), destination.octets(), protocol::TCP, len)
            }
        }
    }
}

/// Why bytes are not a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// Header or options are malformed.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// More bytes than an IP packet carries.
    #[error("segment of {0} B exceeds an IP payload")]
    TooLong(usize),
}

/// Writes `segment` to the front of `buffer`; `payload` fills the payload's bytes (a simulator leaves the zeros that
/// it finds). Returns the length written, or `None` if `buffer` is shorter than [`SegmentOut::len`]. O(len).
pub fn emit(
    segment: &SegmentOut,
    addresses: &Addresses,
    buffer: &mut [u8],
    payload: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let len = segment.len();
    let bytes = buffer.get_mut(..len)?;
    segment.header.emit(bytes);
    payload(&mut bytes[segment.header.len()..]);
    fill_checksum(bytes, addresses.pseudo_header(len as u32));
    Some(len)
}

/// Reads an IP payload: the segment and its payload. Takes any bytes. O(len) for the checksum.
///
/// # Errors
/// See [`ParseError`].
pub fn parse<'a>(
    bytes: &'a [u8],
    addresses: &Addresses,
    ecn: Ecn,
) -> Result<(Segment, &'a [u8]), ParseError> {
    let len = u16::try_from(bytes.len()).map_err(|_| ParseError::TooLong(bytes.len()))?;
    let view = View::new_checked(bytes)?;
    if !view.checksum_is_valid(addresses.pseudo_header(len.into())) {
        return Err(ParseError::Checksum);
    }
    Ok((read(&view, ecn)?, view.payload()))
}

/// As [`parse`] without the checksum: for a simulator whose links corrupt nothing, and for fuzzing. O(header).
///
/// # Errors
/// See [`ParseError`].
pub fn parse_unchecked(bytes: &[u8], ecn: Ecn) -> Result<(Segment, &[u8]), ParseError> {
    if bytes.len() > usize::from(u16::MAX) {
        return Err(ParseError::TooLong(bytes.len()));
    }
    let view = View::new_checked(bytes)?;
    Ok((read(&view, ecn)?, view.payload()))
}

fn read(view: &View<'_>, ecn: Ecn) -> Result<Segment, HeaderError> {
    Ok(Segment { header: Repr::parse(view)?, payload_len: view.payload().len() as u32, ecn })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_wire::tcp::flags;

    fn sample() -> SegmentOut {
        let header =
            Repr { src_port: 5, dst_port: 6, seq: 7, flags: flags::ACK, window: 9, ..Repr::default() };
        SegmentOut { header, payload_offset: 0, payload_len: 3, ecn: Ecn::Ect0, retransmission: false }
    }

    #[test]
    fn what_is_written_is_read_back_over_both_protocols() {
        let v4 = Addresses::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
        let v6 = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
        for addresses in [v4, v6] {
            let mut buffer = [0; 64];
            let len =
                emit(&sample(), &addresses, &mut buffer, |payload| payload.copy_from_slice(b"abc")).unwrap();
            let (segment, payload) = parse(&buffer[..len], &addresses, Ecn::Ect0).unwrap();
            assert_eq!((segment, payload), (sample().arrived(), &b"abc"[..]));
            buffer[len - 1] ^= 1;
            assert_eq!(parse(&buffer[..len], &addresses, Ecn::Ect0), Err(ParseError::Checksum));
            assert!(parse_unchecked(&buffer[..len], Ecn::Ect0).is_ok());
            assert_eq!(emit(&sample(), &addresses, &mut buffer[..len - 1], |_| ()), None);
        }
    }

    #[test]
    fn errors_are_told_apart() {
        let v4 = Addresses::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
        assert_eq!(parse(&[0; 19], &v4, Ecn::NotEct), Err(HeaderError::Truncated.into()));
        assert_eq!(parse(&[0; 65_536], &v4, Ecn::NotEct), Err(ParseError::TooLong(65_536)));
        assert_eq!(parse_unchecked(&[0; 65_536], Ecn::NotEct), Err(ParseError::TooLong(65_536)));
    }
}
