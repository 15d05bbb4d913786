//! Who has asked for a place in a full table before.

/// Places of the memory: at a million new connections a second one is kept for about 65 ms, which is longer than from one
/// packet of a call to the next.
const PLACES: usize = 1 << 16;

/// Part of the hash of each of the last connections that were turned away, each in the place its hash names: 256 KiB,
/// touched as it fills. A flood of made-up addresses never comes twice; what comes twice is worth more.
#[derive(Debug)]
pub(crate) struct Knocks(Box<[u32]>);

impl Knocks {
    /// Nobody has asked.
    pub fn new() -> Self {
        Self(vec![0; PLACES].into())
    }

    /// Whether `hash` asked lately, and now it has. Wrong for about one in 2³¹ others, and for those it asked after.
    pub fn again(&mut self, hash: u64) -> bool {
        let place = &mut self.0[hash as usize & (PLACES - 1)];
        let tag = (hash >> 32) as u32 | 1;
        std::mem::replace(place, tag) == tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_time_is_known_until_another_takes_the_place() {
        let mut knocks = Knocks::new();
        let (one, other) = (0x1234_5678_9abc_def0, 0x2234_5678_0000_def0);
        assert_eq!(
            [one, one, other, other, one].map(|hash| knocks.again(hash)),
            [false, true, false, true, false]
        );
    }
}
