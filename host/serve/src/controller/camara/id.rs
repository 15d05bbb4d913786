//! Numbers of sessions: the reservation's number and a nonce that is kept with it, as a UUID of version 8 (RFC 9562 §5.8).
//!
//! So a session is found without a table, also by another instance or after a restart, and nobody meets one by guessing: of
//! 2⁵⁹ nonces one is right.

/// Bits of a number.
const NUMBER_BITS: u32 = 63;
/// Bits of a nonce.
const NONCE_BITS: u32 = 59;
/// Numbers from here on are of sessions that never had a reservation.
pub(super) const WITHOUT: u64 = 1 << 62;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SessionId {
    /// The reservation's number.
    pub(super) number: u64,
    /// The nonce.
    pub(super) nonce: u64,
}

impl SessionId {
    /// Of a number and whatever random bits.
    pub(super) fn new(number: u64, random: u64) -> Self {
        Self { number: number & ((1 << NUMBER_BITS) - 1), nonce: random & ((1 << NONCE_BITS) - 1) }
    }

    /// As it is written: 8-4-4-4-12 hexadecimal digits.
    pub(super) fn text(self) -> String {
        let payload = u128::from(self.number) << NONCE_BITS | u128::from(self.nonce);
        // 48 bits, the version, 12 bits, the variant 0b10, 62 bits.
        let (high, middle, low) = (payload >> 74, payload >> 62 & 0xfff, payload & ((1 << 62) - 1));
        let bits = high << 80 | 8 << 76 | middle << 64 | 2 << 62 | low;
        let hex = format!("{bits:032x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// What a UUID says; `Err` = it is none, `Ok(None)` = it is none of these.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, NoUuid> {
        let places = [8, 13, 18, 23];
        let is_one = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match places.contains(&at) {
                true => byte == b'-',
                false => byte.is_ascii_hexdigit(),
            });
        if !is_one {
            return Err(NoUuid);
        }
        let bits = u128::from_str_radix(&text.replace('-', ""), 16).map_err(|_| NoUuid)?;
        if bits >> 76 & 15 != 8 || bits >> 62 & 3 != 2 {
            return Ok(None);
        }
        let payload = (bits >> 80) << 74 | (bits >> 64 & 0xfff) << 62 | bits & ((1 << 62) - 1);
        let mask = |bits: u32| (1_u128 << bits) - 1;
        Ok(Some(Self {
            number: (payload >> NONCE_BITS & mask(NUMBER_BITS)) as u64,
            nonce: (payload & mask(NONCE_BITS)) as u64,
        }))
    }
}

/// A text is no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoUuid;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_is_a_uuid_of_version_8() {
        for (number, random) in [(1, 0), (2, u64::MAX), (1 << 40, 12_345_678_901), (WITHOUT | 77, 1 << 58)] {
            let id = SessionId::new(number, random);
            let text = id.text();
            assert_eq!(SessionId::parse(&text), Ok(Some(id)), "{text}");
            assert_eq!((&text[14..15], "89ab".contains(&text[19..20])), ("8", true), "{text}");
            assert_eq!(SessionId::parse(&text.to_uppercase()), Ok(Some(id)));
        }
    }

    #[test]
    fn other_uuids_are_none_of_these_and_other_texts_no_uuids() {
        assert_eq!(SessionId::parse("3fa85f64-5717-4562-b3fc-2c963f66afa6"), Ok(None));
        for wrong in [
            "",
            "1",
            "3fa85f64-5717-4562-b3fc-2c963f66afa",
            "3fa85f64-5717-4562-b3fc-2c963f66afag",
            "3fa85f6405717-4562-b3fc-2c963f66afa6",
            "+fa85f64-5717-8562-b3fc-2c963f66afa6",
            "é",
        ] {
            assert_eq!(SessionId::parse(wrong), Err(NoUuid), "{wrong}");
        }
    }
}
