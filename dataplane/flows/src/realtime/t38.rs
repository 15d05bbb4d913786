//! T.38 fax over UDP (UDPTL).
//!
//! A packet is a 16-bit sequence number, a primary message and older ones (redundancy) or parity (FEC), each with its
//! length. That all lengths together give exactly the length of the packet is a test that hardly anything else passes,
//! again and again; so is that the primary message begins with a type that exists.
//!
//! Source: ITU-T T.38 §9.1 (UDPTL), Annex A (ASN.1 and its aligned PER encoding).

use super::demux::Payload;

/// Sequence number of a UDPTL packet; `None` when the structure does not fit.
#[inline]
pub(crate) fn sequence(payload: &Payload<'_>) -> Option<u16> {
    let bytes = payload.bytes;
    // Sequence number, length, one byte of message, kind of recovery, number of older messages.
    if bytes.len() != payload.len || bytes.len() < 6 {
        return None;
    }
    let (primary, at) = field(bytes, 2)?;
    is_message(primary).then_some(())?;
    match bytes.get(at)? {
        0x00 => older(bytes, at + 1)?,
        0x80 => parity(bytes, at + 1)?,
        _ => return None,
    }
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// An octet string with its PER length (one byte below 128, else two), and what follows it.
fn field(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let first = usize::from(*bytes.get(at)?);
    let (len, start) = match first {
        0..=127 => (first, at + 1),
        128..=191 => ((first & 0x3f) << 8 | usize::from(*bytes.get(at + 1)?), at + 2),
        _ => return None,
    };
    Some((bytes.get(start..start + len)?, start + len))
}

/// Whether an IFP packet can begin so: an indicator is a byte or two without data, a data type may carry fields.
fn is_message(primary: &[u8]) -> bool {
    match primary.first().map(|b| b >> 6) {
        Some(0) => primary.len() <= 2,
        Some(1) => primary.len() <= 2,
        Some(3) => primary.len() >= 3,
        _ => false,
    }
}

/// Older messages to the very end.
fn older(bytes: &[u8], at: usize) -> Option<()> {
    let count = *bytes.get(at)?;
    let end = (0..count).try_fold(at + 1, |at, _| Some(field(bytes, at)?.1))?;
    (count <= 16 && end == bytes.len()).then_some(())
}

/// Span (an INTEGER of one byte), then parity messages to the very end.
fn parity(bytes: &[u8], at: usize) -> Option<()> {
    let (span, at) = field(bytes, at)?;
    let count = *bytes.get(at)?;
    let end = (0..count).try_fold(at + 1, |at, _| Some(field(bytes, at)?.1))?;
    (span.len() == 1 && (1..=16).contains(&count) && end == bytes.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_must_give_the_length_of_the_packet() {
        let of = |bytes: &[u8]| sequence(&Payload::whole(bytes));
        // An indicator without and with redundancy, data with one older message, parity.
        assert_eq!(of(&[0, 7, 1, 6, 0, 0]), Some(7));
        assert_eq!(of(&[0, 8, 1, 6, 0, 2, 1, 4, 1, 2]), Some(8));
        let data = [0, 9, 5, 0xc0, 1, 0x80, 0, 0xff, 0, 1, 1, 6];
        assert_eq!(of(&data), Some(9));
        assert_eq!(of(&[0, 9, 1, 6, 0x80, 1, 3, 1, 2, 9, 9]), Some(9));
        assert_eq!(of(&data[..11]), None);
        assert_eq!(of(&[&data[..], &[0]].concat()), None);
        // An indicator with data, an unknown recovery.
        assert_eq!(of(&[0, 7, 3, 0x80, 1, 2, 0, 0]), None);
        assert_eq!(of(&[0, 7, 1, 6, 1, 0]), None);
        assert_eq!(sequence(&Payload { bytes: &data, len: 40, ip_len: 68 }), None);
    }
}
