//! All classes of a tree, and the rings through them.

use super::node::{Cold, Ix, Link, Node, ROOT, Row};
use super::wheel::{NIL, Part};
use std::sync::Arc;

const CHUNK_BITS: u32 = 8;
/// Nodes a chunk.
pub(super) const CHUNK: usize = 1 << CHUNK_BITS;

/// A block of the arena, allocated outside the packet thread.
#[derive(Debug)]
pub(super) struct Chunk {
    nodes: Box<[Node; CHUNK]>,
    cold: Box<[Cold]>,
    /// Memory for the timers of its nodes, until it is added.
    pub timers: Option<Part>,
}

const _: () = assert!(Part::TIMERS >= 2 * CHUNK, "a part serves the timers of a chunk");

/// A block of free slots.
pub(super) fn new_chunk() -> Chunk {
    let name: Arc<str> = Arc::from("");
    let nodes: Box<[Node]> = (0..CHUNK).map(|_| Node::free()).collect();
    Chunk {
        nodes: nodes.try_into().expect("it has that length"),
        cold: (0..CHUNK).map(|_| Cold::free(name.clone())).collect(),
        timers: Some(Part::new()),
    }
}

/// The chunk a position lies in.
pub(super) const fn chunk_of(ix: Ix) -> usize {
    (ix >> CHUNK_BITS) as usize
}

/// All nodes, in chunks so that growing moves none.
#[derive(Debug)]
pub(super) struct Arena {
    nodes: Vec<Box<[Node; CHUNK]>>,
    cold: Vec<Box<[Cold]>>,
}

impl Arena {
    pub(super) fn new() -> Self {
        let most = super::params::MAX_NODES as usize / CHUNK + 1;
        let mut arena = Self { nodes: Vec::with_capacity(most), cold: Vec::with_capacity(most) };
        arena.add(new_chunk());
        *arena.at_mut(ROOT) = Node::root();
        arena
    }

    /// Whether `ix` has memory.
    #[inline]
    pub(super) fn holds(&self, ix: Ix) -> bool {
        chunk_of(ix) < self.nodes.len()
    }

    pub(super) fn chunks(&self) -> usize {
        self.nodes.len()
    }

    /// Adds memory. The outer vectors are allocated for the largest tree, so this moves nothing.
    pub(super) fn add(&mut self, chunk: Chunk) {
        debug_assert!(self.nodes.len() < self.nodes.capacity(), "no slot lies beyond the largest tree");
        self.nodes.push(chunk.nodes);
        self.cold.push(chunk.cold);
    }

    #[inline]
    pub(super) fn at(&self, ix: Ix) -> &Node {
        &self.nodes[chunk_of(ix)][ix as usize % CHUNK]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, ix: Ix) -> &mut Node {
        &mut self.nodes[chunk_of(ix)][ix as usize % CHUNK]
    }

    pub(super) fn cold(&self, ix: Ix) -> &Cold {
        &self.cold[chunk_of(ix)][ix as usize % CHUNK]
    }

    pub(super) fn cold_mut(&mut self, ix: Ix) -> &mut Cold {
        &mut self.cold[chunk_of(ix)][ix as usize % CHUNK]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ix, &Node, &Cold)> {
        let all = self.nodes.iter().zip(&self.cold).flat_map(|(nodes, cold)| nodes.iter().zip(cold));
        all.enumerate().map(|(i, (node, cold))| (i as Ix, node, cold))
    }

    /// Links `ix` at the end of its parent's ring `row`. Debts of an earlier stay are kept, credits are not.
    #[inline(always)]
    pub(super) fn link(&mut self, ix: Ix, row: Row, quantum: i32) {
        debug_assert!(self.at(ix).linked & 1 << row == 0, "a class is in a ring once");
        let parent = self.at(ix).parent;
        let head = self.at(parent).head(row);
        let (next, prev) = if head == NIL {
            self.at_mut(parent).set_head(row, ix);
            (ix, ix)
        } else {
            let prev = std::mem::replace(&mut self.at_mut(head).link(row).prev, ix);
            self.at_mut(prev).link(row).next = ix;
            (head, prev)
        };
        let node = self.at_mut(ix);
        node.linked |= 1 << row;
        let link = node.link(row);
        link.deficit = quantum + link.deficit.min(0);
        link.next = next;
        link.prev = prev;
    }

    /// Takes `ix` out of its parent's ring `row`.
    #[inline(always)]
    pub(super) fn unlink(&mut self, ix: Ix, row: Row) {
        let node = self.at_mut(ix);
        debug_assert!(node.linked & 1 << row != 0, "only a class in a ring is taken out of it");
        node.linked &= !(1 << row);
        let parent = node.parent;
        let Link { next, prev, .. } = *node.link(row);
        if next == ix {
            self.at_mut(parent).set_head(row, NIL);
            return;
        }
        self.at_mut(prev).link(row).next = next;
        self.at_mut(next).link(row).prev = prev;
        let above = self.at_mut(parent);
        if above.head(row) == ix {
            above.set_head(row, next);
        }
    }
}
