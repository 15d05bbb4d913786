//! One class as the scheduler keeps it, and the arena of all.

use super::drains::DrainLink;
use super::params::{Bound, NodeParams};
use super::queue::LeafQueue;
use super::wheel::{NIL, Timer};
use perhop_packet::prefetch;
use perhop_units::{Bytes, Duration, Instant, Rate, Tokens};
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
    pub(super) const NONE: Self = Self { next: NIL, prev: NIL, deficit: 0 };
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
    /// Removed, and its time is over: a leaf that offers nothing more and drops what it holds.
    Ended,
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
    pub dropped_queue_full: u64,
    /// Packets dropped early (RED and its like).
    pub dropped_early: u64,
    /// Packets marked with congestion experienced instead of dropped.
    pub marked: u64,
    /// Packets dropped because the class was removed.
    pub dropped_class_removed: u64,
    /// Bytes dropped for any of these reasons, frame and overhead: with `bytes` and what waits they are what came.
    pub dropped_bytes: u64,
    /// Times the ceiling stopped the class.
    pub throttled: u64,
    /// Of a leaf: time from the coming in of its packets until they were taken to be sent, µs, the sum over all of them.
    pub waited_us: u64,
}

/// Rings of an interior class besides that of excess: the first child of each, and its own places in its parent's rings.
#[derive(Debug)]
pub(super) struct Rings {
    pub heads: [Ix; EXCESS],
    pub links: [Link; EXCESS],
    /// Weights of the classes below that are not removed, and how many have each.
    weights: BTreeMap<u32, u32>,
}

impl Rings {
    pub(super) fn new() -> Self {
        Self { heads: [NIL; EXCESS], links: [Link::NONE; EXCESS], weights: BTreeMap::new() }
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
    Leaf(LeafQueue),
    Interior(Box<Rings>),
}

/// Number of the ceiling's timer in [`Node::timers`], and the low bit of its number in the wheel.
pub(super) const CEILING: usize = 0;
/// The same of the guarantee's.
pub(super) const GUARANTEE: usize = 1;

/// What packets need of a class, four cache lines: its turns, its queue, its buckets, its timers. A leaf without bounds
/// needs the first two, and putting a packet into a leaf that is not empty the second alone. What packets do not need is
/// [`Cold`].
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
    /// Interior: the first class of its ring of excess. Leaf: which leaf was served a little later the last time, a hint.
    pub way: Ix,
    pub depth: u8,
    pub tier: u8,
    pub state: State,
    pub has_ceiling: bool,
    pub has_guarantee: bool,
    /// Its ceiling stops it and its subtree.
    pub throttled: bool,
    /// Interior: its unused guarantee suffices for a packet.
    pub lends: bool,
    pub is_leaf: bool,
    /// Its place in its parent's ring of excess.
    pub excess: Link,
    /// Leaf: the lower half of the time that its packets waited, µs.
    waited_low: u32,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    pub body: Body,
    pub guarantee: Bucket,
    pub ceiling: Bucket,
    pub timers: [Timer; 2],
    /// Bytes sent out of its own guarantee.
    pub guaranteed: u64,
    /// Times the ceiling stopped it.
    pub stopped: u64,
    /// Leaf: its place in the ring of its tier.
    pub tier_link: Link,
    /// Its upper half.
    waited_high: u32,
}

const _: () = assert!(size_of::<Node>() == 256, "a class is four cache lines to packets");

/// What only changes, drops and onlookers need of a class.
#[derive(Debug)]
pub(super) struct Cold {
    pub shared: u64,
    pub dropped_queue_full: u64,
    pub dropped_early: u64,
    pub dropped_class_removed: u64,
    pub dropped_bytes: u64,
    /// By queues of other kinds that it had before.
    pub marked: u64,
    pub children: u32,
    /// Whether packets may come to it, see [`super::ClassTree::set_in_use`].
    pub in_use: bool,
    pub drain: DrainLink,
    pub params: NodeParams,
    pub name: Arc<str>,
}

const _: () = assert!(size_of::<Cold>() <= 176, "a class takes at most 512 bytes with its timers");

impl Cold {
    pub(super) fn free(name: Arc<str>) -> Self {
        Self {
            shared: 0,
            dropped_queue_full: 0,
            dropped_early: 0,
            dropped_class_removed: 0,
            dropped_bytes: 0,
            marked: 0,
            children: 0,
            in_use: true,
            drain: DrainLink::NONE,
            params: NodeParams::leaf(None),
            name,
        }
    }

    /// All figures of a class.
    pub(super) fn counters(&self, node: &Node) -> ClassCounters {
        ClassCounters {
            packets: node.packets,
            bytes: node.bytes,
            shared: self.shared,
            borrowed: node.bytes - node.guaranteed - self.shared,
            dropped_queue_full: self.dropped_queue_full,
            dropped_early: self.dropped_early,
            marked: self.marked + node.queue().map_or(0, LeafQueue::marked),
            dropped_class_removed: self.dropped_class_removed,
            dropped_bytes: self.dropped_bytes,
            throttled: node.stopped,
            waited_us: u64::from(node.waited_high) << 32 | u64::from(node.waited_low),
        }
    }
}

impl Node {
    pub(super) fn free() -> Self {
        Self {
            parent: ROOT,
            rows: 0,
            linked: 0,
            weight: 1,
            unit: 1,
            way: NIL,
            depth: 0,
            tier: 0,
            state: State::Free,
            has_ceiling: false,
            has_guarantee: false,
            throttled: false,
            lends: false,
            is_leaf: true,
            excess: Link::NONE,
            waited_low: 0,
            packets: 0,
            bytes: 0,
            body: Body::Leaf(LeafQueue::default()),
            guarantee: Bucket::NONE,
            ceiling: Bucket::NONE,
            timers: [Timer::default(); 2],
            guaranteed: 0,
            stopped: 0,
            tier_link: Link::NONE,
            waited_high: 0,
        }
    }

    /// Has sent nothing yet.
    pub(super) fn count_anew(&mut self) {
        (self.packets, self.bytes, self.guaranteed, self.stopped) = (0, 0, 0, 0);
        (self.waited_low, self.waited_high) = (0, 0);
    }

    /// One of its packets waited so long; more than an hour counts as that.
    #[inline]
    pub(super) fn note_wait(&mut self, waited: Duration) {
        let us = u32::try_from(waited.0 / 1_000).unwrap_or(u32::MAX);
        let (sum, over) = self.waited_low.overflowing_add(us);
        self.waited_low = sum;
        self.waited_high += u32::from(over);
    }

    pub(super) fn root() -> Self {
        let body = Body::Interior(Box::new(Rings::new()));
        Self { state: State::Live, is_leaf: false, body, ..Self::free() }
    }

    #[inline]
    pub(super) fn link(&mut self, row: Row) -> &mut Link {
        if row == EXCESS {
            return &mut self.excess;
        }
        match &mut self.body {
            Body::Leaf(_) => &mut self.tier_link,
            Body::Interior(rings) => &mut rings.links[row],
        }
    }

    #[inline]
    pub(super) fn head(&self, row: Row) -> Ix {
        if row == EXCESS {
            return self.way;
        }
        match &self.body {
            Body::Leaf(_) => NIL,
            Body::Interior(rings) => rings.heads[row],
        }
    }

    #[inline]
    pub(super) fn set_head(&mut self, row: Row, head: Ix) {
        if row == EXCESS {
            self.way = head;
        } else if let Body::Interior(rings) = &mut self.body {
            rings.heads[row] = head;
        }
    }

    #[inline]
    pub(super) fn queue(&self) -> Option<&LeafQueue> {
        match &self.body {
            Body::Leaf(queue) => Some(queue),
            Body::Interior(_) => None,
        }
    }

    #[inline]
    pub(super) fn queue_mut(&mut self) -> Option<&mut LeafQueue> {
        match &mut self.body {
            Body::Leaf(queue) => Some(queue),
            Body::Interior(_) => None,
        }
    }

    /// Asks for the cache lines that serving this class will need, but for those of its bounds, which few have.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(&self.parent);
        prefetch(&self.body);
    }

    /// Asks for those of its bounds.
    #[inline]
    pub(super) fn prefetch_bounds(&self) {
        prefetch(&self.guarantee);
        prefetch(&self.timers);
    }

    /// Rows shown to the parent.
    #[inline]
    pub(super) fn offered(&self) -> u32 {
        if self.throttled { 0 } else { self.rows }
    }
}

/// The wheel's number for a timer of a class.
#[inline]
pub(super) const fn timer(ix: Ix, which: usize) -> u32 {
    ix * 2 + which as u32
}

/// The tokens that `bytes` cost.
#[inline]
pub(super) fn cost(bytes: u64) -> Tokens {
    Tokens::from_bytes(Bytes(bytes))
}
