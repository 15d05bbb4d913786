//! Whether a payload can be what a codec or a cipher made: of such bytes nothing repeats, and half have their upper bit set.
//!
//! Text, counters, measured values and padding are not so, however small and regular the packets are that carry them. Two
//! protocols are told by their structure besides, because what they carry may be compressed: queries and answers of DNS, which
//! tunnels hide in, and frames of synchrophasors, which come 10 to 120 times a second.
//!
//! Source: RFC 1035 §4.1.1 (DNS), IEEE C37.118.2 §6.2 (synchrophasors).

use super::demux::Payload;

/// Bytes at the beginning that are a header's, and bytes looked at behind them.
const HEADER: usize = 12;
const LOOKED_AT: usize = 64;
/// Fewer tell nothing.
const LEAST: usize = 8;
/// Byte at the beginning of a synchrophasor frame.
const SYNCHROPHASOR: u8 = 0xaa;

/// Whether the payload is plainly neither compressed nor encrypted media.
pub(crate) fn is_plain(payload: &Payload<'_>) -> bool {
    is_dns(payload.bytes) || is_synchrophasor(payload) || !is_mixed(payload.bytes)
}

/// A query or an answer of one question; numbers of records below 256.
fn is_dns(bytes: &[u8]) -> bool {
    let Some(head) = bytes.first_chunk::<12>() else { return false };
    let [_, _, flags, more, 0, 1, 0, _, 0, _, 0, _] = *head else { return false };
    flags & 0x78 == 0 && more & 0x40 == 0
}

/// Sync word with a type of frame and a version that there are, and the length of the frame.
fn is_synchrophasor(payload: &Payload<'_>) -> bool {
    let Some([SYNCHROPHASOR, kind, high, low]) = payload.bytes.first_chunk() else { return false };
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    kind >> 4 <= 5 && (1..=3).contains(&(kind & 0xf)) && len == payload.len
}

/// Whether the bytes behind a header may be random: as many upper bits are set as of coins fall on one side within four
/// standard deviations, and hardly a byte goes on as the two before it did, which one in 128 does by chance.
fn is_mixed(bytes: &[u8]) -> bool {
    let behind = bytes.get(HEADER..).unwrap_or_default();
    let bytes = &behind[..behind.len().min(LOOKED_AT)];
    if bytes.len() < LEAST {
        return true;
    }
    let upper = bytes.iter().filter(|byte| **byte >= 0x80).count();
    let off = (2 * upper).abs_diff(bytes.len());
    let goes_on = |three: &&[u8]| {
        three[1] == three[2] || three[1].wrapping_sub(three[0]) == three[2].wrapping_sub(three[1])
    };
    let repeated = bytes.windows(3).filter(goes_on).count();
    off * off <= 16 * bytes.len() && repeated <= (bytes.len() / 8).max(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    fn plain(bytes: &[u8]) -> bool {
        is_plain(&Payload::whole(bytes))
    }

    #[test]
    fn what_a_cipher_makes_is_not_plain() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
        let mistaken = (0..20_000)
            .filter(|i| {
                let mut bytes = vec![0; 20 + i % 200];
                rng.fill_bytes(&mut bytes);
                plain(&bytes)
            })
            .count();
        // Beyond four standard deviations on either side are 6 in 100,000, and few more by the steps of small numbers.
        assert!(mistaken <= 12, "{mistaken}");
    }

    #[test]
    fn text_counters_padding_and_known_structures_are_plain() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(6);
        let head: Vec<u8> = (0..12).collect();
        let text: Vec<u8> = (0..80).map(|_| b'a' + (rng.next_u32() % 26) as u8).collect();
        let counter: Vec<u8> = (100..200).collect();
        // Values of 16 bits that change little.
        let values: Vec<u8> = (0..40_u16).flat_map(|i| (i * 3).to_be_bytes()).collect();
        for body in [text, counter, values, vec![0; 60], vec![0xa5; 60]] {
            assert!(plain(&[&head[..], &body].concat()), "{body:?}");
        }
        let mut random = vec![0; 100];
        rng.fill_bytes(&mut random);
        for (begin, expected) in [
            (&[7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], true),
            (&[7, 7, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0], true),
            (&[7, 7, 1, 0, 0, 2, 0, 0, 0, 0, 0, 1], false),
            (&[0xaa, 0x01, 0, 100], true),
            (&[0xaa, 0x12, 0, 100], true),
            (&[0xaa, 0x01, 0, 101], false),
            (&[0xaa, 0x71, 0, 100], false),
        ] {
            random[..begin.len()].copy_from_slice(begin);
            assert_eq!(plain(&random), expected, "{begin:?}");
        }
    }
}
