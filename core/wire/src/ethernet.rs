//! The Ethernet II header (IEEE 802.3 §3.1.1, RFC 894).
//!
//! ```text
//! 0                   6                   12        14
//! +-------------------+-------------------+---------+
//! |    destination    |      source       |EtherType|
//! +-------------------+-------------------+---------+
//! ```

use crate::field::{be16, put16};
use crate::{HeaderError, MacAddr};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 14;
/// The shortest frame without FCS; shorter ones are padded.
pub const MIN_FRAME_LEN: usize = 60;

/// An Ethernet header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at a frame without FCS.
    ///
    /// # Errors
    /// [`HeaderError::Truncated`] below 14 bytes.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (header, payload) = bytes.split_first_chunk().ok_or(HeaderError::Truncated)?;
        Ok(Self { header, payload })
    }
    /// Destination address.
    pub fn dst(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = *self.header;
        MacAddr([a, b, c, d, e, f])
    }
    /// Source address.
    pub fn src(&self) -> MacAddr {
        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *self.header;
        MacAddr([a, b, c, d, e, f])
    }
    /// EtherType, or a length below 0x0600 (IEEE 802.3 with LLC).
    pub fn ethertype(&self) -> u16 {
        be16(self.header, 12)
    }
    /// Everything behind the header, padding included.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The header's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// EtherType.
    pub ethertype: u16,
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        Self { dst: view.dst(), src: view.src(), ethertype: view.ethertype() }
    }
    /// Writes the header to the front of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[..6].copy_from_slice(&self.dst.0);
        buffer[6..12].copy_from_slice(&self.src.0);
        put16(buffer, 12, self.ethertype);
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
        fn round_trip(bytes: [u8; 20]) {
            let view = View::new_checked(&bytes).unwrap();
            let mut out = [0; HEADER_LEN];
            Repr::parse(&view).emit(&mut out);
            prop_assert_eq!(out.as_slice(), &bytes[..HEADER_LEN]);
            prop_assert_eq!(view.payload().len(), 6);
        }
    }

    #[test]
    fn cut_short() {
        assert_eq!(View::new_checked(&[0; 13]).unwrap_err(), HeaderError::Truncated);
    }
}
