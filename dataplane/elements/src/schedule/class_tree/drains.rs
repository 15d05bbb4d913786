//! Removed leaves that still hold packets, in the order in which their time ends.

use super::arena::Arena;
use super::node::Ix;
use super::wheel::NIL;
use perhop_units::Instant;
use std::collections::BTreeMap;

/// A draining leaf's place among those whose time ends together.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainLink {
    pub until: Instant,
    next: Ix,
    prev: Ix,
}

impl DrainLink {
    pub(super) const NONE: Self = Self { until: Instant::FAR_FUTURE, next: NIL, prev: NIL };
}

/// Lists through the nodes, one for each end. A change names few ends, however many leaves it removes: everything here
/// is O(log ends) and moves no memory.
#[derive(Debug, Default)]
pub(super) struct Drains {
    heads: BTreeMap<Instant, Ix>,
}

impl Drains {
    /// Adds a leaf, to be dropped at `until`.
    pub(super) fn insert(&mut self, nodes: &mut Arena, ix: Ix, until: Instant) {
        debug_assert!(nodes.cold(ix).drain.until == DrainLink::NONE.until, "a class drains once");
        let next = self.heads.insert(until, ix).unwrap_or(NIL);
        if next != NIL {
            nodes.cold_mut(next).drain.prev = ix;
        }
        nodes.cold_mut(ix).drain = DrainLink { until, next, prev: NIL };
    }

    /// Takes a leaf out that is inside.
    pub(super) fn remove(&mut self, nodes: &mut Arena, ix: Ix) {
        let DrainLink { until, next, prev } =
            std::mem::replace(&mut nodes.cold_mut(ix).drain, DrainLink::NONE);
        debug_assert!(self.heads.contains_key(&until), "what drains is in the list of its end");
        if next != NIL {
            nodes.cold_mut(next).drain.prev = prev;
        }
        if prev != NIL {
            nodes.cold_mut(prev).drain.next = next;
        } else if next != NIL {
            self.heads.insert(until, next);
        } else {
            self.heads.remove(&until);
        }
    }

    /// A leaf whose time ends first, and when. O(log ends).
    pub(super) fn first(&self) -> Option<(Instant, Ix)> {
        self.heads.first_key_value().map(|(until, ix)| (*until, *ix))
    }
}
