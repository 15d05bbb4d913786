//! Changes of the domain itself, and of who may ask.

use super::Ledger;
use super::ask::{AskId, ClientChange, Granted, Output, Refusal};
use super::audit::Json;
use super::books::{Map, Terms};
use super::group::RowKey;
use crate::record::{Change, ClientRow, LinkId};
use crate::topology::{Have, MAX_CLASSES, MAX_LINKS, NewRows, Topology, check_client, diff};
use perhop_reason::Code;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most classes of links that a ledger has seen in its life, gone ones included.
const MOST_CELLS: usize = MAX_LINKS * MAX_CLASSES;
/// Most clients that a ledger has seen in its life, gone ones included.
const MOST_OWNERS: usize = 1_000_000;
/// What is in use: so much of it a refusal names.
const MOST_NAMED: usize = 20;

impl Ledger {
    pub(super) fn take_topology(&mut self, ask: AskId, who: &str, topology: &Arc<Topology>) {
        let result = self.closed().map_or(Ok(()), Err).and_then(|()| self.new_topology(topology));
        let changes = match result {
            Ok(new) => self.apply(topology, new),
            Err(refusal) => return self.refuse_domain(ask, who, "topology", refusal),
        };
        let mut detail = Json::new();
        detail.number("changes", changes as u64);
        self.audit(who, "topology", String::new(), None, detail.end());
        self.forming.asks.push((ask, Ok(Granted::Taken)));
    }

    pub(super) fn take_client(&mut self, ask: AskId, who: &str, change: ClientChange) {
        let name = match &change {
            ClientChange::Put(row) => row.name.clone(),
            ClientChange::Gone(name) => name.clone(),
        };
        let result = self.closed().map_or(Ok(()), Err).and_then(|()| match change {
            ClientChange::Put(_) if self.books.owners.len() >= MOST_OWNERS => {
                Err(Refusal::new(Code::LimitReached, format!("there were {MOST_OWNERS} clients already")))
            }
            ClientChange::Put(row) => {
                check_client(&row).map_err(|wrong| Refusal::new(Code::OutOfRange, wrong.to_string()))?;
                self.put_client(row);
                Ok(())
            }
            ClientChange::Gone(name) if self.books.owner(&name).is_none() => {
                Err(Refusal::new(Code::NotFound, format!("there is no client {name:?}")))
            }
            ClientChange::Gone(name) => {
                self.drop_client(&name);
                Ok(())
            }
        });
        match result {
            Ok(()) => {
                self.audit(who, "client", name, None, "{}".to_owned());
                self.forming.asks.push((ask, Ok(Granted::Taken)));
            }
            Err(refusal) => self.refuse_domain(ask, who, "client", refusal),
        }
    }

    /// These are rare and an operator's: each refusal is in the log, but those that the log cannot take.
    fn refuse_domain(&mut self, ask: AskId, who: &str, what: &'static str, refusal: Refusal) {
        if self.closed().is_some() {
            return self.outputs.push_back(Output::Answer { ask, result: Err(refusal) });
        }
        let mut detail = Json::new();
        detail.text("message", &refusal.message);
        self.audit(who, what, String::new(), Some(refusal.code), detail.end());
        self.answer_in_turn(ask, Err(refusal));
    }

    fn put_client(&mut self, row: ClientRow) {
        let owner = self.books.own(&row.name);
        self.forming.rows.insert(RowKey::Client(row.name.clone()), Change::Client(row.clone()));
        self.books.set_client(owner, Some(Arc::new(row)));
    }

    fn drop_client(&mut self, name: &str) {
        let Some(owner) = self.books.owner(name) else { return };
        self.forming.rows.insert(RowKey::Client(name.to_owned()), Change::ClientGone(name.to_owned()));
        self.books.set_client(owner, None);
    }

    /// What would change, or why it must not.
    fn new_topology(&self, topology: &Topology) -> Result<NewRows, Refusal> {
        topology.check().map_err(|wrong| Refusal::new(Code::OutOfRange, wrong.to_string()))?;
        let numbers: BTreeMap<_, LinkId> = self
            .books
            .map
            .links
            .values()
            .map(|row| ((row.node.as_str(), row.port.as_str()), row.id))
            .collect();
        let new = diff(topology, &self.have(), |(node, port), profile, class| {
            let link = numbers.get(&(node.as_str(), port.as_str())).copied();
            self.present_bps(link, profile, class)
        });
        let new = new.map_err(|in_use| {
            let named: Vec<String> = in_use.iter().take(MOST_NAMED).map(ToString::to_string).collect();
            let more = in_use.len() - named.len();
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            Refusal::new(Code::InUse, named.join(", ") + &more)
        })?;
        let cells = new.changes.iter().filter(|change| matches!(change, Change::Capacity(_))).count();
        let clients = new.changes.iter().filter(|change| matches!(change, Change::Client(_))).count();
        if self.books.cells.len() + cells > MOST_CELLS || self.books.owners.len() + clients > MOST_OWNERS {
            let message = "the domain has changed more often than one life of the controller can remember";
            return Err(Refusal::new(Code::LimitReached, message));
        }
        Ok(new)
    }

    fn have(&self) -> Have {
        let map = &self.books.map;
        let cells = self.books.cells.iter().filter(|cell| cell.terms.present);
        let capacity = |cell: &super::books::Cell| {
            let class = self.books.classes.name(cell.class).to_string();
            ((cell.link, class), (cell.terms.bps, cell.reserved))
        };
        let rows = self.books.owners.iter().filter_map(|owner| owner.row.as_ref());
        Have {
            nodes: map.nodes.clone(),
            links: map.links.clone(),
            capacities: cells.map(capacity).collect(),
            paths: map.paths.iter().map(|(id, path)| (*id, path.as_ref().clone())).collect(),
            used: self.books.used_paths(),
            clients: rows.map(|row| (row.name.clone(), row.as_ref().clone())).collect(),
            described: map.described.clone(),
            last_link: self.last_link,
            last_path: self.last_path,
        }
    }

    /// Makes the books what a topology says; how many rows that changes.
    fn apply(&mut self, topology: &Topology, new: NewRows) -> usize {
        let mut map = Map::clone(&self.books.map);
        let changes = new.changes.len();
        for change in new.changes {
            self.apply_one(&mut map, change);
        }
        map.find_pairs();
        map.described = topology.clients.iter().map(|row| row.name.clone()).collect();
        let profile = |(key, id): (_, &LinkId)| Some((*id, topology.links.get(key)?.profile.clone()));
        map.profiles = new.links.iter().filter_map(profile).collect();
        let profiles = map.profiles.clone();
        self.books.set_map(map);
        for (link, profile) in &profiles {
            let scheduled = (!profile.schedule.is_empty()).then(|| profile.clone());
            for class in profile.classes.keys() {
                let class = self.books.classes.add(class);
                let cell = self.books.make_cell(*link, class);
                let terms = self.books.cells[cell as usize].terms.clone();
                if terms.scheduled != scheduled {
                    self.books.set_terms(cell, Terms { scheduled: scheduled.clone(), ..terms });
                }
                self.settle_short(cell);
            }
        }
        let now_ms = self.now_ms();
        let next = profiles.values().filter_map(|profile| profile.schedule.next_change(now_ms));
        self.next_change_ms = next.min();
        changes
    }

    fn apply_one(&mut self, map: &mut Map, change: Change) {
        let key = match &change {
            Change::Node(row) => {
                map.nodes.insert(row.name.clone(), row.clone());
                RowKey::Node(row.name.clone())
            }
            Change::NodeGone(name) => {
                map.nodes.remove(name);
                RowKey::Node(name.clone())
            }
            Change::Link(row) => {
                self.last_link = self.last_link.max(row.id);
                map.links.insert(row.id, row.clone());
                RowKey::Link(row.id)
            }
            Change::LinkGone(id) => {
                map.links.remove(id);
                RowKey::Link(*id)
            }
            Change::Path(row) => {
                self.last_path = self.last_path.max(row.id);
                map.paths.insert(row.id, Arc::new(row.clone()));
                RowKey::Path(row.id)
            }
            Change::PathGone(id) => {
                map.paths.remove(id);
                RowKey::Path(*id)
            }
            Change::Capacity(row) => {
                let class = self.books.classes.add(&row.class);
                let cell = self.books.make_cell(row.link, class);
                let scheduled = self.books.cells[cell as usize].terms.scheduled.clone();
                return self.books.set_terms(cell, Terms { present: true, bps: row.bps, scheduled });
            }
            Change::CapacityGone(link, class) => {
                let class = self.books.classes.add(class);
                let cell = self.books.make_cell(*link, class);
                return self.books.set_terms(cell, Terms::default());
            }
            Change::Client(row) => return self.put_client(row.clone()),
            Change::ClientGone(name) => return self.drop_client(name),
            // No description says anything of these.
            Change::Reservation(_) | Change::ReservationGone(_) | Change::Audit(_) => {
                return;
            }
        };
        self.forming.rows.insert(key, change);
    }
}
