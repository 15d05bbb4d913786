//! Rows of a domain, and what they come to: the oracle of the store.

use crate::support::Draw;
use perhop_broker::record::*;
use perhop_reason::Code;
use std::collections::BTreeMap;

pub fn reservation(id: u64) -> ReservationRow {
    ReservationRow {
        id,
        owner: format!("owner{}", id % 5),
        idem: format!("key-{id}"),
        digest: "d".repeat(64),
        kind: if id.is_multiple_of(2) { ReservationKind::Flow } else { ReservationKind::Lease },
        twin: id.is_multiple_of(3).then_some(id + 1),
        path: id % 7,
        class: "voice".into(),
        bps: 64_000 + id,
        floor_bps: id.is_multiple_of(4).then_some(32_000),
        priority: (id % 256) as u8,
        state: [ReservationState::Asking, ReservationState::Held, ReservationState::Shrunk][id as usize % 3],
        peer_handle: id.is_multiple_of(5).then(|| format!("peer-{id}")),
        flow: r#"{"to":"10.0.0.1"}"#.into(),
        created_ms: 1_000 + id,
        expires_ms: 2_000 + id,
    }
}

pub fn capacity(link: u64, class: &str, bps: u64, reserved: u64, short: bool) -> CapacityRow {
    CapacityRow { link, class: class.into(), bps, reserved, short }
}

pub fn audit(seq: u64) -> AuditRow {
    AuditRow {
        seq,
        at_ms: 10 * seq,
        who: "somebody".into(),
        what: "reserve".into(),
        subject: seq.to_string(),
        refused: seq.is_multiple_of(2).then(|| Code::ALL[seq as usize % Code::ALL.len()]),
        detail: "{}".into(),
    }
}

pub fn group(fence: u64, number: u64, changes: Vec<Change>) -> Group {
    Group { number, fence, changes }
}

/// What groups come to, by the plainest way.
#[derive(Default)]
pub struct Model {
    pub nodes: BTreeMap<String, NodeRow>,
    pub links: BTreeMap<u64, LinkRow>,
    pub capacities: BTreeMap<(u64, String), CapacityRow>,
    pub paths: BTreeMap<u64, PathRow>,
    pub clients: BTreeMap<String, ClientRow>,
    pub reservations: BTreeMap<u64, ReservationRow>,
    pub audit: Vec<AuditRow>,
    pub last_reservation: u64,
}

impl Model {
    pub fn apply(&mut self, group: &Group) {
        for change in group.changes.clone() {
            match change {
                Change::Node(row) => drop(self.nodes.insert(row.name.clone(), row)),
                Change::NodeGone(name) => drop(self.nodes.remove(&name)),
                Change::Link(row) => drop(self.links.insert(row.id, row)),
                Change::LinkGone(id) => {
                    self.links.remove(&id);
                    self.capacities.retain(|(link, _), _| *link != id);
                }
                Change::Capacity(row) => drop(self.capacities.insert((row.link, row.class.clone()), row)),
                Change::CapacityGone(link, class) => drop(self.capacities.remove(&(link, class))),
                Change::Path(row) => drop(self.paths.insert(row.id, row)),
                Change::PathGone(id) => drop(self.paths.remove(&id)),
                Change::Client(row) => drop(self.clients.insert(row.name.clone(), row)),
                Change::ClientGone(name) => drop(self.clients.remove(&name)),
                Change::Reservation(row) => {
                    self.last_reservation = self.last_reservation.max(row.id);
                    self.reservations.insert(row.id, row);
                }
                Change::ReservationGone(id) => drop(self.reservations.remove(&id)),
                Change::Audit(row) => self.audit.push(row),
            }
        }
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

    /// Changes of each kind, no key twice, up to `n` of each.
    pub fn draw(&self, draw: &mut Draw, n: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..draw.below(n + 1) {
            let key = draw.below(3 * n);
            let gone = draw.below(3) == 0;
            // Names whose order depends on whom one asks.
            let name = format!("{}{key}", ["a", "B", "ä", "_", ""][key as usize % 5]);
            changes.push(match draw.below(6) {
                0 if gone => Change::NodeGone(name),
                0 => Change::Node(NodeRow {
                    name,
                    kind: [NodeKind::Edge, NodeKind::Core, NodeKind::Peer][draw.below(3) as usize],
                    cert_sha256: (draw.below(2) == 0).then(|| "ab".into()),
                    epoch: draw.below(100),
                    seen_ms: draw.below(100),
                }),
                1 if gone => Change::LinkGone(key),
                1 => Change::Link(LinkRow { id: key, node: name, port: "p".into(), to_node: "b".into() }),
                2 if gone => Change::CapacityGone(key, "be".into()),
                2 => {
                    Change::Capacity(capacity(key, ["be", "Voice", "ä"][draw.below(3) as usize], 9, 9, false))
                }
                3 if gone => Change::PathGone(key),
                3 => Change::Path(PathRow {
                    id: key,
                    from_node: "a".into(),
                    to_node: "b".into(),
                    links: (0..draw.below(12)).collect(),
                }),
                4 if gone => Change::ClientGone(name),
                4 => Change::Client(ClientRow {
                    name,
                    kind: "http".into(),
                    cert_sha256: None,
                    token_sha256: Some("00".into()),
                    role: "operator".into(),
                    most_bps: (draw.below(2) == 0).then_some(i64::MAX as u64),
                    most_count: None,
                    per_second: Some(3),
                }),
                _ if gone => Change::ReservationGone(key),
                _ => Change::Reservation(reservation(key)),
            });
        }
        let key = |change: &Change| match change {
            Change::Node(r) => format!("n{}", r.name),
            Change::NodeGone(name) => format!("n{name}"),
            // A link that goes takes its capacities along.
            Change::Link(r) => format!("l{}", r.id),
            Change::LinkGone(id) | Change::CapacityGone(id, _) => format!("l{id}"),
            Change::Capacity(r) => format!("l{}", r.link),
            Change::Path(r) => format!("p{}", r.id),
            Change::PathGone(id) => format!("p{id}"),
            Change::Client(r) => format!("c{}", r.name),
            Change::ClientGone(name) => format!("c{name}"),
            Change::Reservation(r) => format!("r{}", r.id),
            Change::ReservationGone(id) => format!("r{id}"),
            Change::Audit(_) => unreachable!("they are added below"),
        };
        let mut seen = std::collections::BTreeSet::new();
        changes.retain(|change| seen.insert(key(change)));
        for n in 0..draw.below(4) {
            changes.push(Change::Audit(audit(self.audit.len() as u64 + 1 + n)));
        }
        changes
    }
}
