//! Prefixes of one family, to find the longest that covers an address.
//!
//! A trie of fixed strides: 16 bits at the root, 8 bits below. A prefix that ends inside a stride is written into every slot it
//! covers, and a new node starts as a copy of the slot it replaces, so that a look-up never goes back: at most 3
//! dependent slots for IPv4 and 15 for IPv6 (7 for a /64). A slot knows the length of its prefix, so that one is taken out
//! or put in without going through the others. Nodes are shared with earlier versions, by chunks, until one is written
//! to: a change copies the root and the chunks it writes to, whatever else the trie holds.
//!
//! Source: V. Srinivasan and G. Varghese, "Fast address lookups using controlled prefix expansion", ACM TOCS 17(1), 1999;
//! J. R. Driscoll, N. Sarnak, D. D. Sleator and R. E. Tarjan, "Making data structures persistent", JCSS 38, 1989.

use std::sync::Arc;

/// Set in a slot that holds the index of a node, clear in one that holds a value.
const CHILD: u32 = 1 << 31;
/// Where a slot without node has the length of its prefix, less one.
const LENGTH: u32 = 24;
/// The largest value.
pub(super) const MAX_VALUE: u32 = (1 << LENGTH) - 1;
/// Slots of a node.
const NODE: usize = 256;
/// Nodes that are copied together.
const CHUNK: usize = 64;
/// Nodes of 1 KiB that one trie may have.
pub(super) const MAX_NODES: usize = 1 << 18;

type Chunk = [[u32; NODE]; CHUNK];

/// What look-ups read: never changed once it is shared.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    root: Arc<[u32]>,
    chunks: Vec<Arc<Chunk>>,
}

/// A prefix found: its value, from 1, and its length, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) value: u32,
    pub(super) length: u8,
}

impl Trie {
    /// The value of the longest prefix that covers `key`; 0: none does.
    #[inline]
    pub(super) fn value<const N: usize>(&self, key: &[u8; N]) -> u32 {
        self.slot(key) & MAX_VALUE
    }

    /// The longest prefix that covers `key`.
    pub(super) fn find<const N: usize>(&self, key: &[u8; N]) -> Option<Match> {
        let slot = self.slot(key);
        (slot != 0).then(|| Match { value: slot & MAX_VALUE, length: length_of(slot) })
    }

    #[inline]
    fn slot<const N: usize>(&self, key: &[u8; N]) -> u32 {
        let mut slot = self.root[usize::from(u16::from_be_bytes([key[0], key[1]]))];
        let mut at = 2;
        // Ends: a node at the last octet has only values, because no prefix is longer than the key.
        while slot & CHILD != 0 {
            let node = (slot ^ CHILD) as usize;
            slot = self.chunks[node / CHUNK][node % CHUNK][usize::from(key[at])];
            at += 1;
        }
        slot
    }
}

fn length_of(slot: u32) -> u8 {
    if slot == 0 { 0 } else { (slot >> LENGTH) as u8 + 1 }
}

fn slot_of(found: Option<Match>) -> u32 {
    found.map_or(0, |m| (u32::from(m.length) - 1) << LENGTH | m.value)
}

/// A trie that changes.
#[derive(Debug)]
pub(super) struct Growing {
    trie: Trie,
    /// Nodes no longer in use.
    free: Vec<u32>,
    used: usize,
}

/// Slots that a prefix covers in the node where it ends; no node: the root.
struct Place {
    /// Node and slot above it, from the root down.
    path: Vec<(Option<u32>, usize)>,
    node: Option<u32>,
    slots: std::ops::Range<usize>,
}

impl Growing {
    pub(super) fn new() -> Self {
        let root = vec![0; 1 << 16].into();
        Self { trie: Trie { root, chunks: Vec::new() }, free: Vec::new(), used: 0 }
    }

    /// The trie as it is now: O(nodes / 64), and shares all of them.
    pub(super) fn snapshot(&self) -> Trie {
        self.trie.clone()
    }

    /// Puts a prefix in, or gives it another value. `false`: no node is left for it.
    pub(super) fn set(&mut self, key: &[u8], length: u8, value: u32) -> bool {
        debug_assert!(length > 0 && value > 0 && value <= MAX_VALUE);
        let Some(place) = self.place(key, length, true) else { return false };
        let new = slot_of(Some(Match { value, length }));
        self.fill(place.node, place.slots, &|slot| if length_of(slot) <= length { new } else { slot });
        true
    }

    /// Takes a prefix out; `cover` is the longest shorter one that covers it.
    pub(super) fn unset(&mut self, key: &[u8], length: u8, cover: Option<Match>) {
        let Some(place) = self.place(key, length, false) else { return };
        let new = slot_of(cover);
        self.fill(place.node, place.slots, &|slot| if length_of(slot) == length { new } else { slot });
        self.collapse(place.node, place.path);
    }

    fn slot_mut(&mut self, node: Option<u32>, at: usize) -> &mut u32 {
        &mut self.slots_mut(node)[at]
    }

    fn slots_mut(&mut self, node: Option<u32>) -> &mut [u32] {
        match node {
            None => Arc::make_mut(&mut self.trie.root),
            Some(node) => {
                let chunk = &mut self.trie.chunks[node as usize / CHUNK];
                &mut Arc::make_mut(chunk)[node as usize % CHUNK]
            }
        }
    }

    fn slots(&self, node: Option<u32>) -> &[u32] {
        match node {
            None => &self.trie.root,
            Some(node) => &self.trie.chunks[node as usize / CHUNK][node as usize % CHUNK],
        }
    }

    /// Where a prefix ends; `None`: there is no such node, and none may be made.
    fn place(&mut self, key: &[u8], length: u8, make: bool) -> Option<Place> {
        let (mut node, mut end) = (None, 16);
        let mut first = usize::from(u16::from_be_bytes([key[0], key[1]]));
        let mut path = Vec::new();
        while length > end {
            let slot = self.slots(node)[first];
            let below = if slot & CHILD != 0 {
                slot ^ CHILD
            } else {
                let new = if make { self.node(slot) } else { None };
                let Some(new) = new else {
                    // Nodes made on the way here have nothing of their own.
                    self.collapse(node, path);
                    return None;
                };
                *self.slot_mut(node, first) = CHILD | new;
                new
            };
            path.push((node, first));
            node = Some(below);
            first = usize::from(key[usize::from(end / 8)]);
            end += 8;
        }
        Some(Place { path, node, slots: first..first + (1 << (end - length)) })
    }

    /// A node with this slot everywhere.
    fn node(&mut self, slot: u32) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.used >= MAX_NODES => return None,
            None => {
                if self.used.is_multiple_of(CHUNK) {
                    self.trie.chunks.push(Arc::new([[0; NODE]; CHUNK]));
                }
                self.used += 1;
                self.used as u32 - 1
            }
        };
        self.slots_mut(Some(index)).fill(slot);
        Some(index)
    }

    /// Applies `change` to all values under these slots, and writes only where it changes something.
    fn fill(&mut self, node: Option<u32>, slots: std::ops::Range<usize>, change: &impl Fn(u32) -> u32) {
        for at in slots {
            let slot = self.slots(node)[at];
            if slot & CHILD != 0 {
                self.fill(Some(slot ^ CHILD), 0..NODE, change);
            } else if change(slot) != slot {
                *self.slot_mut(node, at) = change(slot);
            }
        }
    }

    /// Gives back a node in which no prefix ends any more, and those above it. Slots that are all the same do not say so by
    /// themselves: neighbouring prefixes of one value may fill a node.
    fn collapse(&mut self, mut node: Option<u32>, mut path: Vec<(Option<u32>, usize)>) {
        while let (Some(index), Some((above, at))) = (node, path.pop()) {
            let bits_above = 16 + 8 * path.len();
            let slots = self.slots(node);
            let first = slots[0];
            if slots.iter().any(|slot| slot & CHILD != 0 || usize::from(length_of(*slot)) > bits_above) {
                return;
            }
            debug_assert!(slots.iter().all(|slot| *slot == first), "one prefix covers the node");
            *self.slot_mut(above, at) = first;
            self.free.push(index);
            node = above;
        }
    }

    /// Nodes in use.
    #[cfg(test)]
    fn nodes(&self) -> usize {
        self.used - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Prefix = ([u8; 4], u8);

    /// Few distinct octets, so that prefixes nest and addresses hit them.
    fn octets() -> impl Strategy<Value = [u8; 4]> {
        proptest::array::uniform4(prop_oneof![Just(0u8), Just(10), Just(11), Just(255), any::<u8>()])
    }

    /// Prefixes that lie beside each other, with one value: together they fill nodes.
    fn neighbour() -> impl Strategy<Value = ([u8; 4], u8, u32)> {
        let octet = || prop_oneof![Just(0u8), Just(64), Just(128), Just(192)];
        let length = prop_oneof![16u8..=18, 24u8..=26, Just(32)];
        (octet(), octet(), length, 0u32..2).prop_map(|(c, d, length, value)| ([10, 0, c, d], length, value))
    }

    fn network((address, length): Prefix) -> Prefix {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        ((u32::from_be_bytes(address) & mask).to_be_bytes(), length)
    }

    fn covers(prefix: Prefix, address: [u8; 4]) -> bool {
        network((address, prefix.1)) == prefix
    }

    fn longest(all: &BTreeMap<Prefix, u32>, address: [u8; 4], shorter_than: u8) -> Option<Match> {
        let fit = all.iter().filter(|(p, _)| p.1 < shorter_than && covers(**p, address));
        fit.max_by_key(|(p, _)| p.1).map(|(p, value)| Match { value: *value, length: p.1 })
    }

    proptest! {
        #[test]
        fn what_is_put_in_and_taken_out_is_what_is_found(
            steps in prop_oneof![
                proptest::collection::vec((octets(), 1u8..=32, 0u32..4), 1..80),
                proptest::collection::vec(neighbour(), 1..200),
            ],
            others in proptest::collection::vec(octets(), 20),
        ) {
            let (mut trie, mut all) = (Growing::new(), BTreeMap::new());
            let mut before: Option<(Trie, Vec<u32>)> = None;
            let probes: Vec<[u8; 4]> = steps.iter().map(|s| s.0).chain(others).collect();
            for (address, length, value) in &steps {
                let (key, length) = network((*address, *length));
                if *value == 0 {
                    all.remove(&(key, length));
                    trie.unset(&key, length, longest(&all, key, length));
                } else {
                    all.insert((key, length), *value);
                    prop_assert!(trie.set(&key, length, *value));
                }
                for probe in &probes {
                    prop_assert_eq!(trie.trie.find(probe), longest(&all, *probe, 33), "{:?}", probe);
                }
                if let Some((old, found)) = &before {
                    let now: Vec<u32> = probes.iter().map(|p| old.value(p)).collect();
                    prop_assert_eq!(&now, found, "an earlier version has changed");
                }
                let now = trie.snapshot();
                let found = probes.iter().map(|p| now.value(p)).collect();
                before = Some((now, found));
            }
            while let Some(((key, length), _)) = all.pop_last() {
                trie.unset(&key, length, longest(&all, key, length));
            }
            prop_assert_eq!(trie.nodes(), 0, "nodes are given back");
        }
    }

    #[test]
    fn neighbours_of_one_way_are_taken_out_one_by_one() {
        let mut trie = Growing::new();
        let all: Vec<[u8; 4]> = (0..=255).map(|c| [10, 0, c, 0]).collect();
        all.iter().for_each(|key| assert!(trie.set(key, 24, 1)));
        assert!(trie.set(&[10, 0, 5, 7], 32, 2));
        trie.unset(&[10, 0, 5, 7], 32, Some(Match { value: 1, length: 24 }));
        for key in &all {
            assert_eq!(trie.trie.find(key), Some(Match { value: 1, length: 24 }));
            trie.unset(key, 24, None);
            assert_eq!(trie.trie.find(key), None, "{key:?}");
        }
        assert_eq!(trie.nodes(), 0);
    }

    #[test]
    fn a_full_trie_refuses_and_keeps_what_it_has() {
        let mut trie = Growing::new();
        assert!(trie.set(&[10, 0, 0, 0], 8, 7));
        trie.used = MAX_NODES;
        assert!(!trie.set(&[10, 0, 1, 0], 24, 8));
        assert_eq!(trie.trie.value(&[10, 0, 1, 1]), 7);
    }

    #[test]
    fn a_change_copies_what_it_writes_to() {
        let mut trie = Growing::new();
        for i in 0..200u8 {
            assert!(trie.set(&[10, i, 0, 0], 24, 1));
        }
        let before = trie.snapshot();
        assert!(trie.set(&[10, 130, 7, 0], 24, 2));
        let copied = before.chunks.iter().zip(&trie.trie.chunks).filter(|(a, b)| !Arc::ptr_eq(a, b));
        assert_eq!((before.chunks.len(), copied.count()), (4, 1));
    }
}
