//! What a domain consists of, as a file says it: nodes, links with their rates and classes, paths, and who may ask.
//!
//! A [`Topology`] is all of it at once. [`diff`] says how rows that are kept become it, and what forbids that.

mod diff;
mod file;
mod route;
mod schedule;

pub use diff::{Have, InUse, NewRows, diff};
pub use file::{DomainFile, read, sha256};
pub use schedule::{Announced, Schedule, parse_utc_ms};

use crate::record::{ClientRow, NodeKind};
use perhop_model::Name;
use perhop_units::{Rate, Share};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Most nodes of a domain.
pub const MAX_NODES: usize = 10_000;
/// Most links of a domain, each direction for itself.
pub const MAX_LINKS: usize = 100_000;
/// Most classes of a link.
pub const MAX_CLASSES: usize = 64;
/// Most paths of a domain: every ordered pair of edges and peers has one.
pub const MAX_PATHS: usize = 250_000;
/// Most clients that a file names.
pub const MAX_CLIENTS: usize = 100_000;
/// Most links of a path.
pub const MAX_HOPS: usize = 64;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// SHA-256 of the certificate of its agent, lower-case hexadecimal.
    pub cert_sha256: Option<String>,
}

/// By which a link is found: the node that sends, and its port.
pub type LinkKey = (String, String);

/// A link in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The node that receives.
    pub to: String,
    /// What it carries.
    pub profile: Arc<Profile>,
}

/// What a link carries, and what of it classes may reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its rate when nothing lowers it.
    pub rate: Rate,
    /// What may be reserved in each class, by logical name. Together at most the rate.
    pub classes: BTreeMap<String, Share>,
    /// When its rate is lower.
    pub schedule: Schedule,
}

impl Profile {
    /// What a class may reserve while the link has the rate `bps`, bit/s. Shares are of that rate; rates stay as declared
    /// while all classes fit, and where they do not, all are scaled down together, as a router does with allocations.
    pub fn class_bps(&self, class: &str, bps: u64) -> u64 {
        let Some(share) = self.classes.get(class) else { return 0 };
        let of = |share: &Share| u128::from(share.of(Rate(bps)).0);
        let sum: u128 = self.classes.values().map(of).sum();
        let own = of(share);
        let fits = if sum > u128::from(bps) { own * u128::from(bps) / sum } else { own };
        u64::try_from(fits).unwrap_or(u64::MAX)
    }
}

/// A path that is not the shortest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its links in order, by node and port.
    pub links: Vec<LinkKey>,
}

/// A whole domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// Links by sender and port.
    pub links: BTreeMap<LinkKey, Link>,
    /// Paths that are declared, by first and last node. All other pairs of edges and peers have the path of the fewest
    /// links, of those the first by the names of nodes and ports.
    pub paths: BTreeMap<(String, String), Path>,
    /// Who may ask.
    pub clients: Vec<ClientRow>,
}

/// Why a description is none of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// More than there may be of something.
    #[error("the domain has more than {most} {what}")]
    TooMany {
        /// Of what, in words.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// A link or a path names a node that is not there.
    #[error("there is no node {0}")]
    NoNode(String),
    /// A link leads to where it comes from.
    #[error("link {0}/{1} leads to the node that it comes from")]
    Loop(String, String),
    /// The classes of a link may reserve more than it carries.
    #[error("the classes of link {0}/{1} come to more than its rate")]
    Overfull(String, String),
    /// What is to be a name of a node, a port or a class is none: see [`perhop_model::Name`].
    #[error("{0:?} is not a name")]
    NoName(String),
    /// A client without a name, of a role that is not known, or with a text or a number that no database keeps.
    #[error("client {0:?} has no name, a role that is not known, or something that cannot be kept")]
    NoClient(String),
    /// A path is not one way along links from its first to its last node, both of them edges or peers.
    #[error("the path from {0} to {1} is not a way along links between edges or peers")]
    BrokenPath(String, String),
}

impl Topology {
    /// Whether it is a whole domain. What [`DomainFile`] reads without an error is.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), TopologyError> {
        let ends = self.nodes.values().filter(|node| node.kind != NodeKind::Core).count();
        let counts = [
            ("nodes", self.nodes.len(), MAX_NODES),
            ("links", self.links.len(), MAX_LINKS),
            ("paths", ends * ends.saturating_sub(1), MAX_PATHS),
            ("clients", self.clients.len(), MAX_CLIENTS),
        ];
        if let Some((what, _, most)) = counts.into_iter().find(|(_, number, most)| number > most) {
            return Err(TopologyError::TooMany { what, most });
        }
        let classes = self.links.values().flat_map(|link| link.profile.classes.keys());
        let ports = self.links.keys().map(|(_, port)| port);
        if let Some(name) =
            self.nodes.keys().chain(ports).chain(classes).find(|name| Name::new(name).is_err())
        {
            return Err(TopologyError::NoName(name.clone()));
        }
        self.clients.iter().try_for_each(check_client)?;
        for ((node, port), link) in &self.links {
            if let Some(node) = [node, &link.to].into_iter().find(|node| !self.nodes.contains_key(*node)) {
                return Err(TopologyError::NoNode(node.clone()));
            }
            if *node == link.to {
                return Err(TopologyError::Loop(node.clone(), port.clone()));
            }
            let (classes, rate) = (&link.profile.classes, link.profile.rate);
            if classes.len() > MAX_CLASSES {
                return Err(TopologyError::TooMany { what: "classes on a link", most: MAX_CLASSES });
            }
            if classes.values().map(|share| u128::from(share.of(rate).0)).sum::<u128>() > u128::from(rate.0) {
                return Err(TopologyError::Overfull(node.clone(), port.clone()));
            }
        }
        for ((from, to), path) in &self.paths {
            let is_end = |node| self.nodes.get(node).is_some_and(|node| node.kind != NodeKind::Core);
            let step = |at: &String, key: &LinkKey| {
                let link = self.links.get(key).filter(|_| key.0 == *at);
                link.map(|link| link.to.clone()).ok_or(())
            };
            let reached = path.links.iter().try_fold(from.clone(), |at, key| step(&at, key));
            let is_way = reached.as_ref() == Ok(to) && (1..=MAX_HOPS).contains(&path.links.len());
            if !(is_way && from != to && is_end(from) && is_end(to)) {
                return Err(TopologyError::BrokenPath(from.clone(), to.clone()));
            }
        }
        Ok(())
    }
}

/// Roles that a client may have.
pub const ROLES: [&str; 5] = ["viewer", "operator", "admin", "agent", "proxy"];

/// Longest text of a client's row, octets.
const MOST_TEXT: usize = 255;

/// Whether a client can be kept. Whatever a database could not keep would take along all that is written with it.
///
/// # Errors
/// [`TopologyError::NoClient`].
pub fn check_client(row: &ClientRow) -> Result<(), TopologyError> {
    let texts = [Some(&row.name), Some(&row.kind), row.cert_sha256.as_ref(), row.token_sha256.as_ref()];
    let is_text = |text: &&String| text.len() <= MOST_TEXT && !text.chars().any(char::is_control);
    let numbers = [row.most_bps, row.most_count, row.per_second];
    let fits = |number: &u64| i64::try_from(*number).is_ok();
    let is_whole = texts.iter().flatten().all(is_text) && numbers.iter().flatten().all(fits);
    if is_whole && !row.name.is_empty() && ROLES.contains(&row.role.as_str()) {
        return Ok(());
    }
    Err(TopologyError::NoClient(row.name.chars().take(MOST_TEXT).collect()))
}
