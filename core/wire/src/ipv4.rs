//! The IPv4 header (RFC 791 §3.1, RFC 2474, RFC 3168).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+-----------+---+-------------------------------+
//! |   4   |  IHL  |   DSCP    |ECN|          total length         |
//! +-------+-------+-----------+---+-+-+-+-------------------------+
//! |        identification         |0|D|M|     fragment offset     |
//! +---------------+---------------+-+-+-+-------------------------+
//! |      TTL      |    protocol   |        header checksum        |
//! +---------------+---------------+-------------------------------+
//! |                             source                            |
//! |                          destination                          |
//! |                    options, 0 to 40 bytes                     |
//! +---------------------------------------------------------------+
//! ```

use crate::checksum::{self, Sum};
use crate::error::TtlExpired;
use crate::field::{be16, put16, replace_summed};
use crate::{Ecn, HeaderError};
use perhop_units::Dscp;
use std::net::Ipv4Addr;

/// Length of the header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// The most bytes of options.
pub const MAX_OPTIONS_LEN: usize = 40;

/// A packet: header, options, payload.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    fixed: &'a [u8; HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at an IP packet; bytes behind its total length are ignored.
    ///
    /// # Errors
    /// `Truncated`, `Version`, `Length` (header or total length), `Checksum`.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let mut view = Self::new_quoted(bytes)?;
        let payload_len = usize::from(view.total_len()).checked_sub(view.header_len());
        view.payload = payload_len.and_then(|len| view.payload.get(..len)).ok_or(HeaderError::Length)?;
        if Sum::ZERO.bytes(view.fixed).bytes(view.options).is_valid() {
            Ok(view)
        } else {
            Err(HeaderError::Checksum)
        }
    }
    /// Looks at a packet quoted by an ICMP error: the total length may exceed what is quoted, and the checksum,
    /// which hops change, is not checked. The payload is all that follows the header.
    ///
    /// # Errors
    /// `Truncated`, `Version`, `Length` (header length).
    pub fn new_quoted(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (fixed, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated)?;
        if fixed[0] >> 4 != 4 {
            return Err(HeaderError::Version);
        }
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        let options_len = header_len.checked_sub(HEADER_LEN).ok_or(HeaderError::Length)?;
        let (options, payload) = rest.split_at_checked(options_len).ok_or(HeaderError::Truncated)?;
        Ok(Self { fixed, options, payload })
    }
    /// Header length in bytes, options included: 20–60.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }
    /// Code point.
    pub fn dscp(&self) -> Dscp {
        Dscp::from_octet(self.fixed[1])
    }
    /// ECN field.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_octet(self.fixed[1])
    }
    /// Length of header and payload in bytes.
    pub fn total_len(&self) -> u16 {
        be16(self.fixed, 2)
    }
    /// Identification.
    pub fn identification(&self) -> u16 {
        be16(self.fixed, 4)
    }
    /// Whether the packet must not be fragmented.
    pub fn dont_fragment(&self) -> bool {
        self.fixed[6] & 0x40 != 0
    }
    /// Whether more fragments follow this one.
    pub fn more_fragments(&self) -> bool {
        self.fixed[6] & 0x20 != 0
    }
    /// Where the payload lies in the datagram, in bytes: a multiple of 8.
    pub fn fragment_offset(&self) -> u16 {
        // 13 bits of units of 8: 65,528 at most.
        (be16(self.fixed, 6) & 0x1fff) << 3
    }
    /// Hops left.
    pub fn ttl(&self) -> u8 {
        self.fixed[8]
    }
    /// Protocol number of the payload.
    pub fn protocol(&self) -> u8 {
        self.fixed[9]
    }
    /// Source address.
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.fixed[12], self.fixed[13], self.fixed[14], self.fixed[15])
    }
    /// Destination address.
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.fixed[16], self.fixed[17], self.fixed[18], self.fixed[19])
    }
    /// Options, unread: 0–40 bytes.
    pub fn options(&self) -> &'a [u8] {
        self.options
    }
    /// What follows the header, up to the total length.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header to rewrite; every change keeps a right checksum right (RFC 1624).
#[derive(Debug)]
pub struct ViewMut<'a> {
    header: &'a mut [u8; HEADER_LEN],
}

impl<'a> ViewMut<'a> {
    /// Looks at the header only: version and 20 bytes.
    ///
    /// # Errors
    /// `Truncated`, `Version`.
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<Self, HeaderError> {
        let header: &mut [u8; HEADER_LEN] = bytes.first_chunk_mut().ok_or(HeaderError::Truncated)?;
        if header[0] >> 4 == 4 { Ok(Self { header }) } else { Err(HeaderError::Version) }
    }
    /// A header known to be one.
    #[inline]
    pub(crate) fn over(header: &'a mut [u8; HEADER_LEN]) -> Self {
        Self { header }
    }
    /// Writes the code point.
    #[inline]
    pub fn set_dscp(&mut self, dscp: Dscp) {
        self.set_tos(dscp.get() << 2 | self.header[1] & 0b11);
    }
    /// Writes the ECN field.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.set_tos(self.header[1] & !0b11 | ecn.bits());
    }
    /// Writes the TOS octet: DSCP and ECN.
    #[inline]
    pub fn set_tos(&mut self, tos: u8) {
        replace_summed(self.header, 0, 10, u16::from_be_bytes([self.header[0], tos]));
    }
    /// Takes one from the TTL.
    ///
    /// # Errors
    /// [`TtlExpired`] at 0 or 1; nothing is changed then.
    #[inline]
    pub fn decrement_ttl(&mut self) -> Result<(), TtlExpired> {
        if self.header[8] <= 1 {
            return Err(TtlExpired);
        }
        replace_summed(self.header, 8, 10, u16::from_be_bytes([self.header[8] - 1, self.header[9]]));
        Ok(())
    }
}

/// The header's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Code point.
    pub dscp: Dscp,
    /// ECN field.
    pub ecn: Ecn,
    /// Identification.
    pub identification: u16,
    /// Forbids fragmentation.
    pub dont_fragment: bool,
    /// More fragments follow.
    pub more_fragments: bool,
    /// Place of the payload in the datagram in bytes; the lower three bits are not sent.
    pub fragment_offset: u16,
    /// Hops left.
    pub ttl: u8,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Options: at most 40 bytes, padded with end-of-options to a multiple of 4 when emitted.
    pub options: Vec<u8>,
    /// Length of the payload in bytes.
    pub payload_len: u16,
}

impl Default for Repr {
    /// An empty packet between unspecified addresses with TTL 64 (RFC 1700's recommendation).
    fn default() -> Self {
        Self {
            dscp: Dscp::BE,
            ecn: Ecn::NotEct,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: 0,
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            options: Vec::new(),
            payload_len: 0,
        }
    }
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            dscp: view.dscp(),
            ecn: view.ecn(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            src: view.src(),
            dst: view.dst(),
            options: view.options().to_vec(),
            payload_len: view.total_len().saturating_sub(view.header_len() as u16),
        }
    }
    /// Writes the header with its checksum to the front of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`], or the options exceed 40 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = &mut buffer[..self.len()];
        assert!(self.options.len() <= MAX_OPTIONS_LEN, "IPv4 options of {} bytes", self.options.len());
        header[0] = 0x40 | (header.len() / 4) as u8;
        header[1] = self.dscp.get() << 2 | self.ecn.bits();
        put16(header, 2, (header.len() as u16).saturating_add(self.payload_len));
        put16(header, 4, self.identification);
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        put16(header, 6, flags | self.fragment_offset >> 3);
        header[8] = self.ttl;
        header[9] = self.protocol;
        put16(header, 10, 0);
        header[12..16].copy_from_slice(&self.src.octets());
        header[16..20].copy_from_slice(&self.dst.octets());
        header[20..].fill(0);
        header[20..20 + self.options.len()].copy_from_slice(&self.options);
        let sum = checksum::of(header);
        put16(header, 10, sum);
    }
    /// Bytes that [`Self::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.options.len().next_multiple_of(4)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_repr() -> impl Strategy<Value = Repr> {
        let head = (0u8..64, 0u8..4, any::<u16>(), any::<(bool, bool)>(), 0u16..0x2000);
        let tail = (any::<(u8, u8)>(), any::<([u8; 4], [u8; 4])>(), 0usize..11, 0u16..100);
        (head, tail).prop_map(
            |((dscp, ecn, identification, flags, offset), (ttl, addresses, words, payload_len))| Repr {
                dscp: Dscp::new(dscp).unwrap(),
                ecn: Ecn::from_octet(ecn),
                identification,
                dont_fragment: flags.0,
                more_fragments: flags.1,
                fragment_offset: offset << 3,
                ttl: ttl.0,
                protocol: ttl.1,
                src: addresses.0.into(),
                dst: addresses.1.into(),
                options: vec![1; words * 4],
                payload_len,
            },
        )
    }

    fn emit(repr: &Repr) -> Vec<u8> {
        let mut packet = vec![0xa5; repr.len() + usize::from(repr.payload_len)];
        repr.emit(&mut packet);
        packet
    }

    proptest! {
        #[test]
        fn round_trip(repr in any_repr()) {
            let packet = emit(&repr);
            let view = View::new_checked(&packet).unwrap();
            prop_assert_eq!(Repr::parse(&view), repr.clone());
            prop_assert_eq!(view.payload().len(), usize::from(repr.payload_len));
        }

        #[test]
        fn rewriting_equals_emitting_anew(repr in any_repr(), dscp in 0u8..64, ecn in 0u8..4) {
            let mut packet = emit(&repr);
            let mut view = ViewMut::new_checked(&mut packet).unwrap();
            let mut expected = Repr { dscp: Dscp::new(dscp).unwrap(), ecn: Ecn::from_octet(ecn), ..repr };
            view.set_dscp(expected.dscp);
            view.set_ecn(expected.ecn);
            let lived = view.decrement_ttl().is_ok();
            prop_assert_eq!(lived, expected.ttl > 1);
            expected.ttl -= u8::from(lived);
            prop_assert_eq!(packet, emit(&expected));
        }

        #[test]
        fn no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(view) = View::new_quoted(&bytes) {
                let _ = Repr::parse(&view);
            }
            let _ = View::new_checked(&bytes);
        }
    }

    #[test]
    fn errors() {
        let packet = emit(&Repr { payload_len: 4, ..Repr::default() });
        let broken = |at: usize, value: u8| {
            let mut p = packet.clone();
            p[at] = value;
            View::new_checked(&p).unwrap_err()
        };
        assert_eq!(View::new_checked(&packet[..19]).unwrap_err(), HeaderError::Truncated);
        assert_eq!(View::new_checked(&packet[..23]).unwrap_err(), HeaderError::Length);
        assert_eq!(broken(0, 0x65), HeaderError::Version);
        assert_eq!(broken(0, 0x44), HeaderError::Length);
        assert_eq!(broken(0, 0x4f), HeaderError::Truncated);
        assert_eq!(broken(8, 63), HeaderError::Checksum);
    }
}
