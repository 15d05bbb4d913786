//! IPv6 extension headers (RFC 8200 §4) and the fragment header (§4.5).
//!
//! ```text
//! most:      next header | length in 8 bytes beyond the first 8 | ...
//! AH:        next header | length in 4 bytes minus 2            | ...      (RFC 4302 §2.2)
//!
//! fragment:   0                   1                   2                   3
//!             0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//!            +---------------+---------------+-------------------------+---+-+
//!            |  next header  |   reserved    |     fragment offset     |res|M|
//!            +---------------+---------------+-------------------------+---+-+
//!            |                        identification                         |
//!            +---------------------------------------------------------------+
//! ```

use crate::field::{be16, be32, put16, put32};
use crate::{HeaderError, protocol};

/// The most IPv6 extension headers [`dissect`](crate::dissect) walks; one more is [`Malformed::Ipv6ExtensionsTooMany`](crate::Malformed::Ipv6ExtensionsTooMany).
pub const MAX_IPV6_EXTENSIONS: usize = 8;

/// The fixed part of an authentication header in bytes (RFC 4302 §2).
pub const AH_MIN_LEN: usize = 12;

/// Length in bytes of the extension header of type `kind` that starts with `head`.
#[inline]
#[must_use]
pub const fn header_len(kind: u8, head: &[u8; 8]) -> usize {
    match kind {
        protocol::IPV6_FRAGMENT => 8,
        protocol::AH => (head[1] as usize + 2) * 4,
        _ => (head[1] as usize + 1) * 8,
    }
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its type, for example [`protocol::IPV6_ROUTING`].
    pub kind: u8,
    /// The whole header, from its next-header octet.
    pub bytes: &'a [u8],
}

/// The walk over extension headers: an iterator that ends at the upper layer, behind a fragment header of a later
/// fragment (what follows is data), at the first error, or after [`MAX_IPV6_EXTENSIONS`].
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    next_header: u8,
    rest: &'a [u8],
    seen: usize,
    done: bool,
}

impl<'a> Extensions<'a> {
    /// Starts at `payload`, whose first header is `next_header`.
    #[must_use]
    pub fn new(next_header: u8, payload: &'a [u8]) -> Self {
        Self { next_header, rest: payload, seen: 0, done: false }
    }
    /// The type of what has not been walked yet; after the walk, the upper-layer protocol.
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.next_header
    }
    /// What has not been walked yet; after the walk, the upper-layer packet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn step(&mut self) -> Result<Extension<'a>, HeaderError> {
        if self.seen == MAX_IPV6_EXTENSIONS {
            return Err(HeaderError::Length);
        }
        let kind = self.next_header;
        let head = self.rest.first_chunk().ok_or(HeaderError::Truncated)?;
        let len = header_len(kind, head);
        if kind == protocol::AH && len < AH_MIN_LEN {
            return Err(HeaderError::Length);
        }
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(HeaderError::Truncated)?;
        self.done = kind == protocol::IPV6_FRAGMENT && be16(head, 2) & 0xfff8 != 0;
        self.next_header = head[0];
        self.rest = rest;
        self.seen += 1;
        Ok(Extension { kind, bytes })
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || !protocol::is_ipv6_extension(self.next_header) {
            return None;
        }
        let step = self.step();
        self.done |= step.is_err();
        Some(step)
    }
}

/// Length of the fragment header in bytes.
pub const FRAGMENT_HEADER_LEN: usize = 8;

/// A fragment header.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; FRAGMENT_HEADER_LEN],
}

impl<'a> View<'a> {
    /// Looks at a fragment header.
    ///
    /// # Errors
    /// `Truncated` below 8 bytes.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        bytes.first_chunk().map(|header| Self { header }).ok_or(HeaderError::Truncated)
    }
    /// What the unfragmented part starts with.
    pub fn next_header(&self) -> u8 {
        self.header[0]
    }
    /// Place of the data in bytes: a multiple of 8.
    pub fn offset(&self) -> u16 {
        be16(self.header, 2) & 0xfff8
    }
    /// Whether more fragments follow.
    pub fn more(&self) -> bool {
        self.header[3] & 1 != 0
    }
    /// Identification.
    pub fn identification(&self) -> u32 {
        be32(self.header, 4)
    }
}

/// The fragment header's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// What the unfragmented part starts with.
    pub next_header: u8,
    /// Place of the data in bytes; the lower three bits are not sent.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// Identification.
    pub identification: u32,
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        Self {
            next_header: view.next_header(),
            offset: view.offset(),
            more: view.more(),
            identification: view.identification(),
        }
    }
    /// Writes the header to the front of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        buffer[0] = self.next_header;
        buffer[1] = 0;
        put16(buffer, 2, self.offset & 0xfff8 | u16::from(self.more));
        put32(buffer, 4, self.identification);
    }
    /// Bytes that [`Self::emit`] writes.
    pub const fn len(&self) -> usize {
        FRAGMENT_HEADER_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(mut bytes: [u8; 8]) {
            bytes[1] = 0;
            bytes[3] &= 0xf9;
            let mut out = [0xff; 8];
            Repr::parse(&View::new_checked(&bytes).unwrap()).emit(&mut out);
            prop_assert_eq!(out, bytes);
        }

        #[test]
        fn the_walk_ends_and_loses_nothing(
            first in prop::sample::select(vec![0u8, 43, 44, 51, 60, 135, 17]),
            bytes in proptest::collection::vec(prop::sample::select(vec![0u8, 1, 17, 44, 51, 60]), 0..120),
        ) {
            let mut walk = Extensions::new(first, &bytes);
            let mut walked = 0;
            for step in walk.by_ref().take(20) {
                walked += step.map_or(0, |e| e.bytes.len());
            }
            prop_assert!(walk.next().is_none());
            prop_assert_eq!(walked + walk.rest().len(), bytes.len());
        }
    }

    #[test]
    fn walk() {
        let mut bytes = vec![60, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([51, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([17, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
        let mut walk = Extensions::new(0, &bytes);
        let found: Vec<_> = walk.by_ref().map(|e| e.map(|e| (e.kind, e.bytes.len()))).collect();
        assert_eq!(found, [Ok((0, 8)), Ok((60, 16)), Ok((51, 24))]);
        assert_eq!((walk.next_header(), walk.rest()), (17, &[1u8, 2, 3][..]));
        let mut cut = Extensions::new(0, &bytes[..23]);
        assert_eq!(cut.by_ref().last(), Some(Err(HeaderError::Truncated)));
    }
}
