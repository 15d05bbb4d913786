//! Changing a tree while packets flow: prepare outside, add in slices, flip, finish in slices.
//!
//! A change has three parts. [`ClassTree::stage`] adds classes, which no packet knows yet. [`ClassTree::flip`] takes one
//! step, together with the caller's new table of leaves: from then on packets are sorted by the new generation alone.
//! [`ClassTree::finish`] gives classes their new parameters and lets removed ones drain: guarantees that become smaller
//! come before those that become larger, so that their sum never exceeds what it is before or after. Work is counted in
//! steps ([`ClassTree::change_steps`]), each O(depth + log n).

use super::arena::{CHUNK, Chunk, chunk_of, new_chunk};
use super::drains::DrainLink;
use super::node::{Body, Bucket, CEILING, Cold, Ix, Link, ROOT, Rings, State, cost, timer};
use super::queue::LeafQueue;
use super::rule::{Rule, RuleSpec};
use super::wheel::NIL;
use super::{ClassTree, FreedSlot, NodeIndex, NodeParams, TreeLink, position};
use perhop_element::Cx;
use perhop_packet::DropReason;
use perhop_units::{Duration, Instant, Rate};
use std::collections::HashMap;
use std::sync::Arc;

/// Steps of dropping what removed leaves hold at the end of their time, at one instant.
const DRAIN_STEPS: u32 = 64;
/// Time between two such slices.
const DRAIN_PAUSE: Duration = Duration(1_000);

/// One part of a change; a change names a slot once. The caller has checked with [`ClassTree::validate`] what the tree
/// will be like.
#[derive(Clone, Debug)]
pub enum TreeEdit {
    /// A new class in a free slot.
    Add {
        /// The slot.
        index: NodeIndex,
        /// Name, for counters.
        name: Arc<str>,
        /// What it is to be.
        params: NodeParams,
    },
    /// New parameters for a class. Parent and being a leaf stay as they are. Queue, tokens (as far as the new burst
    /// allows), turn and counters are kept; nothing queued is dropped when the limit becomes smaller.
    Update {
        /// The slot.
        index: NodeIndex,
        /// What it is to be.
        params: NodeParams,
    },
    /// The class takes no more packets. What it holds is still scheduled until `drain_until`; then the rest is dropped
    /// as [`DropReason::ClassRemoved`]. A class with classes below is removed together with them.
    Remove {
        /// The slot; free again when [`ClassTree::take_freed`] names it.
        index: NodeIndex,
        /// End of the drain.
        drain_until: Instant,
    },
    /// A new link rate (zero = unknown), for queue limits given as times.
    Rate(Rate),
}

/// A prepared change: holds all memory it needs. Made outside the packet thread, and best dropped there too.
#[derive(Debug)]
pub struct TreeChange {
    edits: Vec<TreeEdit>,
    /// For each edit that makes a class or may change the kind of its queue.
    bodies: Vec<Option<Body>>,
    chunks: Vec<Chunk>,
    /// The first so many edits add classes; the others do not.
    adds: usize,
    rate: Option<Rate>,
    /// The law to go on by, if it changes.
    rule: Option<Option<Box<Rule>>>,
    /// The one before, to be freed with the change.
    left_rule: Option<Box<Rule>>,
    staged: usize,
    /// The edits behind `adds` are gone through twice, first for what becomes less.
    finished: usize,
}

impl TreeChange {
    /// Allocates everything the edits need, and brings them into an order in which parents come before their children.
    pub fn prepare(mut edits: Vec<TreeEdit>) -> Self {
        parents_first(&mut edits);
        let slot = |edit: &TreeEdit| match edit {
            TreeEdit::Add { index, .. } => position(*index),
            _ => None,
        };
        let highest = edits.iter().filter_map(slot).max().unwrap_or(0);
        let bodies = edits.iter().map(body_for).collect();
        // The first chunk exists in every tree. Those the tree has already stay here and are freed with the change.
        let chunks = (0..chunk_of(highest)).map(|_| new_chunk()).collect();
        let adds = edits.iter().take_while(|e| matches!(e, TreeEdit::Add { .. })).count();
        let rate = |e: &TreeEdit| if let TreeEdit::Rate(rate) = e { Some(*rate) } else { None };
        let rate = edits.iter().rev().find_map(rate);
        Self { edits, bodies, chunks, adds, rate, rule: None, left_rule: None, staged: 0, finished: 0 }
    }

    /// With another law of who goes next from the moment of the change on, or (`None`) the tree's own.
    #[must_use]
    pub fn ruled(self, spec: Option<&RuleSpec>) -> Self {
        Self { rule: Some(spec.map(|spec| Box::new(Rule::new(spec)))), ..self }
    }

    /// Steps that [`ClassTree::stage`] has still to take.
    pub fn unstaged(&self) -> usize {
        self.adds - self.staged
    }

    /// Steps that [`ClassTree::finish`] has still to take.
    pub fn unfinished(&self) -> usize {
        2 * (self.edits.len() - self.adds) - self.finished
    }

    /// The link's new rate, if it changes.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Whether it brings another law.
    pub fn is_ruled_anew(&self) -> bool {
        self.rule.is_some()
    }

    /// The edits.
    pub fn edits(&self) -> &[TreeEdit] {
        &self.edits
    }
}

impl ClassTree {
    /// Slots the tree has memory for.
    pub fn slots(&self) -> u32 {
        (self.nodes.chunks() * CHUNK) as u32
    }

    /// Steps of change work done so far: classes added, updated, removed and freed, packets dropped at the end of a
    /// drain.
    pub fn change_steps(&self) -> u64 {
        self.steps
    }

    /// Takes up to `budget` steps that no packet notices. `true` when nothing is left to stage.
    pub fn stage(&mut self, now: Instant, change: &mut TreeChange, budget: usize) -> bool {
        let end = change.adds.min(change.staged.saturating_add(budget));
        while change.staged < end {
            self.steps += 1;
            if let TreeEdit::Add { index, name, params } = &change.edits[change.staged]
                && let Some(ix) = position(*index)
            {
                debug_assert!(change.bodies[change.staged].is_some(), "each class is added once");
                while !self.nodes.holds(ix)
                    && let Some(mut chunk) = change.chunks.pop()
                {
                    if let Some(part) = chunk.timers.take() {
                        self.wheel.add(part);
                    }
                    self.nodes.add(chunk);
                }
                if let Some(body) = change.bodies[change.staged].take() {
                    self.add(now, ix, name.clone(), params.clone(), body);
                }
            }
            change.staged += 1;
        }
        change.staged == change.adds
    }

    /// The moment of the change: everything is staged, packets are sorted by the new generation from now on, and the
    /// link has its new rate. One step.
    pub fn flip(&mut self, now: Instant, change: &mut TreeChange) {
        self.stage(now, change, usize::MAX);
        self.steps += 1;
        if let Some(rate) = change.rate {
            self.set_link(TreeLink { rate, ..self.link });
        }
        if let Some(rule) = change.rule.take() {
            change.left_rule = self.set_rule(now, rule);
        }
    }

    /// Takes up to `budget` steps of what is left after [`ClassTree::flip`]. `true` when the change is done. What a raised
    /// rate or ceiling lets go earlier leaves when the pump is woken.
    pub fn finish(&mut self, now: Instant, change: &mut TreeChange, budget: usize) -> bool {
        debug_assert!(change.unstaged() == 0, "a change is staged whole before packets are sorted by it");
        let (adds, total) = (change.adds, change.unfinished() + change.finished);
        let end = total.min(change.finished.saturating_add(budget));
        if change.finished < end {
            self.chosen = None;
            self.settled = None;
        }
        while change.finished < end {
            self.steps += 1;
            let second = change.finished >= total / 2;
            let at = adds + change.finished % (total / 2);
            match &change.edits[at] {
                TreeEdit::Update { index, params } if second == self.raises(*index, params) => {
                    self.update(now, *index, params, &mut change.bodies[at]);
                }
                TreeEdit::Remove { index, drain_until } if !second => self.remove(*index, *drain_until),
                _ => {}
            }
            change.finished += 1;
        }
        change.finished == total
    }

    /// Takes up to `budget` steps of a change whose tree does not exist: removed classes are gone at once. `true` when done.
    pub fn pass_over(change: &mut TreeChange, budget: usize, into: &mut Vec<FreedSlot>) -> bool {
        change.staged = change.adds;
        let total = change.edits.len() - change.adds;
        let end = total.min(change.finished.saturating_add(budget));
        let removed = |e: &TreeEdit| match e {
            TreeEdit::Remove { index, .. } => Some(FreedSlot::unused(*index)),
            _ => None,
        };
        into.extend(change.edits[change.adds..][change.finished.min(end)..end].iter().filter_map(removed));
        change.finished = if end == total { 2 * total } else { end };
        end == total
    }

    /// All three parts at once.
    pub fn commit(&mut self, now: Instant, change: &mut TreeChange) {
        self.flip(now, change);
        self.finish(now, change, usize::MAX);
    }

    /// Whether `params` guarantee a class more than it has.
    fn raises(&self, index: NodeIndex, params: &NodeParams) -> bool {
        let class = position(index).filter(|ix| self.nodes.holds(*ix)).map(|ix| self.nodes.cold(ix));
        class.is_some_and(|c| params.guaranteed() > c.params.guaranteed())
    }

    fn add(&mut self, now: Instant, ix: Ix, name: Arc<str>, params: NodeParams, mut body: Body) {
        if !self.nodes.holds(ix) || self.nodes.at(ix).state != State::Free {
            debug_assert!(false, "slot {} is not free", ix - 1);
            return;
        }
        let parent = params.parent.and_then(position).unwrap_or(ROOT);
        debug_assert!(self.nodes.at(parent).state == State::Live, "parents come first and stay longest");
        debug_assert!(self.nodes.at(parent).queue().is_none(), "a class with a queue has none below it");
        let depth = self.nodes.at(parent).depth + 1;
        if let (Body::Leaf(queue), Some(leaf)) = (&mut body, &params.queue) {
            queue.set_limit(leaf, self.scale(&params));
        }
        self.nodes.cold_mut(parent).children += 1;
        let cold = self.nodes.cold_mut(ix);
        *cold = Cold { params: params.clone(), ..Cold::free(name) };
        let node = self.nodes.at_mut(ix);
        node.parent = parent;
        node.depth = depth;
        node.state = State::Live;
        node.body = body;
        node.is_leaf = params.queue.is_some();
        node.way = NIL;
        node.excess = Link::NONE;
        node.tier_link = Link::NONE;
        node.count_anew();
        node.tier = params.tier;
        node.guarantee = params.guarantee.map_or(Bucket::NONE, |b| Bucket::new(b, now));
        node.ceiling = params.ceiling.map_or(Bucket::NONE, |b| Bucket::new(b, now));
        node.has_guarantee = params.guaranteed().0 > 0;
        node.has_ceiling = params.ceiling.is_some();
        node.lends = node.has_guarantee;
        node.throttled = false;
        node.rows = 0;
        node.linked = 0;
        node.weight = params.weight.max(1);
        let weight = node.weight;
        self.classes += 1;
        self.reweigh(ix, None, Some(weight));
    }

    /// Says whether a class that stays may get packets. If not, its weight makes the turns of its siblings no longer, as
    /// that of a removed one. O(log weights).
    pub fn set_in_use(&mut self, index: NodeIndex, in_use: bool) {
        let Some(ix) = position(index).filter(|ix| self.nodes.holds(*ix)) else { return };
        let weight = self.nodes.at(ix).weight;
        if self.nodes.at(ix).state != State::Live || self.nodes.cold(ix).in_use == in_use {
            return;
        }
        if in_use {
            self.reweigh(ix, None, Some(weight));
        } else {
            self.reweigh(ix, Some(weight), None);
        }
        self.nodes.cold_mut(ix).in_use = in_use;
    }

    /// Gives a class's weight to its parent, to which quanta are in proportion to the smallest below.
    fn reweigh(&mut self, ix: Ix, old: Option<u32>, new: Option<u32>) {
        let parent = self.nodes.at(ix).parent;
        let above = self.nodes.at_mut(parent);
        debug_assert!(above.queue().is_none(), "a class with a queue has none below it");
        if let Body::Interior(rings) = &mut above.body {
            above.unit = rings.reweigh(old, new);
        }
    }

    fn update(&mut self, now: Instant, index: NodeIndex, params: &NodeParams, spare: &mut Option<Body>) {
        let Some(ix) = position(index).filter(|ix| self.nodes.holds(*ix)) else { return };
        let scale = self.scale(params);
        let max_cost = self.max_cost;
        let node = self.nodes.at_mut(ix);
        if node.state != State::Live {
            return;
        }
        let told = &mut self.nodes.cold_mut(ix).params;
        debug_assert_eq!(told.parent, params.parent, "a class does not move");
        *told = NodeParams { parent: told.parent, ..params.clone() };
        let node = self.nodes.at_mut(ix);
        rebound(&mut node.guarantee, &mut node.has_guarantee, params.guarantee.filter(|b| b.rate.0 > 0), now);
        rebound(&mut node.ceiling, &mut node.has_ceiling, params.ceiling, now);
        node.tier = params.tier;
        let mut marked = 0;
        if let (Some(queue), Some(leaf)) = (node.queue_mut(), &params.queue) {
            if !queue.is_kind(leaf)
                && let Some(Body::Leaf(new)) = spare
            {
                marked = queue.marked();
                new.adopt(now, queue);
                std::mem::swap(new, queue);
                if matches!(queue, LeafQueue::Early(_)) && !queue.is_empty() {
                    self.undecided.push(ix);
                }
            }
            queue.set_limit(leaf, scale);
        }
        let throttled = node.has_ceiling && !node.ceiling.covers(max_cost, now);
        node.throttled = throttled;
        if throttled {
            let when = node.ceiling.when(max_cost).0;
            self.wheel.arm(&mut node.timers[CEILING], timer(ix, CEILING), when);
        }
        self.nodes.cold_mut(ix).marked += marked;
        let weight = params.weight.max(1);
        let old = std::mem::replace(&mut self.nodes.at_mut(ix).weight, weight);
        if old != weight && self.nodes.cold(ix).in_use {
            self.reweigh(ix, Some(old), Some(weight));
        }
        if self.nodes.at(ix).queue().is_some() {
            self.refresh_leaf(ix, now);
        } else {
            let bit = 1 << super::lender_row(self.nodes.at(ix).depth);
            self.nodes.at_mut(ix).rows &= !bit;
            self.refresh_lending(ix, now);
        }
        self.sync(ix);
    }

    fn remove(&mut self, index: NodeIndex, drain_until: Instant) {
        let Some(ix) = position(index).filter(|ix| self.nodes.holds(*ix)) else { return };
        let node = self.nodes.at_mut(ix);
        if node.state != State::Live {
            return;
        }
        node.state = State::Draining;
        if let Some(queue) = node.queue_mut() {
            queue.close();
        }
        let weight = node.weight;
        // A class that goes must not keep the turns of those that stay long.
        if self.nodes.cold(ix).in_use {
            self.reweigh(ix, Some(weight), None);
        }
        let node = self.nodes.at(ix);
        match node.queue().map(|q| q.is_empty()) {
            // A class with classes below waits for them, whatever its own time says.
            None if self.nodes.cold(ix).children > 0 => {}
            Some(false) => {
                let until = drain_until.min(Instant(DrainLink::NONE.until.0 - 1));
                self.drains.insert(&mut self.nodes, ix, until);
                self.find_next_drain();
            }
            None | Some(true) => self.free(ix),
        }
    }

    /// Frees an empty draining class, and those above it that waited for it.
    pub(super) fn free(&mut self, ix: Ix) {
        debug_assert!(self.nodes.at(ix).queue().is_none_or(LeafQueue::is_empty), "its packets would be lost");
        if self.nodes.cold(ix).drain.until != DrainLink::NONE.until {
            self.drains.remove(&mut self.nodes, ix);
            self.find_next_drain();
        }
        let mut at = ix;
        while at != ROOT {
            self.steps += 1;
            let counters = self.nodes.cold(at).counters(self.nodes.at(at));
            let node = self.nodes.at_mut(at);
            debug_assert!(node.linked == 0, "a freed class is in no ring");
            debug_assert!(node.state != State::Free && node.state != State::Live, "a slot is freed once");
            // What it has in the wheel comes to nothing, or early for the class that is here then.
            node.state = State::Free;
            node.body = Body::Leaf(LeafQueue::default());
            node.is_leaf = true;
            let parent = node.parent;
            self.classes -= 1;
            self.freed.push(FreedSlot { index: NodeIndex(at - 1), counters });
            let above = self.nodes.cold_mut(parent);
            above.children -= 1;
            if above.children > 0 || self.nodes.at(parent).state != State::Draining {
                break;
            }
            at = parent;
        }
    }

    fn find_next_drain(&mut self) {
        let first = self.drains.first().map_or(Instant::FAR_FUTURE, |(until, _)| until);
        self.next_drain = first.max(self.drain_pause);
    }

    /// When packets of a removed leaf are next to be dropped: at the end of its time, which comes whether or not the line
    /// takes packets. See [`ClassTree::drop_overdue`].
    pub fn next_drop(&self) -> Option<Instant> {
        (self.next_drain < Instant::FAR_FUTURE).then_some(self.next_drain)
    }

    /// Drops what removed leaves hold whose time is over, a bounded number of packets a call; the rest at
    /// [`ClassTree::next_drop`].
    pub fn drop_overdue(&mut self, cx: &mut Cx<'_>) {
        if cx.now() >= self.next_drain {
            self.chosen = None;
            self.end_drains(cx);
        }
    }

    /// Drops what draining leaves still hold when their time is over: at most [`DRAIN_STEPS`] steps, the rest a little
    /// later. A leaf whose time is over sends nothing more from the step that begins with it.
    pub(super) fn end_drains(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let mut left = DRAIN_STEPS;
        while left > 0
            && let Some((_, ix)) = self.drains.first().filter(|(until, _)| *until <= now)
        {
            left -= 1;
            self.steps += 1;
            let node = self.nodes.at_mut(ix);
            if node.state != State::Ended {
                node.state = State::Ended;
                node.rows = 0;
                self.sync(ix);
            }
            let node = self.nodes.at_mut(ix);
            let Some(packet) = node.queue_mut().and_then(|q| q.pop(now)) else {
                self.free(ix);
                continue;
            };
            let cold = self.nodes.cold_mut(ix);
            cold.dropped_class_removed += 1;
            cold.dropped_bytes += self.link.charge(packet.len() as u64);
            self.held -= 1;
            self.held_bytes -= packet.len() as u64;
            cx.drop(packet, DropReason::ClassRemoved);
        }
        let more = self.drains.first().is_some_and(|(until, _)| until <= now);
        self.drain_pause = if more { now + DRAIN_PAUSE } else { Instant::ZERO };
        self.find_next_drain();
    }

    /// Changes the link. Queue limits given as times follow when a packet next arrives.
    pub(super) fn set_link(&mut self, link: TreeLink) {
        self.link = link;
        self.max_cost = cost(link.max_cost());
        self.largest = link.max_cost();
        // The highest number means something else to queues.
        self.link_generation = (self.link_generation + 1) % u32::MAX;
    }

    /// Brings the limits of a leaf in line with the link.
    #[cold]
    pub(super) fn refresh_limits(&mut self, ix: Ix) {
        let params = self.nodes.cold(ix).params.clone();
        let scale = self.scale(&params);
        let node = self.nodes.at_mut(ix);
        if let (Some(queue), Some(leaf)) = (node.queue_mut(), &params.queue) {
            queue.set_limit(leaf, scale);
        }
    }
}

/// Sorts new classes by their depth among the new ones; everything else keeps its order, behind them.
fn parents_first(edits: &mut [TreeEdit]) {
    let added = |edit: &TreeEdit| match edit {
        TreeEdit::Add { index, params, .. } => Some((*index, params.parent)),
        _ => None,
    };
    let parents: HashMap<NodeIndex, Option<NodeIndex>> = edits.iter().filter_map(added).collect();
    let depth = |edit: &TreeEdit| {
        let Some((_, mut above)) = added(edit) else { return usize::MAX };
        let mut depth = 0;
        // Bounded: a circle, which validation refuses, must not hang here.
        while let Some(next) =
            above.and_then(|a| parents.get(&a)).filter(|_| depth <= super::MAX_DEPTH as usize)
        {
            depth += 1;
            above = *next;
        }
        depth
    };
    edits.sort_by_cached_key(depth);
}

/// The memory an edit may need.
fn body_for(edit: &TreeEdit) -> Option<Body> {
    match edit {
        TreeEdit::Add { params: NodeParams { queue: None, .. }, .. } => {
            Some(Body::Interior(Box::new(Rings::new())))
        }
        TreeEdit::Add { params: NodeParams { queue: Some(leaf), .. }, .. }
        | TreeEdit::Update { params: NodeParams { queue: Some(leaf), .. }, .. } => {
            Some(Body::Leaf(LeafQueue::new(leaf)))
        }
        _ => None,
    }
}

fn rebound(bucket: &mut Bucket, has: &mut bool, bound: Option<super::Bound>, now: Instant) {
    match bound {
        Some(bound) if *has => bucket.rebound(bound, now),
        Some(bound) => *bucket = Bucket::new(bound, now),
        None => *bucket = Bucket::NONE,
    }
    *has = bound.is_some();
}
