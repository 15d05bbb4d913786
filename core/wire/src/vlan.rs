//! A VLAN tag behind its tag protocol identifier (IEEE 802.1Q §9.6).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-----+-+-----------------------+-------------------------------+
//! | PCP |D|          VID          |    EtherType of what follows  |
//! +-----+-+-----------------------+-------------------------------+
//! ```
//!
//! The 16 bits before the tag (0x8100, 0x88a8, 0x9100) are the EtherType field of the header in front.

use crate::HeaderError;
use crate::field::{be16, put16};

/// Length of the tag in bytes.
pub const HEADER_LEN: usize = 4;

/// A tag and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at what follows a tag protocol identifier.
    ///
    /// # Errors
    /// [`HeaderError::Truncated`] below 4 bytes.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (header, payload) = bytes.split_first_chunk().ok_or(HeaderError::Truncated)?;
        Ok(Self { header, payload })
    }
    /// Priority code point, 0–7.
    pub fn pcp(&self) -> u8 {
        self.header[0] >> 5
    }
    /// Drop eligible indicator.
    pub fn drop_eligible(&self) -> bool {
        self.header[0] & 0x10 != 0
    }
    /// VLAN identifier, 0–4095.
    pub fn vid(&self) -> u16 {
        be16(self.header, 0) & 0x0fff
    }
    /// EtherType of what follows, possibly another tag.
    pub fn ethertype(&self) -> u16 {
        be16(self.header, 2)
    }
    /// Everything behind the tag.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A tag to rewrite.
#[derive(Debug)]
pub struct ViewMut<'a> {
    header: &'a mut [u8; HEADER_LEN],
}

impl<'a> ViewMut<'a> {
    /// As [`View::new_checked`].
    ///
    /// # Errors
    /// [`HeaderError::Truncated`] below 4 bytes.
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<Self, HeaderError> {
        bytes.first_chunk_mut().map(|header| Self { header }).ok_or(HeaderError::Truncated)
    }
    /// Writes the priority code point; bits above the lower three are ignored.
    #[inline]
    pub fn set_pcp(&mut self, pcp: u8) {
        self.header[0] = self.header[0] & 0x1f | pcp << 5;
    }
    /// Writes the drop eligible indicator.
    #[inline]
    pub fn set_drop_eligible(&mut self, eligible: bool) {
        self.header[0] = self.header[0] & 0xef | u8::from(eligible) << 4;
    }
}

/// The tag's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Priority code point, 0–7.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 0–4095; 0 is a priority tag without VLAN.
    pub vid: u16,
    /// EtherType of what follows.
    pub ethertype: u16,
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            pcp: view.pcp(),
            drop_eligible: view.drop_eligible(),
            vid: view.vid(),
            ethertype: view.ethertype(),
        }
    }
    /// Writes the tag to the front of `buffer`; excess high bits of `pcp` and `vid` are dropped.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let tci = u16::from(self.pcp) << 13 | u16::from(self.drop_eligible) << 12 | self.vid & 0x0fff;
        put16(buffer, 0, tci);
        put16(buffer, 2, self.ethertype);
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
        fn round_trip(bytes: [u8; 4]) {
            let mut out = [0; HEADER_LEN];
            Repr::parse(&View::new_checked(&bytes).unwrap()).emit(&mut out);
            prop_assert_eq!(out, bytes);
        }

        #[test]
        fn priority_alone_changes(bytes: [u8; 4], pcp in 0u8..8, drop_eligible: bool) {
            let mut out = bytes;
            let mut view = ViewMut::new_checked(&mut out).unwrap();
            view.set_pcp(pcp);
            view.set_drop_eligible(drop_eligible);
            let expected = Repr { pcp, drop_eligible, ..Repr::parse(&View::new_checked(&bytes).unwrap()) };
            prop_assert_eq!(Repr::parse(&View::new_checked(&out).unwrap()), expected);
        }
    }

    #[test]
    fn cut_short() {
        assert_eq!(View::new_checked(&[0; 3]).unwrap_err(), HeaderError::Truncated);
    }
}
