//! Perhop routers of a scenario: the engine of `perhop router run` in the node's namespace, on the node's router file.

use super::error::{of_engine, unsuitable};
use super::network::Network;
use crate::error::LabError;
use crate::private::PrivateDirectory;
use crate::shaping::shaped;
use perhop_engine::{Engine, EngineConfig, Handle, StopReport};
use perhop_model::{Credentials, Kind, Mode, Name, Object, Op, Outcome, Owner, Transaction};
use perhop_scenario::{LinkIndex, NodeIndex, NodeKind, RouterConfig, RouterObjects, Scenario};
use perhop_units::Rate;
use serde_json::json;
use std::sync::Arc;
use std::sync::OnceLock;

/// A running router.
pub(super) struct Router {
    engine: Engine,
    handle: Handle,
    node: NodeIndex,
    part: String,
    /// Link and end of each port, its name, and whether it takes its rate from the link.
    ports: Vec<Port>,
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
    follows: bool,
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
        let part = format!("router \"{name}\"");
        let RouterObjects { file, ports, follows } =
            RouterObjects::of(scenario, node, config).map_err(|e| unsuitable(part.clone(), e))?;
        let mut objects = file.objects;
        let mut known = Vec::new();
        let port_objects = objects.iter_mut().filter(|o| o.kind == Kind::Port);
        for (object, ((link, end), follows)) in port_objects.zip(ports.into_iter().zip(follows)) {
            fit(object, scenario.links[link.0].ways[end].rate);
            object.spec["device"] = json!(network.devices[link.0]);
            known.push(Port { link, end, name: object.name.to_string(), follows });
        }
        let title = format!("lab-{}-{name}", std::process::id());
        let state_directory = PrivateDirectory::new()?;
        let namespace = Some(network.nodes[node.0].clone());
        // The namespaces vanish with this process, so there is never anything to put back after a crash.
        let mut config = EngineConfig::new(&title, namespace, objects, state_directory.path());
        config.connections = file.router.max_flows;
        config.seed = seed ^ (1 << 48) ^ (node.0 as u64) << 20;
        config.fifo = true;
        config.record = Some(scenario.probes.queue_interval);
        let started = Engine::start(config);
        let (engine, handle) = started.map_err(of_engine(part.clone(), "start it"))?;
        let death = Arc::new(OnceLock::new());
        let cell = Arc::clone(&death);
        engine.on_failure(move |died| {
            let _ = cell.set(died.to_string());
        });
        Ok(Self { engine, handle, node, part, ports: known, _state_directory: state_directory, death })
    }

    /// The node it is.
    pub(super) fn node(&self) -> NodeIndex {
        self.node
    }

    /// A link has another rate: a port that takes its rate from it follows.
    pub(super) fn link_rate(&self, link: LinkIndex, end: usize, rate: Rate) -> Result<(), LabError> {
        let port = self.ports.iter().find(|port| port.link == link && port.end == end && port.follows);
        let Some(port) = port else { return Ok(()) };
        let failed =
            |reason: String| LabError::Part { part: self.part.clone(), doing: "change a rate", reason };
        let name = Name::new(&port.name).map_err(|e| failed(e.to_string()))?;
        let fields = json!({ "rate": shaped(rate).bits_per_sec() });
        let transaction = Transaction {
            txn_id: self.handle.new_txn_id(),
            owner: Owner::File,
            fence: 0,
            mode: Mode::Commit,
            if_revision: None,
            confirm_within_ms: None,
            note: None,
            force: false,
            ops: vec![Op::Patch { kind: Kind::Port, name, fields, if_version: None }],
        };
        let reply = self
            .handle
            .submit_blocking(Credentials::ADMIN, transaction)
            .map_err(|e| failed(e.to_string()))?;
        if reply.outcome == Outcome::Committed {
            return Ok(());
        }
        let refusals: Vec<_> = reply.errors.iter().map(|e| format!("{}: {}", e.path, e.message)).collect();
        Err(failed(refusals.join("; ")))
    }

    /// Why it forwards nothing any more, if so.
    pub(super) fn failure(&self) -> Option<LabError> {
        let reason = self.death.get()?.clone();
        Some(LabError::Part { part: self.part.clone(), doing: "forward", reason })
    }

    /// Stops it: what it counted.
    pub(super) fn stop(self) -> Ended {
        let report = self.engine.stop();
        Ended { ports: self.ports, report, part: self.part }
    }
}

/// Gives a port that is as fast as its link, or takes its rate, a little less.
fn fit(port: &mut Object, link: Option<Rate>) {
    let Some(link) = link else { return };
    let rate = port.spec["rate"].as_u64().unwrap_or(0);
    if rate <= link.bits_per_sec() {
        port.spec["rate"] = json!(rate.min(shaped(link).bits_per_sec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_slower_than_its_link_unless_the_file_wants_it_faster() {
        let link = Some(Rate::from_mbit(10));
        for (given, expected) in [(10_000_000, 9_900_000), (5_000_000, 5_000_000), (20_000_000, 20_000_000)] {
            let spec = json!({ "rate": given });
            let mut port = Object { kind: Kind::Port, name: Name::new("x").unwrap(), spec, ttl_ms: None };
            fit(&mut port, link);
            assert_eq!(port.spec["rate"], expected);
        }
    }
}
