//! What keeps others from choosing rules that meet in one line of a table.

use super::key::Packed;
use crate::fold::fold;
use perhop_units::mix;

/// A key of hashes. Who knows it can choose rules by their hash, which packets then find late; who does not cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secret {
    first: u64,
    second: u64,
}

impl Default for Secret {
    fn default() -> Self {
        Self { first: 0xd6e8_feb8_6659_fd93, second: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl Secret {
    /// The key of a seed; every seed has another.
    pub fn of(mut seed: u64) -> Self {
        Self { first: mix::next(&mut seed), second: mix::next(&mut seed) }
    }

    /// The hash of two words.
    #[inline]
    pub fn hash_pair(&self, a: u64, b: u64) -> u64 {
        self.finish(fold(a ^ self.first, b.rotate_left(20) ^ self.second))
    }

    /// The hash of what `mask` leaves of `key`.
    #[inline]
    pub fn hash_masked<const A: usize>(&self, key: &Packed<A>, mask: &Packed<A>) -> u64 {
        let transport = key.transport & mask.transport ^ self.second;
        let mut mixed = fold(u64::from(key.place & mask.place) ^ self.second, self.first);
        for i in 0..A {
            let word = key.addresses[i] & mask.addresses[i];
            mixed = fold(word ^ self.first, transport.rotate_left(21 * i as u32)) ^ mixed.rotate_left(23);
        }
        self.finish(mixed)
    }

    /// Mixes once more: of neighbours one product alone makes steps of one size, which clump.
    #[inline]
    fn finish(&self, mixed: u64) -> u64 {
        fold(mixed ^ self.second, self.first ^ 0xa076_1d64_78bd_642f)
    }
}
