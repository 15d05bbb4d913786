//! A database that is a few maps. It takes a group whole, and refuses what a real one would.

use perhop_broker::record::{
    AuditRow, CapacityRow, Change, ClientRow, Group, LinkRow, NodeRow, ONE_LINK, PathRow, ReservationRow,
    Snapshot,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub struct Database {
    pub nodes: BTreeMap<String, NodeRow>,
    pub links: BTreeMap<u64, LinkRow>,
    pub capacities: BTreeMap<(u64, String), CapacityRow>,
    pub paths: BTreeMap<u64, PathRow>,
    pub clients: BTreeMap<String, ClientRow>,
    pub reservations: BTreeMap<u64, ReservationRow>,
    pub audit: Vec<AuditRow>,
    pub last_reservation: u64,
    pub groups: u64,
}

impl Database {
    /// Takes a group, checking what the schema checks after each change, and what must hold when it is committed.
    pub fn commit(&mut self, group: &Group) {
        let mut keys = BTreeSet::new();
        for change in &group.changes {
            assert!(keys.insert(key(change)), "a key occurs twice: {change:?}");
            self.take(change);
        }
        self.groups += 1;
        self.check();
    }

    fn take(&mut self, change: &Change) {
        match change.clone() {
            Change::Node(row) => drop(self.nodes.insert(row.name.clone(), row)),
            Change::NodeGone(name) => {
                assert!(self.links.values().all(|link| link.node != name && link.to_node != name));
                self.nodes.remove(&name);
            }
            Change::Link(row) => {
                assert!(self.nodes.contains_key(&row.node) && self.nodes.contains_key(&row.to_node));
                self.links.insert(row.id, row);
            }
            Change::LinkGone(id) => {
                assert!(self.paths.values().all(|path| !path.links.contains(&id)), "a path leads over it");
                self.capacities.retain(|(link, _), _| *link != id);
                self.links.remove(&id);
            }
            Change::Capacity(row) => {
                assert!(self.links.contains_key(&row.link), "{row:?}");
                assert!(row.reserved <= row.bps || row.short, "{row:?}");
                self.capacities.insert((row.link, row.class.clone()), row);
            }
            Change::CapacityGone(link, class) => drop(self.capacities.remove(&(link, class))),
            Change::Path(row) => {
                assert!(row.links.iter().all(|link| self.links.contains_key(link)), "{row:?}");
                self.paths.insert(row.id, row);
            }
            Change::PathGone(id) => {
                assert!(self.reservations.values().all(|resv| resv.path != id), "it is used");
                self.paths.remove(&id);
            }
            Change::Client(row) => drop(self.clients.insert(row.name.clone(), row)),
            Change::ClientGone(name) => drop(self.clients.remove(&name)),
            Change::Reservation(row) => {
                let alone = row.path.checked_sub(ONE_LINK);
                let leads = alone.map_or_else(
                    || self.paths.contains_key(&row.path),
                    |link| self.links.contains_key(&link),
                );
                assert!(leads, "{row:?}");
                let mut others = self.reservations.values().filter(|other| other.id != row.id);
                assert!(
                    others.all(|other| (&other.owner, &other.idem) != (&row.owner, &row.idem)),
                    "{row:?}"
                );
                self.last_reservation = self.last_reservation.max(row.id);
                self.reservations.insert(row.id, row);
            }
            Change::ReservationGone(id) => drop(self.reservations.remove(&id)),
            Change::Audit(row) => {
                assert_eq!(row.seq, self.audit.len() as u64 + 1, "the log has a gap");
                self.audit.push(row);
            }
        }
    }

    /// Counts everything anew.
    pub fn check(&self) {
        check(&self.snapshot());
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            nodes: self.nodes.values().cloned().collect(),
            links: self.links.values().cloned().collect(),
            capacities: self.capacities.values().cloned().collect(),
            paths: self.paths.values().cloned().collect(),
            clients: self.clients.values().cloned().collect(),
            reservations: self.reservations.values().cloned().collect(),
            audit_seq: self.audit.len() as u64,
            last_reservation: self.last_reservation,
        }
    }

    /// What the log says of a subject, in order.
    pub fn log_of(&self, subject: &str) -> Vec<&str> {
        let rows = self.audit.iter().filter(|row| row.subject == subject && row.refused.is_none());
        rows.map(|row| row.what.as_str()).collect()
    }
}

/// What is reserved of every class of every link, by adding up all reservations.
pub fn recount(snapshot: &Snapshot) -> BTreeMap<(u64, String), u64> {
    let links: BTreeMap<u64, &Vec<u64>> = snapshot.paths.iter().map(|path| (path.id, &path.links)).collect();
    let mut sums = BTreeMap::new();
    for resv in &snapshot.reservations {
        // What is of a link alone has no path.
        let alone = resv.path.checked_sub(ONE_LINK).map(|link| vec![link]);
        for link in alone.as_ref().unwrap_or_else(|| links[&resv.path]) {
            *sums.entry((*link, resv.class.clone())).or_insert(0) += resv.bps;
        }
    }
    sums
}

/// Σ reserved ≤ capacity unless short, twins are whole, and no reservation is over a link that does not have its class.
pub fn check(snapshot: &Snapshot) {
    let mut sums = recount(snapshot);
    for row in &snapshot.capacities {
        let sum = sums.remove(&(row.link, row.class.clone())).unwrap_or(0);
        assert_eq!(row.reserved, sum, "{row:?}");
        assert_eq!(row.short, sum > row.bps, "{row:?}");
    }
    assert_eq!(sums, BTreeMap::new(), "reserved where there is nothing");
    let by_id: BTreeMap<u64, &ReservationRow> =
        snapshot.reservations.iter().map(|row| (row.id, row)).collect();
    for row in &snapshot.reservations {
        if let Some(twin) = row.twin {
            let twin = by_id[&twin];
            assert_eq!((twin.twin, twin.expires_ms, &twin.owner), (Some(row.id), row.expires_ms, &row.owner));
        }
        assert!(row.bps > 0 && row.floor_bps.is_none_or(|floor| floor <= row.bps), "{row:?}");
    }
}

fn key(change: &Change) -> String {
    match change {
        Change::Node(row) => format!("node {}", row.name),
        Change::NodeGone(name) => format!("node {name}"),
        Change::Link(row) => format!("link {}", row.id),
        Change::LinkGone(id) => format!("link {id}"),
        Change::Capacity(row) => format!("capacity {} {}", row.link, row.class),
        Change::CapacityGone(link, class) => format!("capacity {link} {class}"),
        Change::Path(row) => format!("path {}", row.id),
        Change::PathGone(id) => format!("path {id}"),
        Change::Client(row) => format!("client {}", row.name),
        Change::ClientGone(name) => format!("client {name}"),
        Change::Reservation(row) => format!("reservation {}", row.id),
        Change::ReservationGone(id) => format!("reservation {id}"),
        Change::Audit(row) => format!("audit {}", row.seq),
    }
}
