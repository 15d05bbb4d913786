//! A ring of buckets in the order of tags, with the first that is not empty found by counting zeros.

/// Buckets of a ring.
pub(super) const SLOTS: usize = 4096;
const WORDS: usize = SLOTS / 64;
const NIL: u16 = u16::MAX;

/// Leaves in the buckets of their tags; a leaf is in one calendar at most. O(1) everywhere.
#[derive(Debug)]
pub(super) struct Calendar {
    heads: Box<[u16]>,
    tails: Box<[u16]>,
    occupied: [u64; WORDS],
    /// A bit for each word that is not zero.
    words: u64,
    /// By leaf: the next one in its bucket.
    next: Box<[u16]>,
}

impl Calendar {
    /// An empty one for so many leaves, at most 65,535.
    pub(super) fn new(leaves: usize) -> Self {
        let nil = |n: usize| vec![NIL; n].into_boxed_slice();
        Self { heads: nil(SLOTS), tails: nil(SLOTS), occupied: [0; WORDS], words: 0, next: nil(leaves) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Puts a leaf behind those of its bucket.
    pub(super) fn push(&mut self, slot: usize, leaf: u16) {
        let slot = slot % SLOTS;
        self.next[usize::from(leaf)] = NIL;
        match self.tails[slot] {
            NIL => {
                self.heads[slot] = leaf;
                self.occupied[slot / 64] |= 1 << (slot % 64);
                self.words |= 1 << (slot / 64);
            }
            tail => self.next[usize::from(tail)] = leaf,
        }
        self.tails[slot] = leaf;
    }

    /// The first bucket with a leaf, going round from `origin`; as a distance from it.
    pub(super) fn first(&self, origin: usize) -> Option<usize> {
        let origin = origin % SLOTS;
        let (word, bit) = (origin / 64, origin % 64);
        let here = self.occupied[word] & (u64::MAX << bit);
        if here != 0 {
            return Some(here.trailing_zeros() as usize - bit);
        }
        // Words behind this one, going round; this one again comes last.
        let round = self.words.rotate_right((word as u32 + 1) % 64);
        if round == 0 {
            return None;
        }
        let found = (word + 1 + round.trailing_zeros() as usize) % WORDS;
        let slot = found * 64 + self.occupied[found].trailing_zeros() as usize;
        Some((slot + SLOTS - origin) % SLOTS)
    }

    /// The first leaf of a bucket.
    pub(super) fn front(&self, slot: usize) -> Option<u16> {
        Some(self.heads[slot % SLOTS]).filter(|leaf| *leaf != NIL)
    }

    /// Takes the first leaf of a bucket.
    pub(super) fn pop(&mut self, slot: usize) -> Option<u16> {
        let slot = slot % SLOTS;
        let leaf = self.front(slot)?;
        self.heads[slot] = self.next[usize::from(leaf)];
        if self.heads[slot] == NIL {
            self.tails[slot] = NIL;
            self.occupied[slot / 64] &= !(1 << (slot % 64));
            if self.occupied[slot / 64] == 0 {
                self.words &= !(1 << (slot / 64));
            }
        }
        Some(leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list sorted by distance and time of insertion.
        #[test]
        fn the_first_bucket_is_found_from_anywhere(
            steps in prop::collection::vec((0usize..SLOTS, 0usize..SLOTS, any::<bool>()), 1..200),
        ) {
            let mut calendar = Calendar::new(200);
            let mut model: Vec<(usize, u16)> = vec![];
            for (n, (slot, origin, takes)) in steps.into_iter().enumerate() {
                // Half of them close together.
                let slot = if n % 2 == 0 { slot } else { slot % 130 };
                calendar.push(slot, n as u16);
                model.push((slot, n as u16));
                let distance = |slot: usize| (slot + SLOTS - origin) % SLOTS;
                let first = model.iter().map(|(slot, _)| distance(*slot)).min();
                prop_assert_eq!(calendar.first(origin), first);
                if takes {
                    let slot = (origin + first.expect("one is in")) % SLOTS;
                    let at = model.iter().position(|(s, _)| *s == slot).expect("it is in");
                    prop_assert_eq!(calendar.pop(slot), Some(model.remove(at).1));
                }
                prop_assert_eq!(calendar.is_empty(), model.is_empty());
            }
        }
    }
}
