//! A Perhop router as a node: the very control and worker of `perhop router run`, under the simulator's clock.

use crate::admission::AdmissionWatch;
use crate::agent::AgentNode;
use crate::error::SimError;
use crate::frame::mac;
use ipnet::{IpNet, Ipv4Net};
use perhop_elements::route::{NeighbourState, NeighbourUpdate, NextHop, PortInfo, RouteEntry, RouteKind};
use perhop_elements::schedule::Egress;
use perhop_graph::router::{EdgeOptions, EdgePort, VirtualRouter};
use perhop_measure::AdmissionRecord;
use perhop_model::{Credentials, Object, Op, Outcome, Owner, Transaction, TxnId};
use perhop_packet::{DropReason, Packet, Pool, PortId};
use perhop_routerfile::RouterFile;
use perhop_scenario::{
    LinkIndex, NodeIndex, NodeKind, Paths, RouterChange, RouterObjects, RouterObjectsError, RouterOnLinks,
    Scenario,
};
use perhop_units::{Instant, Rate};
use std::net::IpAddr;

/// Largest IP packet of a simulated interface.
const MTU: u32 = 1500;

/// Where random numbers of a router come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouterSeeds {
    /// Of its elements.
    pub(crate) router: u64,
    /// Of its agent.
    pub(crate) agent: u64,
}

/// The node.
pub(crate) struct RouterNode {
    router: VirtualRouter,
    /// Link and end of each port, by [`PortId`].
    ports: Vec<(LinkIndex, usize)>,
    /// Its file, and the rates that its links have now.
    links: RouterOnLinks,
    name: String,
    transactions: u64,
    agent: Option<AgentNode>,
    admission: AdmissionWatch,
    losses: Losses,
}

/// What its elements had dropped when last looked at: all together, and by the index of the reason without the queues of
/// its ports, which are told by class.
#[derive(Clone, Debug)]
struct Losses {
    dropped: u64,
    by_reason: [u64; DropReason::COUNT],
}

impl RouterNode {
    /// Builds the router of a node and gives it its file.
    pub(crate) fn new(
        scenario: &Scenario,
        node: NodeIndex,
        paths: &Paths,
        pool: &Pool,
        seeds: RouterSeeds,
    ) -> Result<Self, SimError> {
        let described = &scenario.nodes[node.0];
        let name = || described.name.clone();
        let NodeKind::Router(config) = &described.kind else {
            return Err(SimError::Router { node: name(), why: "it is not a router".to_owned() });
        };
        let links = RouterOnLinks::new(scenario, node, config);
        let RouterObjects { file, ports, .. } = links.objects().map_err(|e| of_objects(name(), e))?;
        let edge = EdgePort::of_objects(&file.objects);
        let connections = file.router.max_flows.min(1 << 20);
        let options = EdgeOptions::exact(connections)
            .with_abr(file.router.abr_connections().min(connections))
            .with_abr_credit(file.router.abr_credit)
            .with_abr_spread(file.router.abr_spread)
            .with_storm_limit(file.router.storm_limit);
        let router = VirtualRouter::with_pool(edge, pool.clone(), &options, seeds.router)
            .map_err(|e| SimError::Router { node: name(), why: e.to_string() })?;
        let admission = AdmissionWatch::default();
        let losses = Losses { dropped: 0, by_reason: [0; DropReason::COUNT] };
        let mut this =
            Self { router, ports, links, name: name(), transactions: 0, agent: None, admission, losses };
        this.learn_network(scenario, node, paths);
        this.replace_objects(file.objects)
            .map_err(|refusals| SimError::Refused { node: name(), refusals })?;
        let agent = config.agent.as_ref();
        this.agent = agent.map(|file| AgentNode::new(file, seeds.agent, &mut this.router));
        Ok(this)
    }

    /// Interfaces, neighbours and routes, as the kernel would tell them.
    fn learn_network(&mut self, scenario: &Scenario, node: NodeIndex, paths: &Paths) {
        let own = scenario.nodes[node.0].address;
        let infos = self
            .ports
            .iter()
            .map(|(link, end)| PortInfo {
                mac: mac(*link, *end),
                mtu: MTU,
                addresses: vec![IpNet::V4(Ipv4Net::from(own))],
                ..PortInfo::default()
            })
            .collect();
        let change = self.router.control().planner_mut().port_change(infos);
        self.router.apply_world(change);
        let neighbours = self.ports.iter().enumerate().map(|(i, (link, end))| {
            let far = scenario.links[link.0].ends[1 - end];
            NeighbourUpdate {
                port: PortId(i as u16),
                ip: IpAddr::V4(scenario.nodes[far.0].address),
                state: NeighbourState::Reachable(mac(*link, 1 - end)),
            }
        });
        let change = self.router.control().planner_mut().neighbour_change(neighbours.collect());
        self.router.apply_world(change);
        let mut routes = vec![RouteEntry::new(IpNet::V4(Ipv4Net::from(own)), RouteKind::Local)];
        for (to, other) in scenario.nodes.iter().enumerate() {
            let Some((link, end)) = paths.first_link(node, NodeIndex(to)) else { continue };
            let Some(port) = self.ports.iter().position(|p| *p == (link, end)) else { continue };
            let next = scenario.links[link.0].ends[1 - end];
            let via = Some(IpAddr::V4(scenario.nodes[next.0].address));
            let kind = RouteKind::by(NextHop::new(via, PortId(port as u16)));
            routes.push(RouteEntry::new(IpNet::V4(Ipv4Net::from(other.address)), kind));
        }
        let change = self.router.control().planner_mut().set_kernel_routes(routes);
        self.router.apply_world(change);
    }

    /// Gives it other objects of its file; what it has against them, if it refuses.
    fn replace_objects(&mut self, objects: Vec<Object>) -> Result<(), String> {
        self.transactions += 1;
        let mut txn_id = [0; 16];
        txn_id[8..].copy_from_slice(&self.transactions.to_be_bytes());
        let ops = vec![Op::replace_owned(&RouterFile::KINDS, objects)];
        let transaction = Transaction::new(TxnId(txn_id), Owner::File, ops);
        match self.router.submit(Credentials::ADMIN, transaction) {
            Some(reply) if reply.outcome == Outcome::Committed => Ok(()),
            Some(reply) => {
                let refusals = reply.errors.iter().map(|e| format!("{}: {}", e.path, e.message));
                Err(refusals.collect::<Vec<_>>().join("; "))
            }
            None => Err("no answer".to_owned()),
        }
    }

    /// The link's rate changed: a port that takes its rate from it follows, and guarantees with it as far as they must.
    ///
    /// # Errors
    /// The file does not fit the new rate, or the router refuses it.
    pub(crate) fn link_rate(
        &mut self,
        now: Instant,
        link: LinkIndex,
        end: usize,
        rate: Rate,
    ) -> Result<(), SimError> {
        self.router.run_until(now);
        let objects = self.links.with_rate(link, end, rate).map_err(|e| of_objects(self.name.clone(), e))?;
        let Some(objects) = objects else { return Ok(()) };
        self.replace_objects(objects.file.objects).map_err(|refusals| SimError::RefusedRate {
            node: self.name.clone(),
            rate,
            at_s: now.as_nanos() as f64 / 1e9,
            refusals,
        })
    }

    /// Another file takes the place of its own.
    ///
    /// # Errors
    /// The file does not fit the links, or the router refuses it.
    pub(crate) fn reconfigure(&mut self, now: Instant, change: &RouterChange) -> Result<(), SimError> {
        self.router.run_until(now);
        let objects = self.links.with_file(change).map_err(|e| of_objects(self.name.clone(), e))?;
        self.replace_objects(objects.file.objects)
            .map_err(|refusals| SimError::Refused { node: self.name.clone(), refusals })
    }

    /// A packet arrives by a link. `lost` is told the index of the reason and the number of packets that it lost outside
    /// the queues of its ports.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        link: LinkIndex,
        end: usize,
        packet: Packet,
        lost: impl FnMut(usize, u64),
    ) {
        self.router.run_until(now);
        match self.ports.iter().position(|p| *p == (link, end)) {
            Some(port) => self.router.receive_packet(PortId(port as u16), packet),
            None => packet.release(),
        }
        self.look_for_losses(lost);
    }

    fn look_for_losses(&mut self, mut lost: impl FnMut(usize, u64)) {
        let driver = self.router.halves().1.driver();
        let counters = || driver.ids().filter_map(|id| Some((id, driver.counters(id)?)));
        let dropped = counters().map(|(_, counters)| counters.dropped).sum();
        if dropped == self.losses.dropped {
            return;
        }
        let mut by_reason = [0; DropReason::COUNT];
        for (_, counters) in counters().filter(|(id, _)| driver.element_ref::<Egress>(*id).is_none()) {
            by_reason.iter_mut().zip(counters.drops.iter()).for_each(|(sum, count)| *sum += count);
        }
        for (reason, (now, before)) in by_reason.iter().zip(&self.losses.by_reason).enumerate() {
            if now > before {
                lost(reason, now - before);
            }
        }
        self.losses = Losses { dropped, by_reason };
    }

    /// Runs timers due at `now`.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.router.run_until(now);
        if let Some(agent) = &mut self.agent {
            agent.wake(now, &mut self.router);
        }
    }

    /// The controller of its domain has said something to its agent.
    pub(crate) fn hear(&mut self, now: Instant, news: perhop_agent::DomainNews) {
        self.router.run_until(now);
        if let Some(agent) = &mut self.agent {
            agent.hear(now, news, &mut self.router);
        }
    }

    /// The window begins: what was counted so far does not count.
    pub(crate) fn window_begins(&mut self) {
        self.admission.window_begins(&self.router);
        if let Some(agent) = &mut self.agent {
            agent.window_begins();
        }
    }

    /// The window ends: what is counted from now on does not count.
    pub(crate) fn window_ends(&mut self) {
        self.admission.window_ends(&self.router);
        if let Some(agent) = &mut self.agent {
            agent.window_ends();
        }
    }

    /// What is decided beside it needs so much of a class.
    pub(crate) fn leased(&mut self, now: Instant, class: String, number: u64, bps: u64) {
        self.router.run_until(now);
        if let Some(agent) = &mut self.agent {
            agent.leased(now, class, number, bps, &mut self.router);
        }
    }

    /// What became of that since it was taken last.
    pub(crate) fn take_leased(&mut self) -> Vec<perhop_broker::lease::InRouter> {
        self.agent.as_mut().map(AgentNode::take_leased).unwrap_or_default()
    }

    /// The agent, if there is one.
    pub(crate) fn agent(&self) -> Option<&AgentNode> {
        self.agent.as_ref()
    }

    /// What its admission decided inside the window, if there is one.
    pub(crate) fn admission_record(&self) -> Option<AdmissionRecord> {
        self.admission.record(&self.name, &self.router)
    }

    /// When it must be woken.
    pub(crate) fn next_wakeup(&mut self) -> Option<Instant> {
        let agent = self.agent.as_ref().and_then(AgentNode::next_wakeup);
        [self.router.next_wakeup(), agent].into_iter().flatten().min()
    }

    /// Packets that left since the last call, with the link and the end they left by.
    pub(crate) fn sent(&mut self, mut each: impl FnMut(LinkIndex, usize, Packet)) {
        for sent in self.router.sent.drain(..) {
            let (link, end) = self.ports[sent.port.index()];
            if let Some(packet) = sent.into_packet() {
                each(link, end, packet);
            }
        }
    }

    /// Packets inside.
    pub(crate) fn held(&self) -> u64 {
        let (_, worker) = self.router.halves();
        let driver = worker.driver();
        driver.ids().filter_map(|id| driver.element(id)).map(|element| element.held()).sum()
    }

    /// Whether the books of its elements balance.
    pub(crate) fn check(&self) -> Result<(), String> {
        let errors = |e: Vec<perhop_element::ConservationError>| {
            e.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        self.router.halves().1.check_conservation().map_err(errors)
    }

    /// The router itself, to read; some of it begins anew when it is read.
    pub(crate) fn router(&mut self) -> &mut VirtualRouter {
        &mut self.router
    }

    /// The port of a link's end.
    pub(crate) fn port_of(&self, link: LinkIndex, end: usize) -> Option<PortId> {
        self.ports.iter().position(|p| *p == (link, end)).map(|i| PortId(i as u16))
    }
}

fn of_objects(node: String, error: RouterObjectsError) -> SimError {
    match error {
        RouterObjectsError::File { diagnostics } => SimError::RouterFile { node, diagnostics },
        other => SimError::Router { node, why: other.to_string() },
    }
}
