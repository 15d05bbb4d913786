//! The queues of a tree's leaves as a discipline, around whatever law decides which of them goes next.

use super::tree_names::TreeNames;
use crate::plumbing::adapter::as_any;
use crate::queue::{FifoConfig, FifoQueue};
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, ElementState, Head};
use perhop_packet::{Batch, DropReason, Packet};
use perhop_units::{Duration, Instant};

/// Decides which leaf of a tree sends next. Lengths are in bytes, the line's overhead included; classes are numbered as
/// in the tree's text.
pub(super) trait Law: Send + 'static {
    /// Name of the discipline.
    const NAME: &'static str;

    /// An idle leaf got a packet of `len` bytes.
    fn became_active(&mut self, now: Instant, leaf: usize, len: u64);

    /// The leaf that may send now, if one may.
    fn choose(&mut self, now: Instant) -> Option<usize>;

    /// The chosen leaf sent `len` bytes; the length of its next packet.
    fn sent(&mut self, now: Instant, leaf: usize, len: u64, next: Option<u64>);

    /// When a leaf may send, after [`Law::choose`] found none. O(1).
    fn next_wakeup(&self) -> Option<Instant>;

    /// Everything is empty.
    fn clear(&mut self);

    /// Tells of a class.
    fn report(&self, class: usize, name: &str, sink: &mut dyn CounterSink);
}

/// What waits in a leaf at one moment, for laws that follow waiting times. Bytes are those on the line, overhead included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Of all packets.
    pub(super) bytes: u64,
    /// Of the next one; 0: there is none.
    pub(super) head: u64,
    /// How long the next one has waited.
    pub(super) waited: Duration,
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

/// The discipline.
pub(super) struct Leaves<L: Law> {
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

/// Names, queues and counters of a predecessor.
struct State(Vec<(String, Leaf)>);

impl<L: Law> Leaves<L> {
    /// Empty queues.
    pub(super) fn new(tree: TreeNames, law: L, queues: &[FifoConfig]) -> Self {
        let leaf = |c: &FifoConfig| Leaf {
            queue: FifoQueue::new(c.limit, c.rate, c.overhead),
            counters: Counters::default(),
        };
        Self {
            law,
            leaves: queues.iter().map(leaf).collect(),
            overhead: queues.first().map_or(0, |c| u64::from(c.overhead)),
            tree,
            promised: None,
            untold: false,
            held: 0,
            held_bytes: 0,
        }
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

    fn offer(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let (n, len) = (self.tree.leaf_of(&packet), packet.len() as u64);
        let leaf = &mut self.leaves[n];
        leaf.queue.lasted(cx.now());
        if let Err(packet) = leaf.queue.offer(packet) {
            leaf.counters.dropped += 1;
            cx.drop(packet, DropReason::QueueFull);
            return;
        }
        self.held += 1;
        self.held_bytes += len;
        if leaf.queue.len() == 1 {
            self.law.became_active(cx.now(), n, len + self.overhead);
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

impl<L: Law> Discipline for Leaves<L> {
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
            let len = packet.len() as u64;
            leaf.counters.packets += 1;
            leaf.counters.bytes += len;
            out.push(packet);
            bytes += len;
            self.held -= 1;
            self.held_bytes -= len;
            self.law.sent(now, n, len + self.overhead, self.wire_len(n));
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
        for (n, leaf) in self.leaves.iter_mut().enumerate().filter(|(n, _)| self.tree.is_leaf(*n)) {
            each(&self.tree.names[n], leaf.queue.length_range(now));
        }
    }

    fn drain(&mut self, out: &mut Batch) {
        for leaf in &mut self.leaves {
            while let Some(packet) = leaf.queue.pop() {
                out.push(packet);
            }
        }
        self.law.clear();
        self.recount();
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = || FifoQueue::new(perhop_units::QueueLimit::Packets(1), perhop_units::Rate::ZERO, 0);
        let take = |(name, leaf): (&String, &mut Leaf)| {
            let queue = std::mem::replace(&mut leaf.queue, empty());
            (name.clone(), Leaf { queue, counters: leaf.counters })
        };
        let state = self.tree.names.iter().zip(&mut self.leaves).map(take).collect();
        self.law.clear();
        self.recount();
        Some(Box::new(State(state)))
    }

    /// Of a tree of the same names; the law begins anew, as if all packets had come at once.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut state = state.downcast::<State>()?;
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
        self.recount();
        self.untold = true;
        Ok(())
    }

    as_any!();
}
