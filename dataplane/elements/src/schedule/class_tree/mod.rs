//! Synopsis
//! : [`ClassTree`] shares a link between classes: guarantees first, then what a parent left unused, then the rest by
//! weight; never above a ceiling.
//!
//! # Ports
//! None: a discipline inside [`super::Pump`] or [`super::Egress`].
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `guarantee` | rate | bit/s | none | Σ of siblings ≤ parent's, Σ of the top level ≤ link |
//! | `guarantee.burst` | integer | byte | 10 ms of the rate, ≥ 2 frames | 2 of the largest frames … 500 MB |
//! | `ceiling` | rate | bit/s | none | ≥ guarantee, ≥ Σ guarantees below |
//! | `ceiling.burst` | integer | byte | as above | 2 of the largest frames … 500 MB |
//! | `weight` | integer | | 1 | 1 … 1,000 times the smallest sibling's |
//! | `tier` | integer | | 15 | 0 (first) … 15; leaves only |
//! | `queue` | packets, bytes or time | | 100 ms | leaves only; at least one largest frame |
//!
//! Classes are added, changed and removed while packets flow: [`TreeChange`].
//!
//! # Behaviour
//! The next packet comes from the first of these that has one:
//! 1. leaves whose guarantee has tokens for their next packet: lowest tier first, DRR inside a tier, level by level;
//! 2. interior classes whose guarantee has tokens for a largest frame, deepest first: hierarchical DRR by weight inside;
//! 3. everything that waits: hierarchical DRR by weight from the root.
//!
//! Stage 1 takes guarantee tokens of the leaf and all above it. Stage 2 takes those of the lending class and all above
//! it, and what is left of those below it (which never go into debt for that: a leaf that was lent to has received its
//! tokens' worth, and its guarantee holds from then on). Excess takes none. Every stage takes ceiling tokens on the whole
//! path; a class whose ceiling has no tokens for a largest frame leaves with its subtree until it has. There is no
//! tick: what becomes possible by the mere passing of time sits in a timing wheel and is looked at before each choice.
//!
//! Bytes are frame plus link overhead. A time limit of a queue is counted at the rate the class can at least get.
//!
//! # Counters
//! By class: see [`ClassCounters`]; gauges `backlog_packets`, `backlog_bytes`.
//!
//! # Invariants
//! - A packet leaves whenever one waits below no exhausted ceiling.
//! - A class with a ceiling sends at most `ceiling · t + burst` in any interval t.
//! - Let a packet conform to its leaf's guarantee, as do all packets of leaves in its tier and before, with no ceilings
//!   above them. It leaves within `(Σ bursts of its tier and before + largest frame) / (C − G)`, where G is the sum of
//!   the guarantees of the *other* leaves in these tiers. While the others send no more than their bursts this is
//!   `(Σ bursts + largest frame) / C`.
//! - A backlogged leaf gets at least `guarantee · t − burst − largest frame` beyond that delay.
//! - Excess of continuously backlogged siblings is in proportion to their weights within one quantum and one frame each.
//! - Cost per packet is O(depth), independent of the number of classes.
//!
//! # Example
//! A link of 10 Mbit/s: `ef` (guarantee 2 Mbit/s, tier 0), `bulk` (weight 1), `web` (weight 3). `ef` within its 2 Mbit/s
//! waits for one frame at most; what it leaves is shared 1 : 3.
//!
//! # Source
//! Floyd and Van Jacobson, "Link-sharing and Resource Management Models for Packet Networks", IEEE/ACM Transactions on
//! Networking 3(4), 1995 (the aim); Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", ACM SIGCOMM
//! 1995 (DRR). The combination is our own.

mod change;
mod node;
mod params;
mod queue;
mod wheel;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod oracle;

#[cfg(test)]
mod tests;

pub use change::{TreeChange, TreeEdit};
pub use node::ClassCounters;
pub use params::{
    Bound, LeafKind, LeafParams, MAX_BURST, MAX_DEPTH, MAX_NODES, MAX_WEIGHT_RATIO, NodeIndex, NodeParams,
    NodeSpec, TIERS, TreeError, TreeErrorKind, TreeLink,
};

use crate::plumbing::reader::as_any;
use node::{Arena, Body, EXCESS, Ix, LENDERS, Node, ROOT, Row, State, cost, lender_row};
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, ElementState, Head};
use perhop_packet::{Batch, DropReason, LeafId, Packet, prefetch};
use perhop_units::{Instant, Rate, Tokens};
use queue::Scale;
use wheel::{NIL, Wheel};

/// The discipline.
#[derive(Debug)]
pub struct ClassTree {
    link: TreeLink,
    /// Tokens of the largest frame.
    max_cost: Tokens,
    nodes: Arena,
    wheel: Wheel,
    held: u64,
    held_bytes: u64,
    /// The latest time at which timers were looked at, unless some are still due.
    settled: Option<Instant>,
    now: Instant,
    /// What `peek` promised.
    chosen: Option<(Ix, Row)>,
    draining: Vec<Ix>,
    next_drain: Instant,
    freed: Vec<NodeIndex>,
    classes: u32,
    unclassified: u64,
}

/// One class as seen from outside.
#[derive(Clone, Debug)]
pub struct ClassView<'a> {
    /// Its slot.
    pub index: NodeIndex,
    /// Its name.
    pub name: &'a str,
    /// What it is told to be.
    pub params: &'a NodeParams,
    /// Whether it is removed and sends its rest.
    pub draining: bool,
    /// What it did.
    pub counters: ClassCounters,
    /// Packets waiting (leaves).
    pub backlog_packets: u64,
    /// Frame bytes waiting (leaves).
    pub backlog_bytes: u64,
    /// Whether its ceiling stops it now.
    pub throttled: bool,
}

/// Trees up to this size stay in the cache by themselves.
const NEAR_CLASSES: u32 = 1024;
/// Timers looked at before one packet is chosen: bounds the work of a call when very many fall on one instant.
const TIMERS_A_PACKET: usize = 64;

impl ClassTree {
    /// A tree without classes: it drops everything as [`DropReason::NoClass`].
    pub fn new(link: TreeLink) -> Self {
        Self {
            link,
            max_cost: cost(link.max_cost()),
            nodes: Arena::new(),
            wheel: Wheel::new(),
            held: 0,
            held_bytes: 0,
            settled: None,
            now: Instant::ZERO,
            chosen: None,
            draining: Vec::new(),
            next_drain: Instant::FAR_FUTURE,
            freed: Vec::new(),
            classes: 0,
            unclassified: 0,
        }
    }

    /// A tree of `specs`, which should have passed [`ClassTree::validate`].
    pub fn with_classes(link: TreeLink, now: Instant, specs: &[NodeSpec]) -> Self {
        let mut tree = Self::new(link);
        let add = |s: &NodeSpec| TreeEdit::Add { index: s.index, name: s.name.clone(), params: s.params };
        let mut change = TreeChange::prepare(specs.iter().map(add).collect());
        while !tree.stage(now, &mut change, usize::MAX) {}
        tree.commit(now, &mut change);
        tree
    }

    /// Checks that `specs` together form a tree that keeps its promises on `link`. Pure; O(n · depth).
    ///
    /// # Errors
    /// Every violation found.
    pub fn validate(specs: &[NodeSpec], link: &TreeLink) -> Result<(), Vec<TreeError>> {
        params::validate(specs, link)
    }

    /// The link below.
    pub fn link(&self) -> &TreeLink {
        &self.link
    }

    /// Classes that exist, draining ones included.
    pub fn classes(&self) -> u32 {
        self.classes
    }

    /// Bytes of memory a class takes: of a leaf, and of a class with classes below.
    pub fn bytes_per_class() -> (usize, usize) {
        (size_of::<Node>(), size_of::<Node>() + size_of::<node::Rings>())
    }

    /// One class.
    pub fn class(&self, index: NodeIndex) -> Option<ClassView<'_>> {
        let ix = position(index)?;
        if !self.nodes.holds(ix) {
            return None;
        }
        view(ix, self.nodes.at(ix))
    }

    /// All classes by slot.
    pub fn iter(&self) -> impl Iterator<Item = ClassView<'_>> {
        self.nodes.iter().filter_map(|(ix, node)| view(ix, node))
    }

    /// Moves the slots that became free since the last call to `into`; their numbers may be used again.
    pub fn take_freed(&mut self, into: &mut Vec<NodeIndex>) {
        into.append(&mut self.freed);
    }

    /// Brings the parent's rings in line with what `ix` offers, and its ancestors' as far as that changes theirs.
    fn sync(&mut self, ix: Ix) {
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
    fn relink(&mut self, ix: Ix) -> Ix {
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
    fn quantum(&self, row: Row, weight: u32, parent: Ix) -> i32 {
        let largest = self.link.max_cost();
        let unit = self.nodes.at(parent).unit;
        if row != EXCESS || weight == unit {
            return largest as i32;
        }
        let most = largest * u64::from(MAX_WEIGHT_RATIO);
        (u64::from(weight) * largest / u64::from(unit)).clamp(largest, most).min(i32::MAX as u64 / 2) as i32
    }

    /// An interior class offers its unused guarantee while something waits below.
    #[inline]
    fn refresh_lender(&mut self, ix: Ix) {
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
    fn refresh_leaf(&mut self, ix: Ix, now: Instant) {
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
    fn settle(&mut self, cx: &mut Cx<'_>) {
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

    fn fire(&mut self, id: u32, now: Instant) {
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
    fn refresh_lending(&mut self, ix: Ix, now: Instant) {
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
    fn pick(&self) -> Option<(Ix, Row)> {
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
    fn charge(&mut self, ix: Ix, row: Row, bytes: u64, now: Instant) {
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
            link.deficit -= bytes as i32;
            if link.deficit <= 0 {
                let next = link.next;
                let quantum = self.quantum(used, weight, parent);
                self.nodes.at_mut(at).link(used).deficit += quantum;
                self.nodes.set_head(parent, used, next);
            }
            let node = self.nodes.at_mut(at);
            if node.has_ceiling {
                node.ceiling.take(tokens, now);
                if !node.throttled && node.ceiling.level() < max {
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
                if interior && node.lends && node.guarantee.level() < max {
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
    fn look_ahead(&self) {
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

    fn take_one(&mut self, now: Instant) -> Option<Packet> {
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

    fn accept(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let now = cx.now();
        let LeafId(leaf) = packet.meta().leaf;
        let ix = match position(NodeIndex(leaf)) {
            Some(ix) if self.nodes.holds(ix) => ix,
            _ => {
                self.unclassified += 1;
                return cx.drop(packet, DropReason::NoClass);
            }
        };
        let node = self.nodes.at_mut(ix);
        let len = packet.len() as u64;
        let Body::Leaf { queue, .. } = &mut node.body else {
            self.unclassified += 1;
            return cx.drop(packet, DropReason::NoClass);
        };
        match node.state {
            State::Live => {
                let was_empty = queue.is_empty();
                if let Err((packet, reason)) = queue.offer(now, packet, || cx.random()) {
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

/// Position of a slot.
fn position(index: NodeIndex) -> Option<Ix> {
    (index.0 < MAX_NODES).then(|| index.0 + 1)
}

fn view(ix: Ix, node: &Node) -> Option<ClassView<'_>> {
    if ix == ROOT || node.state == State::Free {
        return None;
    }
    Some(ClassView {
        index: NodeIndex(ix - 1),
        name: &node.name,
        params: &node.params,
        draining: node.state == State::Draining,
        counters: node.counters,
        backlog_packets: node.queue().map_or(0, |q| q.len()),
        backlog_bytes: node.queue().map_or(0, |q| q.frame_bytes()),
        throttled: node.throttled,
    })
}

impl Discipline for ClassTree {
    fn type_name(&self) -> &'static str {
        "ClassTree"
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        self.chosen = None;
        for packet in batch.iter() {
            if let Some(ix) = position(NodeIndex(packet.meta().leaf.0)).filter(|ix| self.nodes.holds(*ix)) {
                let node = self.nodes.at(ix);
                prefetch(&node.parent);
                prefetch(&node.guarantee);
            }
        }
        for packet in batch.drain() {
            self.accept(cx, packet);
        }
        self.delta(before)
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        if self.chosen.is_none() {
            self.settle(cx);
            self.chosen = self.pick();
        }
        let (ix, _) = self.chosen?;
        let len = self.nodes.at(ix).queue()?.head_len()?;
        Some(Head { len: len as u32 })
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        let mut left = budget;
        while left.packets > 0 && left.bytes > 0 && self.held > 0 {
            if self.chosen.is_none() {
                self.settle(cx);
            }
            let Some(packet) = self.take_one(cx.now()) else { break };
            if left.packets > 1 && self.classes > NEAR_CLASSES {
                self.look_ahead();
            }
            left.packets -= 1;
            left.bytes = left.bytes.saturating_sub(packet.len() as u64);
            out.push(packet);
        }
        self.delta(before)
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.held == 0 {
            return None;
        }
        if self.nodes.at(ROOT).rows != 0 || self.settled.is_none_or(|at| at < self.now) {
            return Some(self.now);
        }
        let due = self.wheel.next_due().map_or(Instant::FAR_FUTURE, Instant);
        let next = due.min(self.next_drain);
        (next < Instant::FAR_FUTURE).then_some(next)
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.gauge("classes", u64::from(self.classes));
        sink.counter("unclassified", self.unclassified);
        for class in self.iter() {
            let c = &class.counters;
            let mut count = |what: &str, n: u64| sink.counter(&format!("class.{}.{what}", class.name), n);
            count("packets", c.packets);
            count("bytes", c.bytes);
            count("shared_bytes", c.shared);
            count("borrowed_bytes", c.borrowed);
            count("dropped_queue_full", c.dropped_full);
            count("dropped_early", c.dropped_early);
            count("dropped_class_removed", c.dropped_removed);
            count("throttled", c.throttled);
            sink.gauge(&format!("class.{}.backlog_packets", class.name), class.backlog_packets);
            sink.gauge(&format!("class.{}.backlog_bytes", class.name), class.backlog_bytes);
        }
    }

    fn drain(&mut self, out: &mut Batch) {
        self.chosen = None;
        let now = self.now;
        for ix in 1..(self.nodes.chunks() * node::CHUNK) as Ix {
            let Some(queue) = self.nodes.at_mut(ix).queue_mut() else { continue };
            if queue.is_empty() {
                continue;
            }
            while let Some(packet) = queue.pop(now) {
                out.push(packet);
            }
            self.nodes.at_mut(ix).rows = 0;
            self.sync(ix);
        }
        self.held = 0;
        self.held_bytes = 0;
    }

    /// The tree itself moves, classes, queues and all.
    fn export_state(&mut self) -> Option<ElementState> {
        let link = self.link;
        Some(Box::new(std::mem::replace(self, Self::new(link))))
    }

    /// Takes a whole tree; the classes this one was built with are forgotten. Refused while this one holds packets.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        if self.held > 0 {
            return Err(state);
        }
        let link = self.link;
        *self = *state.downcast::<Self>()?;
        self.set_link(link);
        Ok(())
    }

    as_any!();
}

impl ClassTree {
    fn delta(&self, before: (u64, u64)) -> Delta {
        Delta {
            packets: self.held as i64 - before.0 as i64,
            bytes: self.held_bytes as i64 - before.1 as i64,
            became_active: before.0 == 0 && self.held > 0,
            became_idle: before.0 > 0 && self.held == 0,
        }
    }

    fn scale(&self, params: &NodeParams) -> Scale {
        Scale {
            least: self.least_rate(params),
            max_cost: self.link.max_cost(),
            overhead: self.link.overhead_bytes,
        }
    }

    /// The rate a class can at least get, for time limits; zero when unknown.
    fn least_rate(&self, params: &NodeParams) -> Rate {
        match (params.guaranteed(), params.ceiling) {
            (g, _) if g.0 > 0 => g,
            (_, Some(c)) if self.link.rate.0 == 0 => c.rate,
            (_, Some(c)) => c.rate.min(self.link.rate),
            _ => self.link.rate,
        }
    }
}
