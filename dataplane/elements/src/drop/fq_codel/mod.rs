//! # Synopsis
//! `FqCoDel` is the discipline of many queues, one a flow, served in turn by bytes, new flows first, each with CoDel.
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `flows` | number of queues | | 1024 | 1 … 65,536 |
//! | `quantum` | size | byte a turn | 1514 B | 64 … 65,536 |
//! | `batch` | number | packets | 64 | 1 … 1,024 |
//! | `target`, `interval`, `mtu`, `ecn` | | | | as [`super::codel`] |
//! | `limit` | queue limit, of all together | packets, byte or ns | 1,000 packets | as [`crate::queue::fifo`] |
//! | `overhead` | number | byte a packet | 0 | 0 … 256 |
//!
//! # Behaviour
//! A packet goes to the queue that a keyed hash of its addresses, protocol and ports chooses (fragments: without ports;
//! what is not IP: by station); the key is drawn with the first packet. A queue that gets its first packet joins the new
//! flows with a credit of `quantum`. The first of the new flows, else of the old ones, sends while it has credit; out of
//! credit it gets `quantum` and goes behind the old ones. Emptied, a new flow goes behind the old ones too, so that it
//! cannot be new again at once, and an old one is forgotten. CoDel drops (`codel`) or marks at the head of each queue.
//! When all together exceed `limit`, the queue with the most bytes loses half of its packets from its head, `batch` at
//! most (`queue_full`).
//!
//! # Counters
//! `enqueued_packets`, `enqueued_bytes`, `dropped_packets`, `dropped_bytes` (of both kinds, frame bytes), `marked`,
//! `at_head` (dropped by the waiting time), `overflowed` (dropped by `limit`), `new_flows`, gauges `packets`, `bytes`,
//! `peak_packets`, `active_flows`.
//!
//! # Invariants
//! Work conserving. Order is kept inside a flow. The bound holds after every call. Between flows that always have packets,
//! bytes sent differ by less than a quantum and two largest packets. A flow of less than a quantum at a time
//! that is not old waits for no more than one turn of each other new flow.
//!
//! Constant time a packet, but for the search of the longest queue: once for each batch dropped, over all queues.
//!
//! # Example
//! `Shaper(10 Mbit/s, discipline = fq_codel, limit = 1000 packets)`
//!
//! # Source
//! RFC 8290 §4 (queueing, dropping, scheduling), §5.2 (parameters), §6.1 (hash); RFC 8289 by [`super::codel`].

mod flows;
#[cfg(test)]
mod tests;

use super::flow_hash::FlowHash;
use super::{CoDelConfig, InLeaf, Losses, RedVerdict, mark};
use crate::plumbing::adapter::as_any;
use crate::queue::FifoConfig;
use crate::queue::fifo::take_with;
use flows::Flows;
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, ElementState, Head, Reader};
use perhop_packet::{Batch, DropReason, Packet, PacketList};
use perhop_units::{Bytes, Instant, QueueLimit, Rate};

/// Parameters of RFC 8290.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelConfig {
    /// Queues, at least 1.
    pub flows: u32,
    /// Credit of a turn in bytes, overhead included; at least 1.
    pub quantum: u32,
    /// Most packets that the longest queue loses at once; at least 1.
    pub batch: u32,
    /// Of each queue.
    pub codel: CoDelConfig,
}

impl Default for FqCoDelConfig {
    fn default() -> Self {
        Self { flows: 1024, quantum: 1514, batch: 64, codel: CoDelConfig::default() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    enqueued_packets: u64,
    enqueued_bytes: u64,
    dropped_packets: u64,
    dropped_bytes: u64,
    marked: u64,
    at_head: u64,
    overflowed: u64,
    peak_packets: u64,
}

/// The discipline.
#[derive(Debug)]
pub struct FqCoDel {
    config: FqCoDelConfig,
    queue: FifoConfig,
    flows: Flows,
    hash: FlowHash,
    counters: Counters,
    /// The flow that goes next and what was decided of the packet at its head.
    chosen: Option<(usize, RedVerdict)>,
    /// Packets and frame bytes that whoever is above knows of.
    told: (u64, u64),
}

impl FqCoDel {
    /// Empty queues.
    pub fn new(config: FqCoDelConfig, queue: FifoConfig) -> Self {
        Self {
            config,
            queue,
            flows: Flows::new(&config, queue.overhead),
            hash: FlowHash::default(),
            counters: Counters::default(),
            chosen: None,
            told: (0, 0),
        }
    }

    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: DropReason) {
        self.counters.dropped_packets += 1;
        self.counters.dropped_bytes += packet.len() as u64;
        cx.drop(packet, reason);
    }

    /// Drops from the longest queue until all is within the bound.
    fn shorten(&mut self, cx: &mut Cx<'_>) {
        while self.queue.is_exceeded_by(self.flows.packets(), self.flows.bytes()) {
            let flow = self.flows.longest();
            if self.chosen.is_some_and(|(chosen, _)| chosen == flow) {
                self.chosen = None;
            }
            let half = self.flows.len(flow).div_ceil(2).min(self.config.batch as usize).max(1);
            for _ in 0..half {
                let Some(packet) = self.flows.pop(flow) else { return };
                self.counters.overflowed += 1;
                self.refuse(cx, packet, DropReason::QueueFull);
            }
        }
    }

    /// The flow that goes next, after drops at heads. O(1) for each packet dropped and each flow that has no credit.
    fn settle(&mut self, cx: &mut Cx<'_>) -> Option<(usize, RedVerdict)> {
        let now = cx.now();
        while self.chosen.is_none() {
            let flow = self.flows.turn()?;
            match self.flows.judge(flow, now) {
                None => self.flows.emptied(flow),
                Some(RedVerdict::DropEarly | RedVerdict::DropForced) => {
                    let Some(packet) = self.flows.pop(flow) else { break };
                    self.counters.at_head += 1;
                    self.refuse(cx, packet, DropReason::CoDel);
                }
                Some(settled) => self.chosen = Some((flow, settled)),
            }
        }
        self.chosen
    }

    /// Changes parameters and bound in place; packets inside stay. The number of queues does not change. O(1), but
    /// O(queues) where CoDel's parameters are others.
    pub fn reconfigure(&mut self, config: FqCoDelConfig, queue: FifoConfig) {
        self.flows.reconfigure(&config, queue.overhead);
        self.config = FqCoDelConfig { flows: self.config.flows, ..config };
        self.queue = queue;
    }

    /// Queues.
    pub(crate) fn flows(&self) -> u32 {
        self.config.flows
    }

    /// Sees to it that the hash has its key.
    #[inline]
    fn draw_key(&mut self, cx: &mut Cx<'_>) {
        if !self.hash.draw(cx) {
            return;
        }
        let mut waiting = PacketList::new();
        self.flows.drain(|packet| waiting.push_back(packet));
        while let Some(packet) = waiting.pop_front() {
            self.flows.push(self.hash, packet);
        }
        self.chosen = None;
    }

    /// What changed since the last call that told.
    fn tell(&mut self) -> Delta {
        let (before, after) = (self.told, (self.flows.packets(), self.flows.bytes()));
        self.told = after;
        Delta::between(before, after)
    }
}

impl InLeaf for FqCoDel {
    fn put(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        self.draw_key(cx);
        packet.meta_mut().queued_at = cx.now();
        self.counters.enqueued_packets += 1;
        self.counters.enqueued_bytes += packet.len() as u64;
        self.flows.push(self.hash, packet);
        self.shorten(cx);
        self.counters.peak_packets = self.counters.peak_packets.max(self.flows.packets());
    }

    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let (flow, settled) = self.settle(cx)?;
        self.chosen = None;
        let mut packet = self.flows.pop(flow)?;
        self.flows.charge(flow, packet.len() as u64);
        if settled == RedVerdict::Mark {
            self.counters.marked += 1;
            mark(&mut packet);
        }
        Some(packet)
    }

    fn evict(&mut self) -> Option<Packet> {
        self.chosen = None;
        self.flows.pop(self.flows.longest())
    }

    fn head_since(&self) -> Option<Instant> {
        self.flows.front_since(self.chosen?.0)
    }

    fn keep(&mut self, packet: Packet) {
        self.flows.push(self.hash, packet);
    }

    fn losses(&self) -> Losses {
        let c = &self.counters;
        Losses { full: c.overflowed, early: c.at_head, bytes: c.dropped_bytes, marked: c.marked }
    }
}

impl Discipline for FqCoDel {
    fn type_name(&self) -> &'static str {
        "FqCoDel"
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        for packet in batch.drain() {
            self.put(cx, packet);
        }
        self.tell()
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        let (flow, _) = self.settle(cx)?;
        self.flows.front_len(flow).map(|len| Head { len: len as u32 })
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        take_with(budget, out, || self.take(cx));
        if self.flows.packets() == 0 {
            // Nobody may ask again before the next packet comes, and whose flow has long been idle is new.
            self.settle(cx);
        }
        self.tell()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn held(&self) -> u64 {
        self.flows.packets()
    }

    fn held_bytes(&self) -> u64 {
        self.flows.bytes()
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        let c = &self.counters;
        let counters = [
            ("enqueued_packets", c.enqueued_packets),
            ("enqueued_bytes", c.enqueued_bytes),
            ("dropped_packets", c.dropped_packets),
            ("dropped_bytes", c.dropped_bytes),
            ("marked", c.marked),
            ("at_head", c.at_head),
            ("overflowed", c.overflowed),
            ("new_flows", self.flows.new_flows()),
        ];
        for (name, value) in counters {
            sink.counter(name, value);
        }
        sink.gauge("packets", self.flows.packets());
        sink.gauge("bytes", self.flows.bytes());
        sink.gauge("peak_packets", c.peak_packets);
        sink.gauge("active_flows", self.flows.active());
    }

    fn drain(&mut self, out: &mut Batch) {
        self.chosen = None;
        self.flows.drain(|packet| out.push(packet));
        self.told = (0, 0);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = Self::new(FqCoDelConfig { flows: 1, ..self.config }, self.queue);
        Some(Box::new(std::mem::replace(self, empty)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut old = *state.downcast::<Self>()?;
        self.hash = old.hash;
        let (hash, flows) = (old.hash, &mut self.flows);
        // Flow by flow, so that each keeps its order; CoDel and turns begin anew.
        old.flows.drain(|packet| flows.push(hash, packet));
        self.counters = old.counters;
        self.told = (self.flows.packets(), self.flows.bytes());
        Ok(())
    }

    as_any!();
}

/// Reads the parameters for queues behind a link of `rate`.
pub fn read(r: &mut Reader<'_>, rate: Rate) -> (FqCoDelConfig, FifoConfig) {
    let default = FqCoDelConfig::default();
    let (codel, mut queue) = super::codel::read(r, rate);
    if r.text("limit", None).is_none() {
        queue.limit = QueueLimit::Packets(1000);
    }
    let quantum = Bytes(u64::from(default.quantum));
    let config = FqCoDelConfig {
        flows: r.optional_in("flows", None, default.flows, 1..=65_536),
        quantum: r.optional_in("quantum", None, quantum, Bytes(64)..=Bytes(65_536)).0 as u32,
        batch: r.optional_in("batch", None, default.batch, 1..=1024),
        codel,
    };
    (config, queue)
}
