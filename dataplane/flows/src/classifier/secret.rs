//! What keeps others from choosing rules that meet in one line of a table.

/// A key of hashes. Who knows it can choose rules by their hash, which packets then find late; who does not cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secret([u64; 2]);

impl Default for Secret {
    fn default() -> Self {
        Self([0xd6e8_feb8_6659_fd93, 0x9e37_79b9_7f4a_7c15])
    }
}

impl Secret {
    /// The key of a seed; every seed has another.
    pub fn of(seed: u64) -> Self {
        let Self(words) = Self::default();
        let mut state = seed;
        Self(words.map(|word| {
            state = state.wrapping_add(word);
            mix(state)
        }))
    }

    #[inline]
    pub fn words(&self) -> [u64; 2] {
        self.0
    }
}

/// The finaliser of SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Both halves of a product.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
