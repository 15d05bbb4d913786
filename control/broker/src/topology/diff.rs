//! From the rows that are kept to what a domain is to be.

use super::route::{leaving, shortest};
use super::{LinkKey, Profile, Topology};
use crate::record::{
    CapacityRow, Change, ClientRow, LinkId, LinkRow, NodeKind, NodeRow, ONE_LINK, PathId, PathRow,
};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The rows that are kept, and which of them are used.
#[derive(Clone, Debug, Default)]
pub struct Have {
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeRow>,
    /// Links by number.
    pub links: BTreeMap<LinkId, LinkRow>,
    /// By link and class: what may be reserved, and what is, bit/s.
    pub capacities: BTreeMap<(LinkId, String), (u64, u64)>,
    /// Paths by number. Of several between the same two nodes the highest number is the one for new reservations.
    pub paths: BTreeMap<PathId, PathRow>,
    /// Paths with reservations, among them links alone.
    pub used: BTreeSet<PathId>,
    /// Clients by name.
    pub clients: BTreeMap<String, ClientRow>,
    /// Clients that the domain's description had until now.
    pub described: BTreeSet<String>,
    /// The highest number that a link ever had.
    pub last_link: LinkId,
    /// The highest number that a path ever had.
    pub last_path: PathId,
}

/// What cannot go, as reservations use it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InUse {
    /// A link that is to go, or to lead elsewhere.
    #[error("link {node}/{port} carries reservations")]
    Link {
        /// The node that sends.
        node: String,
        /// Its port.
        port: String,
    },
    /// A node that is to go, or to be no end of paths any more.
    #[error("reservations begin or end at node {0}")]
    Node(String),
    /// A class that is to have nothing.
    #[error("class {class} of link {node}/{port} has {reserved_bps} bit/s reserved")]
    Class {
        /// The node that sends.
        node: String,
        /// Its port.
        port: String,
        /// The class.
        class: String,
        /// All that is reserved, bit/s.
        reserved_bps: u64,
    },
}

/// How rows become what a domain is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRows {
    /// The changes, none where all is as it is to be. A capacity may be below what is reserved of it.
    pub changes: Vec<Change>,
    /// By sender and port: the number of each link.
    pub links: BTreeMap<LinkKey, LinkId>,
}

/// The changes that make the rows what `topology` says, or all that forbids them. `bps` says what a class of a link may
/// reserve at present. A path with reservations that is not the domain's any more stays until a later change finds it unused.
pub fn diff(
    topology: &Topology,
    have: &Have,
    bps: impl Fn(&LinkKey, &Profile, &str) -> u64,
) -> Result<NewRows, Vec<InUse>> {
    let mut new = NewRows::default();
    let mut in_use = Vec::new();
    let (gone_links, links) = links(topology, have, &mut new);
    let alone = have.used.iter().filter_map(|id| id.checked_sub(ONE_LINK));
    let on_paths = have.used.iter().filter_map(|id| have.paths.get(id)).flat_map(|path| path.links.clone());
    let used_links: BTreeSet<LinkId> = on_paths.chain(alone).collect();
    for row in
        gone_links.iter().filter_map(|id| have.links.get(id)).filter(|row| used_links.contains(&row.id))
    {
        in_use.push(InUse::Link { node: row.node.clone(), port: row.port.clone() });
    }
    nodes(topology, have, &mut new, &mut in_use);
    capacities(topology, have, &links, &mut new, &mut in_use, bps);
    for id in &gone_links {
        new.changes.push(Change::LinkGone(*id));
    }
    paths(topology, have, &links, &mut new);
    for row in &topology.clients {
        if have.clients.get(&row.name) != Some(row) {
            new.changes.push(Change::Client(row.clone()));
        }
    }
    let still: BTreeSet<&String> = topology.clients.iter().map(|row| &row.name).collect();
    for name in have.described.iter().filter(|name| !still.contains(name) && have.clients.contains_key(*name))
    {
        new.changes.push(Change::ClientGone(name.clone()));
    }
    new.links = links;
    if in_use.is_empty() { Ok(new) } else { Err(in_use) }
}

/// The links that go, and the numbers of those that are to be.
fn links(
    topology: &Topology,
    have: &Have,
    new: &mut NewRows,
) -> (BTreeSet<LinkId>, BTreeMap<LinkKey, LinkId>) {
    let mut last = have.last_link;
    let (mut gone, mut numbers) = (BTreeSet::new(), BTreeMap::new());
    for row in have.links.values() {
        let key = (row.node.clone(), row.port.clone());
        match topology.links.get(&key) {
            Some(link) if link.to == row.to_node => {
                numbers.insert(key, row.id);
            }
            _ => {
                gone.insert(row.id);
            }
        }
    }
    for (key, link) in &topology.links {
        if !numbers.contains_key(key) {
            last += 1;
            numbers.insert(key.clone(), last);
            let (node, port) = key.clone();
            new.changes.push(Change::Link(LinkRow { id: last, node, port, to_node: link.to.clone() }));
        }
    }
    (gone, numbers)
}

fn nodes(topology: &Topology, have: &Have, new: &mut NewRows, in_use: &mut Vec<InUse>) {
    for (name, node) in &topology.nodes {
        let before = have.nodes.get(name);
        let (epoch, seen_ms) = before.map_or((0, 0), |row| (row.epoch, row.seen_ms));
        let cert_sha256 = node.cert_sha256.clone();
        let row = NodeRow { name: name.clone(), kind: node.kind, cert_sha256, epoch, seen_ms };
        if before != Some(&row) {
            new.changes.push(Change::Node(row));
        }
    }
    let ends = have.used.iter().filter_map(|id| have.paths.get(id)).flat_map(|p| [&p.from_node, &p.to_node]);
    let ends: BTreeSet<&String> = ends.collect();
    for name in ends {
        if topology.nodes.get(name).is_none_or(|node| node.kind == NodeKind::Core) {
            in_use.push(InUse::Node(name.clone()));
        }
    }
    for name in have.nodes.keys().filter(|name| !topology.nodes.contains_key(*name)) {
        new.changes.push(Change::NodeGone(name.clone()));
    }
}

fn capacities(
    topology: &Topology,
    have: &Have,
    links: &BTreeMap<LinkKey, LinkId>,
    new: &mut NewRows,
    in_use: &mut Vec<InUse>,
    bps: impl Fn(&LinkKey, &Profile, &str) -> u64,
) {
    let mut wanted: BTreeSet<(LinkId, &String)> = BTreeSet::new();
    for (key, link) in &topology.links {
        let Some(id) = links.get(key) else { continue };
        for class in link.profile.classes.keys() {
            wanted.insert((*id, class));
            let now = bps(key, &link.profile, class);
            let before = have.capacities.get(&(*id, class.clone()));
            if before.is_none_or(|(before, _)| *before != now) {
                let reserved = before.map_or(0, |(_, reserved)| *reserved);
                let short = reserved > now;
                new.changes.push(Change::Capacity(CapacityRow {
                    link: *id,
                    class: class.clone(),
                    bps: now,
                    reserved,
                    short,
                }));
            }
        }
    }
    for ((id, class), (_, reserved)) in &have.capacities {
        if wanted.contains(&(*id, class)) {
            continue;
        }
        new.changes.push(Change::CapacityGone(*id, class.clone()));
        let Some(row) = have.links.get(id).filter(|_| *reserved > 0) else { continue };
        if links.values().any(|still| still == id) {
            let (node, port, class) = (row.node.clone(), row.port.clone(), class.clone());
            in_use.push(InUse::Class { node, port, class, reserved_bps: *reserved });
        }
    }
}

fn paths(topology: &Topology, have: &Have, links: &BTreeMap<LinkKey, LinkId>, new: &mut NewRows) {
    let mut current: BTreeMap<(&str, &str), &PathRow> = BTreeMap::new();
    for row in have.paths.values() {
        current.insert((&row.from_node, &row.to_node), row);
    }
    let mut last = have.last_path;
    let mut keep: BTreeSet<PathId> = have.used.clone();
    let ends: Vec<&String> =
        topology.nodes.iter().filter(|(_, node)| node.kind != NodeKind::Core).map(|(name, _)| name).collect();
    for from in &ends {
        if leaving(topology, from).next().is_none() {
            continue;
        }
        let shortest = shortest(topology, from);
        for to in ends.iter().filter(|to| *to != from) {
            let declared = topology.paths.get(&((*from).clone(), (*to).clone()));
            let keys: Vec<&LinkKey> = match (declared, shortest.get(to.as_str())) {
                (Some(path), _) => path.links.iter().collect(),
                (None, Some(keys)) => keys.clone(),
                (None, None) => continue,
            };
            let wanted: Vec<LinkId> = keys.iter().filter_map(|key| links.get(*key).copied()).collect();
            match current.get(&(from.as_str(), to.as_str())) {
                Some(row) if row.links == wanted => {
                    keep.insert(row.id);
                }
                _ => {
                    last += 1;
                    let (from_node, to_node) = ((*from).clone(), (*to).clone());
                    new.changes.push(Change::Path(PathRow { id: last, from_node, to_node, links: wanted }));
                }
            }
        }
    }
    for id in have.paths.keys().filter(|id| !keep.contains(id)) {
        new.changes.push(Change::PathGone(*id));
    }
}
