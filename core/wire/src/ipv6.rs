//! The IPv6 header (RFC 8200 §3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-----------+---+---------------------------------------+
//! |   6   |   DSCP    |ECN|              flow label               |
//! +-------+-----------+---+-------+---------------+---------------+
//! |        payload length         |  next header  |   hop limit   |
//! +-------------------------------+---------------+---------------+
//! |                      source (16 bytes)                        |
//! |                    destination (16 bytes)                     |
//! +---------------------------------------------------------------+
//! ```
//!
//! What follows may be extension headers: [`crate::ipv6_ext`].

use crate::error::TtlExpired;
use crate::field::{be16, be32, put16, put32};
use crate::ipv6_ext::Extensions;
use crate::{Ecn, HeaderError};
use perhop_units::Dscp;
use std::net::Ipv6Addr;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 40;

/// A packet: header and payload, extension headers included in the latter.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at an IP packet; bytes behind its payload length are ignored.
    ///
    /// # Errors
    /// `Truncated`, `Version`, `Length`.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let mut view = Self::new_quoted(bytes)?;
        view.payload = view.payload.get(..usize::from(view.payload_len())).ok_or(HeaderError::Length)?;
        Ok(view)
    }
    /// Looks at a packet quoted by an ICMP error: the payload is all that follows the header.
    ///
    /// # Errors
    /// `Truncated`, `Version`.
    pub fn new_quoted(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (header, payload) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated)?;
        if header[0] >> 4 == 6 { Ok(Self { header, payload }) } else { Err(HeaderError::Version) }
    }
    fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }
    /// Code point.
    pub fn dscp(&self) -> Dscp {
        Dscp::from_octet(self.traffic_class())
    }
    /// ECN field.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_octet(self.traffic_class())
    }
    /// Flow label, 20 bits (RFC 6437).
    pub fn flow_label(&self) -> u32 {
        be32(self.header, 0) & 0x000f_ffff
    }
    /// Bytes behind this header, extension headers included.
    pub fn payload_len(&self) -> u16 {
        be16(self.header, 4)
    }
    /// What the payload starts with: an extension header or an upper-layer protocol.
    pub fn next_header(&self) -> u8 {
        self.header[6]
    }
    /// Hops left.
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }
    /// Source address.
    pub fn src(&self) -> Ipv6Addr {
        self.address(8)
    }
    /// Destination address.
    pub fn dst(&self) -> Ipv6Addr {
        self.address(24)
    }
    /// What follows the header, up to the payload length.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
    /// Walks the extension headers.
    pub fn extensions(&self) -> Extensions<'a> {
        Extensions::new(self.next_header(), self.payload)
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.header[at..at + 16]);
        octets.into()
    }
}

/// A header to rewrite; there is no checksum to keep.
#[derive(Debug)]
pub struct ViewMut<'a> {
    start: &'a mut [u8; 8],
}

impl<'a> ViewMut<'a> {
    /// Looks at the header only: version and 40 bytes.
    ///
    /// # Errors
    /// `Truncated`, `Version`.
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<Self, HeaderError> {
        let header: &mut [u8; HEADER_LEN] = bytes.first_chunk_mut().ok_or(HeaderError::Truncated)?;
        if header[0] >> 4 != 6 {
            return Err(HeaderError::Version);
        }
        header.first_chunk_mut().map(Self::over).ok_or(HeaderError::Truncated)
    }
    /// The first 8 bytes of a header known to be one.
    #[inline]
    pub(crate) fn over(start: &'a mut [u8; 8]) -> Self {
        Self { start }
    }
    /// Writes the code point.
    #[inline]
    pub fn set_dscp(&mut self, dscp: Dscp) {
        self.set_traffic_class(dscp.get() << 2 | self.start[1] >> 4 & 0b11);
    }
    /// Writes the ECN field.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.start[1] = self.start[1] & 0xcf | ecn.bits() << 4;
    }
    /// Writes the traffic class: DSCP and ECN.
    #[inline]
    pub fn set_traffic_class(&mut self, octet: u8) {
        self.start[0] = self.start[0] & 0xf0 | octet >> 4;
        self.start[1] = self.start[1] & 0x0f | octet << 4;
    }
    /// Takes one from the hop limit.
    ///
    /// # Errors
    /// [`TtlExpired`] at 0 or 1; nothing is changed then.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> Result<(), TtlExpired> {
        if self.start[7] <= 1 {
            return Err(TtlExpired);
        }
        self.start[7] -= 1;
        Ok(())
    }
}

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Code point.
    pub dscp: Dscp,
    /// ECN field.
    pub ecn: Ecn,
    /// Flow label; the upper 12 bits are not sent.
    pub flow_label: u32,
    /// Bytes behind this header, extension headers included.
    pub payload_len: u16,
    /// What the payload starts with.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Default for Repr {
    /// An empty packet between unspecified addresses with hop limit 64.
    fn default() -> Self {
        Self {
            dscp: Dscp::BE,
            ecn: Ecn::NotEct,
            flow_label: 0,
            payload_len: 0,
            next_header: crate::protocol::IPV6_NO_NEXT,
            hop_limit: 64,
            src: Ipv6Addr::UNSPECIFIED,
            dst: Ipv6Addr::UNSPECIFIED,
        }
    }
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            dscp: view.dscp(),
            ecn: view.ecn(),
            flow_label: view.flow_label(),
            payload_len: view.payload_len(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            src: view.src(),
            dst: view.dst(),
        }
    }
    /// Writes the header to the front of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let octet = u32::from(self.dscp.get() << 2 | self.ecn.bits());
        put32(buffer, 0, 6 << 28 | octet << 20 | self.flow_label & 0x000f_ffff);
        put16(buffer, 4, self.payload_len);
        buffer[6] = self.next_header;
        buffer[7] = self.hop_limit;
        buffer[8..24].copy_from_slice(&self.src.octets());
        buffer[24..40].copy_from_slice(&self.dst.octets());
    }
    /// Bytes that [`Self::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(mut bytes: [u8; 46]) {
            bytes[0] = 0x60 | bytes[0] & 0x0f;
            bytes[4..6].copy_from_slice(&[0, 5]);
            let view = View::new_checked(&bytes).unwrap();
            prop_assert_eq!(view.payload().len(), 5);
            let mut out = [0; HEADER_LEN];
            Repr::parse(&view).emit(&mut out);
            prop_assert_eq!(out.as_slice(), &bytes[..HEADER_LEN]);
        }

        #[test]
        fn rewriting_equals_emitting_anew(mut bytes: [u8; 40], dscp in 0u8..64, ecn in 0u8..4) {
            bytes[0] = 0x60 | bytes[0] & 0x0f;
            let repr = Repr::parse(&View::new_quoted(&bytes).unwrap());
            let mut expected = Repr { dscp: Dscp::new(dscp).unwrap(), ecn: Ecn::from_octet(ecn), ..repr };
            let mut view = ViewMut::new_checked(&mut bytes).unwrap();
            view.set_dscp(expected.dscp);
            view.set_ecn(expected.ecn);
            let lived = view.decrement_hop_limit().is_ok();
            prop_assert_eq!(lived, expected.hop_limit > 1);
            expected.hop_limit -= u8::from(lived);
            let mut anew = [0; 40];
            expected.emit(&mut anew);
            prop_assert_eq!(bytes, anew);
        }
    }

    #[test]
    fn errors() {
        let mut bytes = [0u8; 40];
        assert_eq!(View::new_checked(&bytes).unwrap_err(), HeaderError::Version);
        bytes[0] = 0x60;
        assert!(View::new_checked(&bytes).is_ok());
        assert_eq!(View::new_checked(&bytes[..39]).unwrap_err(), HeaderError::Truncated);
        bytes[5] = 1;
        assert_eq!(View::new_checked(&bytes).unwrap_err(), HeaderError::Length);
    }
}
