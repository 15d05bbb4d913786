//! One class as the scheduler keeps it, and the arena of all.

use super::drains::DrainLink;
use super::params::{Bound, NodeParams};
use super::queue::LeafQueue;
use super::wheel::{NIL, Timer, Timers};
use perhop_packet::prefetch;
use perhop_units::{Bytes, Instant, Rate, Tokens};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Position in the arena: 0 is the root, class slot n is n + 1.
pub(super) type Ix = u32;
/// The root: the link itself.
pub(super) const ROOT: Ix = 0;

/// A ring of classes that wait for the same kind of service. Rows 0 … 15: leaves with guarantee tokens, by tier;
/// then interior classes with unused guarantee, deepest first; last: everything that is backlogged.
pub(super) type Row = usize;
/// Row of interior classes at depth 7, the deepest; one row a level.
pub(super) const LENDERS: Row = 16;
/// Row of the backlogged.
pub(super) const EXCESS: Row = LENDERS + super::params::MAX_DEPTH as usize - 1;
/// Number of rows.
pub(super) const ROWS: usize = EXCESS + 1;

/// The row in which an interior class at `depth` (1 = top level) lends.
pub(super) const fn lender_row(depth: u8) -> Row {
    LENDERS + (super::params::MAX_DEPTH as usize - 1 - depth as usize)
}

/// Membership in one ring of the parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub next: Ix,
    pub prev: Ix,
    /// Bytes this class may still send in this turn.
    pub deficit: i32,
}

impl Link {
    const NONE: Self = Self { next: NIL, prev: NIL, deficit: 0 };
}

/// A token bucket that may be overdrawn, for one bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub rate: Rate,
    burst: Tokens,
    level: Tokens,
    last: Instant,
}

impl Bucket {
    pub(super) const NONE: Self =
        Self { rate: Rate::ZERO, burst: Tokens::ZERO, level: Tokens::ZERO, last: Instant::ZERO };

    pub(super) fn new(bound: Bound, now: Instant) -> Self {
        let burst = Tokens::from_bytes(bound.burst);
        Self { rate: bound.rate, burst, level: burst, last: now }
    }

    /// Changes the bound in place: the level stays as far as the new burst allows.
    pub(super) fn rebound(&mut self, bound: Bound, now: Instant) {
        self.refill(now);
        self.rate = bound.rate;
        self.burst = Tokens::from_bytes(bound.burst);
        self.level = self.level.min(self.burst);
    }

    #[inline]
    pub(super) fn refill(&mut self, now: Instant) {
        if now > self.last {
            // Earning more than 2⁶⁴ fills any bucket.
            let earned = self.rate.0.saturating_mul(now.since(self.last).0).min(i64::MAX as u64);
            self.level = Tokens(self.level.0.saturating_add(earned as i64).min(self.burst.0));
            self.last = now;
        }
    }

    /// Whether `cost`, or all that fits inside, is there at `now`. Without the second part a frame longer than the burst
    /// would wait for ever; with it, it goes into debt.
    #[inline]
    pub(super) fn covers(&mut self, cost: Tokens, now: Instant) -> bool {
        self.refill(now);
        self.holds(cost)
    }

    /// As [`Bucket::covers`], of the last refill.
    #[inline]
    pub(super) fn holds(&self, cost: Tokens) -> bool {
        self.level >= cost.min(self.burst)
    }

    /// Takes `cost`, into debt if need be.
    #[inline]
    pub(super) fn take(&mut self, cost: Tokens, now: Instant) {
        self.refill(now);
        self.level = self.level.saturating_sub(cost);
    }

    /// Takes what is there of `cost`, without going into debt.
    #[inline]
    pub(super) fn take_up_to(&mut self, cost: Tokens, now: Instant) {
        self.refill(now);
        self.level = Tokens((self.level.0 - cost.0).max(self.level.0.min(0)));
    }

    /// When [`Bucket::covers`] will hold, counted from the last refill.
    #[inline]
    pub(super) fn when(&self, cost: Tokens) -> Instant {
        self.last + self.rate.time_to_earn(cost.min(self.burst).saturating_sub(self.level))
    }
}

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No class.
    Free,
    /// A class.
    Live,
    /// Removed, still sending what it holds.
    Draining,
}

/// Figures of one class, monotonic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, frame and overhead.
    pub bytes: u64,
    /// Bytes sent out of a parent's unused guarantee.
    pub shared: u64,
    /// Bytes sent out of excess.
    pub borrowed: u64,
    /// Packets dropped because the queue was full.
    pub dropped_full: u64,
    /// Packets dropped early (RED).
    pub dropped_early: u64,
    /// Packets dropped because the class was removed.
    pub dropped_removed: u64,
    /// Bytes dropped for any of these reasons, frame and overhead: with `bytes` and what waits they are what came.
    pub dropped_bytes: u64,
    /// Times the ceiling stopped the class.
    pub throttled: u64,
}

/// Rings of an interior class: the first child of each, and its own places in its parent's rings.
#[derive(Debug)]
pub(super) struct Rings {
    pub heads: [Ix; ROWS],
    pub links: [Link; ROWS],
    /// Weights of the classes below that are not removed, and how many have each.
    weights: BTreeMap<u32, u32>,
}

impl Rings {
    pub(super) fn new() -> Self {
        Self { heads: [NIL; ROWS], links: [Link::NONE; ROWS], weights: BTreeMap::new() }
    }

    /// A class below has another weight, comes or goes. Gives the smallest weight there is, 1 without any. O(log weights).
    pub(super) fn reweigh(&mut self, old: Option<u32>, new: Option<u32>) -> u32 {
        if let Some(new) = new {
            *self.weights.entry(new).or_insert(0) += 1;
        }
        if let Some(old) = old
            && let Some(count) = self.weights.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.weights.remove(&old);
            }
        }
        self.weights.first_key_value().map_or(1, |(weight, _)| *weight)
    }
}

/// What only leaves or only interior classes have.
#[derive(Debug)]
pub(super) enum Body {
    Leaf { queue: LeafQueue, links: [Link; 2] },
    Interior(Box<Rings>),
}

impl Body {
    pub(super) fn leaf(queue: LeafQueue) -> Self {
        Self::Leaf { queue, links: [Link::NONE; 2] }
    }
}

/// Fields are in the order in which packets need them: the first two cache lines for every packet, the third for
/// classes with bounds, the rest for counting, timers and changes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    pub parent: Ix,
    /// Rows in which this class has something to offer.
    pub rows: u32,
    /// Rows of the parent it is linked into.
    pub linked: u32,
    pub weight: u32,
    /// Interior: the smallest weight below, to which quanta are proportioned.
    pub unit: u32,
    pub depth: u8,
    pub tier: u8,
    pub state: State,
    pub has_ceiling: bool,
    pub has_guarantee: bool,
    /// Its ceiling stops it and its subtree.
    pub throttled: bool,
    /// Interior: its unused guarantee suffices for a packet.
    pub lends: bool,
    /// Leaf: the link's generation for which its queue's limits were computed.
    pub limits_of: u32,
    pub body: Body,
    pub guarantee: Bucket,
    pub ceiling: Bucket,
    pub counters: ClassCounters,
    pub guarantee_timer: Timer,
    pub ceiling_timer: Timer,
    pub children: u32,
    pub drain: DrainLink,
    pub params: NodeParams,
    pub name: Arc<str>,
}

impl Node {
    pub(super) fn free() -> Self {
        Self {
            parent: ROOT,
            rows: 0,
            linked: 0,
            weight: 1,
            depth: 0,
            tier: 0,
            state: State::Free,
            has_ceiling: false,
            has_guarantee: false,
            throttled: false,
            lends: false,
            guarantee: Bucket::NONE,
            ceiling: Bucket::NONE,
            body: Body::leaf(LeafQueue::default()),
            ceiling_timer: Timer::default(),
            guarantee_timer: Timer::default(),
            counters: ClassCounters::default(),
            children: 0,
            unit: 1,
            drain: DrainLink::NONE,
            limits_of: 0,
            params: NodeParams::leaf(None),
            name: Arc::from(""),
        }
    }

    pub(super) fn root() -> Self {
        Self { state: State::Live, body: Body::Interior(Box::new(Rings::new())), ..Self::free() }
    }

    #[inline]
    pub(super) fn link(&mut self, row: Row) -> &mut Link {
        match &mut self.body {
            Body::Leaf { links, .. } => &mut links[usize::from(row == EXCESS)],
            Body::Interior(rings) => &mut rings.links[row],
        }
    }

    #[inline]
    pub(super) fn head(&self, row: Row) -> Ix {
        match &self.body {
            Body::Leaf { .. } => NIL,
            Body::Interior(rings) => rings.heads[row],
        }
    }

    #[inline]
    pub(super) fn queue(&self) -> Option<&LeafQueue> {
        match &self.body {
            Body::Leaf { queue, .. } => Some(queue),
            Body::Interior(_) => None,
        }
    }

    #[inline]
    pub(super) fn queue_mut(&mut self) -> Option<&mut LeafQueue> {
        match &mut self.body {
            Body::Leaf { queue, .. } => Some(queue),
            Body::Interior(_) => None,
        }
    }

    /// Asks for the cache lines that serving this class will need.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(&self.parent);
        prefetch(&self.guarantee);
        prefetch(&self.counters);
        if let Body::Leaf { links, .. } = &self.body {
            prefetch(links);
        }
    }

    /// Rows shown to the parent.
    #[inline]
    pub(super) fn offered(&self) -> u32 {
        if self.throttled { 0 } else { self.rows }
    }
}

const CHUNK_BITS: u32 = 8;
/// Nodes a chunk.
pub(super) const CHUNK: usize = 1 << CHUNK_BITS;

/// A block of the arena, allocated outside the packet thread.
pub(super) type Chunk = Box<[Node]>;

/// A block of free slots.
pub(super) fn new_chunk() -> Chunk {
    (0..CHUNK).map(|_| Node::free()).collect()
}

/// The chunk a position lies in.
pub(super) const fn chunk_of(ix: Ix) -> usize {
    (ix >> CHUNK_BITS) as usize
}

/// All nodes, in chunks so that growing moves none.
#[derive(Debug)]
pub(super) struct Arena {
    chunks: Vec<Chunk>,
}

impl Arena {
    pub(super) fn new() -> Self {
        let mut chunks = Vec::with_capacity(super::params::MAX_NODES as usize / CHUNK + 1);
        let mut first = new_chunk();
        first[ROOT as usize] = Node::root();
        chunks.push(first);
        Self { chunks }
    }

    /// Whether `ix` has memory.
    #[inline]
    pub(super) fn holds(&self, ix: Ix) -> bool {
        chunk_of(ix) < self.chunks.len()
    }

    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Adds memory. The outer vector is allocated for the largest tree, so this moves nothing.
    pub(super) fn add(&mut self, chunk: Chunk) {
        self.chunks.push(chunk);
    }

    #[inline]
    pub(super) fn at(&self, ix: Ix) -> &Node {
        &self.chunks[chunk_of(ix)][ix as usize % CHUNK]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, ix: Ix) -> &mut Node {
        &mut self.chunks[chunk_of(ix)][ix as usize % CHUNK]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ix, &Node)> {
        self.chunks.iter().flat_map(|c| c.iter()).enumerate().map(|(i, n)| (i as Ix, n))
    }

    /// The class behind `ix` in its parent's ring `row`.
    #[inline]
    pub(super) fn next(&self, ix: Ix, row: Row) -> Ix {
        match &self.at(ix).body {
            Body::Leaf { links, .. } => links[usize::from(row == EXCESS)].next,
            Body::Interior(rings) => rings.links[row].next,
        }
    }

    /// Links `ix` at the end of its parent's ring `row`. Debts of an earlier stay are kept, credits are not.
    pub(super) fn link(&mut self, ix: Ix, row: Row, quantum: i32) {
        let parent = self.at(ix).parent;
        let head = self.at(parent).head(row);
        let (next, prev) = if head == NIL { (ix, ix) } else { (head, self.at_mut(head).link(row).prev) };
        let link = self.at_mut(ix).link(row);
        link.deficit = quantum + link.deficit.min(0);
        link.next = next;
        link.prev = prev;
        if head == NIL {
            self.set_head(parent, row, ix);
        } else {
            self.at_mut(prev).link(row).next = ix;
            self.at_mut(head).link(row).prev = ix;
        }
        self.at_mut(ix).linked |= 1 << row;
    }

    /// Takes `ix` out of its parent's ring `row`.
    pub(super) fn unlink(&mut self, ix: Ix, row: Row) {
        let parent = self.at(ix).parent;
        let Link { next, prev, .. } = *self.at_mut(ix).link(row);
        if next == ix {
            self.set_head(parent, row, NIL);
        } else {
            self.at_mut(prev).link(row).next = next;
            self.at_mut(next).link(row).prev = prev;
            if self.at(parent).head(row) == ix {
                self.set_head(parent, row, next);
            }
        }
        self.at_mut(ix).linked &= !(1 << row);
    }

    #[inline]
    pub(super) fn set_head(&mut self, parent: Ix, row: Row, head: Ix) {
        if let Body::Interior(rings) = &mut self.at_mut(parent).body {
            rings.heads[row] = head;
        }
    }
}

/// Timers are numbered 2·position (ceiling) and 2·position + 1 (guarantee).
impl Timers for Arena {
    #[inline]
    fn timer(&mut self, id: u32) -> &mut Timer {
        let node = self.at_mut(id >> 1);
        if id & 1 == 0 { &mut node.ceiling_timer } else { &mut node.guarantee_timer }
    }
}

/// The tokens that `bytes` cost.
#[inline]
pub(super) fn cost(bytes: u64) -> Tokens {
    Tokens::from_bytes(Bytes(bytes))
}
