//! # Synopsis
//! [`ClassTree`] shares a link between classes: guarantees first, then what a parent left unused, then the rest by
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
//! | `queue.kind` | [`LeafKind`] | | drop-tail | leaves only; RED, WRED, CoDel, PIE, Blue or FQ-CoDel |
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
//! Bytes are frame plus link overhead. A time limit of a queue is counted at the rate the class can at least get. Queues
//! that drop or mark at their head decide about a packet when it comes there, not when it leaves.
//!
//! On a link of 10 Mbit/s with the leaves `ef` (guarantee 2 Mbit/s, tier 0), `bulk` (weight 1) and `web` (weight 3), `ef`
//! within its 2 Mbit/s waits for one frame at most; what it leaves is shared 1 : 3. Graph text makes a tree of one leaf;
//! classes come with changes.
//!
//! # Counters
//! By class: see [`ClassCounters`]; gauges `backlog_packets`, `backlog_bytes`. All bytes are frame and overhead.
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
//!   A quantum is the largest frame times the weight over the smallest weight beside it, which counts while its class is
//!   idle and no more when its class is removed. So a leaf without guarantee, one that drains as well, waits for at most
//!   a quantum and a frame of each sibling before each turn of its own, however little it holds.
//! - Cost per packet is O(depth), independent of the number of classes.
//!
//! # Example
//! `FromPort(lan) -> Egress(wan, rate = 10 Mbit/s, limit = 30 ms) -> ToPort(wan)`
//!
//! # Source
//! Floyd and Van Jacobson, "Link-sharing and Resource Management Models for Packet Networks", IEEE/ACM Transactions on
//! Networking 3(4), 1995 (the aim); Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", ACM SIGCOMM
//! 1995 (DRR). The combination is our own.

mod arena;
mod change;
mod drains;
mod early;
mod foresight;
mod node;
mod params;
mod queue;
mod rule;
mod serve;
mod wheel;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod oracle;

#[cfg(test)]
mod scales;

#[cfg(test)]
mod tests;

pub use change::{TreeChange, TreeEdit};
pub use node::ClassCounters;
pub use params::{
    Bound, Curve, EarlyDrop, LeafKind, LeafParams, MAX_BURST, MAX_DEPTH, MAX_FLOWS, MAX_NODES,
    MAX_WEIGHT_RATIO, NodeIndex, NodeParams, NodeSpec, TIERS, TreeError, TreeErrorKind, TreeLink,
};
pub use rule::{MAX_RULED, Rule, RuleSpec, RuledLine};

use crate::plumbing::adapter::as_any;
use arena::{Arena, CHUNK};
use drains::Drains;
use foresight::Foresight;
use node::{Cold, Ix, Node, ROOT, Row, State, cost, lender_row};
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, ElementState, Head};
use perhop_packet::Batch;
use perhop_units::{Instant, Rate, Tokens};
use queue::Scale;
use wheel::{Part, Wheel};

/// The discipline.
#[derive(Debug)]
pub struct ClassTree {
    link: TreeLink,
    /// Tokens of the largest frame.
    max_cost: Tokens,
    /// Bytes of the largest frame, as configured or as seen if that is longer.
    largest: u64,
    nodes: Arena,
    wheel: Wheel,
    held: u64,
    held_bytes: u64,
    /// The latest time at which timers were looked at, unless some are still due.
    settled: Option<Instant>,
    now: Instant,
    foresight: Foresight,
    /// What `peek` promised.
    chosen: Option<(Ix, Row)>,
    /// Who says who goes next, if not the tree.
    rule: Option<Box<Rule>>,
    drains: Drains,
    /// When the next leaf's time ends; not before `drain_pause`.
    next_drain: Instant,
    /// While very many packets are dropped at the end of a drain: no more before this.
    drain_pause: Instant,
    freed: Vec<FreedSlot>,
    /// Leaves that took packets over from a queue of another kind and have not looked at them.
    undecided: Vec<Ix>,
    /// Counts links: leaves compute their limits anew when it differs from theirs.
    link_generation: u32,
    steps: u64,
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
    /// Bytes waiting, frame and overhead (leaves): what the line has to carry for them.
    pub backlog_bytes: u64,
    /// The same without overhead: what [`ClassTree::length_range`] is a range of.
    pub backlog_frame_bytes: u64,
    /// Whether its ceiling stops it now.
    pub throttled: bool,
}

/// A slot that is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedSlot {
    /// The slot.
    pub index: NodeIndex,
    /// What the class that was there counted in it: nobody can read it there any more.
    pub counters: ClassCounters,
}

impl FreedSlot {
    /// A slot in which nothing ever was.
    pub fn unused(index: NodeIndex) -> Self {
        Self { index, counters: ClassCounters::default() }
    }
}

/// Trees up to this size stay in the cache by themselves.
const NEAR_CLASSES: u32 = if cfg!(test) { 0 } else { 64 };
/// Packets further on whose classes are asked for while earlier ones are put into theirs.
const NODES_AHEAD: usize = 12;
/// The same of what lies behind these.
const QUEUES_AHEAD: usize = 8;
/// The same of the last packet in their queues, which will point to them.
const TAILS_AHEAD: usize = 4;

impl ClassTree {
    /// A tree without classes: it drops everything as [`perhop_packet::DropReason::NoClass`].
    pub fn new(link: TreeLink) -> Self {
        Self {
            link,
            max_cost: cost(link.max_cost()),
            largest: link.max_cost(),
            nodes: Arena::new(),
            wheel: Wheel::new(2 * MAX_NODES as usize),
            foresight: Foresight::default(),
            held: 0,
            held_bytes: 0,
            settled: None,
            now: Instant::ZERO,
            chosen: None,
            rule: None,
            drains: Drains::default(),
            next_drain: Instant::FAR_FUTURE,
            drain_pause: Instant::ZERO,
            freed: Vec::new(),
            undecided: Vec::new(),
            link_generation: 0,
            steps: 0,
            classes: 0,
            unclassified: 0,
        }
    }

    /// A tree of `specs`, which should have passed [`ClassTree::validate`].
    pub fn with_classes(link: TreeLink, now: Instant, specs: &[NodeSpec]) -> Self {
        let mut tree = Self::new(link);
        let add =
            |s: &NodeSpec| TreeEdit::Add { index: s.index, name: s.name.clone(), params: s.params.clone() };
        let mut change = TreeChange::prepare(specs.iter().map(add).collect());
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
        let leaf = size_of::<Node>() + size_of::<Cold>() + Part::BYTES / CHUNK;
        (leaf, leaf + size_of::<node::Rings>())
    }

    /// One class.
    pub fn class(&self, index: NodeIndex) -> Option<ClassView<'_>> {
        let ix = position(index)?;
        if !self.nodes.holds(ix) {
            return None;
        }
        view(ix, self.nodes.at(ix), self.nodes.cold(ix), &self.link)
    }

    /// All classes by slot.
    pub fn iter(&self) -> impl Iterator<Item = ClassView<'_>> {
        self.nodes.iter().filter_map(|(ix, node, cold)| view(ix, node, cold, &self.link))
    }

    /// Smallest and largest frame bytes that waited in a leaf since the last call for it; the first one begins.
    pub fn length_range(&mut self, now: Instant, index: NodeIndex) -> Option<[u64; 2]> {
        let ix = position(index).filter(|ix| self.nodes.holds(*ix))?;
        Some(self.nodes.at_mut(ix).queue_mut()?.length_range(now))
    }

    /// Moves the slots that became free since the last call to `into`; their numbers may be used again.
    pub fn take_freed(&mut self, into: &mut Vec<FreedSlot>) {
        into.append(&mut self.freed);
    }
}

/// Position of a slot.
fn position(index: NodeIndex) -> Option<Ix> {
    (index.0 < MAX_NODES).then(|| index.0 + 1)
}

fn view<'a>(ix: Ix, node: &Node, cold: &'a Cold, link: &TreeLink) -> Option<ClassView<'a>> {
    if ix == ROOT || node.state == State::Free {
        return None;
    }
    let (packets, frame_bytes) = node.queue().map_or((0, 0), |q| (q.len(), q.frame_bytes()));
    Some(ClassView {
        index: NodeIndex(ix - 1),
        name: &cold.name,
        params: &cold.params,
        draining: node.state != State::Live,
        counters: cold.counters(node),
        backlog_packets: packets,
        backlog_bytes: link.charge_all(frame_bytes, packets),
        backlog_frame_bytes: frame_bytes,
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
        let mut packets = batch.drain();
        for packet in packets.as_slice().iter().take(NODES_AHEAD) {
            self.expect_leaf(packet);
        }
        while let Some(packet) = packets.next() {
            let rest = packets.as_slice();
            if let Some(later) = rest.get(NODES_AHEAD - 1) {
                self.expect_leaf(later);
            }
            if let Some(next) = rest.get(QUEUES_AHEAD - 1) {
                self.expect_queue(next);
            }
            if let Some(soon) = rest.get(TAILS_AHEAD - 1) {
                self.expect_tail(soon);
            }
            if self.rule.is_none() {
                self.accept(cx, packet);
            } else {
                self.accept_ruled(cx, packet);
            }
        }
        self.delta(before)
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        if self.chosen.is_none() {
            self.settle(cx);
            self.chosen = self.next_leaf(cx.now());
        }
        let (ix, _) = self.chosen?;
        let len = self.nodes.at(ix).queue().and_then(|queue| queue.head_len());
        debug_assert!(len.is_some(), "who is chosen has a packet, or the line would stand still");
        let len = len?;
        Some(Head { len: len as u32 })
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        let mut left = budget;
        while left.packets > 0 && left.bytes > 0 && self.held > 0 {
            if self.chosen.is_none() {
                self.settle(cx);
            }
            let Some(packet) = self.take_one(cx) else { break };
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
        if self.is_ruled() && self.settled.is_some_and(|at| at >= self.now) {
            let next = self.ruled_wakeup().unwrap_or(Instant::FAR_FUTURE).min(self.next_drain);
            return (next < Instant::FAR_FUTURE).then_some(next);
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
            count("dropped_queue_full", c.dropped_queue_full);
            count("dropped_early", c.dropped_early);
            count("marked", c.marked);
            count("dropped_class_removed", c.dropped_class_removed);
            count("dropped_bytes", c.dropped_bytes);
            count("throttled", c.throttled);
            sink.gauge(&format!("class.{}.backlog_packets", class.name), class.backlog_packets);
            sink.gauge(&format!("class.{}.backlog_bytes", class.name), class.backlog_bytes);
        }
    }

    fn drain(&mut self, out: &mut Batch) {
        self.chosen = None;
        let now = self.now;
        let link = self.link;
        let (mut all, mut all_bytes) = (0, 0);
        for ix in 1..(self.nodes.chunks() * CHUNK) as Ix {
            let node = self.nodes.at_mut(ix);
            let Some(queue) = node.queue_mut() else { continue };
            let packets = queue.len();
            if packets == 0 {
                continue;
            }
            let (mut bytes, mut charged) = (0, 0);
            while let Some(packet) = queue.pop(now) {
                bytes += packet.len() as u64;
                charged += link.charge(packet.len() as u64);
                out.push(packet);
            }
            node.rows = 0;
            (all, all_bytes) = (all + packets, all_bytes + bytes);
            let cold = self.nodes.cold_mut(ix);
            cold.dropped_class_removed += packets;
            cold.dropped_bytes += charged;
            let counters = self.nodes.cold(ix).counters(self.nodes.at(ix));
            self.freed.push(FreedSlot { index: NodeIndex(ix - 1), counters });
            self.sync(ix);
        }
        debug_assert_eq!((self.held, self.held_bytes), (all, all_bytes), "what is held is what queues hold");
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
        Delta::between(before, (self.held, self.held_bytes))
    }

    fn scale(&self, params: &NodeParams) -> Scale {
        Scale {
            least: self.least_rate(params),
            max_cost: self.link.max_cost(),
            overhead: self.link.overhead_bytes,
            generation: self.link_generation,
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
