//! Changing a tree while packets flow: prepare outside, stage in slices, commit at once.

use super::node::{Body, Bucket, CHUNK, Chunk, Ix, ROOT, Rings, State, chunk_of, cost, new_chunk};
use super::queue::LeafQueue;
use super::{ClassTree, NodeIndex, NodeParams, TreeLink, position};
use perhop_element::Cx;
use perhop_packet::DropReason;
use perhop_units::{Instant, Rate};
use std::collections::HashMap;
use std::sync::Arc;

/// One step of a change. The caller has checked with [`ClassTree::validate`] what the tree will be like.
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
    staged: usize,
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
        Self { edits, bodies, chunks, staged: 0 }
    }

    /// As [`TreeChange::prepare`], for a tree that already has memory for `slots` slots ([`ClassTree::slots`]).
    pub fn prepare_for(edits: Vec<TreeEdit>, slots: u32) -> Self {
        let mut change = Self::prepare(edits);
        let there = (slots as usize / CHUNK).saturating_sub(1);
        change.chunks.truncate(change.chunks.len().saturating_sub(there));
        change
    }

    /// Edits that [`ClassTree::stage`] has not looked at yet.
    pub fn unstaged(&self) -> usize {
        self.edits.len() - self.staged
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

    /// Does up to `budget` edits' worth of work that no packet notices. `true` when nothing is left to stage.
    pub fn stage(&mut self, now: Instant, change: &mut TreeChange, budget: usize) -> bool {
        let end = change.edits.len().min(change.staged.saturating_add(budget));
        while change.staged < end {
            if let TreeEdit::Add { index, name, params } = &change.edits[change.staged]
                && let Some(ix) = position(*index)
            {
                while !self.nodes.holds(ix)
                    && let Some(chunk) = change.chunks.pop()
                {
                    self.nodes.add(chunk);
                }
                if let Some(body) = change.bodies[change.staged].take() {
                    self.add(now, ix, name.clone(), *params, body);
                }
            }
            change.staged += 1;
        }
        change.staged == change.edits.len()
    }

    /// Makes the whole change visible; stages what was not staged yet. Costs O(updates + removals). What a raised rate
    /// or ceiling lets go earlier leaves when the pump is woken.
    pub fn commit(&mut self, now: Instant, change: &mut TreeChange) {
        while !self.stage(now, change, usize::MAX) {}
        self.chosen = None;
        self.settled = None;
        for (edit, body) in change.edits.iter().zip(&mut change.bodies) {
            match edit {
                TreeEdit::Add { .. } => {}
                TreeEdit::Update { index, params } => self.update(now, *index, *params, body),
                TreeEdit::Remove { index, drain_until } => self.remove(*index, *drain_until),
                TreeEdit::Rate(rate) => self.set_link(TreeLink { rate: *rate, ..self.link }),
            }
        }
    }

    fn add(&mut self, now: Instant, ix: Ix, name: Arc<str>, params: NodeParams, mut body: Body) {
        if !self.nodes.holds(ix) || self.nodes.at(ix).state != State::Free {
            debug_assert!(false, "slot {} is not free", ix - 1);
            return;
        }
        let parent = params.parent.and_then(position).unwrap_or(ROOT);
        let depth = self.nodes.at(parent).depth + 1;
        if let (Body::Leaf { queue, .. }, Some(leaf)) = (&mut body, &params.queue) {
            queue.set_limit(leaf, self.scale(&params));
        }
        let above = self.nodes.at_mut(parent);
        above.children += 1;
        let node = self.nodes.at_mut(ix);
        node.parent = parent;
        node.depth = depth;
        node.state = State::Live;
        node.body = body;
        node.name = name;
        node.params = params;
        node.counters = Default::default();
        node.tier = params.tier;
        node.guarantee = params.guarantee.map_or(Bucket::NONE, |b| Bucket::new(b, now));
        node.ceiling = params.ceiling.map_or(Bucket::NONE, |b| Bucket::new(b, now));
        node.has_guarantee = params.guaranteed().0 > 0;
        node.has_ceiling = params.ceiling.is_some();
        node.lends = node.has_guarantee;
        node.throttled = false;
        node.rows = 0;
        node.linked = 0;
        self.classes += 1;
        self.weigh(ix, params.weight);
    }

    /// Sets a class's weight. Quanta are in proportion to the smallest weight the parent has had below it since it had
    /// one child; larger quanta than necessary are harmless.
    fn weigh(&mut self, ix: Ix, weight: u32) {
        let node = self.nodes.at_mut(ix);
        node.weight = weight.max(1);
        let (parent, weight) = (node.parent, node.weight);
        let above = self.nodes.at_mut(parent);
        above.unit = if above.children == 1 { weight } else { above.unit.min(weight) };
    }

    fn update(&mut self, now: Instant, index: NodeIndex, params: NodeParams, spare: &mut Option<Body>) {
        let Some(ix) = position(index).filter(|ix| self.nodes.holds(*ix)) else { return };
        let scale = self.scale(&params);
        let max_cost = self.max_cost;
        let node = self.nodes.at_mut(ix);
        if node.state != State::Live {
            return;
        }
        debug_assert_eq!(node.params.parent, params.parent, "a class does not move");
        node.params = NodeParams { parent: node.params.parent, ..params };
        rebound(&mut node.guarantee, &mut node.has_guarantee, params.guarantee.filter(|b| b.rate.0 > 0), now);
        rebound(&mut node.ceiling, &mut node.has_ceiling, params.ceiling, now);
        node.tier = params.tier;
        if let (Some(queue), Some(leaf)) = (node.queue_mut(), &params.queue) {
            if !queue.is_kind(leaf)
                && let Some(Body::Leaf { queue: new, .. }) = spare
            {
                new.adopt(queue);
                std::mem::swap(new, queue);
            }
            queue.set_limit(leaf, scale);
        }
        let throttled = node.has_ceiling && !node.ceiling.covers(max_cost, now);
        node.throttled = throttled;
        if throttled {
            let when = node.ceiling.when(max_cost).0;
            self.wheel.disarm(&mut self.nodes, ix * 2);
            self.wheel.arm(&mut self.nodes, ix * 2, when);
        }
        if self.nodes.at(ix).weight != params.weight {
            self.weigh(ix, params.weight);
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
        node.drain_until = drain_until;
        self.draining.push(ix);
        if self.nodes.at(ix).queue().map_or(self.nodes.at(ix).children == 0, |q| q.is_empty()) {
            self.free(ix);
        } else {
            self.next_drain = self.earliest_drain();
        }
    }

    /// Frees an empty draining class, and those above it that waited for it.
    pub(super) fn free(&mut self, ix: Ix) {
        let mut at = ix;
        while at != ROOT {
            self.wheel.disarm(&mut self.nodes, at * 2);
            self.wheel.disarm(&mut self.nodes, at * 2 + 1);
            let node = self.nodes.at_mut(at);
            debug_assert!(node.linked == 0, "a freed class is in no ring");
            node.state = State::Free;
            node.body = Body::leaf(LeafQueue::default());
            let parent = node.parent;
            self.classes -= 1;
            self.freed.push(NodeIndex(at - 1));
            self.draining.retain(|d| *d != at);
            let above = self.nodes.at_mut(parent);
            above.children -= 1;
            if above.children > 0 || above.state != State::Draining {
                break;
            }
            at = parent;
        }
        self.next_drain = self.earliest_drain();
    }

    /// Interior classes wait for their leaves, whatever their own time says.
    fn earliest_drain(&self) -> Instant {
        let leaves = self.draining.iter().map(|ix| self.nodes.at(*ix)).filter(|n| n.queue().is_some());
        leaves.map(|n| n.drain_until).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Drops what draining leaves still hold when their time is over.
    pub(super) fn end_drains(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let over = |tree: &Self| {
            tree.draining.iter().copied().find(|ix| {
                let node = tree.nodes.at(*ix);
                node.drain_until <= now && node.queue().is_some()
            })
        };
        while let Some(ix) = over(self) {
            let node = self.nodes.at_mut(ix);
            if let Body::Leaf { queue, .. } = &mut node.body {
                while let Some(packet) = queue.pop(now) {
                    self.held -= 1;
                    self.held_bytes -= packet.len() as u64;
                    node.counters.dropped_removed += 1;
                    cx.drop(packet, DropReason::ClassRemoved);
                }
            }
            node.rows = 0;
            self.sync(ix);
            self.free(ix);
        }
        self.next_drain = self.earliest_drain();
    }

    /// Changes the link; queue limits given as times follow.
    pub(super) fn set_link(&mut self, link: TreeLink) {
        self.link = link;
        self.max_cost = cost(link.max_cost());
        for ix in 1..(self.nodes.chunks() * CHUNK) as Ix {
            let node = self.nodes.at(ix);
            if node.state == State::Free {
                continue;
            }
            let params = node.params;
            let scale = self.scale(&params);
            if let (Some(queue), Some(leaf)) = (self.nodes.at_mut(ix).queue_mut(), &params.queue) {
                queue.set_limit(leaf, scale);
            }
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
            Some(Body::leaf(LeafQueue::new(leaf)))
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
