//! The objects of a router in a scenario: its file's, with a port for every link at the node.

use crate::model::{LinkIndex, NodeIndex, RouterConfig, Scenario};
use perhop_graph::routerfile::{LinkOfPort, RouterFile};
use perhop_model::{Kind, Name, NameError, Object};
use perhop_units::Rate;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeSet;
use thiserror::Error;

/// Rate of a port without a link while its file is checked.
const ANY_RATE: Rate = Rate::from_mbit(1000);

/// Why a router's file does not fit its node.
#[derive(Debug, Error)]
pub enum RouterObjectsError {
    /// The file has errors.
    #[error("{diagnostics}")]
    File {
        /// What is wrong, with positions.
        diagnostics: String,
    },
    /// The name of a link can be no port's.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A port has no link.
    #[error("port \"{port}\" is no link of this node")]
    NoLink {
        /// The port.
        port: String,
    },
}

/// A router's file as the node runs it.
#[derive(Debug)]
pub struct RouterObjects {
    /// The file; its port objects come first, in the order of `ports`.
    pub file: RouterFile,
    /// Link and end of each port.
    pub ports: Vec<(LinkIndex, usize)>,
    /// Whether the port takes its rate from its link.
    pub follows: Vec<bool>,
}

impl RouterObjects {
    /// Reads the file, gives every link at the node a port and every port without a rate that of its link and its
    /// overhead.
    ///
    /// # Errors
    /// See [`RouterObjectsError`].
    pub fn of(
        scenario: &Scenario,
        node: NodeIndex,
        config: &RouterConfig,
    ) -> Result<Self, RouterObjectsError> {
        let named =
            |name: &str| scenario.links_of(node).find(|(link, _)| scenario.links[link.0].name == name);
        // Asked only for ports without a rate.
        let following = RefCell::new(BTreeSet::new());
        let link_of = |port: &str| {
            // A port that is no link is refused below; until then it must not hide other errors.
            let Some((link, end)) = named(port) else {
                return Some(LinkOfPort { rate: ANY_RATE, overhead: 0 });
            };
            let way = &scenario.links[link.0].ways[end];
            let rate = way.rate?;
            following.borrow_mut().insert(port.to_owned());
            // What the link adds to each frame, the port must count too.
            Some(LinkOfPort { rate, overhead: i32::try_from(way.overhead.get()).unwrap_or(0) })
        };
        let (file, diagnostics) = RouterFile::read_on_links(&config.origin, &config.text, &link_of);
        let Some(mut file) = file else {
            return Err(RouterObjectsError::File { diagnostics: diagnostics.to_string() });
        };
        add_missing_ports(scenario, node, &mut file)?;
        let (mut ports, mut follows) = (Vec::new(), Vec::new());
        for object in file.objects.iter_mut().filter(|o| o.kind == Kind::Port) {
            let Some((link, end)) = named(object.name.as_str()) else {
                return Err(RouterObjectsError::NoLink { port: object.name.to_string() });
            };
            let way = &scenario.links[link.0].ways[end];
            // Ports that the file does not name have no rate yet.
            let added = object.spec["rate"].as_u64().unwrap_or(0) == 0;
            if let (true, Some(rate)) = (added, way.rate) {
                object.spec["rate"] = json!(rate.0);
                object.spec["overhead"] = json!(way.overhead.get());
            }
            let follow = following.borrow().contains(object.name.as_str()) || (added && way.rate.is_some());
            ports.push((link, end));
            follows.push(follow);
        }
        Ok(Self { file, ports, follows })
    }
}

/// A port without classes for every link that the file does not name, behind those it names.
fn add_missing_ports(
    scenario: &Scenario,
    node: NodeIndex,
    file: &mut RouterFile,
) -> Result<(), RouterObjectsError> {
    let mode = file.objects.iter().find(|o| o.kind == Kind::Port).map(|o| o.spec["mode"].clone());
    let mut missing = Vec::new();
    for (link, _) in scenario.links_of(node) {
        let name = &scenario.links[link.0].name;
        if !file.objects.iter().any(|o| o.kind == Kind::Port && o.name.as_str() == name) {
            let mut spec = json!({});
            if let Some(mode) = mode.clone().filter(|m| !m.is_null()) {
                spec["mode"] = mode;
            }
            missing.push(Object { kind: Kind::Port, name: Name::new(name)?, spec, ttl_ms: None });
        }
    }
    let at = file.objects.iter().position(|o| o.kind != Kind::Port).unwrap_or(file.objects.len());
    file.objects.splice(at..at, missing);
    Ok(())
}
