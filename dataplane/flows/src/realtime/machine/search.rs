//! The search for headers behind others.

use super::{HEADER_LEN, Header, MAX_OFFSET, Payload};

/// Payload types that are negotiated, from this one on.
const DYNAMIC_TYPES: u8 = 96;

/// The first offset from 1 at which two packets have headers of one SSRC, the second after the first; else the first at
/// which they are of two dynamic payload types, as media and its error correction in turns are. `before` begins with the
/// earlier one's second byte.
pub(super) fn agreement(before: &[u8], payload: &Payload<'_>) -> Option<(u8, Header, Header)> {
    let after = payload.bytes.get(1..)?;
    let last = before.len().min(after.len()).checked_sub(HEADER_LEN)?.min(MAX_OFFSET - 1);
    let mut of_two_types = None;
    for at in 0..=last {
        // Version 2 in both, which three of four bytes are not.
        if before[at] & after[at] & 0x80 == 0 || (before[at] | after[at]) & 0x40 != 0 {
            continue;
        }
        if before[at + 8..at + HEADER_LEN] != after[at + 8..at + HEADER_LEN] {
            continue;
        }
        let read = |bytes: &[u8]| Header::read(payload.len - at - 1, bytes[at..].first_chunk()?).ok();
        let (Some(first), Some(second)) = (read(before), read(after)) else { continue };
        if matches!(first.ssrc, 0 | u32::MAX) {
            continue;
        }
        let found = Some((at as u8 + 1, first, second));
        let ahead = second.sequence.wrapping_sub(first.sequence);
        if first.payload_type == second.payload_type && (1..=64).contains(&ahead) {
            return found;
        }
        let dynamic = first.payload_type.min(second.payload_type) >= DYNAMIC_TYPES;
        if dynamic && first.payload_type != second.payload_type {
            of_two_types = of_two_types.or(found);
        }
    }
    of_two_types
}
