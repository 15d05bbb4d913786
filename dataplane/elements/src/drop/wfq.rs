//! # Synopsis
//! `Wfq` is the discipline of many queues, one a flow, served by weighted fair queueing.
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `flows` | number of queues | | 256 | 1 … 4,096 |
//! | `by_precedence` | yes, no | | no | |
//! | `limit` | queue limit, of all together | packets, byte or ns | 1,000 packets | as [`crate::queue::fifo`] |
//! | `overhead` | number | byte a packet | 0 | 0 … 256 |
//!
//! # Behaviour
//! A packet goes to the queue that a keyed hash of its addresses, protocol and ports chooses, as in [`super::fq_codel`]. Of
//! the packets at the heads that one goes which an ideal server that gives every flow its weight at once would finish first, in
//! the time of the packet that was sent last. All weights are equal, or, with `by_precedence`, one more than the three upper bits
//! of a packet's code point (class selector): 1 for best effort, 6 for EF, 7 for CS6. When all together exceed `limit`, the
//! queue with the most bytes loses its oldest packet (`queue_full`).
//!
//! # Counters
//! `enqueued_packets`, `enqueued_bytes`, `dropped_packets`, `dropped_bytes`, gauges `packets`, `bytes`, `active_flows`.
//!
//! # Invariants
//! Work conserving. Order is kept inside a flow. The bound holds after every call. Between two flows that always have packets,
//! bytes sent over weight never differ by more than the sum of their largest packets over their weights (Golestani's bound).
//! O(log flows) for each packet, O(flows) for each dropped one.
//!
//! # Example
//! `Shaper(10 Mbit/s, discipline = wfq, by_precedence = yes, limit = 1000 packets)`
//!
//! # Source
//! S. J. Golestani, *A Self-Clocked Fair Queueing Scheme for Broadband Applications*, INFOCOM 1994, which approximates Demers,
//! Keshav and Shenker, *Analysis and Simulation of a Fair Queueing Algorithm*, SIGCOMM 1989. Queues by hash, 256 of them, as in
//! ALTQ's WFQ (Cho, USENIX 1998).

use super::flow_hash::FlowHash;
use super::{InLeaf, Losses};
use crate::plumbing::adapter::as_any;
use crate::queue::FifoConfig;
use crate::queue::fifo::{read_config, take_with};
use crate::schedule::heap::Heap;
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, ElementState, Head, Reader};
use perhop_packet::{Batch, DropReason, Packet, PacketList};
use perhop_units::{Instant, QueueLimit, Rate};

/// Most queues.
pub const MAX_FLOWS: u32 = 4096;
/// Virtual time that a byte takes at weight 1: it can be divided by every weight.
const PER_BYTE: u64 = 840;

/// Parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WfqConfig {
    /// Queues, 1 … [`MAX_FLOWS`].
    pub flows: u32,
    /// Weights by the class selector of packets, instead of equal ones.
    pub by_precedence: bool,
}

impl Default for WfqConfig {
    fn default() -> Self {
        Self { flows: 256, by_precedence: false }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    enqueued_packets: u64,
    enqueued_bytes: u64,
    dropped_packets: u64,
    dropped_bytes: u64,
}

#[derive(Debug)]
struct Flow {
    list: PacketList,
    /// Virtual time at which its first packet begins, or at which its last one ended.
    start: u64,
}

/// The discipline.
#[derive(Debug)]
pub struct Wfq {
    config: WfqConfig,
    queue: FifoConfig,
    flows: Box<[Flow]>,
    /// Flows with packets by when their first one ends.
    turns: Heap,
    /// When the packet ended that was sent last.
    virtual_time: u64,
    hash: FlowHash,
    packets: u64,
    bytes: u64,
    active: u64,
    counters: Counters,
}

impl Wfq {
    /// Empty queues.
    pub fn new(config: WfqConfig, queue: FifoConfig) -> Self {
        let count = config.flows.clamp(1, MAX_FLOWS) as usize;
        Self {
            config,
            queue,
            flows: (0..count).map(|_| Flow { list: PacketList::new(), start: 0 }).collect(),
            turns: Heap::new(count),
            virtual_time: 0,
            hash: FlowHash::default(),
            packets: 0,
            bytes: 0,
            active: 0,
            counters: Counters::default(),
        }
    }

    /// Queues.
    pub(crate) fn flows(&self) -> u32 {
        self.config.flows
    }

    /// Changes weights and bound in place; packets inside stay. The number of queues does not change. O(flows) where
    /// weights are others.
    pub fn reconfigure(&mut self, config: WfqConfig, queue: FifoConfig) {
        self.queue = queue;
        let config = WfqConfig { flows: self.config.flows, ..config };
        let before = std::mem::replace(&mut self.config, config);
        if before != self.config {
            (0..self.flows.len()).for_each(|flow| self.offer(flow));
        }
    }

    fn weight(&self, tos: u8) -> u64 {
        if self.config.by_precedence { u64::from(tos >> 5) + 1 } else { 1 }
    }

    /// A flow has another first packet, or none.
    fn offer(&mut self, flow: usize) {
        let Flow { list, start } = &self.flows[flow];
        match (list.front_meta(), list.front_len()) {
            (Some(meta), Some(len)) => {
                let bytes = len as u64 + u64::from(self.queue.overhead);
                let end = start + bytes * PER_BYTE / self.weight(meta.layout.tos);
                self.turns.set(flow, end);
            }
            _ => self.turns.remove(flow),
        }
    }

    fn push(&mut self, packet: Packet) {
        let flow = self.hash.queue_of(&packet, self.flows.len());
        self.packets += 1;
        self.bytes += packet.len() as u64;
        let at = &mut self.flows[flow];
        at.list.push_back(packet);
        if at.list.len() == 1 {
            at.start = at.start.max(self.virtual_time);
            self.active += 1;
            self.offer(flow);
        }
    }

    /// Takes the first packet of a flow. One that is not sent takes no time.
    fn pop(&mut self, flow: usize) -> Option<Packet> {
        let packet = self.flows[flow].list.pop_front()?;
        self.packets -= 1;
        self.bytes -= packet.len() as u64;
        self.active -= u64::from(self.flows[flow].list.is_empty());
        self.offer(flow);
        Some(packet)
    }

    /// The flow with the most bytes; of several the first.
    fn longest(&self) -> usize {
        let flows = self.flows.iter().enumerate();
        flows.max_by_key(|(n, f)| (f.list.frame_bytes(), std::cmp::Reverse(*n))).map_or(0, |(n, _)| n)
    }

    /// Sees to it that the hash has its key.
    fn draw_key(&mut self, cx: &mut Cx<'_>) {
        if !self.hash.draw(cx) {
            return;
        }
        let mut waiting = PacketList::new();
        self.empty(|packet| waiting.push_back(packet));
        while let Some(packet) = waiting.pop_front() {
            self.push(packet);
        }
    }

    /// Gives everything away, flow by flow.
    fn empty(&mut self, mut each: impl FnMut(Packet)) {
        for flow in 0..self.flows.len() {
            while let Some(packet) = self.pop(flow) {
                each(packet);
            }
        }
    }

    fn delta(&self, before: (u64, u64)) -> Delta {
        Delta::between(before, (self.packets, self.bytes))
    }
}

impl InLeaf for Wfq {
    fn put(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        self.draw_key(cx);
        packet.meta_mut().queued_at = cx.now();
        self.counters.enqueued_packets += 1;
        self.counters.enqueued_bytes += packet.len() as u64;
        self.push(packet);
        while self.queue.is_exceeded_by(self.packets, self.bytes) {
            let Some(packet) = self.pop(self.longest()) else { return };
            self.counters.dropped_packets += 1;
            self.counters.dropped_bytes += packet.len() as u64;
            cx.drop(packet, DropReason::QueueFull);
        }
    }

    fn take(&mut self, _cx: &mut Cx<'_>) -> Option<Packet> {
        let (end, flow) = self.turns.first()?;
        self.virtual_time = end;
        self.flows[flow].start = end;
        self.pop(flow)
    }

    fn evict(&mut self) -> Option<Packet> {
        self.pop(self.longest())
    }

    fn head_since(&self) -> Option<Instant> {
        let (_, flow) = self.turns.first()?;
        self.flows[flow].list.front_meta().map(|meta| meta.queued_at)
    }

    fn keep(&mut self, packet: Packet) {
        self.push(packet);
    }

    fn losses(&self) -> Losses {
        let c = &self.counters;
        Losses { full: c.dropped_packets, early: 0, bytes: c.dropped_bytes, marked: 0 }
    }
}

impl Discipline for Wfq {
    fn type_name(&self) -> &'static str {
        "Wfq"
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let before = (self.packets, self.bytes);
        for packet in batch.drain() {
            self.put(cx, packet);
        }
        self.delta(before)
    }

    fn peek(&mut self, _cx: &mut Cx<'_>) -> Option<Head> {
        let (_, flow) = self.turns.first()?;
        self.flows[flow].list.front_len().map(|len| Head { len: len as u32 })
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let before = (self.packets, self.bytes);
        take_with(budget, out, || self.take(cx));
        self.delta(before)
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    fn held(&self) -> u64 {
        self.packets
    }

    fn held_bytes(&self) -> u64 {
        self.bytes
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        let c = &self.counters;
        sink.counter("enqueued_packets", c.enqueued_packets);
        sink.counter("enqueued_bytes", c.enqueued_bytes);
        sink.counter("dropped_packets", c.dropped_packets);
        sink.counter("dropped_bytes", c.dropped_bytes);
        sink.gauge("packets", self.packets);
        sink.gauge("bytes", self.bytes);
        sink.gauge("active_flows", self.active);
    }

    fn drain(&mut self, out: &mut Batch) {
        self.empty(|packet| out.push(packet));
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = Self::new(WfqConfig { flows: 1, ..self.config }, self.queue);
        Some(Box::new(std::mem::replace(self, empty)))
    }

    /// Flow by flow, so that each keeps its order; turns begin anew.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut old = *state.downcast::<Self>()?;
        self.hash = old.hash;
        self.counters = old.counters;
        old.empty(|packet| self.push(packet));
        Ok(())
    }

    as_any!();
}

/// Reads the parameters for queues behind a link of `rate`.
pub fn read(r: &mut Reader<'_>, rate: Rate) -> (WfqConfig, FifoConfig) {
    let default = WfqConfig::default();
    let mut queue = read_config(r, None, rate);
    if r.text("limit", None).is_none() {
        queue.limit = QueueLimit::Packets(1000);
    }
    let flows = r.optional_in("flows", None, default.flows, 1..=MAX_FLOWS);
    (WfqConfig { flows, by_precedence: r.flag("by_precedence", default.by_precedence) }, queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::UdpFrame;
    use crate::queue::fifo::laws::{calls, check_any_order};
    use crate::testbed::Line;
    use perhop_units::Bytes;
    use perhop_units::{Dscp, Duration};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn line(settings: &str) -> Line {
        Line::new("Shaper", &format!("8 Mbit/s, discipline = wfq, flows = 4096, {settings}"), 3)
    }

    fn push(line: &mut Line, flow: u16, len: u16, dscp: Dscp) {
        line.push("", &UdpFrame { ip_len: len - 14, src_port: flow, dscp, ..UdpFrame::default() });
    }

    const CODES: [(Dscp, u64); 4] = [(Dscp::BE, 1), (Dscp::CS1, 2), (Dscp::AF21, 3), (Dscp::EF, 6)];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Flows that always have packets, of any sizes and weights: Golestani's bound holds in every interval, and nobody
        /// overtakes in his own flow.
        #[test]
        fn service_by_weight_never_differs_by_more_than_two_packets(
            sizes in prop::collection::vec((64u16..1514, 0usize..4), 2..6),
            jitter in prop::collection::vec(0u16..300, 200),
        ) {
            let mut line = line("by_precedence = yes, limit = 4000 packets");
            for n in 0..jitter.len() / sizes.len() {
                for (flow, (size, code)) in sizes.iter().enumerate() {
                    let len = (size + jitter[n * sizes.len() + flow]).min(1514);
                    push(&mut line, 1 + flow as u16, len, CODES[*code].0);
                }
            }
            let most = |flow: usize| f64::from(sizes[flow].0 + 300).min(1514.0);
            let weight = |flow: usize| CODES[sizes[flow].1].1 as f64;
            let mut waiting: Vec<usize> = sizes.iter().map(|_| jitter.len() / sizes.len()).collect();
            line.run_for(Duration::from_secs(10));
            // Of so many queues each flow has its own by this key.
            let mut served: Vec<f64> = vec![0.0; sizes.len()];
            let mut ranges: BTreeMap<(usize, usize), [f64; 2]> = BTreeMap::new();
            for gone in line.gone().to_vec() {
                let flow = usize::from(gone.flow) - 1;
                served[flow] += gone.len as f64 / weight(flow);
                waiting[flow] -= 1;
                if waiting.contains(&0) {
                    break;
                }
                for (a, b) in (0..sizes.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
                    let apart = served[a] - served[b];
                    let [least, largest] = ranges.entry((a, b)).or_default();
                    (*least, *largest) = (f64::min(*least, apart), f64::max(*largest, apart));
                    // The first packet was on the line before anybody else came.
                    let bound = most(a) / weight(a) + most(b) / weight(b) + 1514.0;
                    prop_assert!(*largest - *least <= bound, "{} and {}: {:?}", a, b, sizes);
                }
            }
        }

        #[test]
        fn wfq_reports_what_it_does(calls in calls(), flows in 1u32..40, bytes in 2_000u64..20_000, overhead in 0u32..9, by_precedence: bool) {
            let queue = FifoConfig { limit: QueueLimit::Bytes(Bytes(bytes)), rate: Rate::from_mbit(8), overhead };
            check_any_order(Wfq::new(WfqConfig { flows, by_precedence }, queue), &calls);
        }
    }

    #[test]
    fn a_flow_that_sends_little_waits_for_no_more_than_a_packet_of_each_other() {
        let mut line = line("limit = 1000 packets");
        for n in 0..200u16 {
            push(&mut line, 1 + n % 4, 1000, Dscp::BE);
        }
        line.run_for(Duration::from_millis(50));
        push(&mut line, 9, 100, Dscp::BE);
        line.run_for(Duration::from_millis(20));
        let waited = line.gone().iter().find(|gone| gone.flow == 9).map(|gone| gone.waited);
        // One on the line, and of each other flow one that would end first: their rest is more than it needs.
        assert!(waited.is_some_and(|waited| waited <= Duration::from_millis(5)), "{waited:?}");
    }

    #[test]
    fn the_longest_queue_pays_for_all() {
        let mut line = line("limit = 50 packets");
        for n in 0..400u16 {
            push(&mut line, 1, 1000, Dscp::BE);
            if n % 20 == 0 {
                push(&mut line, 2, 1000, Dscp::BE);
            }
        }
        line.run_for(Duration::from_secs(1));
        let of = |flow: u16| line.gone().iter().filter(|gone| gone.flow == flow).count();
        assert_eq!((of(2), of(1) < 60), (20, true), "{} of the greedy flow", of(1));
    }
}
