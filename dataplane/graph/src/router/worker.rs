//! The data half: a running graph and what is addressed in it.

use super::change::{Change, ChangeStep};
use super::plan::RouterPlanner;
use crate::lang::{Built, GraphError, build, parse};
use crate::swap;
use perhop_element::{ConservationError, Driver, Edge, NodeId, TimerId};
use perhop_elements::plumbing::FromPort;
use perhop_elements::police::Conditioner;
use perhop_elements::route::{IcmpError, Route};
use perhop_elements::schedule::{Egress, EgressChange};
use perhop_flows::{FlowEvent, Flows};
use perhop_packet::{Batch, Pool, PortId};
use perhop_units::Instant;
use std::net::IpAddr;
use thiserror::Error;

/// Steps of change work between two batches: within 20 µs on the slowest machine this runs on.
const STAGE_EDITS: usize = 64;

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
    /// A removed leaf (or class) of a port's tree is empty.
    LeafFreed {
        /// Port.
        port: PortId,
        /// Slot.
        leaf: u32,
    },
    /// Somebody must find out a neighbour's hardware address.
    NeighbourWanted {
        /// Port.
        port: PortId,
        /// Address.
        address: IpAddr,
    },
}

/// Where the addressed elements are.
#[derive(Clone, Debug, Default)]
struct Roles {
    from: Vec<Option<NodeId>>,
    egress: Vec<Option<NodeId>>,
    flows: Option<NodeId>,
    conditioner: Option<NodeId>,
    route: Option<NodeId>,
    icmp: Option<NodeId>,
}

/// Forwards packets through a graph and applies changes between batches. Single-threaded, sans-I/O.
pub struct Worker {
    driver: Driver,
    roles: Roles,
    ports: usize,
    freed: Vec<perhop_elements::schedule::NodeIndex>,
    flow_events: Vec<FlowEvent>,
    wanted: Vec<(PortId, IpAddr)>,
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
        install(&mut driver, built);
        let mut worker = Self {
            driver,
            roles: Roles::default(),
            ports,
            freed: Vec::new(),
            flow_events: Vec::new(),
            wanted: Vec::new(),
        };
        worker.find_roles();
        Ok(worker)
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
            } else if d.element_ref::<Conditioner>(id).is_some() {
                roles.conditioner = Some(id);
            } else if d.element_ref::<Route>(id).is_some() {
                roles.route = Some(id);
            } else if d.element_ref::<IcmpError>(id).is_some() {
                roles.icmp = Some(id);
            }
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
        if packets > 0
            && let Some(id) = self.roles.egress.get(port.index()).copied().flatten()
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

    fn egress_mut(&mut self, port: PortId) -> Option<&mut Egress> {
        let id = self.roles.egress.get(port.index()).copied().flatten()?;
        self.driver.element_mut(id)
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

    /// The route element.
    pub fn route(&self) -> Option<&Route> {
        self.driver.element_ref(self.roles.route?)
    }

    /// Applies a change, at most [`STAGE_EDITS`] steps a call: what no packet notices, then in one step everything by which
    /// packets are sorted, then what the trees still have to do.
    pub fn apply(&mut self, now: Instant, change: &mut Change) -> ChangeStep {
        let mut budget = STAGE_EDITS;
        if !change.flipped {
            if change.graph.is_none()
                && !self.each_tree(change, |egress, c| {
                    let steps = c.tree.unstaged();
                    let done = egress.stage(now, c, budget);
                    budget -= steps - c.tree.unstaged();
                    done
                })
            {
                return ChangeStep::More;
            }
            if let Some(built) = change.graph.take() {
                swap::swap(&mut self.driver, now, built);
                self.find_roles();
            }
            self.flip(now, change);
            change.flipped = true;
        }
        let mut woken = Vec::new();
        let done = self.each_tree(change, |egress, c| {
            let steps = c.tree.unfinished();
            let done = egress.finish(now, c, budget);
            budget -= steps - c.tree.unfinished();
            if steps > 0 {
                woken.push(egress.port());
            }
            done
        });
        for port in woken {
            self.wake_egress(now, port);
        }
        if done { ChangeStep::Done } else { ChangeStep::More }
    }

    /// Goes on with the tree of each port until one has more to do. `true` when none has.
    fn each_tree(
        &mut self,
        change: &mut Change,
        mut go_on: impl FnMut(&mut Egress, &mut EgressChange) -> bool,
    ) -> bool {
        change.egress.iter_mut().all(|(port, c)| self.egress_mut(*port).is_none_or(|egress| go_on(egress, c)))
    }

    fn wake_egress(&mut self, now: Instant, port: PortId) {
        if let Some(id) = self.roles.egress.get(port.index()).copied().flatten() {
            self.driver.wake(now, id, TimerId::MAIN);
        }
    }

    fn flip(&mut self, now: Instant, change: &mut Change) {
        let mut woken = Vec::new();
        for (port, egress) in &mut change.egress {
            if let Some(element) = self.egress_mut(*port) {
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
        swap::collect_retired(&mut self.driver, now);
        if let Some(id) = self.roles.flows
            && let Some(element) = self.driver.element_mut::<Flows>(id)
        {
            element.take_events(&mut self.flow_events);
            into.extend(self.flow_events.drain(..).map(WorkerEvent::Flow));
        }
        for port in 0..self.ports {
            let port = PortId(port as u16);
            let mut freed = std::mem::take(&mut self.freed);
            if let Some(egress) = self.egress_mut(port) {
                egress.take_freed(&mut freed);
            }
            into.extend(freed.drain(..).map(|n| WorkerEvent::LeafFreed { port, leaf: n.0 }));
            self.freed = freed;
        }
        if let Some(id) = self.roles.route
            && let Some(element) = self.driver.element_mut::<Route>(id)
        {
            element.take_neighbour_requests(&mut self.wanted);
            into.extend(
                self.wanted.drain(..).map(|(port, address)| WorkerEvent::NeighbourWanted { port, address }),
            );
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

/// Adds every element and connection of a graph to an empty driver.
fn install(driver: &mut Driver, built: Built) {
    let Built { graph, nodes } = built;
    let ids: Vec<NodeId> = nodes.into_iter().map(|n| driver.add(&n.name, n.element, n.outputs)).collect();
    let mut outputs: Vec<Vec<Option<Edge>>> =
        ids.iter().map(|id| vec![None; driver.edges(*id).len()]).collect();
    for e in &graph.edges {
        let of = &mut outputs[e.from];
        if of.len() <= e.output as usize {
            of.resize(e.output as usize + 1, None);
        }
        of[e.output as usize] = Some(Edge { to: ids[e.to], input: e.input });
    }
    for (id, outputs) in ids.into_iter().zip(outputs) {
        driver.set_outputs(id, outputs);
    }
}
