//! Deterministic mixing of words: SplitMix64. It has no secret, so it is as hard to foretell as what it begins with.
//!
//! Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

/// Step from state to state: the odd number nearest to 2⁶⁴ divided by the golden ratio.
pub const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of words in which every bit of `word` changes about half of all bits.
pub const fn spread(word: u64) -> u64 {
    let z = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The next word of the sequence whose whole state is `state`; any state is a good one to begin with.
pub const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GAMMA);
    spread(*state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_are_those_of_the_published_reference_implementation() {
        let mut state = 0;
        let words = [0; 3].map(|_: u64| next(&mut state));
        assert_eq!(words, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
