//! The data half: a running graph and what is addressed in it.

use super::change::{Change, ChangeStep};
use super::moved::{Left, LeftSlots};
use super::plan::RouterPlanner;
use super::tree::Freed;
use crate::lang::{Built, GraphError, build, parse};
use crate::swap;
use perhop_abr::{Abr, AbrChange};
use perhop_element::{ConservationError, Driver, Edge, Element, NodeId, PacketEnd, TimerId};
use perhop_elements::plumbing::FromPort;
use perhop_elements::police::Conditioner;
use perhop_elements::queue::Wait;
use perhop_elements::route::{IcmpError, Route};
use perhop_elements::schedule::{
    ClassTree, Egress, EgressChange, FreedSlot, NodeIndex, TreeChange, TreeEdit,
};
use perhop_flows::{FlowEvent, Flows, Steer};
use perhop_packet::{Batch, Pool, PortId};
use perhop_units::{Instant, Rate};
use std::net::IpAddr;
use thiserror::Error;

/// Steps of work on trees between two batches: within 20 µs on the slowest machine this runs on. What the moment of a change
/// costs comes on top, see [`Worker::flip`].
const STAGE_EDITS: usize = 64;
/// Slots left by their classes that are looked at in a turn.
const LEFT_LOOKS: usize = 32;

/// Why a worker cannot be made.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The graph text.
    #[error("the packet graph: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Graph(Vec<GraphError>),
}

/// What a worker tells.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerEvent {
    /// A flow was recognised or ended.
    Flow(FlowEvent),
    /// A removed class of a port's tree is empty, or a whole tree is gone.
    Freed(Freed),
    /// Somebody must find out a neighbour's hardware address.
    NeighbourWanted {
        /// Port.
        port: PortId,
        /// Address.
        address: IpAddr,
    },
}

impl From<Freed> for WorkerEvent {
    fn from(freed: Freed) -> Self {
        Self::Freed(freed)
    }
}

/// Where the addressed elements are.
#[derive(Clone, Debug, Default)]
struct Roles {
    from: Vec<Option<NodeId>>,
    egress: Vec<Option<NodeId>>,
    steer: Option<NodeId>,
    flows: Option<NodeId>,
    conditioner: Option<NodeId>,
    abr: Option<NodeId>,
    route: Option<NodeId>,
    icmp: Option<NodeId>,
    /// Replaced ways out that still send what they hold.
    leaving: Vec<Leaving>,
}

/// A replaced way out. Its port's line is one: what it sends, its successor waits for.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    port: PortId,
    id: NodeId,
    /// Packets and bytes the successor was charged for.
    charged: (u64, u64),
}

/// Forwards packets through a graph and applies changes between batches. Single-threaded, sans-I/O.
pub struct Worker {
    driver: Driver,
    roles: Roles,
    ports: usize,
    freed: Vec<FreedSlot>,
    /// Slots of changes for ports without a way out.
    absent: Vec<(PortId, u32, FreedSlot)>,
    /// Slots that their classes left and that may still hold packets.
    left_slots: LeftSlots,
    /// Elements removed since the last change, and how many of them were told of.
    left: Vec<Box<dyn Element>>,
    told_left: usize,
    flow_events: Vec<FlowEvent>,
    wanted: Vec<(PortId, IpAddr)>,
    ends: Vec<PacketEnd>,
}

impl Worker {
    /// Builds the graph of `text` with the planner's ports and names.
    ///
    /// # Errors
    /// Everything wrong with the text.
    pub fn new(text: &str, planner: &mut RouterPlanner, pool: Pool, seed: u64) -> Result<Self, WorkerError> {
        let graph = parse(text).map_err(WorkerError::Graph)?;
        let registry = planner.registry().clone();
        let built = build(text, graph, &registry, planner.build_cx()).map_err(WorkerError::Graph)?;
        planner.set_graph(built.graph.clone());
        let ports = planner.ports().len();
        let mut driver = Driver::new(pool, seed);
        driver.set_port_count(ports);
        swap::swap(&mut driver, Instant::ZERO, built, &mut Vec::new());
        let mut worker = Self {
            driver,
            roles: Roles::default(),
            ports,
            freed: Vec::new(),
            absent: Vec::new(),
            left_slots: LeftSlots::default(),
            left: Vec::new(),
            told_left: 0,
            flow_events: Vec::new(),
            wanted: Vec::new(),
            ends: Vec::new(),
        };
        worker.find_roles();
        for (number, port) in (0..).zip(planner.ports()).filter(|(_, port)| port.spec.rate != Rate::ZERO) {
            worker.begin(PortId(number), port.spec.rate);
        }
        Ok(worker)
    }

    /// A port has its rate before the first packet, not only from the first transaction on; one without has what the graph says.
    fn begin(&mut self, port: PortId, rate: Rate) {
        let id = self.roles.egress.get(port.index()).copied().flatten();
        let Some(egress) = id.and_then(|id| self.driver.element_mut::<Egress>(id)) else { return };
        let tree = TreeChange::prepare(vec![TreeEdit::Rate(rate)]);
        let (generation, leaf_map) = (egress.generation(), egress.leaf_map().clone());
        egress.commit(Instant::ZERO, &mut EgressChange { generation, tree, leaf_map });
    }

    fn find_roles(&mut self) {
        let d = &self.driver;
        let mut roles =
            Roles { from: vec![None; self.ports], egress: vec![None; self.ports], ..Roles::default() };
        for id in d.ids().filter(|id| !d.name(*id).starts_with(swap::RETIRED)) {
            if let Some(e) = d.element_ref::<FromPort>(id) {
                if let Some(slot) = roles.from.get_mut(e.port().index()) {
                    *slot = Some(id);
                }
            } else if let Some(e) = d.element_ref::<Egress>(id) {
                if let Some(slot) = roles.egress.get_mut(e.port().index()) {
                    *slot = Some(id);
                }
            } else if d.element_ref::<Flows>(id).is_some() {
                roles.flows = Some(id);
            } else if d.element_ref::<Steer>(id).is_some() {
                roles.steer = Some(id);
            } else if d.element_ref::<Conditioner>(id).is_some() {
                roles.conditioner = Some(id);
            } else if d.element_ref::<Abr>(id).is_some() {
                roles.abr = Some(id);
            } else if d.element_ref::<Route>(id).is_some() {
                roles.route = Some(id);
            } else if d.element_ref::<IcmpError>(id).is_some() {
                roles.icmp = Some(id);
            }
        }
        for id in d.ids().filter(|id| d.name(*id).starts_with(swap::RETIRED)) {
            let Some(e) = d.element_ref::<Egress>(id) else { continue };
            let known = self.roles.leaving.iter().find(|l| l.id == id).map(|l| l.charged);
            roles.leaving.push(Leaving { port: e.port(), id, charged: known.unwrap_or_else(|| e.sent()) });
        }
        self.driver.set_icmp(roles.icmp);
        self.roles = roles;
    }

    /// The driver, for counters and tests.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The driver, mutable.
    pub fn driver_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }

    /// Takes a batch received at `port` through the graph. Packets of a port that the graph does not read are released.
    pub fn receive(&mut self, now: Instant, port: PortId, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        match self.roles.from.get(port.index()).copied().flatten() {
            Some(id) => self.driver.push(now, id, 0, batch),
            None => batch.release_all(),
        }
    }

    /// Takes a batch that this machine itself sends by `port` through the graph. Without such a port it is released.
    pub fn send_own(&mut self, now: Instant, port: PortId, batch: &mut Batch) {
        match self.roles.from.get(port.index()).copied().flatten().filter(|_| !batch.is_empty()) {
            Some(id) => self.driver.push(now, id, FromPort::OWN, batch),
            None => batch.release_all(),
        }
    }

    /// Goes on with packets of this worker's flows that another worker received.
    pub(super) fn enter(&mut self, now: Instant, batch: &mut Batch) {
        let next = self.roles.steer.and_then(|id| self.driver.edges(id).first().copied().flatten());
        match next {
            Some(Edge { to, input }) => self.driver.push(now, to, input, batch),
            None => batch.release_all(),
        }
    }

    /// Goes on with packets for a port of this worker that another worker sorted.
    pub(super) fn enqueue(&mut self, now: Instant, port: PortId, batch: &mut Batch) {
        match self.roles.egress.get(port.index()).copied().flatten() {
            Some(id) => self.driver.push(now, id, 0, batch),
            None => batch.release_all(),
        }
    }

    /// Has the flows take what became of packets of calls.
    pub(super) fn hear_ends(&mut self) {
        let Some(id) = self.roles.flows else { return };
        let mut ends = std::mem::take(&mut self.ends);
        let missed = self.driver.take_ends(&mut ends);
        if let Some(flows) = self.driver.element_mut::<Flows>(id) {
            flows.hear_ends(&mut ends, missed);
        }
        self.ends = ends;
    }

    pub(super) fn flows_mut(&mut self) -> Option<&mut Flows> {
        self.driver.element_mut(self.roles.flows?)
    }

    pub(super) fn abr_mut(&mut self) -> Option<&mut Abr> {
        self.driver.element_mut(self.roles.abr?)
    }

    pub(super) fn flows_node(&self) -> Option<NodeId> {
        self.roles.flows
    }

    /// Those that packets pass behind the flows and in front of the trees, and that may keep some for a while.
    pub(super) fn holding_nodes(&self) -> [Option<NodeId>; 2] {
        [self.roles.abr, self.roles.route]
    }

    pub(super) fn steer_mut(&mut self) -> Option<&mut Steer> {
        self.driver.element_mut(self.roles.steer?)
    }

    /// Lets `others` condition by the tables of this one.
    pub(super) fn share_conditioner(&mut self, others: Vec<&mut Self>) {
        let Some(id) = self.roles.conditioner else { return };
        let Some(first) = self.driver.element_mut::<Conditioner>(id) else { return };
        for (conditioner, other) in first.share(others.len()).into_iter().zip(others) {
            if let Some(id) = other.roles.conditioner {
                other.driver.replace(id, Box::new(conditioner));
            }
        }
    }

    /// Runs the timers due at `now`.
    pub fn poll(&mut self, now: Instant) -> usize {
        self.driver.poll(now)
    }

    /// When [`Worker::poll`] has something to do.
    pub fn next_wakeup(&mut self) -> Option<Instant> {
        self.driver.next_wakeup()
    }

    /// Packets to be sent by `port` now.
    pub fn transmit_queue(&mut self, port: PortId) -> Option<&mut Batch> {
        self.driver.transmit_queue(port)
    }

    /// Packets for this machine.
    pub fn local_queue(&mut self) -> &mut Batch {
        self.driver.local_queue()
    }

    /// Tells how many packets a port takes; a port that has room again goes on.
    pub fn set_port_room(&mut self, now: Instant, port: PortId, packets: u32) {
        self.driver.set_port_room(port, packets);
        if packets == 0 {
            return;
        }
        // What was there first leaves first.
        for at in 0..self.roles.leaving.len() {
            let Leaving { port: of, id, .. } = self.roles.leaving[at];
            if of == port && self.driver.element(id).is_some_and(|e| e.held() > 0) {
                self.driver.wake(now, id, TimerId::MAIN);
            }
        }
        if let Some(id) = self.roles.egress.get(port.index()).copied().flatten()
            && self.driver.element(id).is_some_and(|e| e.held() > 0)
        {
            self.driver.wake(now, id, TimerId::MAIN);
        }
    }

    /// The kernel sent this itself by `port`: the line is busy that much longer.
    pub fn port_sent_by_kernel(&mut self, now: Instant, port: PortId, packets: u64, bytes: u64) {
        let Some(egress) = self.egress_mut(port) else { return };
        let Some(mean) = bytes.checked_div(packets) else { return };
        for _ in 0..packets.min(1024) {
            egress.debit(now, mean as u32);
        }
    }

    pub(super) fn egress_mut(&mut self, port: PortId) -> Option<&mut Egress> {
        let id = self.roles.egress.get(port.index()).copied().flatten()?;
        self.driver.element_mut(id)
    }

    /// Keeps from now on how long packets wait at every port; again and again, it takes in ports that are new.
    pub fn log_waits(&mut self) {
        for port in 0..self.roles.egress.len() {
            if let Some(egress) = self.egress_mut(PortId(port as u16)) {
                egress.log_waits();
            }
        }
    }

    /// The waits kept at a port, see [`Egress::take_waits`]; keeps no more there.
    pub fn take_waits(&mut self, port: PortId) -> Vec<Wait> {
        self.egress_mut(port).map_or_else(Vec::new, Egress::take_waits)
    }

    /// Smallest and largest bytes that waited in a class at a port since the last call, see [`Egress::length_range`].
    pub fn length_range(&mut self, now: Instant, port: PortId, class: NodeIndex) -> Option<[u64; 2]> {
        self.egress_mut(port)?.length_range(now, class)
    }

    /// A port's way out.
    pub fn egress(&self, port: PortId) -> Option<&Egress> {
        let id = self.roles.egress.get(port.index()).copied().flatten()?;
        self.driver.element_ref(id)
    }

    /// The flows element.
    pub fn flows(&self) -> Option<&Flows> {
        self.driver.element_ref(self.roles.flows?)
    }

    /// The conditioner.
    pub fn conditioner(&self) -> Option<&Conditioner> {
        self.driver.element_ref(self.roles.conditioner?)
    }

    /// The TCP rate control.
    pub fn abr(&self) -> Option<&Abr> {
        self.driver.element_ref(self.roles.abr?)
    }

    /// The route element.
    pub fn route(&self) -> Option<&Route> {
        self.driver.element_ref(self.roles.route?)
    }

    /// Applies a change, at most `STAGE_EDITS` steps on trees a call: what no packet notices, then in one piece everything by
    /// which packets are sorted (see `flip` for what it costs), then what the trees still have to do.
    pub fn apply(&mut self, now: Instant, change: &mut Change) -> ChangeStep {
        let mut budget = STAGE_EDITS;
        // Those that nobody was told of yet stay for the next call of `take_events`.
        change.left.extend(self.left.drain(..self.told_left));
        self.told_left = 0;
        if !change.flipped {
            if !self.stage(now, change, &mut budget) {
                return ChangeStep::More;
            }
            if let Some(mut built) = change.graph.take() {
                if let Some(abr) = &change.abr {
                    give_policies(&mut built, abr);
                }
                swap::swap(&mut self.driver, now, built, &mut self.left);
                self.find_roles();
            }
            self.flip(now, change);
            change.flipped = true;
            debug_assert!(change.graph.is_none(), "its graph runs");
        }
        if !self.finish(now, change, &mut budget) {
            return ChangeStep::More;
        }
        self.left_slots.add(&mut change.left_slots);
        ChangeStep::Done
    }

    /// Takes some steps of what no packet notices. `true` when all are done: the next [`Worker::apply`] puts the change into
    /// force.
    pub(super) fn stage_all(&mut self, now: Instant, change: &mut Change) -> bool {
        self.stage(now, change, &mut { STAGE_EDITS })
    }

    /// Adds classes to the trees that will be in force: those of a new graph before it runs.
    fn stage(&mut self, now: Instant, change: &mut Change, budget: &mut usize) -> bool {
        let built = &mut change.graph;
        for (port, c) in &mut change.egress {
            let steps = c.tree.unstaged();
            debug_assert!(self.is_due(*port, c.generation), "changes come in the order they were planned in");
            let running = self.tree_mut(*port, c.generation);
            let Some(egress) = running.or_else(|| fresh_egress(built, *port, c.generation)) else { continue };
            let done = egress.stage(now, c, *budget);
            *budget -= steps - c.tree.unstaged();
            if !done {
                return false;
            }
        }
        true
    }

    /// Brings the trees on from the flip to the end of the change.
    fn finish(&mut self, now: Instant, change: &mut Change, budget: &mut usize) -> bool {
        for (port, c) in &mut change.egress {
            let steps = c.tree.unfinished();
            if steps == 0 {
                continue;
            }
            let done = match self.tree_mut(*port, c.generation) {
                Some(egress) => egress.finish(now, c, *budget),
                None => {
                    let mut freed = std::mem::take(&mut self.freed);
                    let done = ClassTree::pass_over(&mut c.tree, *budget, &mut freed);
                    self.absent.extend(freed.drain(..).map(|f| (*port, c.generation, f)));
                    self.freed = freed;
                    done
                }
            };
            *budget -= (steps - c.tree.unfinished()).min(*budget);
            self.wake_egress(now, *port);
            if !done {
                return false;
            }
        }
        true
    }

    /// Whether a port's tree is not yet past the one meant.
    fn is_due(&self, port: PortId, generation: u32) -> bool {
        self.egress(port).is_none_or(|e| e.generation() <= generation)
    }

    /// A port's way out, if its tree is the one meant.
    fn tree_mut(&mut self, port: PortId, generation: u32) -> Option<&mut Egress> {
        self.egress_mut(port).filter(|e| e.generation() == generation)
    }

    fn wake_egress(&mut self, now: Instant, port: PortId) {
        if let Some(id) = self.roles.egress.get(port.index()).copied().flatten() {
            self.driver.wake(now, id, TimerId::MAIN);
        }
    }

    /// The moment of a change, in one piece: a packet that meets some of it must meet all of it. So it has no budget, and costs
    ///
    /// * a port that changes O(log classes), and with another scheduler O(slots of its tree);
    /// * the conditioner about 30 ns a profile, contract or real-time class that changes, so that some hundred fit into 20 µs;
    /// * the flows some pointers, at most [`perhop_flows::classifier::DeltaLog::AT_ONCE`] conditions to be remembered, and
    ///   O(flows) where admission ends: on the average 0.5 to 0.7 µs whether one of 100,000 filters or 1,000 of them change,
    ///   26 µs the longest time seen (`docs/scale.md`);
    /// * the rate control O(policies), and all its connections with the last policy;
    /// * the routes O(next hops + neighbours that change), and with other ports O(neighbours).
    ///
    /// A new graph comes before it, in O(elements + connections). A change that needs more than 20 µs is one longer pause.
    fn flip(&mut self, now: Instant, change: &mut Change) {
        let mut woken = Vec::new();
        for (port, egress) in &mut change.egress {
            if let Some(element) = self.tree_mut(*port, egress.generation) {
                element.flip(now, egress);
                woken.extend(self.roles.egress.get(port.index()).copied().flatten());
            }
        }
        if let Some(conditioner) = &mut change.conditioner
            && let Some(id) = self.roles.conditioner
            && let Some(element) = self.driver.element_mut::<Conditioner>(id)
        {
            element.commit(now, conditioner);
        }
        if let Some(flows) = change.flows.take()
            && let Some(id) = self.roles.flows
            && let Some(element) = self.driver.element_mut::<Flows>(id)
        {
            // What was replaced travels back with the change, to be freed elsewhere.
            change.flows = Some(element.commit(now, flows));
        }
        if let Some(abr) = change.abr.take()
            && let Some(id) = self.roles.abr
            && let Some(element) = self.driver.element_mut::<Abr>(id)
        {
            change.abr = Some(element.commit(abr));
        }
        if let Some(mut ports) = change.route.as_ref().and_then(|r| r.ports.clone())
            && let Some(id) = self.roles.icmp
            && let Some(element) = self.driver.element_mut::<IcmpError>(id)
        {
            element.set_ports(&mut ports);
        }
        if let Some(route) = &mut change.route
            && let Some(id) = self.roles.route
            && let Some(element) = self.driver.element_mut::<Route>(id)
        {
            // Packets that waited for what has become known leave when the element is woken, below.
            let _ = element.commit(now, route);
            woken.push(id);
        }
        for id in woken {
            self.driver.wake(now, id, TimerId::MAIN);
        }
    }

    /// Moves what happened since the last call to `into`.
    pub fn take_events(&mut self, now: Instant, into: &mut Vec<WorkerEvent>) {
        if let Some(id) = self.roles.flows
            && let Some(element) = self.driver.element_mut::<Flows>(id)
        {
            element.take_events(&mut self.flow_events);
            into.extend(self.flow_events.drain(..).map(WorkerEvent::Flow));
        }
        self.remove_left_slots(now, into);
        self.take_freed(now, into);
        if let Some(id) = self.roles.route
            && let Some(element) = self.driver.element_mut::<Route>(id)
        {
            element.take_neighbour_requests(&mut self.wanted);
            into.extend(
                self.wanted.drain(..).map(|(port, address)| WorkerEvent::NeighbourWanted { port, address }),
            );
        }
    }

    /// Removes slots that their classes left and that are empty; the trees tell that they are free.
    fn remove_left_slots(&mut self, now: Instant, into: &mut Vec<WorkerEvent>) {
        let mut left_slots = std::mem::take(&mut self.left_slots);
        for _ in 0..LEFT_LOOKS.min(left_slots.len()) {
            let Some((port, generation, moved)) = left_slots.next() else { break };
            let index = moved.index;
            let retired = self.roles.leaving.iter().filter_map(|l| self.driver.element_ref::<Egress>(l.id));
            let mut retired = retired.filter(|e| e.port() == port && e.generation() == generation);
            let left = match self.egress(port).filter(|e| e.generation() == generation) {
                Some(egress) => moved.look(egress.tree()),
                // What a replaced tree still holds leaves in its time, and goes with it.
                None if retired.next().is_some() => Left::Removed,
                None => Left::Empty,
            };
            match left {
                Left::Waits => continue,
                Left::Removed => {}
                Left::Empty => self.remove_slot(now, port, generation, index),
            }
            left_slots.forget();
            into.push(Freed::left(port, generation, index).into());
        }
        self.left_slots = left_slots;
    }

    /// Removes an empty slot.
    fn remove_slot(&mut self, now: Instant, port: PortId, generation: u32, index: NodeIndex) {
        match self.tree_mut(port, generation) {
            Some(egress) => {
                let tree = TreeChange::prepare(vec![TreeEdit::Remove { index, drain_until: now }]);
                let leaf_map = egress.leaf_map().clone();
                egress.finish(now, &mut EgressChange { generation, tree, leaf_map }, usize::MAX);
            }
            None => self.absent.push((port, generation, FreedSlot::unused(index))),
        }
    }

    fn take_freed(&mut self, now: Instant, into: &mut Vec<WorkerEvent>) {
        self.charge_for_leaving(now);
        swap::take_retired(&mut self.driver, now, &mut self.left);
        let mut freed = std::mem::take(&mut self.freed);
        let mut tell = |egress: &mut Egress, gone: bool| {
            let (port, generation) = (egress.port(), egress.generation());
            egress.take_freed(&mut freed);
            into.extend(freed.drain(..).map(|f| Freed::slot(port, generation, f).into()));
            into.extend(gone.then(|| Freed::tree(port, generation).into()));
        };
        let leaving = self.roles.leaving.iter().map(|l| l.id);
        for id in self.roles.egress.iter().flatten().copied().chain(leaving) {
            if let Some(egress) = self.driver.element_mut::<Egress>(id) {
                tell(egress, false);
            }
        }
        for element in &mut self.left[self.told_left..] {
            if let Some(egress) = element.as_any_mut().downcast_mut::<Egress>() {
                tell(egress, true);
            }
        }
        self.told_left = self.left.len();
        self.freed = freed;
        let absent = self.absent.drain(..);
        into.extend(absent.map(|(port, generation, f)| Freed::slot(port, generation, f).into()));
        if !self.roles.leaving.is_empty() {
            let driver = &self.driver;
            self.roles.leaving.retain(|l| driver.element_ref::<Egress>(l.id).is_some());
        }
    }

    /// Two queues at one line: what the old one sent, the new one waits for.
    fn charge_for_leaving(&mut self, now: Instant) {
        for at in 0..self.roles.leaving.len() {
            let Leaving { port, id, charged } = self.roles.leaving[at];
            let Some(sent) = self.driver.element_ref::<Egress>(id).map(Egress::sent) else { continue };
            self.roles.leaving[at].charged = sent;
            self.port_sent_by_kernel(now, port, sent.0 - charged.0, sent.1 - charged.1);
        }
    }

    /// Checks the conservation law for every element.
    ///
    /// # Errors
    /// Every element whose books do not balance.
    pub fn check_conservation(&self) -> Result<(), Vec<ConservationError>> {
        self.driver.check_conservation()
    }
}

/// The way out for `port` in a graph that does not run yet.
fn fresh_egress(built: &mut Option<Built>, port: PortId, generation: u32) -> Option<&mut Egress> {
    let nodes = built.as_mut()?.nodes.iter_mut();
    let mut egress = nodes.filter_map(|n| n.element.as_any_mut().downcast_mut::<Egress>());
    let egress = egress.find(|e| e.port() == port)?;
    egress.set_generation(generation);
    Some(egress)
}

/// Tells the rate control of a graph that does not run yet its policies: with the state of its predecessor it takes over
/// only what belongs to them.
fn give_policies(built: &mut Built, change: &AbrChange) {
    let nodes = built.nodes.iter_mut();
    let abr = nodes.filter_map(|n| n.element.as_any_mut().downcast_mut::<Abr>()).last();
    if let Some(abr) = abr {
        // What it was built with is empty.
        let _ = abr.commit(change.clone());
    }
}
