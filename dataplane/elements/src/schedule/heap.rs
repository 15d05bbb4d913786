//! A binary heap of numbered things whose places are known, so that any of them can move or leave.

/// Smallest key first; of equal keys any. Things are numbered from 0; each is inside once at most. O(log n); allocates
/// nothing after it was made.
#[derive(Debug)]
pub(crate) struct Heap {
    items: Vec<(u64, u32)>,
    /// By thing: its index, or [`ABSENT`].
    places: Box<[u32]>,
}

const ABSENT: u32 = u32::MAX;

impl Heap {
    /// An empty one for things 0 … `count` − 1.
    pub(crate) fn new(count: usize) -> Self {
        Self { items: Vec::with_capacity(count), places: vec![ABSENT; count].into() }
    }

    /// The smallest key and its thing.
    pub(crate) fn first(&self) -> Option<(u64, usize)> {
        self.items.first().map(|(key, thing)| (*key, *thing as usize))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Puts a thing in, or moves it to another key.
    pub(crate) fn set(&mut self, thing: usize, key: u64) {
        let at = match self.places[thing] {
            ABSENT => {
                self.items.push((key, thing as u32));
                self.items.len() - 1
            }
            at => {
                self.items[at as usize].0 = key;
                at as usize
            }
        };
        self.settle(at);
    }

    /// Takes a thing out, if it is in.
    pub(crate) fn remove(&mut self, thing: usize) {
        let at = std::mem::replace(&mut self.places[thing], ABSENT) as usize;
        if at == ABSENT as usize {
            return;
        }
        self.items.swap_remove(at);
        if at < self.items.len() {
            self.settle(at);
        }
    }

    /// Moves the item at `at` to where its key belongs.
    fn settle(&mut self, mut at: usize) {
        while at > 0 && self.items[at].0 < self.items[(at - 1) / 2].0 {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        loop {
            let below = [2 * at + 1, 2 * at + 2].into_iter().filter(|n| *n < self.items.len());
            let Some(least) = below.min_by_key(|n| self.items[*n].0) else { break };
            if self.items[at].0 <= self.items[least].0 {
                break;
            }
            self.swap(at, least);
            at = least;
        }
        self.places[self.items[at].1 as usize] = at as u32;
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.items.swap(a, b);
        self.places[self.items[a].1 as usize] = a as u32;
        self.places[self.items[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_sorted_map(steps in prop::collection::vec((0usize..20, prop::option::of(0u64..50)), 1..300)) {
            let mut heap = Heap::new(20);
            let mut model = BTreeMap::new();
            for (thing, key) in steps {
                match key {
                    Some(key) => {
                        heap.set(thing, key);
                        model.insert(thing, key);
                    }
                    None => {
                        heap.remove(thing);
                        model.remove(&thing);
                    }
                }
                let least = model.values().min().copied();
                prop_assert_eq!(heap.first().map(|(key, _)| key), least);
                if let Some((key, thing)) = heap.first() {
                    prop_assert_eq!(model.get(&thing), Some(&key));
                }
                prop_assert_eq!(heap.is_empty(), model.is_empty());
            }
            for (thing, key) in model {
                prop_assert_eq!(heap.items[heap.places[thing] as usize], (key, thing as u32));
            }
        }
    }
}
