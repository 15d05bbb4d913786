//! A Perhop router as a node: the very control and worker of `perhop router run`, under the simulator's clock.

use crate::error::SimError;
use crate::frame::mac;
use ipnet::{IpNet, Ipv4Net};
use perhop_elements::route::{
    NeighbourState, NeighbourUpdate, NextHop, Origin, PortInfo, RouteEntry, RouteKind,
};
use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_graph::routerfile::RouterFile;
use perhop_model::{
    Credentials, Kind, Mode, Name, Object, Op, Outcome, Owner, Reply, Spec, Transaction, TxnId,
};
use perhop_packet::{Packet, Pool, PortId};
use perhop_scenario::{LinkIndex, NodeIndex, NodeKind, Paths, RouterObjects, RouterObjectsError, Scenario};
use perhop_units::{Instant, Rate};
use serde_json::json;
use std::net::IpAddr;

/// Largest IP packet of a simulated interface.
const MTU: u32 = 1500;

/// The node.
pub(crate) struct RouterNode {
    router: VirtualRouter,
    /// Link and end of each port, by [`PortId`].
    ports: Vec<(LinkIndex, usize)>,
    /// Ports that take their rate from their link.
    follows: Vec<bool>,
    transactions: u64,
}

impl RouterNode {
    /// Builds the router of a node and gives it its file.
    pub(crate) fn new(
        scenario: &Scenario,
        node: NodeIndex,
        paths: &Paths,
        pool: &Pool,
        seed: u64,
    ) -> Result<Self, SimError> {
        let described = &scenario.nodes[node.0];
        let name = || described.name.clone();
        let NodeKind::Router(config) = &described.kind else {
            return Err(SimError::Router { node: name(), why: "it is not a router".to_owned() });
        };
        let RouterObjects { file, ports, follows } =
            RouterObjects::of(scenario, node, config).map_err(|e| match e {
                RouterObjectsError::File { diagnostics } => {
                    SimError::RouterFile { node: name(), diagnostics }
                }
                other => SimError::Router { node: name(), why: other.to_string() },
            })?;
        let edge = edge_ports(&file.objects);
        let connections = file.router.max_flows.min(1 << 20);
        let router = VirtualRouter::with_pool(edge, pool.clone(), connections, seed)
            .map_err(|e| SimError::Router { node: name(), why: e.to_string() })?;
        let mut this = Self { router, ports, follows, transactions: 0 };
        this.learn_network(scenario, node, paths);
        let ops = vec![Op::ReplaceOwned { kinds: RouterFile::KINDS.to_vec(), objects: file.objects }];
        let reply = this.commit(ops);
        match reply {
            Some(reply) if reply.outcome == Outcome::Committed => Ok(this),
            Some(reply) => {
                let refusals: Vec<String> =
                    reply.errors.iter().map(|e| format!("{}: {}", e.path, e.message)).collect();
                Err(SimError::Refused { node: name(), refusals: refusals.join("; ") })
            }
            None => Err(SimError::Refused { node: name(), refusals: "no answer".to_owned() }),
        }
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
        let mut routes = vec![RouteEntry {
            dest: IpNet::V4(Ipv4Net::from(own)),
            kind: RouteKind::Local,
            metric: 0,
            origin: Origin::Kernel,
        }];
        for (to, other) in scenario.nodes.iter().enumerate() {
            let Some((link, end)) = paths.first_link(node, NodeIndex(to)) else { continue };
            let Some(port) = self.ports.iter().position(|p| *p == (link, end)) else { continue };
            let next = scenario.links[link.0].ends[1 - end];
            let via = Some(IpAddr::V4(scenario.nodes[next.0].address));
            routes.push(RouteEntry {
                dest: IpNet::V4(Ipv4Net::from(other.address)),
                kind: RouteKind::Unicast { next_hops: vec![NextHop { via, port: PortId(port as u16) }] },
                metric: 0,
                origin: Origin::Kernel,
            });
        }
        let change = self.router.control().planner_mut().set_kernel_routes(routes);
        self.router.apply_world(change);
    }

    fn commit(&mut self, ops: Vec<Op>) -> Option<std::sync::Arc<Reply>> {
        self.transactions += 1;
        let mut txn_id = [0; 16];
        txn_id[8..].copy_from_slice(&self.transactions.to_be_bytes());
        let transaction = Transaction {
            txn_id: TxnId(txn_id),
            owner: Owner::File,
            fence: 0,
            mode: Mode::Commit,
            if_revision: None,
            confirm_within_ms: None,
            note: None,
            force: false,
            ops,
        };
        self.router.submit(Credentials::ADMIN, transaction)
    }

    /// The link's rate changed: a port that takes its rate from it follows.
    pub(crate) fn link_rate(&mut self, now: Instant, link: LinkIndex, end: usize, rate: Rate) {
        self.router.run_until(now);
        let Some(port) = self.ports.iter().position(|p| *p == (link, end)) else { return };
        if !self.follows[port] {
            return;
        }
        let name = self.router.control().planner().ports()[port].name.clone();
        let Ok(name) = Name::new(&name) else { return };
        let fields = json!({ "rate": rate.0 });
        self.commit(vec![Op::Patch { kind: Kind::Port, name, fields, if_version: None }]);
    }

    /// A packet arrives by a link; `false` gives it back as not for this router.
    pub(crate) fn receive(&mut self, now: Instant, link: LinkIndex, end: usize, packet: Packet) {
        self.router.run_until(now);
        match self.ports.iter().position(|p| *p == (link, end)) {
            Some(port) => self.router.receive_packet(PortId(port as u16), packet),
            None => packet.release(),
        }
    }

    /// Runs timers due at `now`.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.router.run_until(now);
    }

    /// When it must be woken.
    pub(crate) fn next_wakeup(&mut self) -> Option<Instant> {
        self.router.next_wakeup()
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

    /// The router itself, to read.
    pub(crate) fn router(&self) -> &VirtualRouter {
        &self.router
    }

    /// The port of a link's end.
    pub(crate) fn port_of(&self, link: LinkIndex, end: usize) -> Option<PortId> {
        self.ports.iter().position(|p| *p == (link, end)).map(|i| PortId(i as u16))
    }
}

fn edge_ports(objects: &[Object]) -> Vec<EdgePort> {
    let port = |o: &Object| match Spec::from_value(o.kind, o.spec.clone()) {
        Ok(Spec::Port(spec)) => Some(EdgePort { name: o.name.to_string(), spec }),
        _ => None,
    };
    objects.iter().filter_map(port).collect()
}
