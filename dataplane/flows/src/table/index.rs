//! Hash → entry number: open addressing with linear probing.

use perhop_packet::prefetch;

/// One bucket: part of the hash, and the entry. Eight share a cache line.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Low half of the hash; its low bits are the bucket's home.
    tag: u32,
    /// [`NONE`] when empty.
    entry: u32,
}

const NONE: u32 = u32::MAX;

/// At most half full, so that a probe seldom leaves its cache line. Removal shifts back: no tombstones.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Box<[Bucket]>,
    mask: usize,
}

impl Index {
    /// For up to `entries` entries.
    pub fn new(entries: usize) -> Self {
        let buckets = (entries.max(4) * 2).next_power_of_two();
        Self { buckets: vec![Bucket { tag: 0, entry: NONE }; buckets].into(), mask: buckets - 1 }
    }

    /// Brings the home bucket of `hash` near.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.buckets[hash as u32 as usize & self.mask]);
    }

    /// The first entry whose tag agrees: very likely the one. For prefetching.
    #[inline]
    pub fn guess(&self, hash: u64) -> Option<u32> {
        let tag = hash as u32;
        let mut at = tag as usize & self.mask;
        loop {
            let bucket = self.buckets[at];
            if bucket.entry == NONE {
                return None;
            }
            if bucket.tag == tag {
                return Some(bucket.entry);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// The entry that `is` confirms among those whose tag agrees.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = hash as u32;
        let mut at = tag as usize & self.mask;
        loop {
            let bucket = self.buckets[at];
            if bucket.entry == NONE {
                return None;
            }
            if bucket.tag == tag && is(bucket.entry) {
                return Some(bucket.entry);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Adds an entry that is not inside. The caller keeps to the number given to [`Index::new`].
    pub fn insert(&mut self, hash: u64, entry: u32) {
        let tag = hash as u32;
        let mut at = tag as usize & self.mask;
        while self.buckets[at].entry != NONE {
            at = (at + 1) & self.mask;
        }
        self.buckets[at] = Bucket { tag, entry };
    }

    /// Takes `entry` out and closes the gap.
    pub fn remove(&mut self, hash: u64, entry: u32) {
        let mut at = hash as u32 as usize & self.mask;
        while self.buckets[at].entry != entry {
            if self.buckets[at].entry == NONE {
                debug_assert!(false, "an entry is found under the hash it was put in by");
                return;
            }
            at = (at + 1) & self.mask;
        }
        let mut gap = at;
        loop {
            at = (at + 1) & self.mask;
            let bucket = self.buckets[at];
            if bucket.entry == NONE {
                break;
            }
            // A bucket may move into the gap if its home is not between the gap and itself.
            let home = bucket.tag as usize & self.mask;
            if at.wrapping_sub(home) & self.mask >= at.wrapping_sub(gap) & self.mask {
                self.buckets[gap] = bucket;
                gap = at;
            }
        }
        self.buckets[gap].entry = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_like_a_map(steps in proptest::collection::vec((any::<bool>(), 0..24u32), 0..200)) {
            // Hashes collide in their home on purpose.
            let hash = |n: u32| u64::from(n % 5) | u64::from(n) << 20;
            let mut index = Index::new(24);
            let mut model = BTreeMap::new();
            for (insert, n) in steps {
                if insert && !model.contains_key(&n) {
                    index.insert(hash(n), n);
                    model.insert(n, ());
                } else if !insert && model.remove(&n).is_some() {
                    index.remove(hash(n), n);
                }
                for n in 0..24 {
                    prop_assert_eq!(index.find(hash(n), |e| e == n).is_some(), model.contains_key(&n));
                }
            }
        }
    }
}
