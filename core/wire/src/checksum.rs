//! The Internet checksum: whole, over pseudo-headers, and updated in place.
//!
//! Source: RFC 1071 (definition), RFC 1624 equation 3 (update), RFC 793 and RFC 8200 §8.1 (pseudo-headers).

/// A running ones' complement sum of big-endian 16-bit words, not yet folded.
///
/// Pieces are added in any order, but each piece must start at an even offset of the summed data; only the last may
/// have an odd length. Holds at least 2³² words without overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// Nothing summed.
    pub const ZERO: Self = Self(0);

    /// Adds `data`; an odd last byte counts as the high byte of a word (RFC 1071 §4.1). O(len).
    pub fn bytes(self, data: &[u8]) -> Self {
        let mut sum = self.0;
        let (quads, rest) = data.as_chunks::<4>();
        for quad in quads {
            sum += u64::from(u32::from_be_bytes(*quad));
        }
        let (pairs, odd) = rest.as_chunks::<2>();
        for pair in pairs {
            sum += u64::from(u16::from_be_bytes(*pair));
        }
        if let [last] = odd {
            sum += u64::from(*last) << 8;
        }
        Self(sum)
    }

    /// Adds one word.
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// Adds two words.
    pub const fn word32(self, words: u32) -> Self {
        Self(self.0 + words as u64)
    }

    /// The 16-bit ones' complement sum (end-around carries added).
    #[must_use]
    pub const fn fold(self) -> u16 {
        let s = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let s = (s & 0xffff_ffff) + (s >> 32);
        let s = (s & 0xffff) + (s >> 16);
        let s = (s & 0xffff) + (s >> 16);
        let s = (s & 0xffff) + (s >> 16);
        s as u16
    }

    /// The value of the checksum field: the complement of the sum.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Whether data that contains its checksum field is intact: the sum is all ones.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

/// The checksum of `data`, whose checksum field must be zero. O(len).
#[must_use]
pub fn of(data: &[u8]) -> u16 {
    Sum::ZERO.bytes(data).checksum()
}

/// The IPv4 pseudo-header of TCP and UDP (RFC 793 §3.1, RFC 768); `len` in bytes covers transport header and payload.
pub fn pseudo_header_v4(src: [u8; 4], dst: [u8; 4], protocol: u8, len: u16) -> Sum {
    Sum::ZERO.bytes(&src).bytes(&dst).word(protocol as u16).word(len)
}

/// The IPv6 pseudo-header of TCP, UDP and ICMPv6 (RFC 8200 §8.1); `len` in bytes covers the upper-layer packet.
pub fn pseudo_header_v6(src: [u8; 16], dst: [u8; 16], next_header: u8, len: u32) -> Sum {
    Sum::ZERO.bytes(&src).bytes(&dst).word32(len).word(next_header as u16)
}

/// The checksum field `hc` after a word of the covered data changed from `old` to `new`: RFC 1624 equation 3,
/// `HC' = ~(~HC + ~m + m')`. O(1).
///
/// The word must lie at an even offset. A UDP checksum of zero means "none" (RFC 768) and must not be updated; nor may
/// a field that a network card is still to complete.
#[must_use]
pub const fn update16(hc: u16, old: u16, new: u16) -> u16 {
    // Ones' complement negation is bitwise: coding −m as a two's complement number is wrong in one case of six.
    let sum = !hc as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// [`update16`] for two adjacent words.
#[must_use]
pub const fn update32(hc: u16, old: u32, new: u32) -> u16 {
    update16(update16(hc, (old >> 16) as u16, (new >> 16) as u16), old as u16, new as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 as written: word by word, carry by carry.
    fn slow(data: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in data.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            if sum > 0xffff {
                sum -= 0xffff;
            }
        }
        sum as u16
    }

    #[test]
    fn rfc_1071_example() {
        // RFC 1071 §3: the sum of 00 01 f2 03 f4 f5 f6 f7 is ddf2.
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::ZERO.bytes(&data).fold(), 0xddf2);
        assert_eq!(of(&data), 0x220d);
    }

    #[test]
    fn published_update_vectors() {
        // The printed example: words 00f1 13a4 527b 0041 7612, the fourth replaced by 805a.
        let old: Vec<u8> =
            [0x00f1u16, 0x13a4, 0x527b, 0x0041, 0x7612].iter().flat_map(|w| w.to_be_bytes()).collect();
        let new: Vec<u8> =
            [0x00f1u16, 0x13a4, 0x527b, 0x805a, 0x7612].iter().flat_map(|w| w.to_be_bytes()).collect();
        assert_eq!(of(&new), update16(of(&old), 0x0041, 0x805a));
        assert_eq!((of(&old), of(&new)), PRINTED);
        // RFC 1624 §4, where the older equation of RFC 1141 gives ffff.
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
        // Where two's complement negation gives 6c44.
        assert_eq!(update16(0xf5ee, 0x7ee6, 0x0890), 0x6c45);
    }
    const PRINTED: (u16, u16) = (0x229c, 0xa282);

    proptest! {
        #[test]
        fn sum_equals_the_definition(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Sum::ZERO.bytes(&data).fold() % 0xffff, slow(&data) % 0xffff);
        }

        #[test]
        fn pieces_add_up(data in proptest::collection::vec(any::<u8>(), 0..100), cut in 0usize..50) {
            let cut = (cut * 2).min(data.len() & !1);
            let (a, b) = data.split_at(cut);
            prop_assert_eq!(Sum::ZERO.bytes(b).bytes(a).fold(), Sum::ZERO.bytes(&data).fold());
        }

        #[test]
        fn update_equals_recomputation(
            words in proptest::collection::vec(any::<u16>(), 2..30), at in any::<prop::sample::Index>(), new: u16,
        ) {
            // A real header never sums to zero; the version field sees to that.
            let mut words = words;
            words[0] |= 0x4000;
            let at = 1 + at.index(words.len() - 1);
            let bytes = |w: &[u16]| w.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
            let before = of(&bytes(&words));
            let old = std::mem::replace(&mut words[at], new);
            prop_assert_eq!(update16(before, old, new), of(&bytes(&words)));
        }

        #[test]
        fn update32_equals_two_updates(rest: u16, old: u32, new: u32) {
            let sum = |w: u32| Sum::ZERO.word(rest | 1).word32(w).checksum();
            prop_assert_eq!(update32(sum(old), old, new), sum(new));
        }

        #[test]
        fn a_filled_in_checksum_is_valid(mut data in proptest::collection::vec(any::<u8>(), 4..80)) {
            data[2] = 0;
            data[3] = 0;
            let c = of(&data);
            data[2..4].copy_from_slice(&c.to_be_bytes());
            prop_assert!(Sum::ZERO.bytes(&data).is_valid());
        }
    }
}
