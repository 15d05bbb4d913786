//! Perhop routers of a scenario: the engine of `perhop router run` in the node's namespace, on the node's router file.

use super::agents::RunningAgent;
use super::error::{of_engine, unsuitable};
use super::network::Network;
use super::receive::Times;
use crate::error::LabError;
use crate::private::PrivateDirectory;
use crate::shaping::shaped;
use perhop_bandwidth::AgentFile;
use perhop_engine::{Engine, EngineConfig, Handle, StopReport};
use perhop_graph::router::EdgePort;
use perhop_model::{Call, CountersQuery, Credentials, Object, Op, Outcome, Owner, Spec, Transaction};
use perhop_routerfile::RouterFile;
use perhop_scenario::{
    LinkIndex, NodeIndex, NodeKind, RouterChange, RouterConfig, RouterObjects, RouterOnLinks, Scenario,
};
use perhop_units::Rate;
use std::sync::Arc;
use std::sync::OnceLock;

/// A running router.
pub(super) struct Router {
    engine: Engine,
    handle: Handle,
    node: NodeIndex,
    part: String,
    ports: Vec<Port>,
    /// Its file, and the rates that its links have now.
    links: RouterOnLinks,
    /// Device of each link in the node, by [`LinkIndex`].
    devices: Vec<String>,
    /// The agent that looks after it, if any, with the seed of its broker's chances.
    agent: Option<(AgentFile, u64)>,
    /// Goes last: the router writes into it to its end.
    _state_directory: PrivateDirectory,
    death: Arc<OnceLock<String>>,
}

/// A port of a router.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// The link it sends on.
    pub(super) link: LinkIndex,
    /// The end of the link that it is at.
    pub(super) end: usize,
    /// Its name.
    pub(super) name: String,
}

/// What a router left.
pub(super) struct Ended {
    pub(super) ports: Vec<Port>,
    pub(super) report: StopReport,
    pub(super) part: String,
}

impl Router {
    /// Starts the routers of all nodes that are one.
    pub(super) fn start_all(
        scenario: &Scenario,
        network: &Network,
        seed: u64,
    ) -> Result<Vec<Self>, LabError> {
        let mut routers = Vec::new();
        for (i, node) in scenario.nodes.iter().enumerate() {
            if let NodeKind::Router(config) = &node.kind {
                routers.push(Self::start(scenario, network, NodeIndex(i), config, seed)?);
            }
        }
        Ok(routers)
    }

    fn start(
        scenario: &Scenario,
        network: &Network,
        node: NodeIndex,
        config: &RouterConfig,
        seed: u64,
    ) -> Result<Self, LabError> {
        let name = &scenario.nodes[node.0].name;
        let of_node = seed ^ (node.0 as u64) << 20;
        let agent = config.agent.clone().map(|file| (file, of_node ^ (1 << 49)));
        let part = format!("router \"{name}\"");
        let links = RouterOnLinks::new(scenario, node, config);
        let objects = links.objects().map_err(|e| unsuitable(part.clone(), e))?;
        let known = known_ports(&objects);
        let router = objects.file.router.clone();
        let devices = network.devices.clone();
        let objects = on_devices(objects, &devices);
        let title = format!("lab-{}-{name}", std::process::id());
        let state_directory = PrivateDirectory::new()?;
        let namespace = Some(network.nodes[node.0].clone());
        // The namespaces vanish with this process, so there is never anything to put back after a crash.
        let mut config = EngineConfig::new(&title, namespace, objects, state_directory.path());
        config.take_limits(&router);
        config.seed = of_node ^ (1 << 48);
        config.fifo = true;
        config.record = Some(scenario.probes.queue_interval);
        let started = Engine::start(config);
        let (engine, handle) = started.map_err(of_engine(part.clone(), "start it"))?;
        let death = Arc::new(OnceLock::new());
        let cell = Arc::clone(&death);
        engine.on_failure(move |died| {
            let _ = cell.set(died.to_string());
        });
        Ok(Self {
            engine,
            handle,
            node,
            part,
            ports: known,
            links,
            devices,
            agent,
            _state_directory: state_directory,
            death,
        })
    }

    /// Starts the agent that looks after it, if there is one.
    pub(super) fn start_agent(&self, name: &str, times: Times) -> Result<Option<RunningAgent>, LabError> {
        let start = |(file, seed): &_| RunningAgent::start(name, file, *seed, self.handle.clone(), times);
        self.agent.as_ref().map(start).transpose()
    }

    /// The node it is.
    pub(super) fn node(&self) -> NodeIndex {
        self.node
    }

    /// A link has another rate: a port that takes its rate from it follows, and guarantees with it as far as they must.
    pub(super) fn link_rate(&mut self, link: LinkIndex, end: usize, rate: Rate) -> Result<(), LabError> {
        const DOING: &str = "change a rate";
        match self.links.with_rate(link, end, rate) {
            Ok(Some(objects)) => self.replace_objects(objects, DOING),
            Ok(None) => Ok(()),
            Err(error) => Err(self.failed(DOING, error.to_string())),
        }
    }

    /// Another file takes the place of its own.
    pub(super) fn reconfigure(&mut self, change: &RouterChange) -> Result<(), LabError> {
        const DOING: &str = "change its file";
        match self.links.with_file(change) {
            Ok(objects) => self.replace_objects(objects, DOING),
            Err(error) => Err(self.failed(DOING, error.to_string())),
        }
    }

    fn failed(&self, doing: &'static str, reason: String) -> LabError {
        LabError::Part { part: self.part.clone(), doing, reason }
    }

    fn replace_objects(&self, objects: RouterObjects, doing: &'static str) -> Result<(), LabError> {
        let objects = on_devices(objects, &self.devices);
        let transaction = Transaction::new(
            self.handle.new_txn_id(),
            Owner::File,
            vec![Op::replace_owned(&RouterFile::KINDS, objects)],
        );
        let reply = self.handle.submit_blocking(Credentials::ADMIN, transaction);
        let reply = reply.map_err(|error| self.failed(doing, error.to_string()))?;
        if reply.outcome == Outcome::Committed {
            return Ok(());
        }
        let refusals: Vec<_> = reply.errors.iter().map(|e| format!("{}: {}", e.path, e.message)).collect();
        Err(self.failed(doing, refusals.join("; ")))
    }

    /// Why it forwards nothing any more, if so.
    pub(super) fn failure(&self) -> Option<LabError> {
        let reason = self.death.get()?.clone();
        Some(LabError::Part { part: self.part.clone(), doing: "forward", reason })
    }

    /// Packets inside now: what came to its elements or was made there, and neither left nor ended.
    pub(super) fn held(&self) -> Result<u64, LabError> {
        let page = self.handle.wait(|done| Call::Counters(CountersQuery::of_kind("element"), done));
        let page = page.map_err(of_engine(self.part.clone(), "ask what it holds"))?;
        let held = page.rows.iter().map(|row| {
            let of = |name: &str| row.counters.get(name).copied().unwrap_or(0);
            let ended = of("emitted") + of("consumed") + of("dropped");
            (of("received") + of("made")).saturating_sub(ended)
        });
        Ok(held.sum())
    }

    /// Stops it: what it counted.
    pub(super) fn stop(self) -> Ended {
        let report = self.engine.stop();
        Ended { ports: self.ports, report, part: self.part }
    }
}

/// The ports of a router, in the order of their objects.
fn known_ports(objects: &RouterObjects) -> Vec<Port> {
    let ports = EdgePort::of_objects(&objects.file.objects).into_iter();
    ports.zip(&objects.ports).map(|(port, &(link, end))| Port { link, end, name: port.name }).collect()
}

/// The objects of a router with the device of each port.
fn on_devices(objects: RouterObjects, devices: &[String]) -> Vec<Object> {
    let RouterObjects { mut file, ports, .. } = objects;
    let port_specs = file.objects.iter_mut().filter_map(|object| match &mut object.spec {
        Spec::Port(port) => Some(port),
        _ => None,
    });
    for (port, (link, _)) in port_specs.zip(ports) {
        port.device.clone_from(&devices[link.0]);
    }
    file.objects
}

/// By link and direction: whether a router decides what leaves when, because it sends as fast as the link: its port takes
/// its rate from the link, or has one that is hardly less. Such a link is emulated [`crate::shaping::widened`].
pub(super) fn led(scenario: &Scenario) -> Result<Vec<[bool; 2]>, LabError> {
    let mut led = vec![[false; 2]; scenario.links.len()];
    for (i, node) in scenario.nodes.iter().enumerate() {
        let NodeKind::Router(config) = &node.kind else { continue };
        let part = || format!("router \"{}\"", node.name);
        let RouterObjects { file, ports, follows } =
            RouterObjects::of(scenario, NodeIndex(i), config).map_err(|e| unsuitable(part(), e))?;
        let objects = EdgePort::of_objects(&file.objects);
        for (port, ((link, end), follows)) in objects.iter().zip(ports.into_iter().zip(follows)) {
            let (way, rate) = (&scenario.links[link.0].ways[end], port.spec.rate);
            let steady = way.changes.iter().all(|change| change.rate.is_none());
            led[link.0][end] = way.rate.is_some_and(|link| follows || steady && is_led(rate, link));
        }
    }
    Ok(led)
}

/// Whether a port of `port` leaves a link of `link` no room.
fn is_led(port: Rate, link: Rate) -> bool {
    port <= link && port > shaped(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_leads_a_link_that_it_leaves_no_room_unless_the_file_wants_it_faster() {
        let link = Rate::from_mbit(10);
        for (port, expected) in
            [(9_900_000, false), (9_900_001, true), (10_000_000, true), (10_000_001, false)]
        {
            assert_eq!(is_led(Rate(port), link), expected, "{port}");
        }
    }
}
