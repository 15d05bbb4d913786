//! The queues of a tree's leaves as a discipline, around whatever law decides which of them goes next.

use super::law::{Law, Waiting};
use super::pump::Pump;
use super::transmitter::{Transmitter, TransmitterConfig};
use super::tree_names::TreeNames;
use crate::plumbing::adapter::as_any;
use crate::queue::{FifoConfig, FifoQueue};
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, Element, ElementState, Head};
use perhop_packet::{Batch, DropReason, Packet};
use perhop_units::{Duration, Instant, Rate};

/// A law that is a discipline of its own.
pub(super) trait Alone: Law + Sized {
    /// Name of the discipline.
    const NAME: &'static str;

    /// The same law of leaves that hold nothing.
    fn fresh(&self) -> Self;

    /// Goes on as `old`, a law of the same classes; as a rule it begins anew.
    fn succeed(&mut self, old: Self) {
        let _ = old;
    }

    /// Tells of a class.
    fn report(&self, class: usize, name: &str, sink: &mut dyn CounterSink);
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    packets: u64,
    bytes: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Leaf {
    queue: FifoQueue,
    counters: Counters,
}

impl Leaf {
    fn new(queue: &FifoConfig) -> Self {
        let queue = FifoQueue::new(queue.limit, queue.rate, queue.overhead);
        Self { queue, counters: Counters::default() }
    }

    fn waiting(&self, now: Instant) -> Waiting {
        let waited = self.queue.front_meta().map_or(Duration::ZERO, |meta| now.since(meta.queued_at));
        let head = self.queue.front_len().map_or(0, |len| len as u64 + u64::from(self.queue.overhead()));
        Waiting { bytes: self.queue.bytes().0, head, waited }
    }
}

/// The discipline.
pub(super) struct Leaves<L> {
    tree: TreeNames,
    law: L,
    /// By class; interior classes have empty queues.
    leaves: Vec<Leaf>,
    overhead: u64,
    /// What [`Discipline::peek`] promised.
    promised: Option<usize>,
    /// The law does not know yet what was taken over.
    untold: bool,
    held: u64,
    held_bytes: u64,
}

/// Names, queues, counters and law of a predecessor.
struct State<L>(Vec<(String, Leaf)>, L);

impl<L: Alone> Leaves<L> {
    /// Empty queues.
    pub(super) fn of(tree: TreeNames, law: L, queues: &[FifoConfig]) -> Self {
        Self {
            law,
            leaves: queues.iter().map(Leaf::new).collect(),
            overhead: queues.first().map_or(0, |c| u64::from(c.overhead)),
            tree,
            promised: None,
            untold: false,
            held: 0,
            held_bytes: 0,
        }
    }

    /// Inside a pump, in front of a line of `rate`.
    pub(super) fn behind(self, rate: Rate) -> Box<dyn Element> {
        let overhead_bytes = self.overhead as u32;
        let line = TransmitterConfig { rate, overhead_bytes, ..Default::default() };
        Box::new(Pump::named(L::NAME, Box::new(self), Transmitter::new(line), None))
    }

    fn wire_len(&self, leaf: usize) -> Option<u64> {
        self.leaves[leaf].queue.front_len().map(|len| len as u64 + self.overhead)
    }

    fn tell_law(&mut self, now: Instant) {
        if std::mem::take(&mut self.untold) {
            for n in 0..self.leaves.len() {
                if let Some(len) = self.wire_len(n) {
                    self.law.became_active(now, n, len);
                }
            }
        }
    }

    fn choose(&mut self, now: Instant) -> Option<usize> {
        self.tell_law(now);
        if self.promised.is_none() && self.held > 0 {
            self.promised = self.law.choose(now);
        }
        self.promised
    }

    fn offer(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        let (n, len) = (self.tree.leaf_of(&packet), packet.len() as u64);
        self.law.arrives(cx.now(), n, len + self.overhead);
        if self.law.follows_waits() {
            packet.meta_mut().queued_at = cx.now();
        }
        let leaf = &mut self.leaves[n];
        leaf.queue.lasted(cx.now());
        if let Err(packet) = leaf.queue.offer(packet) {
            leaf.counters.dropped += 1;
            self.law.lost(n, len + self.overhead);
            cx.drop(packet, DropReason::QueueFull);
            return;
        }
        self.held += 1;
        self.held_bytes += len;
        if leaf.queue.len() == 1 {
            self.law.became_active(cx.now(), n, len + self.overhead);
        }
        self.shed(cx);
    }

    /// Drops whom the law would rather lose, after something came or went.
    fn shed(&mut self, cx: &mut Cx<'_>) {
        while self.law.shares_buffer() {
            for (n, leaf) in self.leaves.iter().enumerate() {
                self.law.see(n, leaf.waiting(cx.now()));
            }
            let bytes = self.held_bytes + self.held * self.overhead;
            let Some((n, why)) = self.law.loses(self.held, bytes) else { break };
            let Some(packet) = self.leaves[n].queue.pop() else { break };
            let len = packet.len() as u64;
            self.leaves[n].counters.dropped += 1;
            self.promised = None;
            self.held -= 1;
            self.held_bytes -= len;
            self.law.lost(n, len + self.overhead);
            cx.drop(packet, why.reason());
        }
    }

    fn recount(&mut self) {
        self.promised = None;
        self.held = self.leaves.iter().map(|l| l.queue.len() as u64).sum();
        self.held_bytes = self.leaves.iter().map(|l| l.queue.frame_bytes()).sum();
    }

    fn delta(&self, before: (u64, u64)) -> Delta {
        Delta::between(before, (self.held, self.held_bytes))
    }
}

impl<L: Alone> Discipline for Leaves<L> {
    fn type_name(&self) -> &'static str {
        L::NAME
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        self.promised = None;
        self.tell_law(cx.now());
        for packet in batch.drain() {
            self.offer(cx, packet);
        }
        self.delta(before)
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        let leaf = self.choose(cx.now())?;
        self.leaves[leaf].queue.front_len().map(|len| Head { len: len as u32 })
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let before = (self.held, self.held_bytes);
        let now = cx.now();
        let mut bytes = 0;
        for _ in 0..budget.packets {
            if bytes >= budget.bytes {
                break;
            }
            let Some(n) = self.choose(now) else { break };
            self.promised = None;
            let leaf = &mut self.leaves[n];
            leaf.queue.lasted(now);
            let Some(packet) = leaf.queue.pop() else { break };
            let (len, came) = (packet.len() as u64, packet.meta().queued_at);
            leaf.counters.packets += 1;
            leaf.counters.bytes += len;
            out.push(packet);
            bytes += len;
            self.held -= 1;
            self.held_bytes -= len;
            self.law.sent(now, n, len + self.overhead, self.wire_len(n), came);
            self.shed(cx);
        }
        self.delta(before)
    }

    fn next_wakeup(&self) -> Option<Instant> {
        if self.held == 0 || self.promised.is_some() { None } else { self.law.next_wakeup() }
    }

    fn held(&self) -> u64 {
        self.held
    }

    fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        for (n, leaf) in self.leaves.iter().enumerate() {
            let name = &self.tree.names[n];
            self.law.report(n, name, sink);
            if self.tree.is_leaf(n) {
                sink.counter(&format!("packets_{name}"), leaf.counters.packets);
                sink.counter(&format!("bytes_{name}"), leaf.counters.bytes);
                sink.counter(&format!("dropped_{name}"), leaf.counters.dropped);
                sink.gauge(&format!("backlog_bytes_{name}"), leaf.queue.frame_bytes());
                sink.gauge(&format!("backlog_packets_{name}"), leaf.queue.len() as u64);
            }
        }
    }

    fn length_ranges(&mut self, now: Instant, each: &mut dyn FnMut(&str, [u64; 2])) {
        // What shares a buffer is looked at as a whole.
        let alone = |n: &usize| self.tree.is_leaf(*n) && !self.law.shares_buffer();
        for (n, leaf) in self.leaves.iter_mut().enumerate().filter(|(n, _)| alone(n)) {
            each(&self.tree.names[n], leaf.queue.length_range(now));
        }
    }

    fn drain(&mut self, out: &mut Batch) {
        for leaf in &mut self.leaves {
            while let Some(packet) = leaf.queue.pop() {
                out.push(packet);
            }
        }
        self.law = self.law.fresh();
        self.recount();
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let take = |(name, leaf): (&String, &mut Leaf)| {
            let queue = std::mem::replace(&mut leaf.queue, Leaf::new(&FifoConfig::LEAST).queue);
            (name.clone(), Leaf { queue, counters: leaf.counters })
        };
        let leaves = self.tree.names.iter().zip(&mut self.leaves).map(take).collect();
        let fresh = self.law.fresh();
        let law = std::mem::replace(&mut self.law, fresh);
        self.recount();
        Some(Box::new(State(leaves, law)))
    }

    /// Of a tree of the same names; unless it succeeds, the law begins anew, as if all packets had come at once.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut state = state.downcast::<State<L>>()?;
        let same =
            state.0.len() == self.leaves.len()
                && state.0.iter().zip(&self.tree.names).enumerate().all(|(n, ((old, leaf), new))| {
                    old == new && (self.tree.is_leaf(n) || leaf.queue.is_empty())
                });
        if !same {
            return Err(state);
        }
        for (leaf, (_, old)) in self.leaves.iter_mut().zip(&mut state.0) {
            leaf.queue.adopt(&mut old.queue);
            leaf.counters = old.counters;
        }
        self.law.succeed(state.1);
        self.recount();
        self.untold = true;
        Ok(())
    }

    as_any!();
}
