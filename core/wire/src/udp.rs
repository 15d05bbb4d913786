//! The UDP header (RFC 768).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |            length             |           checksum            |
//! +-------------------------------+-------------------------------+
//! ```

use crate::HeaderError;
use crate::checksum::Sum;
use crate::field::{be16, put16};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

/// A datagram: header and payload.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at an IP payload; bytes behind the length field's end are ignored (RFC 9868 puts options there).
    ///
    /// # Errors
    /// `Truncated`, `Length`.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated)?;
        let payload_len = usize::from(be16(header, 4)).checked_sub(HEADER_LEN);
        let payload = payload_len.and_then(|len| rest.get(..len)).ok_or(HeaderError::Length)?;
        Ok(Self { header, payload })
    }
    /// Source port, 0 if none.
    pub fn src_port(&self) -> u16 {
        be16(self.header, 0)
    }
    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        be16(self.header, 2)
    }
    /// Bytes of header and payload.
    pub fn length(&self) -> u16 {
        be16(self.header, 4)
    }
    /// Checksum, 0 if none was computed.
    pub fn checksum(&self) -> u16 {
        be16(self.header, 6)
    }
    /// Whether the checksum is right over `pseudo`, or absent (which IPv6 forbids but for tunnels, RFC 6935). O(len).
    pub fn checksum_is_valid(&self, pseudo: Sum) -> bool {
        self.checksum() == 0 || pseudo.bytes(self.header).bytes(self.payload).is_valid()
    }
    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The header's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port, 0 if none.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of payload, at most 65,527.
    pub payload_len: u16,
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        Self { src_port: view.src_port(), dst_port: view.dst_port(), payload_len: view.payload.len() as u16 }
    }
    /// Writes the header to the front of `buffer`, without checksum: see [`fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        put16(buffer, 0, self.src_port);
        put16(buffer, 2, self.dst_port);
        put16(buffer, 4, self.payload_len.saturating_add(HEADER_LEN as u16));
        put16(buffer, 6, 0);
    }
    /// Bytes that [`Self::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_LEN
    }
}

/// Computes the checksum of `datagram` (header and payload) over `pseudo` and writes it. A result of zero is sent as
/// all ones, since zero means none. O(len).
///
/// # Panics
/// If `datagram` is shorter than the header.
pub fn fill_checksum(datagram: &mut [u8], pseudo: Sum) {
    put16(datagram, 6, 0);
    let sum = pseudo.bytes(datagram).checksum();
    put16(datagram, 6, if sum == 0 { 0xffff } else { sum });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::pseudo_header_v4;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(src_port: u16, dst_port: u16, payload in proptest::collection::vec(any::<u8>(), 0..40)) {
            let repr = Repr { src_port, dst_port, payload_len: payload.len() as u16 };
            let mut bytes = vec![0; HEADER_LEN];
            repr.emit(&mut bytes);
            bytes.extend(&payload);
            let pseudo = pseudo_header_v4([10, 0, 0, 1], [10, 0, 0, 2], 17, bytes.len() as u16);
            fill_checksum(&mut bytes, pseudo);
            let view = View::new_checked(&bytes).unwrap();
            prop_assert_eq!(Repr::parse(&view), repr);
            prop_assert_eq!(view.payload(), payload.as_slice());
            prop_assert!(view.checksum() != 0 && view.checksum_is_valid(pseudo));
            let mut broken = bytes.clone();
            broken[0] ^= 1;
            prop_assert!(!View::new_checked(&broken).unwrap().checksum_is_valid(pseudo));
        }
    }

    #[test]
    fn errors() {
        assert_eq!(View::new_checked(&[0; 7]).unwrap_err(), HeaderError::Truncated);
        assert_eq!(View::new_checked(&[0, 0, 0, 0, 0, 7, 0, 0]).unwrap_err(), HeaderError::Length);
        assert_eq!(View::new_checked(&[0, 0, 0, 0, 0, 9, 0, 0]).unwrap_err(), HeaderError::Length);
        assert!(View::new_checked(&[0, 0, 0, 0, 0, 8, 0, 0, 9]).unwrap().payload().is_empty());
    }
}
