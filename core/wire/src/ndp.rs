//! Neighbour solicitation and advertisement (RFC 4861 §4.3, §4.4), bodies of ICMPv6 types 135 and 136.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  135 or 136   |       0       |           checksum            |
//! +-+-+-+---------+---------------+-------------------------------+
//! |R|S|O|        reserved; the flags only in advertisements       |
//! +-+-+-+---------------------------------------------------------+
//! |                     target address (16 bytes)                 |
//! +---------------+---------------+-------------------------------+
//! | option type   | length (8 B)  |   link-layer address ...      |
//! +---------------+---------------+-------------------------------+
//! ```

use crate::{HeaderError, MacAddr};
use std::net::Ipv6Addr;

/// Length of the message without options, in bytes.
pub const HEADER_LEN: usize = 24;
/// ICMPv6 type of a neighbour solicitation.
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement.
pub const ADVERTISEMENT: u8 = 136;
/// Option: link-layer address of the sender, in solicitations.
pub const SOURCE_LINK_LAYER: u8 = 1;
/// Option: link-layer address of the target, in advertisements.
pub const TARGET_LINK_LAYER: u8 = 2;

/// A solicitation or advertisement.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    options: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at an ICMPv6 message. The caller checks hop limit and checksum.
    ///
    /// # Errors
    /// `Truncated`, `Type` (another type or code), `MalformedOption` (an option of length 0 or past the end).
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (header, options) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated)?;
        if !matches!(header[..2], [SOLICITATION | ADVERTISEMENT, 0]) {
            return Err(HeaderError::Type);
        }
        let mut rest = options;
        while let [_, units, ..] = *rest {
            let len = usize::from(units) * 8;
            rest = rest.get(len..).filter(|_| len != 0).ok_or(HeaderError::MalformedOption)?;
        }
        if rest.is_empty() { Ok(Self { header, options }) } else { Err(HeaderError::MalformedOption) }
    }
    /// [`SOLICITATION`] or [`ADVERTISEMENT`].
    pub fn kind(&self) -> u8 {
        self.header[0]
    }
    /// Of an advertisement: the sender is a router.
    pub fn router(&self) -> bool {
        self.header[4] & 0x80 != 0
    }
    /// Of an advertisement: it answers a solicitation.
    pub fn solicited(&self) -> bool {
        self.header[4] & 0x40 != 0
    }
    /// Of an advertisement: it replaces what the receiver has cached.
    pub fn overrides(&self) -> bool {
        self.header[4] & 0x20 != 0
    }
    /// The address asked for or advertised.
    pub fn target(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.header[8..24]);
        octets.into()
    }
    /// The Ethernet address in the first option of the type that belongs to this message.
    pub fn link_layer(&self) -> Option<MacAddr> {
        let wanted = link_layer_option(self.kind());
        let mut rest = self.options;
        while let [kind, units, a, b, c, d, e, f, ..] = *rest {
            if kind == wanted && units == 1 {
                return Some(MacAddr([a, b, c, d, e, f]));
            }
            rest = rest.get(usize::from(units) * 8..)?;
        }
        None
    }
}

const fn link_layer_option(kind: u8) -> u8 {
    if kind == SOLICITATION { SOURCE_LINK_LAYER } else { TARGET_LINK_LAYER }
}

/// The message's fields. Other options are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Who has `target`?
    Solicitation {
        /// The address asked for.
        target: Ipv6Addr,
        /// Ethernet address of the sender; none in duplicate address detection.
        link_layer: Option<MacAddr>,
    },
    /// The sender has `target`.
    Advertisement {
        /// The sender is a router.
        router: bool,
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces what the receiver has cached.
        overrides: bool,
        /// The address advertised.
        target: Ipv6Addr,
        /// Its Ethernet address.
        link_layer: Option<MacAddr>,
    },
}

impl Repr {
    /// The fields of `view`.
    pub fn parse(view: &View<'_>) -> Self {
        let (target, link_layer) = (view.target(), view.link_layer());
        if view.kind() == SOLICITATION {
            return Self::Solicitation { target, link_layer };
        }
        Self::Advertisement {
            router: view.router(),
            solicited: view.solicited(),
            overrides: view.overrides(),
            target,
            link_layer,
        }
    }
    /// Writes the message to the front of `buffer`, without checksum: see [`crate::icmpv6::fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let buffer = &mut buffer[..self.len()];
        buffer.fill(0);
        let (kind, flags, target, link_layer) = match *self {
            Self::Solicitation { target, link_layer } => (SOLICITATION, 0, target, link_layer),
            Self::Advertisement { router, solicited, overrides, target, link_layer } => {
                let flags = u8::from(router) << 7 | u8::from(solicited) << 6 | u8::from(overrides) << 5;
                (ADVERTISEMENT, flags, target, link_layer)
            }
        };
        buffer[0] = kind;
        buffer[4] = flags;
        buffer[8..24].copy_from_slice(&target.octets());
        if let Some(mac) = link_layer {
            buffer[24..26].copy_from_slice(&[link_layer_option(kind), 1]);
            buffer[26..32].copy_from_slice(&mac.0);
        }
    }
    /// Bytes that [`Self::emit`] writes.
    pub const fn len(&self) -> usize {
        let (Self::Solicitation { link_layer, .. } | Self::Advertisement { link_layer, .. }) = self;
        if link_layer.is_some() { HEADER_LEN + 8 } else { HEADER_LEN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(advertise: bool, flags: [bool; 3], target: [u8; 16], mac: Option<[u8; 6]>) {
            let (target, link_layer) = (target.into(), mac.map(MacAddr));
            let [router, solicited, overrides] = flags;
            let repr = if advertise {
                Repr::Advertisement { router, solicited, overrides, target, link_layer }
            } else {
                Repr::Solicitation { target, link_layer }
            };
            let mut bytes = vec![0xff; repr.len()];
            repr.emit(&mut bytes);
            prop_assert_eq!(Repr::parse(&View::new_checked(&bytes).unwrap()), repr);
        }

        #[test]
        fn no_panic(tail in proptest::collection::vec(0u8..4, 0..60)) {
            let bytes = [&[ADVERTISEMENT, 0][..], &tail].concat();
            if let Ok(view) = View::new_checked(&bytes) {
                let _ = Repr::parse(&view);
            }
        }
    }

    #[test]
    fn errors() {
        let mut bytes = [0u8; 26];
        assert_eq!(View::new_checked(&bytes[..23]).unwrap_err(), HeaderError::Truncated);
        assert_eq!(View::new_checked(&bytes).unwrap_err(), HeaderError::Type);
        bytes[0] = SOLICITATION;
        assert_eq!(View::new_checked(&bytes).unwrap_err(), HeaderError::MalformedOption);
        assert_eq!(View::new_checked(&bytes[..25]).unwrap_err(), HeaderError::MalformedOption);
    }
}
