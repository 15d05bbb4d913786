//! Serving: which leaf comes next, what a packet costs whom, and what the passing of time makes possible.

use super::arena::Arena;
use super::node::{
    Body, CEILING, EXCESS, GUARANTEE, Ix, LENDERS, Node, ROOT, Row, State, cost, lender_row, timer,
};
use super::queue::LeafQueue;
use super::wheel::{Due, NIL, Wheel};
use super::{ClassTree, MAX_WEIGHT_RATIO, NEAR_CLASSES, NodeIndex, TreeLink, position};
use perhop_element::Cx;
use perhop_packet::{DropReason, LeafId, Packet, prefetch};
use perhop_units::{Instant, Tokens};

/// Timers looked at before one packet is chosen: bounds the work of a call when very many fall on one instant.
const TIMERS_A_PACKET: usize = 64;
/// Timers further on whose classes are asked for while earlier ones are looked at.
const TIMERS_AHEAD: usize = 8;

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
        if node.is_leaf && offered & !linked != 0 && self.classes > NEAR_CLASSES {
            self.foresight.join(&mut self.nodes, ix);
        }
        if offered ^ linked == 1 << EXCESS {
            // What happens to classes without guarantees, and so to most.
            if linked & (1 << EXCESS) != 0 {
                self.nodes.unlink(ix, EXCESS);
                let above = self.nodes.at_mut(parent);
                if above.way == NIL {
                    above.rows &= !(1 << EXCESS);
                    self.refresh_lender(parent);
                }
            } else {
                let quantum = self.quantum(EXCESS, weight, parent);
                self.nodes.link(ix, EXCESS, quantum);
                let above = self.nodes.at_mut(parent);
                if above.rows & (1 << EXCESS) == 0 {
                    above.rows |= 1 << EXCESS;
                    self.refresh_lender(parent);
                }
            }
            return parent;
        }
        self.relink_rows(ix, parent, offered, linked, weight);
        parent
    }

    /// The same for any rows.
    fn relink_rows(&mut self, ix: Ix, parent: Ix, offered: u32, linked: u32, weight: u32) {
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
    }

    /// Bytes a turn in `row`: the largest frame, times weight over the smallest weight below `parent` in the excess row.
    #[inline]
    fn quantum(&self, row: Row, weight: u32, parent: Ix) -> i32 {
        turn(row, self.largest, weight, self.nodes.at(parent).unit)
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
    #[inline]
    pub(super) fn refresh_leaf(&mut self, ix: Ix, now: Instant) {
        if self.rule.is_some() {
            self.nodes.at_mut(ix).rows = 0;
            return;
        }
        refresh(self.nodes.at_mut(ix), &mut self.wheel, ix, &self.link, now);
    }

    /// Handles what became possible by the passing of time, and what has drained long enough.
    #[inline]
    pub(super) fn settle(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        if self.settled == Some(now) {
            return;
        }
        self.now = now;
        if !self.undecided.is_empty() {
            self.decide_heads(cx);
        }
        if now >= self.next_drain {
            self.end_drains(cx);
        }
        if self.rule.is_none() && self.wheel.next_due().is_some_and(|at| at <= now.0) {
            self.fire_due(now);
        } else {
            self.settled = Some(now);
        }
    }

    #[inline(never)]
    fn fire_due(&mut self, now: Instant) {
        let mut due = [Due::default(); TIMERS_A_PACKET];
        let count = self.wheel.take_due(now.0, &mut due);
        let due = &due[..count];
        let expect = |nodes: &Arena, due: &Due| {
            let node = nodes.at(due.id >> 1);
            node.prefetch();
            node.prefetch_bounds();
        };
        for later in due.iter().take(TIMERS_AHEAD) {
            expect(&self.nodes, later);
        }
        for (n, Due { id, when }) in due.iter().enumerate() {
            if let Some(later) = due.get(n + TIMERS_AHEAD) {
                expect(&self.nodes, later);
            }
            // It may well be served next.
            if let Some(soon) = due.get(n + TIMERS_AHEAD / 2) {
                self.expect_service(soon.id >> 1);
            }
            if let Some(queue) = self.nodes.at(id >> 1).queue() {
                queue.prefetch_head();
            }
            if self.nodes.at_mut(id >> 1).timers[*id as usize & 1].fires(*when) {
                self.fire(*id, now);
            }
        }
        if count < TIMERS_A_PACKET {
            self.settled = Some(now);
        }
    }

    fn fire(&mut self, id: u32, now: Instant) {
        let ix = id >> 1;
        let max_cost = self.max_cost;
        let node = self.nodes.at_mut(ix);
        if node.state == State::Free {
            return;
        }
        if id as usize & 1 == CEILING {
            if node.throttled && !node.ceiling.covers(max_cost, now) {
                let when = node.ceiling.when(max_cost).0;
                self.wheel.arm(&mut node.timers[CEILING], id, when);
                return;
            }
            node.throttled = false;
        } else if node.is_leaf {
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
            self.wheel.arm(&mut node.timers[GUARANTEE], timer(ix, GUARANTEE), when);
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
            if node.is_leaf {
                return Some((at, row));
            }
            if (LENDERS..EXCESS).contains(&row) && lender_row(node.depth) == row {
                in_row = EXCESS;
            }
            at = node.head(in_row);
        }
    }

    /// Books `bytes` sent by leaf `ix`, chosen by `row`, on its whole path.
    #[inline]
    fn charge(&mut self, ix: Ix, row: Row, bytes: u64, now: Instant) {
        let lending = (LENDERS..EXCESS).contains(&row);
        let mut below_lender = lending;
        let mut at = self.charge_leaf(ix, row, bytes, now);
        while at != ROOT {
            if lending && lender_row(self.nodes.at(at).depth) == row {
                below_lender = false;
            }
            at = self.charge_above(at, row, below_lender, bytes, now);
        }
    }

    /// The leaf's part of it. Gives the class above.
    #[inline]
    fn charge_leaf(&mut self, ix: Ix, row: Row, bytes: u64, now: Instant) -> Ix {
        let (tokens, max, largest) = (cost(bytes), self.max_cost, self.largest);
        let lent = (LENDERS..EXCESS).contains(&row);
        let used = if lent { EXCESS } else { row };
        let parent = self.nodes.at(ix).parent;
        let unit = self.nodes.at(parent).unit;
        let node = self.nodes.at_mut(ix);
        let link = if used == EXCESS { &mut node.excess } else { &mut node.tier_link };
        link.deficit = link.deficit.saturating_sub_unsigned(bytes as u32);
        let next = (link.deficit <= 0).then_some(link.next);
        if next.is_some() {
            link.deficit += turn(used, largest, node.weight, unit);
        }
        if node.has_ceiling {
            take_ceiling(node, &mut self.wheel, ix, tokens, max, now);
        }
        if row != EXCESS && node.has_guarantee {
            if lent {
                node.guarantee.take_up_to(tokens, now);
            } else {
                node.guarantee.take(tokens, now);
            }
        }
        node.packets += 1;
        node.bytes += bytes;
        if row != EXCESS && !lent {
            node.guaranteed += bytes;
        }
        refresh(node, &mut self.wheel, ix, &self.link, now);
        let moved = node.offered() != node.linked;
        if lent {
            self.nodes.cold_mut(ix).shared += bytes;
        }
        if let Some(next) = next {
            self.nodes.at_mut(parent).set_head(used, next);
        }
        if moved {
            self.relink(ix);
        } else if next.is_some() && self.classes > NEAR_CLASSES {
            self.foresight.join(&mut self.nodes, ix);
        }
        parent
    }

    /// The part of a class above it. Gives the next one.
    #[inline]
    fn charge_above(&mut self, at: Ix, row: Row, below_lender: bool, bytes: u64, now: Instant) -> Ix {
        let (tokens, max, largest) = (cost(bytes), self.max_cost, self.largest);
        let used = if below_lender { EXCESS } else { row };
        let parent = self.nodes.at(at).parent;
        let unit = self.nodes.at(parent).unit;
        let node = self.nodes.at_mut(at);
        let weight = node.weight;
        let link = node.link(used);
        link.deficit = link.deficit.saturating_sub_unsigned(bytes as u32);
        let next = (link.deficit <= 0).then_some(link.next);
        if next.is_some() {
            link.deficit += turn(used, largest, weight, unit);
        }
        if node.has_ceiling {
            take_ceiling(node, &mut self.wheel, at, tokens, max, now);
        }
        let mut exhausted = false;
        if row != EXCESS && node.has_guarantee {
            if below_lender {
                node.guarantee.take_up_to(tokens, now);
            } else {
                node.guarantee.take(tokens, now);
            }
            exhausted = node.lends && !node.guarantee.holds(max);
        }
        node.packets += 1;
        node.bytes += bytes;
        if row != EXCESS && !below_lender {
            node.guaranteed += bytes;
        }
        if let Some(next) = next {
            self.nodes.at_mut(parent).set_head(used, next);
        }
        if exhausted {
            self.refresh_lending(at, now);
        }
        if below_lender {
            self.nodes.cold_mut(at).shared += bytes;
        }
        self.relink(at);
        parent
    }

    /// Asks for what serving a leaf will need besides the leaf.
    #[inline]
    fn expect_service(&self, ix: Ix) {
        let node = self.nodes.at(ix);
        prefetch(self.nodes.at(node.parent));
        if node.has_ceiling || node.has_guarantee {
            node.prefetch_bounds();
        }
        if let Body::Leaf(queue) = &node.body {
            queue.prefetch_inner();
        }
    }

    /// Asks for what putting a packet into its leaf will need.
    #[inline]
    pub(super) fn expect_leaf(&self, packet: &Packet) {
        if let Some(ix) = position(NodeIndex(packet.meta().leaf.0)).filter(|ix| self.nodes.holds(*ix)) {
            prefetch(&self.nodes.at(ix).body);
        }
    }

    /// Asks for what lies behind the leaf it goes to.
    #[inline]
    pub(super) fn expect_queue(&self, packet: &Packet) {
        if let Some(ix) = position(NodeIndex(packet.meta().leaf.0)).filter(|ix| self.nodes.holds(*ix))
            && let Some(queue) = self.nodes.at(ix).queue()
        {
            queue.prefetch_inner();
        }
    }

    /// Asks for the last packet of the queue it goes to.
    #[inline]
    pub(super) fn expect_tail(&self, packet: &Packet) {
        if let Some(ix) = position(NodeIndex(packet.meta().leaf.0)).filter(|ix| self.nodes.holds(*ix))
            && let Some(queue) = self.nodes.at(ix).queue()
        {
            queue.prefetch_tail();
        }
    }

    pub(super) fn take_one(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let now = cx.now();
        let (ix, row) = match self.chosen.take() {
            Some(chosen) => chosen,
            None => self.next_leaf(now)?,
        };
        if self.classes > NEAR_CLASSES {
            let [later, soon] = self.foresight.expect(&self.nodes, self.nodes.at(ix).way);
            if let Some(later) = later {
                self.expect_service(later);
            }
            if let Some(queue) = soon.and_then(|soon| self.nodes.at(soon).queue()) {
                queue.prefetch_head();
            }
        }
        debug_assert!(self.nodes.at(ix).queue().is_some_and(|q| !q.is_empty()), "who is chosen has a packet");
        let packet = match self.nodes.at_mut(ix).queue_mut()? {
            LeafQueue::Early(_) => self.take_early(cx, ix)?,
            queue => {
                let packet = queue.pop(now)?;
                self.held -= 1;
                self.held_bytes -= packet.len() as u64;
                packet
            }
        };
        let charge = self.link.charge(packet.len() as u64);
        self.nodes.at_mut(ix).note_wait(now.since(packet.meta().received_at));
        if self.rule.is_some() {
            self.charge_ruled(ix, charge, now, packet.meta().queued_at);
        } else {
            self.charge(ix, row, charge, now);
        }
        let node = self.nodes.at(ix);
        if node.state == State::Draining && node.rows == 0 && node.queue().is_some_and(|q| q.is_empty()) {
            self.free(ix);
        }
        if self.rule.is_some() {
            self.shed(cx);
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
        let generation = self.link_generation;
        let node = self.nodes.at_mut(ix);
        let len = packet.len() as u64;
        let charge = self.link.charge(len);
        // A turn must cover the longest frame there is, or long frames would take more than their share.
        self.largest = self.largest.max(charge);
        let Body::Leaf(queue) = &mut node.body else {
            self.unclassified += 1;
            return cx.drop(packet, DropReason::NoClass);
        };
        if !queue.is_open(generation) {
            return self.accept_late(cx, packet, ix, charge);
        }
        let was_empty = queue.is_empty();
        if let Err((packet, reason)) = queue.offer(now, packet, || cx.random()) {
            let cold = self.nodes.cold_mut(ix);
            cold.dropped_bytes += charge;
            match reason {
                DropReason::QueueFull => cold.dropped_queue_full += 1,
                _ => cold.dropped_early += 1,
            }
            self.tell_loss(ix, charge);
            return cx.drop(packet, reason);
        }
        self.held += 1;
        self.held_bytes += len;
        if was_empty {
            self.offer_leaf(ix, now);
        }
    }

    /// A leaf has another first packet.
    #[inline]
    pub(super) fn offer_leaf(&mut self, ix: Ix, now: Instant) {
        if self.rule.is_some() {
            return self.announce(ix, now);
        }
        self.refresh_leaf(ix, now);
        self.sync(ix);
    }

    /// A packet for a leaf that drops by a discipline of its own, whose limits are not those of the present link, or that
    /// takes none.
    #[inline(never)]
    fn accept_late(&mut self, cx: &mut Cx<'_>, packet: Packet, ix: Ix, charge: u64) {
        let generation = self.link_generation;
        match self.nodes.at(ix).state {
            State::Live if self.nodes.at(ix).queue().is_some_and(|q| q.takes_early(generation)) => {
                self.put_early(cx, packet, ix);
            }
            State::Live => {
                self.refresh_limits(ix);
                self.accept(cx, packet);
            }
            State::Draining | State::Ended => {
                let cold = self.nodes.cold_mut(ix);
                cold.dropped_class_removed += 1;
                cold.dropped_bytes += charge;
                cx.drop(packet, DropReason::ClassRemoved);
            }
            State::Free => {
                self.unclassified += 1;
                cx.drop(packet, DropReason::NoClass);
            }
        }
    }
}

/// Bytes a turn in `row` of a class of `weight`, of which the smallest beside it has `unit`.
#[inline]
fn turn(row: Row, largest: u64, weight: u32, unit: u32) -> i32 {
    if row != EXCESS || weight == unit {
        return largest as i32;
    }
    let most = largest * u64::from(MAX_WEIGHT_RATIO);
    (u64::from(weight) * largest / u64::from(unit)).clamp(largest, most).min(i32::MAX as u64 / 2) as i32
}

/// Takes ceiling tokens of a class; without enough for a largest frame it leaves until it has them.
#[inline]
fn take_ceiling(node: &mut Node, wheel: &mut Wheel, ix: Ix, tokens: Tokens, max: Tokens, now: Instant) {
    node.ceiling.take(tokens, now);
    if !node.throttled && !node.ceiling.holds(max) {
        node.throttled = true;
        node.stopped += 1;
        let when = node.ceiling.when(max).0;
        wheel.arm(&mut node.timers[CEILING], timer(ix, CEILING), when);
    }
}

/// What a leaf offers, by its queue and its tokens.
#[inline]
fn refresh(node: &mut Node, wheel: &mut Wheel, ix: Ix, link: &TreeLink, now: Instant) {
    let Body::Leaf(queue) = &node.body else { return };
    if queue.is_empty() || node.state == State::Ended {
        node.rows = 0;
        return;
    }
    node.rows = 1 << EXCESS;
    if node.has_guarantee {
        let needed = cost(link.charge(queue.head_len().unwrap_or(0)));
        if node.guarantee.covers(needed, now) {
            node.rows |= 1 << node.tier;
        } else {
            let when = node.guarantee.when(needed).0;
            wheel.arm(&mut node.timers[GUARANTEE], timer(ix, GUARANTEE), when);
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
