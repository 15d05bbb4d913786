//! The RTP header (RFC 3550 §5.1) and how RTCP is told from RTP (RFC 5761 §4).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+-+-------+-+-------------+-------------------------------+
//! | 2 |P|X|  CC   |M|payload type |        sequence number        |
//! +---+-+-+-------+-+-------------+-------------------------------+
//! |                           timestamp                           |
//! |                synchronisation source (SSRC)                  |
//! |              contributing sources (CSRC), 0 to 15             |
//! +-------------------------------+-------------------------------+
//! |  extension profile, if X      |     length in 32-bit words    |
//! +-------------------------------+-------------------------------+
//! |                       extension data                          |
//! +---------------------------------------------------------------+
//! ```

use crate::HeaderError;
use crate::field::{be16, be32, put16, put32};

/// Length of the header without contributing sources and extension, in bytes.
pub const HEADER_LEN: usize = 12;
/// The most contributing sources.
pub const MAX_CSRC: usize = 15;

/// Whether a datagram is RTCP on ports that may carry both: version 2 and a packet type of 192–223, the range that
/// RTP avoids (RFC 5761 §4). A datagram below 4 bytes is neither.
#[inline]
#[must_use]
pub fn is_rtcp(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 192..=223, _, _, ..] if first >> 6 == 2)
}

/// A packet: header, contributing sources, extension, payload.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    fixed: &'a [u8; HEADER_LEN],
    csrc: &'a [[u8; 4]],
    extension: Option<(u16, &'a [u8])>,
    payload: &'a [u8],
    padding: u8,
}

impl<'a> View<'a> {
    /// Looks at a UDP payload. That it parses does not make it RTP: any datagram may look like it.
    ///
    /// # Errors
    /// `Truncated`, `Version`, `Length` (padding of zero bytes or longer than the payload).
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (fixed, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated)?;
        if fixed[0] >> 6 != 2 {
            return Err(HeaderError::Version);
        }
        let (csrc, mut rest) =
            rest.split_at_checked(usize::from(fixed[0] & 0x0f) * 4).ok_or(HeaderError::Truncated)?;
        let mut extension = None;
        if fixed[0] & 0x10 != 0 {
            let (head, data) = rest.split_first_chunk::<4>().ok_or(HeaderError::Truncated)?;
            let len = usize::from(be16(head, 2)) * 4;
            let (data, behind) = data.split_at_checked(len).ok_or(HeaderError::Truncated)?;
            extension = Some((be16(head, 0), data));
            rest = behind;
        }
        let mut padding = 0;
        if fixed[0] & 0x20 != 0 {
            padding = rest.last().copied().filter(|&n| n != 0).ok_or(HeaderError::Length)?;
            rest = rest
                .len()
                .checked_sub(usize::from(padding))
                .map(|n| &rest[..n])
                .ok_or(HeaderError::Length)?;
        }
        Ok(Self { fixed, csrc: csrc.as_chunks().0, extension, payload: rest, padding })
    }
    /// First packet after a silence, or last of a video frame: as the payload format says.
    #[inline]
    pub fn marker(&self) -> bool {
        self.fixed[1] & 0x80 != 0
    }
    /// Payload type, 0–127 (static ones: RFC 3551 §6).
    #[inline]
    pub fn payload_type(&self) -> u8 {
        self.fixed[1] & 0x7f
    }
    /// Sequence number; one more for every packet, modulo 2¹⁶.
    #[inline]
    pub fn sequence(&self) -> u16 {
        be16(self.fixed, 2)
    }
    /// Sampling instant in units of the payload's clock, modulo 2³².
    #[inline]
    pub fn timestamp(&self) -> u32 {
        be32(self.fixed, 4)
    }
    /// Synchronisation source.
    #[inline]
    pub fn ssrc(&self) -> u32 {
        be32(self.fixed, 8)
    }
    /// Contributing sources, in order.
    pub fn csrc(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.csrc.iter().map(|c| u32::from_be_bytes(*c))
    }
    /// Profile and data of the header extension.
    pub fn extension(&self) -> Option<(u16, &'a [u8])> {
        self.extension
    }
    /// Padding bytes behind the payload, 0–255.
    pub fn padding(&self) -> u8 {
        self.padding
    }
    /// Payload without padding.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The header's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Marker.
    pub marker: bool,
    /// Payload type, 0–127.
    pub payload_type: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Sampling instant.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Contributing sources, at most 15.
    pub csrc: Vec<u32>,
    /// Profile and data of the header extension; the data is padded with zeros to a multiple of 4.
    pub extension: Option<(u16, Vec<u8>)>,
    /// Whether the payload ends in padding, whose last byte is its length. The padding is the caller's to write.
    pub padded: bool,
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            marker: view.marker(),
            payload_type: view.payload_type(),
            sequence: view.sequence(),
            timestamp: view.timestamp(),
            ssrc: view.ssrc(),
            csrc: view.csrc().collect(),
            extension: view.extension.map(|(profile, data)| (profile, data.to_vec())),
            padded: view.padding != 0,
        }
    }
    /// Writes the header to the front of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`], or there are more than 15 contributing sources or 262,140 bytes of
    /// extension.
    pub fn emit(&self, buffer: &mut [u8]) {
        let buffer = &mut buffer[..self.len()];
        assert!(self.csrc.len() <= MAX_CSRC, "{} contributing sources", self.csrc.len());
        let bits = u8::from(self.padded) << 5 | u8::from(self.extension.is_some()) << 4;
        buffer[0] = 2 << 6 | bits | self.csrc.len() as u8;
        buffer[1] = u8::from(self.marker) << 7 | self.payload_type & 0x7f;
        put16(buffer, 2, self.sequence);
        put32(buffer, 4, self.timestamp);
        put32(buffer, 8, self.ssrc);
        for (i, source) in self.csrc.iter().enumerate() {
            put32(buffer, HEADER_LEN + 4 * i, *source);
        }
        if let Some((profile, data)) = &self.extension {
            let at = HEADER_LEN + 4 * self.csrc.len();
            let words = u16::try_from(data.len().div_ceil(4)).expect("the extension exceeds 65,535 words");
            put16(buffer, at, *profile);
            put16(buffer, at + 2, words);
            buffer[at + 4..].fill(0);
            buffer[at + 4..at + 4 + data.len()].copy_from_slice(data);
        }
    }
    /// Bytes that [`Self::emit`] writes.
    pub fn len(&self) -> usize {
        let extension = self.extension.as_ref().map_or(0, |(_, data)| 4 + data.len().next_multiple_of(4));
        HEADER_LEN + 4 * self.csrc.len() + extension
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_repr() -> impl Strategy<Value = Repr> {
        let numbers = (any::<bool>(), 0u8..128, any::<u16>(), any::<u32>(), any::<u32>());
        let csrc = proptest::collection::vec(any::<u32>(), 0..16);
        let extension = proptest::option::of((any::<u16>(), 0usize..5));
        (numbers, csrc, extension).prop_map(|(n, csrc, extension)| Repr {
            marker: n.0,
            payload_type: n.1,
            sequence: n.2,
            timestamp: n.3,
            ssrc: n.4,
            csrc,
            extension: extension.map(|(profile, words)| (profile, vec![7; words * 4])),
            padded: false,
        })
    }

    proptest! {
        #[test]
        fn round_trip(repr in any_repr(), padding in 0u8..5) {
            let repr = Repr { padded: padding != 0, ..repr };
            let mut bytes = vec![0xff; repr.len()];
            repr.emit(&mut bytes);
            bytes.extend(b"payload");
            bytes.extend(vec![padding; usize::from(padding)]);
            let view = View::new_checked(&bytes).unwrap();
            prop_assert_eq!(Repr::parse(&view), repr);
            prop_assert_eq!(view.payload(), b"payload");
            prop_assert_eq!(view.padding(), padding);
        }

        #[test]
        fn no_panic(first in 0x80u8..0xc0, tail in proptest::collection::vec(any::<u8>(), 0..80)) {
            let bytes = [&[first][..], &tail].concat();
            if let Ok(view) = View::new_checked(&bytes) {
                let _ = Repr::parse(&view);
            }
        }
    }

    #[test]
    fn errors() {
        let mut bytes = [0u8; 12];
        assert_eq!(View::new_checked(&bytes[..11]).unwrap_err(), HeaderError::Truncated);
        assert_eq!(View::new_checked(&bytes).unwrap_err(), HeaderError::Version);
        for (first, error) in
            [(0x81, HeaderError::Truncated), (0x90, HeaderError::Truncated), (0xa0, HeaderError::Length)]
        {
            bytes[0] = first;
            assert_eq!(View::new_checked(&bytes).unwrap_err(), error);
        }
        assert_eq!(View::new_checked(&[&bytes[..], &[2]].concat()).unwrap_err(), HeaderError::Length);
    }

    #[test]
    fn rtcp() {
        assert!(is_rtcp(&[0x80, 200, 0, 6]) && is_rtcp(&[0x81, 223, 0, 1]));
        assert!(!is_rtcp(&[0x80, 0, 0, 6]) && !is_rtcp(&[0x40, 200, 0, 6]) && !is_rtcp(&[0x80, 224, 0, 0]));
        assert!(!is_rtcp(&[0x80, 200]));
    }
}
