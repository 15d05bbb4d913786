//! IAX2: the frames of a call, whose voice has four bytes of header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-----------------------------+-------------------------------+
//! |0|      source call number     | lower 16 bits of milliseconds |   mini frame
//! +-+-----------------------------+-------------------------------+
//! |1|      source call number     |R|    destination call number  |   full frame
//! |                milliseconds since the call began              |
//! |  sent number  | expected one  |  frame type   |C|  subclass   |
//! +---------------+---------------+---------------+-+-------------+
//! ```
//!
//! The first voice of a call is in a full frame, and so is the first after the lower 16 bits have begun again: every 65 s
//! there is one, which announces the call number. Where it was missed, mini frames must look like those of a codec.
//!
//! Source: RFC 5456 §6.8.1 (voice), §8.1.1 (full frames), §8.1.2 (mini frames), §8.7 (media formats).

use super::demux::Payload;

/// Frame type of voice, the bit that makes its subclass an exponent, and the largest one.
const VOICE: u8 = 2;
const EXPONENT: u8 = 0x80;
const LARGEST_EXPONENT: u8 = 63;
/// Bytes of both headers.
const MINI: usize = 4;
const FULL: usize = 12;

/// A frame of voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Source call number, from 1.
    pub call: u16,
    /// The lower 16 bits of its milliseconds.
    pub stamp: u16,
    /// Bytes of voice.
    pub len: u16,
}

/// A mini frame, as far as one can tell.
#[inline]
pub(crate) fn mini(payload: &Payload<'_>) -> Option<Frame> {
    let head = payload.bytes.first_chunk::<MINI>()?;
    let call = u16::from_be_bytes([head[0], head[1]]);
    let len = u16::try_from(payload.len.checked_sub(MINI)?).ok()?;
    // Call number 0 is that of a meta frame.
    let is_one = (1..0x8000).contains(&call) && len > 0;
    is_one.then_some(Frame { call, stamp: u16::from_be_bytes([head[2], head[3]]), len })
}

/// A full frame with voice of a format that there is.
#[inline]
pub(crate) fn full(payload: &Payload<'_>) -> Option<Frame> {
    let head = payload.bytes.first_chunk::<FULL>()?;
    if head[10] != VOICE || head[0] & 0x80 == 0 {
        return None;
    }
    let [call, peer] = [[head[0], head[1]], [head[2], head[3]]].map(|w| u16::from_be_bytes(w) & 0x7fff);
    let format = head[11] & !EXPONENT;
    let is_format =
        if head[11] & EXPONENT != 0 { format <= LARGEST_EXPONENT } else { format.is_power_of_two() };
    let len = u16::try_from(payload.len.checked_sub(FULL)?).ok()?;
    let is_one = call > 0 && peer > 0 && is_format && len > 0;
    is_one.then_some(Frame { call, stamp: u16::from_be_bytes([head[6], head[7]]), len })
}

/// Whether a payload is a full frame by its lengths and its type.
pub(crate) fn is_full(payload: &Payload<'_>) -> bool {
    let Some(head) = payload.bytes.first_chunk::<FULL>() else { return false };
    head[0] & 0x80 != 0 && (1..=12).contains(&head[10])
}

/// Whether a codec of speech makes `len` bytes of `ms`: G.711 and G.722, 16-bit samples, G.726 and ADPCM, G.729, GSM; or
/// iLBC and G.723.1.
pub(crate) fn is_speech(ms: u16, len: u16) -> bool {
    match ms {
        20 => matches!(len, 20 | 33 | 80 | 160 | 320),
        30 => matches!(len, 20 | 24 | 30 | 50 | 120 | 240 | 480),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_by_their_fields() {
        let of = |bytes: &[u8]| (mini(&Payload::whole(bytes)), full(&Payload::whole(bytes)));
        let frame = Frame { call: 0x1234, stamp: 0x0506, len: 2 };
        assert_eq!(of(&[0x12, 0x34, 5, 6, 1, 2]), (Some(frame), None));
        // A meta frame, and nothing behind the header.
        assert_eq!(of(&[0, 0, 5, 6, 1, 2]), (None, None));
        assert_eq!(of(&[0x12, 0x34, 5, 6]), (None, None));
        let with = |edits: &[(usize, u8)]| {
            let mut bytes = [0x92, 0x34, 0x80, 9, 7, 7, 5, 6, 0, 1, 2, 4, 8, 8];
            for (at, value) in edits {
                bytes[*at] = *value;
            }
            (full(&Payload::whole(&bytes)), is_full(&Payload::whole(&bytes)))
        };
        assert_eq!(with(&[]), (Some(frame), true));
        // G.729 is 2⁸. No format, no peer, another type, a mini frame.
        assert_eq!(with(&[(11, 0x88)]), (Some(frame), true));
        for (edits, is_full) in [
            (&[(11, 3)][..], true),
            (&[(11, 0)], true),
            (&[(11, 0xff)], true),
            (&[(2, 0x80), (3, 0)], true),
            (&[(10, 6)], true),
            (&[(10, 13)], false),
            (&[(0, 0x12)], false),
        ] {
            assert_eq!(with(edits), (None, is_full), "{edits:?}");
        }
    }
}
