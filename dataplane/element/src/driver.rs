//! An arena of elements and the loop that moves packets between them.

use crate::cost::{Meter, Timing};
use crate::end::Ends;
use crate::{
    ConservationError, CostConfig, CounterSink, Cx, DelayTrace, Element, ElementCost, NodeCounters, NodeId,
    PacketEnd, PortIndex, TimerId, TraceConfig, cx::World,
};
use perhop_packet::{Batch, DropReason, Pool, PortId};
use perhop_units::Instant;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use thiserror::Error;

/// A connection from an output to an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Receiving element.
    pub to: NodeId,
    /// Its input.
    pub input: PortIndex,
}

/// What the driver refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DriverError {
    /// No such element.
    #[error("there is no element {0:?}")]
    NoElement(NodeId),
    /// The output is already connected.
    #[error("output [{port}] of {element} is already connected")]
    OutputTaken {
        /// Element name.
        element: String,
        /// Output index.
        port: PortIndex,
    },
}

struct Node {
    name: String,
    element: Box<dyn Element>,
    outputs: Vec<Option<Edge>>,
    slots: Vec<Batch>,
    counters: NodeCounters,
    deadlines: [Instant; TimerId::COUNT],
    /// While costs are taken.
    cost: Option<Box<ElementCost>>,
}

struct Delivery {
    edge: Edge,
    batch: Batch,
    hops: u16,
}

/// What an element is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Packets are handed in that were handed on so often before.
    Push { packets: u64, hops: u16 },
    /// A timer, or room in a port.
    Wake,
}

/// Drives a graph of elements. Single-threaded; one per worker. Owns the packet pool handle, the random stream, the
/// timers and the transmit queues.
pub struct Driver {
    nodes: Vec<Option<Node>>,
    /// Places of removed elements.
    free: Vec<u32>,
    /// Elements that are to go, and when at the latest.
    draining: Vec<(NodeId, Instant)>,
    world: World,
    timers: BinaryHeap<Reverse<(Instant, NodeId, TimerId)>>,
    queue: VecDeque<Delivery>,
    spare: Vec<Batch>,
    icmp: Option<NodeId>,
    now: Instant,
    left_behind: u64,
    /// While costs are taken.
    meter: Option<Meter>,
}

impl Driver {
    /// Most deliveries one packet may cause in one step before it is dropped as [`DropReason::LoopLimit`].
    pub const MAX_HOPS: u16 = 256;

    /// An empty graph. `seed` fixes every random decision.
    pub fn new(pool: Pool, seed: u64) -> Self {
        Self {
            nodes: Vec::new(),
            free: Vec::new(),
            draining: Vec::new(),
            world: World {
                pool,
                rng: Pcg64Mcg::seed_from_u64(seed),
                transmit: Vec::new(),
                room: Vec::new(),
                rejects: Vec::new(),
                local: Batch::new(),
                timers: Vec::with_capacity(16),
                ends: Ends::default(),
                trace: None,
            },
            timers: BinaryHeap::new(),
            queue: VecDeque::new(),
            spare: Vec::new(),
            icmp: None,
            now: Instant::ZERO,
            left_behind: 0,
            meter: None,
        }
    }

    /// Takes costs of all elements from now on, anew, or no longer. Without them no clock is read.
    pub fn set_costs(&mut self, config: Option<CostConfig>) {
        self.meter = config.map(Meter::new);
        for node in self.nodes.iter_mut().flatten() {
            node.cost = self.meter.as_mut().map(Meter::fresh);
        }
    }
    /// Costs of an element since [`Driver::set_costs`] or since it was added; `None` while none are taken.
    pub fn cost(&self, id: NodeId) -> Option<&ElementCost> {
        self.node(id)?.cost.as_deref()
    }

    /// Traces packets from now on, anew, or no longer. Without a trace no clock is read.
    pub fn set_trace(&mut self, config: Option<TraceConfig>) {
        let buffers = self.world.pool.counters().capacity as usize;
        self.world.trace = config.map(|config| Box::new(DelayTrace::new(config, buffers)));
    }
    /// The trace; `None` while packets are not traced.
    pub fn trace(&self) -> Option<&DelayTrace> {
        self.world.trace.as_deref()
    }

    /// Makes room for ports 0 … `count` − 1.
    pub fn set_port_count(&mut self, count: usize) {
        self.world.transmit.resize_with(count, Batch::new);
        self.world.room.resize(count, u32::MAX);
    }

    /// Adds an element with `outputs` unconnected outputs. It may take the place, and with it the id, of a removed one.
    pub fn add(&mut self, name: &str, element: Box<dyn Element>, outputs: usize) -> NodeId {
        let node = Node {
            name: name.to_owned(),
            element,
            outputs: vec![None; outputs],
            slots: (0..outputs).map(|_| Batch::new()).collect(),
            counters: NodeCounters::default(),
            deadlines: [Instant::FAR_FUTURE; TimerId::COUNT],
            cost: self.meter.as_mut().map(Meter::fresh),
        };
        // A timer that the removed one left behind wakes the new one only at a time that this asked for itself.
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = Some(node);
                NodeId(at)
            }
            None => {
                self.nodes.push(Some(node));
                NodeId(self.nodes.len() as u32 - 1)
            }
        }
    }

    /// Connects an output.
    ///
    /// # Errors
    /// No such element, or the output is taken.
    pub fn connect(
        &mut self,
        from: NodeId,
        output: PortIndex,
        to: NodeId,
        input: PortIndex,
    ) -> Result<(), DriverError> {
        if self.node(to).is_none() {
            return Err(DriverError::NoElement(to));
        }
        let Some(node) = self.nodes.get_mut(from.0 as usize).and_then(Option::as_mut) else {
            return Err(DriverError::NoElement(from));
        };
        let at = output as usize;
        if at >= node.outputs.len() {
            node.outputs.resize(at + 1, None);
            node.slots.resize_with(at + 1, Batch::new);
        }
        if node.outputs[at].is_some() {
            return Err(DriverError::OutputTaken { element: node.name.clone(), port: output });
        }
        node.outputs[at] = Some(Edge { to, input });
        Ok(())
    }

    /// Names the element that answers rejected packets; it is woken after each step that rejected any.
    pub fn set_icmp(&mut self, id: Option<NodeId>) {
        self.icmp = id;
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize).and_then(Option::as_ref)
    }

    /// The element called `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.ids().find(|id| self.node(*id).is_some_and(|n| n.name == name))
    }
    /// All live elements.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.nodes.len() as u32).map(NodeId).filter(|id| self.node(*id).is_some())
    }
    /// Name of an element; empty for a removed one.
    pub fn name(&self, id: NodeId) -> &str {
        self.node(id).map_or("", |n| &n.name)
    }
    /// Connections of an element's outputs.
    pub fn edges(&self, id: NodeId) -> &[Option<Edge>] {
        self.node(id).map_or(&[], |n| &n.outputs)
    }
    /// An element.
    pub fn element(&self, id: NodeId) -> Option<&dyn Element> {
        self.node(id).map(|n| n.element.as_ref())
    }
    /// An element, mutable.
    pub fn element_dyn_mut(&mut self, id: NodeId) -> Option<&mut dyn Element> {
        match self.nodes.get_mut(id.0 as usize) {
            Some(Some(n)) => Some(n.element.as_mut()),
            _ => None,
        }
    }
    /// An element as its concrete type.
    pub fn element_mut<T: Element>(&mut self, id: NodeId) -> Option<&mut T> {
        self.element_dyn_mut(id)?.as_any_mut().downcast_mut()
    }
    /// An element as its concrete type, shared.
    pub fn element_ref<T: Element>(&self, id: NodeId) -> Option<&T> {
        self.element(id)?.as_any().downcast_ref()
    }
    /// Takes an element out; its timers and connections into it are forgotten, and its id may become another's. Packets
    /// it holds go along.
    pub fn remove(&mut self, id: NodeId) -> Option<Box<dyn Element>> {
        let node = self.nodes.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        self.draining.retain(|(other, _)| *other != id);
        self.icmp = self.icmp.filter(|icmp| *icmp != id);
        for other in self.nodes.iter_mut().flatten() {
            for edge in &mut other.outputs {
                if edge.is_some_and(|e| e.to == id) {
                    *edge = None;
                }
            }
        }
        Some(node.element)
    }

    /// Puts `element` in the place of another: name, books, timers and connections into it stay. The old element comes
    /// back; packets it still holds must have moved, see [`Driver::drop_held`].
    pub fn replace(&mut self, id: NodeId, element: Box<dyn Element>) -> Option<Box<dyn Element>> {
        let node = self.nodes.get_mut(id.0 as usize)?.as_mut()?;
        Some(std::mem::replace(&mut node.element, element))
    }

    /// Sets all connections of an element's outputs.
    pub fn set_outputs(&mut self, id: NodeId, outputs: Vec<Option<Edge>>) {
        if let Some(Some(node)) = self.nodes.get_mut(id.0 as usize) {
            node.slots.resize_with(outputs.len().max(node.slots.len()), Batch::new);
            node.outputs = outputs;
            node.outputs.resize(node.slots.len(), None);
        }
    }

    /// Remembers that an element is to go when it is empty, at `until` in any case. Who removes it is the caller's
    /// concern.
    pub fn set_draining(&mut self, id: NodeId, until: Instant) {
        if self.node(id).is_some() {
            self.draining.push((id, until));
        }
    }
    /// Elements that are to go, and when at the latest.
    pub fn draining(&self) -> &[(NodeId, Instant)] {
        &self.draining
    }

    /// Renames an element.
    pub fn rename(&mut self, id: NodeId, name: &str) {
        if let Some(Some(node)) = self.nodes.get_mut(id.0 as usize) {
            name.clone_into(&mut node.name);
        }
    }

    /// Drops everything an element holds, for `reason`. Returns the number of packets.
    pub fn drop_held(&mut self, id: NodeId, reason: DropReason) -> u64 {
        let Some(Some(node)) = self.nodes.get_mut(id.0 as usize) else { return 0 };
        let mut held = Batch::new();
        node.element.drain(&mut held);
        let n = held.len() as u64;
        node.counters.dropped += n;
        node.counters.drops[reason.index()] += n;
        for packet in held.iter() {
            self.world.ends.note(self.now, packet, Some(reason));
        }
        held.release_all();
        n
    }

    /// Packets that left by `port` since they were last taken; the owner sends them and leaves the batch empty or
    /// keeps the rest inside.
    pub fn transmit_queue(&mut self, port: PortId) -> Option<&mut Batch> {
        self.world.transmit.get_mut(port.index())
    }
    /// Packets for this machine since they were last taken.
    pub fn local_queue(&mut self) -> &mut Batch {
        &mut self.world.local
    }
    /// Tells how many packets a port can take.
    pub fn set_port_room(&mut self, port: PortId, packets: u32) {
        if let Some(room) = self.world.room.get_mut(port.index()) {
            *room = packets;
        }
    }
    /// As [`Cx::take_ends`].
    pub fn take_ends(&mut self, into: &mut Vec<PacketEnd>) -> u64 {
        self.world.ends.take(into)
    }
    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.world.pool
    }
    /// The latest time given.
    pub fn now(&self) -> Instant {
        self.now
    }
    /// Packets elements left in a batch they were given: a defect of theirs.
    pub fn left_behind(&self) -> u64 {
        self.left_behind
    }

    /// Gives `batch` to input `port` of `id` and runs until nothing moves. `now` never goes back.
    pub fn push(&mut self, now: Instant, id: NodeId, port: PortIndex, batch: &mut Batch) {
        self.advance(now);
        let mut mine = self.spare.pop().unwrap_or_default();
        mine.append(batch);
        if let Some(trace) = &mut self.world.trace {
            trace.arrive(&mut mine);
        }
        self.deliver(Delivery { edge: Edge { to: id, input: port }, batch: mine, hops: 0 });
        self.run();
        if let Some(trace) = &mut self.world.trace {
            trace.settled();
        }
    }

    /// Runs every timer due at `now`. Returns the number of elements woken.
    pub fn poll(&mut self, now: Instant) -> usize {
        self.advance(now);
        let mut woken = 0;
        while let Some(Reverse((at, id, timer))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            self.timers.pop();
            woken += usize::from(self.fire(at, id, timer));
            self.run();
        }
        woken
    }

    /// Wakes one element now, as if its timer were due: after its port got room again, for example.
    pub fn wake(&mut self, now: Instant, id: NodeId, timer: TimerId) {
        self.advance(now);
        self.call(id, Call::Wake, |element, cx| element.wake(cx, timer));
        self.run();
    }

    /// When [`Driver::poll`] has something to do.
    pub fn next_wakeup(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, id, timer))) = self.timers.peek().copied() {
            let live = self.node(id).is_some_and(|n| n.deadlines[timer.0 as usize] == at);
            if live {
                return Some(at);
            }
            self.timers.pop();
        }
        None
    }

    fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = self.now.max(now);
    }

    fn fire(&mut self, at: Instant, id: NodeId, timer: TimerId) -> bool {
        match self.nodes.get_mut(id.0 as usize) {
            Some(Some(node)) if node.deadlines[timer.0 as usize] == at => {
                node.deadlines[timer.0 as usize] = Instant::FAR_FUTURE;
            }
            _ => return false,
        }
        self.call(id, Call::Wake, |element, cx| element.wake(cx, timer));
        true
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.queue.push_back(delivery);
    }

    fn run(&mut self) {
        loop {
            while let Some(mut d) = self.queue.pop_front() {
                if d.batch.len() > Batch::MAX {
                    let mut rest = self.spare.pop().unwrap_or_default();
                    let mut first = self.spare.pop().unwrap_or_default();
                    for packet in d.batch.drain_first(Batch::MAX) {
                        first.push(packet);
                    }
                    rest.append(&mut d.batch);
                    self.recycle(d.batch);
                    self.queue.push_front(Delivery { edge: d.edge, batch: rest, hops: d.hops });
                    d.batch = first;
                }
                self.deliver_one(d);
            }
            match self.icmp {
                Some(icmp) if !self.world.rejects.is_empty() => {
                    self.call(icmp, Call::Wake, |element, cx| element.wake(cx, TimerId::MAIN));
                    // What the element did not take gets no answer; asking again would not end.
                    for (packet, _) in self.world.rejects.drain(..) {
                        packet.release();
                    }
                }
                _ => break,
            }
        }
        if self.icmp.is_none() {
            for (packet, _) in self.world.rejects.drain(..) {
                packet.release();
            }
        }
    }

    fn deliver_one(&mut self, mut d: Delivery) {
        let input = d.edge.input;
        let over = d.hops > Self::MAX_HOPS;
        let mut left = 0;
        let batch = &mut d.batch;
        let call = Call::Push { packets: batch.len() as u64, hops: d.hops };
        let known = self.call(d.edge.to, call, |element, cx| {
            cx.counters.received += batch.len() as u64;
            if over {
                for packet in batch.drain() {
                    cx.drop(packet, DropReason::LoopLimit);
                }
                return;
            }
            if let Some(trace) = cx.world.trace.as_mut().filter(|t| t.is_looking()) {
                trace.meet(batch, element.held());
            }
            element.push(cx, input, batch);
            left = batch.len();
        });
        debug_assert!(left == 0, "{} left {left} packets in its batch", self.name(d.edge.to));
        if !known || left > 0 {
            self.left_behind += d.batch.len() as u64;
            d.batch.release_all();
        }
        self.recycle(d.batch);
    }

    fn recycle(&mut self, batch: Batch) {
        if self.spare.len() < 64 {
            self.spare.push(batch);
        }
    }

    /// Calls an element with a context, queues what it emitted and books its timers. `false`: no such element.
    fn call(&mut self, id: NodeId, call: Call, f: impl FnOnce(&mut dyn Element, &mut Cx<'_>)) -> bool {
        let Some(Some(node)) = self.nodes.get_mut(id.0 as usize) else { return false };
        let (packets, hops) = match call {
            Call::Push { packets, hops } => (Some(packets), hops),
            Call::Wake => (None, 0),
        };
        let metered = self.meter.as_mut().zip(node.cost.as_deref_mut());
        let timing = metered.map(|(meter, cost)| Timing::begin(meter, cost, packets, &node.counters));
        let mut cx = Cx {
            now: self.now,
            slots: &mut node.slots,
            counters: &mut node.counters,
            world: &mut self.world,
        };
        f(node.element.as_mut(), &mut cx);
        if let Some(timing) = timing {
            timing.end(&node.counters);
        }
        for (slot, output) in node.slots.iter_mut().zip(&node.outputs) {
            if slot.is_empty() {
                continue;
            }
            match output {
                Some(edge) => {
                    let batch = std::mem::replace(slot, self.spare.pop().unwrap_or_default());
                    self.queue.push_back(Delivery { edge: *edge, batch, hops: hops + 1 });
                }
                None => {
                    let n = slot.len() as u64;
                    node.counters.emitted -= n;
                    node.counters.dropped += n;
                    node.counters.drops[DropReason::Unconnected.index()] += n;
                    slot.release_all();
                }
            }
        }
        for (timer, at) in self.world.timers.drain(..) {
            let deadline = &mut node.deadlines[timer.0 as usize % TimerId::COUNT];
            if at < *deadline {
                *deadline = at;
                self.timers.push(Reverse((at, id, timer)));
            }
        }
        true
    }

    /// Books of one element.
    pub fn counters(&self, id: NodeId) -> Option<&NodeCounters> {
        self.node(id).map(|n| &n.counters)
    }

    /// All counters of an element: books, drops by reason, its own.
    pub fn report(&self, id: NodeId, sink: &mut dyn CounterSink) {
        let Some(node) = self.node(id) else { return };
        let c = &node.counters;
        sink.counter("received", c.received);
        sink.counter("made", c.made);
        sink.counter("emitted", c.emitted);
        sink.counter("consumed", c.consumed);
        sink.counter("dropped", c.dropped);
        sink.gauge("held", node.element.held());
        for (index, n) in c.drops.iter().enumerate().filter(|(_, n)| **n > 0) {
            if let Some(name) = DropReason::name_of_index(index) {
                sink.counter(&format!("dropped_{name}"), *n);
            }
        }
        node.element.counters(sink);
    }

    /// Checks the conservation law for every element.
    ///
    /// # Errors
    /// Every element whose books do not balance.
    pub fn check_conservation(&self) -> Result<(), Vec<ConservationError>> {
        let errors: Vec<_> = self
            .nodes
            .iter()
            .flatten()
            .filter_map(|n| n.counters.check(&n.name, n.element.held()).err())
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}
