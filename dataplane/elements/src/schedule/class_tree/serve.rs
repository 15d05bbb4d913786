//! Serving: which leaf comes next, what a packet costs whom, and what the passing of time makes possible.

use super::node::{Body, EXCESS, Ix, LENDERS, ROOT, Row, State, cost, lender_row};
use super::wheel::NIL;
use super::{ClassTree, MAX_WEIGHT_RATIO, NodeIndex, position};
use perhop_element::Cx;
use perhop_packet::{DropReason, LeafId, Packet};
use perhop_units::Instant;

/// Timers looked at before one packet is chosen: bounds the work of a call when very many fall on one instant.
const TIMERS_A_PACKET: usize = 64;

impl ClassTree {
    /// Brings the parent's rings in line with what `ix` offers, and its ancestors' as far as that changes theirs.
    pub(super) fn sync(&mut self, ix: Ix) {
        let mut at = ix;
        while at != ROOT {
            let parent = self.relink(at);
            let node = self.nodes.at(parent);
            if node.offered() == node.linked {
                return;
            }
            at = parent;
        }
    }

    /// One step of [`ClassTree::sync`]; returns the parent.
    #[inline]
    pub(super) fn relink(&mut self, ix: Ix) -> Ix {
        let node = self.nodes.at(ix);
        let parent = node.parent;
        let offered = node.offered();
        let linked = node.linked;
        if offered == linked {
            return parent;
        }
        let weight = node.weight;
        // Leaving comes first: a leaf that changes its tier has one place for both.
        for row in bits(linked & !offered) {
            self.nodes.unlink(ix, row);
            let above = self.nodes.at_mut(parent);
            if above.head(row) == NIL {
                above.rows &= !(1 << row);
            }
        }
        for row in bits(offered & !linked) {
            let quantum = self.quantum(row, weight, parent);
            self.nodes.link(ix, row, quantum);
            self.nodes.at_mut(parent).rows |= 1 << row;
        }
        self.refresh_lender(parent);
        parent
    }

    /// Bytes a turn in `row`: the largest frame, times weight over the smallest weight below `parent` in the excess row.
    #[inline]
    pub(super) fn quantum(&self, row: Row, weight: u32, parent: Ix) -> i32 {
        let largest = self.largest;
        let unit = self.nodes.at(parent).unit;
        if row != EXCESS || weight == unit {
            return largest as i32;
        }
        let most = largest * u64::from(MAX_WEIGHT_RATIO);
        (u64::from(weight) * largest / u64::from(unit)).clamp(largest, most).min(i32::MAX as u64 / 2) as i32
    }

    /// An interior class offers its unused guarantee while something waits below.
    #[inline]
    pub(super) fn refresh_lender(&mut self, ix: Ix) {
        let node = self.nodes.at_mut(ix);
        if !node.has_guarantee || ix == ROOT {
            return;
        }
        let bit = 1 << lender_row(node.depth);
        if node.lends && node.rows & (1 << EXCESS) != 0 {
            node.rows |= bit;
        } else {
            node.rows &= !bit;
        }
    }

    /// What a leaf offers, by its queue and its tokens.
    pub(super) fn refresh_leaf(&mut self, ix: Ix, now: Instant) {
        let overhead = u64::from(self.link.overhead_bytes);
        let node = self.nodes.at_mut(ix);
        let Some(len) = node.queue().and_then(|q| q.head_len()) else {
            node.rows = 0;
            return;
        };
        node.rows = 1 << EXCESS;
        if node.has_guarantee {
            let needed = cost(len + overhead);
            if node.guarantee.covers(needed, now) {
                node.rows |= 1 << node.tier;
            } else {
                let when = node.guarantee.when(needed).0;
                self.wheel.arm(&mut self.nodes, ix * 2 + 1, when);
            }
        }
    }

    /// Handles what became possible by the passing of time, and what has drained long enough.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.settled == Some(now) {
            return;
        }
        self.now = now;
        if now >= self.next_drain {
            self.end_drains(cx);
        }
        for _ in 0..TIMERS_A_PACKET {
            let Some(id) = self.wheel.pop_due(&mut self.nodes, now.0) else {
                self.settled = Some(now);
                return;
            };
            self.fire(id, now);
        }
    }

    pub(super) fn fire(&mut self, id: u32, now: Instant) {
        let ix = id >> 1;
        let max_cost = self.max_cost;
        let node = self.nodes.at_mut(ix);
        if node.state == State::Free {
            return;
        }
        if id & 1 == 0 {
            if node.throttled && !node.ceiling.covers(max_cost, now) {
                let when = node.ceiling.when(max_cost).0;
                self.wheel.arm(&mut self.nodes, id, when);
                return;
            }
            node.throttled = false;
        } else if let Body::Leaf { .. } = node.body {
            self.refresh_leaf(ix, now);
        } else {
            self.refresh_lending(ix, now);
        }
        self.sync(ix);
    }

    /// Whether an interior class has guarantee to lend; if not, when it will.
    pub(super) fn refresh_lending(&mut self, ix: Ix, now: Instant) {
        let max_cost = self.max_cost;
        let node = self.nodes.at_mut(ix);
        node.lends = node.has_guarantee && node.guarantee.covers(max_cost, now);
        if node.has_guarantee && !node.lends {
            let when = node.guarantee.when(max_cost).0;
            self.wheel.arm(&mut self.nodes, ix * 2 + 1, when);
        }
        self.refresh_lender(ix);
    }

    /// The leaf that is served next, and the row that chose it.
    #[inline]
    pub(super) fn pick(&self) -> Option<(Ix, Row)> {
        let rows = self.nodes.at(ROOT).rows;
        if rows == 0 {
            return None;
        }
        let row = rows.trailing_zeros() as Row;
        let mut in_row = row;
        let mut at = self.nodes.at(ROOT).head(row);
        loop {
            let node = self.nodes.at(at);
            match &node.body {
                Body::Leaf { .. } => return Some((at, row)),
                Body::Interior(rings) => {
                    if (LENDERS..EXCESS).contains(&row) && lender_row(node.depth) == row {
                        in_row = EXCESS;
                    }
                    at = rings.heads[in_row];
                }
            }
        }
    }

    /// Books `bytes` sent by leaf `ix`, chosen by `row`, on its whole path.
    pub(super) fn charge(&mut self, ix: Ix, row: Row, bytes: u64, now: Instant) {
        let tokens = cost(bytes);
        let max = self.max_cost;
        let lending = (LENDERS..EXCESS).contains(&row);
        let mut below_lender = lending;
        let mut at = ix;
        while at != ROOT {
            let node = self.nodes.at_mut(at);
            let interior = at != ix;
            if lending && interior && lender_row(node.depth) == row {
                below_lender = false;
            }
            let used = if below_lender { EXCESS } else { row };
            let (parent, weight) = (node.parent, node.weight);
            let link = node.link(used);
            link.deficit = link.deficit.saturating_sub_unsigned(bytes as u32);
            if link.deficit <= 0 {
                let next = link.next;
                let quantum = self.quantum(used, weight, parent);
                self.nodes.at_mut(at).link(used).deficit += quantum;
                self.nodes.set_head(parent, used, next);
            }
            let node = self.nodes.at_mut(at);
            if node.has_ceiling {
                node.ceiling.take(tokens, now);
                if !node.throttled && !node.ceiling.holds(max) {
                    node.throttled = true;
                    node.counters.throttled += 1;
                    let when = node.ceiling.when(max).0;
                    self.wheel.arm(&mut self.nodes, at * 2, when);
                }
            }
            let node = self.nodes.at_mut(at);
            if row != EXCESS && node.has_guarantee {
                if below_lender {
                    node.guarantee.take_up_to(tokens, now);
                } else {
                    node.guarantee.take(tokens, now);
                }
                if interior && node.lends && !node.guarantee.holds(max) {
                    self.refresh_lending(at, now);
                }
            }
            let node = self.nodes.at_mut(at);
            node.counters.packets += 1;
            node.counters.bytes += bytes;
            match row {
                EXCESS => node.counters.borrowed += bytes,
                _ if below_lender => node.counters.shared += bytes,
                _ => {}
            }
            if !interior {
                self.refresh_leaf(at, now);
            }
            self.relink(at);
            at = parent;
        }
    }

    /// Asks for what the next few packets will probably need: with very many classes all of it lies in far memory.
    #[inline]
    pub(super) fn look_ahead(&self) {
        let root = self.nodes.at(ROOT);
        if root.rows == 0 {
            return;
        }
        let row = root.rows.trailing_zeros() as Row;
        let mut at = root.head(row);
        let mut in_row = row;
        while let Body::Interior(rings) = &self.nodes.at(at).body {
            if (LENDERS..EXCESS).contains(&row) && lender_row(self.nodes.at(at).depth) == row {
                in_row = EXCESS;
            }
            at = rings.heads[in_row];
        }
        let second = self.nodes.next(at, in_row);
        if let Some(queue) = self.nodes.at(second).queue() {
            queue.prefetch_head();
            self.nodes.at(self.nodes.next(second, in_row)).prefetch();
        }
    }

    pub(super) fn take_one(&mut self, now: Instant) -> Option<Packet> {
        let (ix, row) = match self.chosen.take() {
            Some(chosen) => chosen,
            None => self.pick()?,
        };
        let packet = self.nodes.at_mut(ix).queue_mut()?.pop(now)?;
        let len = packet.len() as u64;
        self.held -= 1;
        self.held_bytes -= len;
        self.charge(ix, row, len + u64::from(self.link.overhead_bytes), now);
        let node = self.nodes.at(ix);
        if node.state == State::Draining && node.rows == 0 && node.queue().is_some_and(|q| q.is_empty()) {
            self.free(ix);
        }
        Some(packet)
    }

    pub(super) fn accept(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let now = cx.now();
        let LeafId(leaf) = packet.meta().leaf;
        let ix = match position(NodeIndex(leaf)) {
            Some(ix) if self.nodes.holds(ix) => ix,
            _ => {
                self.unclassified += 1;
                return cx.drop(packet, DropReason::NoClass);
            }
        };
        if self.nodes.at(ix).limits_of != self.link_generation {
            self.refresh_limits(ix);
        }
        let node = self.nodes.at_mut(ix);
        let len = packet.len() as u64;
        let charge = len + u64::from(self.link.overhead_bytes);
        // A turn must cover the longest frame there is, or long frames would take more than their share.
        self.largest = self.largest.max(charge);
        let Body::Leaf { queue, .. } = &mut node.body else {
            self.unclassified += 1;
            return cx.drop(packet, DropReason::NoClass);
        };
        match node.state {
            State::Live => {
                let was_empty = queue.is_empty();
                if let Err((packet, reason)) = queue.offer(now, packet, || cx.random()) {
                    node.counters.dropped_bytes += charge;
                    match reason {
                        DropReason::QueueFull => node.counters.dropped_full += 1,
                        _ => node.counters.dropped_early += 1,
                    }
                    return cx.drop(packet, reason);
                }
                self.held += 1;
                self.held_bytes += len;
                if was_empty {
                    self.refresh_leaf(ix, now);
                    self.sync(ix);
                }
            }
            State::Draining => {
                node.counters.dropped_removed += 1;
                node.counters.dropped_bytes += charge;
                cx.drop(packet, DropReason::ClassRemoved);
            }
            State::Free => {
                self.unclassified += 1;
                cx.drop(packet, DropReason::NoClass);
            }
        }
    }
}

/// The rows set in `rows`, lowest first.
fn bits(mut rows: u32) -> impl Iterator<Item = Row> {
    std::iter::from_fn(move || {
        let row = rows.trailing_zeros() as Row;
        let some = rows != 0;
        rows &= rows.wrapping_sub(1);
        some.then_some(row)
    })
}
