//! What a UDP payload is by its first bytes, and what has been seen on a connection.
//!
//! The first byte tells STUN (0 … 3), ZRTP (16 … 19), DTLS (20 … 63), TURN channel data (64 … 79, before RFC 8656 up to
//! 127) and RTP or RTCP (128 … 191) apart when they share ports. Other protocols use those bytes too, so each is
//! believed only when its magic number or its length field agrees.
//!
//! Source: RFC 7983 §7, RFC 5761 §4 (RTCP), RFC 8489 §5 (STUN), RFC 8656 §12.4 (channel data), RFC 6189 §5 (ZRTP),
//! RFC 6347 §4.1 (DTLS).

use super::rtp::NotRtp;

/// A UDP payload as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// The bytes at hand: all of them, or the first ones of a packet that was cut short.
    pub bytes: &'a [u8],
    /// Length as sent.
    pub len: usize,
    /// IP length of the packet.
    pub ip_len: u16,
}

impl<'a> Payload<'a> {
    /// A whole payload of an IPv4 packet without options.
    pub fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, len: bytes.len(), ip_len: u16::try_from(bytes.len() + 28).unwrap_or(u16::MAX) }
    }
}

/// What has been seen on a connection, in either direction: which of the protocols that go with media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence(u8);

impl Evidence {
    /// STUN with its magic cookie: the ports were negotiated by ICE.
    pub const STUN: Self = Self(1);
    /// DTLS records: SRTP keys may have been agreed on.
    pub const DTLS: Self = Self(2);
    /// ZRTP packets.
    pub const ZRTP: Self = Self(4);
    /// RTCP whose length field fits.
    pub const RTCP: Self = Self(8);
    /// The address discovery of voice servers that give each client its SSRC.
    pub const DISCOVERY: Self = Self(16);
    /// Voice in a full frame of IAX2, which says nothing of RTP.
    pub const IAX2: Self = Self(32);

    /// Adds what `other` holds.
    #[inline]
    pub fn note(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether all of `other` was seen.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether anything was seen that goes with RTP.
    #[inline]
    pub const fn any(self) -> bool {
        self.0 & !Self::IAX2.0 != 0
    }
}

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// None of the others; possibly RTP.
    Other,
    /// Evidence, and nothing to look into.
    Signal(NotRtp, Evidence),
    /// RTCP by its packet type, of whatever length.
    Rtcp,
    /// Channel data; what it carries begins at byte 4.
    Channel,
}

const STUN_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const ZRTP_COOKIE: [u8; 4] = *b"ZRTP";
/// Request and reply of the address discovery: type, a length of 70, an SSRC, room for an address and a port.
const DISCOVERIES: [[u8; 4]; 2] = [[0, 1, 0, 70], [0, 2, 0, 70]];
const DISCOVERY_LEN: usize = 74;
const RTCP_TYPES: std::ops::RangeInclusive<u8> = 200..=207;
/// STUN methods that carry data: Send and Data indications.
const INDICATIONS: [u16; 2] = [0x0016, 0x0017];

/// What `bytes`, the first of `len`, are.
#[inline]
pub(crate) fn kind(bytes: &[u8], len: usize) -> Kind {
    let Some(head) = bytes.first_chunk::<8>() else { return Kind::Other };
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let cookie = [head[4], head[5], head[6], head[7]];
    match head[0] {
        0..=3 if cookie == STUN_COOKIE && usize::from(word(2)) + 20 <= len => {
            if INDICATIONS.contains(&word(0)) {
                return Kind::Other;
            }
            Kind::Signal(NotRtp::Stun, Evidence::STUN)
        }
        0 if len == DISCOVERY_LEN && DISCOVERIES.iter().any(|d| head.starts_with(d)) => {
            Kind::Signal(NotRtp::Discovery, Evidence::DISCOVERY)
        }
        16..=19 if cookie == ZRTP_COOKIE => Kind::Signal(NotRtp::Zrtp, Evidence::ZRTP),
        // Content types of TLS, version 1.0 to 1.2 (1.3 says 1.2).
        20..=26 if head[1] == 0xfe && head[2] >= 0xfc && len >= 13 => {
            Kind::Signal(NotRtp::Dtls, Evidence::DTLS)
        }
        64..=127 if word(2) > 0 && (4..8).contains(&len.wrapping_sub(usize::from(word(2)))) => Kind::Channel,
        128..=191 if (192..=223).contains(&head[1]) => {
            let counted = (usize::from(word(2)) + 1) * 4;
            if RTCP_TYPES.contains(&head[1]) && counted <= len {
                Kind::Signal(NotRtp::Rtcp, Evidence::RTCP)
            } else {
                Kind::Rtcp
            }
        }
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_believed_only_when_its_fields_agree() {
        let of = |head: [u8; 8], len| kind(&head, len);
        let stun = [0, 1, 0, 8, 0x21, 0x12, 0xa4, 0x42];
        assert_eq!(of(stun, 28), Kind::Signal(NotRtp::Stun, Evidence::STUN));
        assert_eq!(of(stun, 27), Kind::Other);
        assert_eq!(of([0, 0x16, 0, 8, 0x21, 0x12, 0xa4, 0x42], 28), Kind::Other);
        assert_eq!(of([0, 1, 0, 8, 1, 2, 3, 4], 28), Kind::Other);
        let discovery = Kind::Signal(NotRtp::Discovery, Evidence::DISCOVERY);
        assert_eq!([74, 73].map(|len| of([0, 2, 0, 70, 0, 0, 1, 2], len)), [discovery, Kind::Other]);
        assert_eq!(of([22, 254, 253, 0, 0, 0, 0, 0], 100), Kind::Signal(NotRtp::Dtls, Evidence::DTLS));
        assert_eq!(of([22, 3, 3, 0, 0, 0, 0, 0], 100), Kind::Other);
        assert_eq!(
            of([16, 0, 0, 1, b'Z', b'R', b'T', b'P'], 100),
            Kind::Signal(NotRtp::Zrtp, Evidence::ZRTP)
        );
        assert_eq!(of([0x40, 0, 0, 172, 0x80, 0, 0, 1], 176), Kind::Channel);
        assert_eq!(of([0x40, 0, 0, 173, 0x80, 0, 0, 1], 180), Kind::Channel);
        assert_eq!(of([0x40, 0, 0, 172, 0x80, 0, 0, 1], 200), Kind::Other);
        assert_eq!(of([0x80, 200, 0, 6, 0, 0, 0, 0], 28), Kind::Signal(NotRtp::Rtcp, Evidence::RTCP));
        assert_eq!(of([0x80, 200, 0, 7, 0, 0, 0, 0], 28), Kind::Rtcp);
        assert_eq!(of([0x80, 96, 0, 7, 0, 0, 0, 0], 28), Kind::Other);
        assert_eq!(kind(&[0x80; 7], 7), Kind::Other);
    }

    #[test]
    fn evidence_adds_up() {
        let mut seen = Evidence::default();
        assert!(!seen.any());
        seen.note(Evidence::DTLS);
        seen.note(Evidence::RTCP);
        assert!(seen.any() && seen.has(Evidence::DTLS) && !seen.has(Evidence::STUN));
    }
}
