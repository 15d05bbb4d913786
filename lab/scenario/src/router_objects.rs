//! The objects of a router in a scenario: its file's, with a port for every link at the node.

use crate::model::{LinkIndex, NodeIndex, RouterChange, RouterConfig, Scenario};
use perhop_config::Diagnostics;
use perhop_model::{Kind, Name, NameError, Object, PortSpec, Spec};
use perhop_routerfile::{LinkOfPort, RouterFile};
use perhop_units::Rate;
use std::cell::RefCell;
use std::collections::BTreeSet;
use thiserror::Error;

/// The link of a port without one while its file is checked.
const ANY_LINK: LinkOfPort = LinkOfPort { rate: Rate::from_mbit(1000), overhead: 0 };

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
    /// Reads the file, gives every port of it without a rate that of its link and its overhead, and every other link at
    /// the node a port without a rate: there the queue is that of the link, as behind a forwarder.
    ///
    /// # Errors
    /// See [`RouterObjectsError`].
    pub fn of(
        scenario: &Scenario,
        node: NodeIndex,
        config: &RouterConfig,
    ) -> Result<Self, RouterObjectsError> {
        RouterOnLinks::new(scenario, node, config).objects()
    }
}

/// Whether a router admits recognised flows one by one: its file has `[detector.admission]`. O(size of the file).
pub(crate) fn has_admission(config: &RouterConfig) -> bool {
    let (file, _) = RouterFile::read(&config.origin, &config.text);
    let admits = |o: &Object| matches!(&o.spec, Spec::Detector(d) if d.admission.is_some());
    file.is_some_and(|file| file.objects.iter().any(admits))
}

/// A link at a router's node.
#[derive(Clone, Debug)]
struct LinkAtNode {
    name: String,
    link: LinkIndex,
    end: usize,
    rate: Option<Rate>,
    overhead: u64,
}

impl LinkAtNode {
    /// What a port takes from the link: its rate, and what the link adds to each frame, which the port must count too.
    /// `None` if the link has no rate.
    fn of_port(&self) -> Option<LinkOfPort> {
        Some(LinkOfPort { rate: self.rate?, overhead: i32::try_from(self.overhead).unwrap_or(0) })
    }
}

/// A router's file with the links of its node, whose rates may change while the router runs.
///
/// The rate of a link is a fact and what a file guarantees a wish: whenever a rate changes, the file is read again on
/// the new one, so that guarantees that do not fit any more are scaled down just as they are at the start, and are what
/// the file says as soon as they fit again.
#[derive(Clone, Debug)]
pub struct RouterOnLinks {
    origin: String,
    text: String,
    links: Vec<LinkAtNode>,
}

impl RouterOnLinks {
    /// The file of a router and the links at its node, with their rates at the start.
    pub fn new(scenario: &Scenario, node: NodeIndex, config: &RouterConfig) -> Self {
        let links = scenario.links_of(node).map(|(link, end)| {
            let described = &scenario.links[link.0];
            let way = &described.ways[end];
            LinkAtNode {
                name: described.name.clone(),
                link,
                end,
                rate: way.rate,
                overhead: way.overhead.get(),
            }
        });
        Self { origin: config.origin.clone(), text: config.text.clone(), links: links.collect() }
    }

    /// The objects at the rates that the links have now. O(size of the file).
    ///
    /// # Errors
    /// See [`RouterObjectsError`].
    pub fn objects(&self) -> Result<RouterObjects, RouterObjectsError> {
        // Of a node without a file: what would be added to one, so that its links queue.
        let own = self.text.is_empty().then(|| self.ports_of_links());
        // Asked only for ports without a rate.
        let following = RefCell::new(BTreeSet::new());
        let links = |port: &str| {
            if own.is_some() {
                return None;
            }
            // A port that is no link is refused below; until then it must not hide other errors.
            let Some(link) = self.link(port) else { return Some(ANY_LINK) };
            let link = link.of_port()?;
            following.borrow_mut().insert(port.to_owned());
            Some(link)
        };
        let text = own.as_deref().unwrap_or(&self.text);
        let (file, diagnostics) = RouterFile::read_on_links(&self.origin, text, &links);
        let Some(mut file) = file else {
            return Err(RouterObjectsError::File { diagnostics: diagnostics.to_string() });
        };
        self.add_missing_ports(&mut file)?;
        let (mut ports, mut follows) = (Vec::new(), Vec::new());
        for object in file.objects.iter().filter(|o| o.kind() == Kind::Port) {
            let Some(at) = self.link(object.name.as_str()) else {
                return Err(RouterObjectsError::NoLink { port: object.name.to_string() });
            };
            follows.push(following.borrow().contains(object.name.as_str()));
            ports.push((at.link, at.end));
        }
        Ok(RouterObjects { file, ports, follows })
    }

    /// A link has another rate from now on: what the router's objects are then, to take the place of all that it has
    /// from its file; `None` if no port takes its rate from this end of the link. O(size of the file).
    ///
    /// # Errors
    /// See [`RouterObjectsError`]; the file does not fit the new rate, such as with a queue that could not hold one
    /// packet there.
    pub fn with_rate(
        &mut self,
        link: LinkIndex,
        end: usize,
        rate: Rate,
    ) -> Result<Option<RouterObjects>, RouterObjectsError> {
        let Some(at) = self.links.iter_mut().find(|at| (at.link, at.end) == (link, end)) else {
            return Ok(None);
        };
        // A link that had none at the start led no port.
        if at.rate.is_none() {
            return Ok(None);
        }
        at.rate = Some(rate);
        let objects = self.objects()?;
        let follows = objects
            .ports
            .iter()
            .zip(&objects.follows)
            .any(|(port, follows)| *follows && *port == (link, end));
        Ok(follows.then_some(objects))
    }

    /// Another file takes the place of the router's from now on: its objects at the rates that the links have now. O(size
    /// of the file).
    ///
    /// # Errors
    /// See [`RouterObjectsError`].
    pub fn with_file(&mut self, change: &RouterChange) -> Result<RouterObjects, RouterObjectsError> {
        self.origin.clone_from(&change.origin);
        self.text.clone_from(&change.text);
        self.objects()
    }

    fn link(&self, name: &str) -> Option<&LinkAtNode> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The text of a router file that has a port for every link at the node and nothing else.
    fn ports_of_links(&self) -> String {
        self.links.iter().map(|link| format!("[[port]]\nname = \"{}\"\n", link.name)).collect()
    }

    /// A port without rate and classes for every link that the file does not name, behind those it names.
    fn add_missing_ports(&self, file: &mut RouterFile) -> Result<(), RouterObjectsError> {
        let modes = file.objects.iter().find_map(|o| match &o.spec {
            Spec::Port(port) => Some(port.mode),
            _ => None,
        });
        let mode = modes.unwrap_or_default();
        let mut missing = Vec::new();
        for LinkAtNode { name, .. } in &self.links {
            if !file.objects.iter().any(|o| o.kind() == Kind::Port && o.name.as_str() == name) {
                let spec = Spec::Port(PortSpec { mode, ..PortSpec::default() });
                missing.push(Object::new(Name::new(name)?, spec));
            }
        }
        let at = file.objects.iter().position(|o| o.kind() != Kind::Port).unwrap_or(file.objects.len());
        file.objects.splice(at..at, missing);
        Ok(())
    }
}

/// Reads a router's file on the links of its node while the scenario is read: a port whose link is missing, or has a
/// rate that is `wrong`, which is reported elsewhere, has some rate; `changed` is a rate that one of them has later.
pub(crate) fn read_on_links(
    scenario: &Scenario,
    node: NodeIndex,
    config: (&str, &str),
    wrong: impl Fn(LinkIndex) -> bool,
    changed: Option<(LinkIndex, usize, Rate)>,
) -> (Option<RouterFile>, Diagnostics) {
    let (origin, text) = (config.0.to_owned(), config.1.to_owned());
    let mut router =
        RouterOnLinks::new(scenario, node, &RouterConfig { origin, text, ..RouterConfig::default() });
    for at in &mut router.links {
        if let Some((_, _, rate)) = changed.filter(|(link, end, _)| (at.link, at.end) == (*link, *end)) {
            at.rate = at.rate.and(Some(rate));
        }
    }
    RouterFile::read_on_links(config.0, config.1, &|port| {
        router.link(port).filter(|at| !wrong(at.link)).map_or(Some(ANY_LINK), LinkAtNode::of_port)
    })
}
