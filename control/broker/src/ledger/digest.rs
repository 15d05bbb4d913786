//! Which request a key of idempotency was used for.

use super::ask::{Reserve, Way};
use crate::record::ReservationKind;
use sha2::{Digest, Sha256};

/// SHA-256 over all of a request but its key. Texts come with their lengths, so no two requests are the same octets.
pub(super) fn of(request: &Reserve) -> [u8; 32] {
    let mut hash = Sha256::new();
    let text = |hash: &mut Sha256, text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    let optional = |hash: &mut Sha256, number: Option<u64>| {
        hash.update([u8::from(number.is_some())]);
        hash.update(number.unwrap_or(0).to_be_bytes());
    };
    match &request.way {
        Way::Between { from, to } => {
            hash.update([0]);
            text(&mut hash, from);
            text(&mut hash, to);
        }
        Way::Path(path) => {
            hash.update([1]);
            hash.update(path.to_be_bytes());
        }
        Way::Link { node, port } => {
            hash.update([2]);
            text(&mut hash, node);
            text(&mut hash, port);
        }
    }
    text(&mut hash, &request.class);
    text(&mut hash, &request.flow);
    hash.update(request.bps.to_be_bytes());
    for number in [request.floor_bps, request.lifetime_ms, request.back_bps] {
        optional(&mut hash, number);
    }
    let is_lease = request.kind == ReservationKind::Lease;
    hash.update([request.priority, u8::from(request.asking), u8::from(is_lease)]);
    hash.finalize().into()
}

/// Lower-case hexadecimal.
pub(super) fn to_hex(digest: &[u8; 32]) -> String {
    let digit = |n: u8| char::from(b"0123456789abcdef"[usize::from(n & 15)]);
    digest.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// The digest of 64 hexadecimal digits.
pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let bytes = text.as_bytes();
    if bytes.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(bytes.chunks_exact(2)) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(digest)
}
