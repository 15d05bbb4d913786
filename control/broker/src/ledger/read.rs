//! Looking into a ledger. What is shown is what is decided, also where it is not in the database yet.

use super::Ledger;
use crate::record::{
    ClientRow, LinkId, LinkRow, NodeRow, ONE_LINK, PathId, PathRow, ReservationId, ReservationRow, Snapshot,
};
use std::sync::Arc;

/// A class on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassView {
    /// Its logical name.
    pub class: Arc<str>,
    /// What may be reserved now, bit/s.
    pub bps: u64,
    /// What is reserved, bit/s.
    pub reserved_bps: u64,
    /// What of that is reserved over paths, bit/s: the share that the node's agent is told.
    pub share_bps: u64,
    /// What is left, bit/s. A reservation that reaches into a time of a lower rate gets less.
    pub free_bps: u64,
    /// The link has lost rate under its reservations.
    pub short: bool,
}

/// A link with its classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// Its number.
    pub id: LinkId,
    /// The node that sends.
    pub node: String,
    /// Its port.
    pub port: String,
    /// The node that receives.
    pub to_node: String,
    /// Its classes by name.
    pub classes: Vec<ClassView>,
}

impl Ledger {
    /// A reservation.
    pub fn reservation(&self, id: ReservationId) -> Option<ReservationRow> {
        self.books.reservation(id).map(|resv| self.books.row(resv))
    }

    /// The reservation that an owner made with a key.
    pub fn by_key(&self, owner: &str, idem: &str) -> Option<ReservationRow> {
        let owner = self.books.owner(owner)?;
        self.books.by_key(owner, &idem.into()).map(|resv| self.books.row(resv))
    }

    /// An owner's reservations behind a number, ascending, at most so many.
    pub fn of_owner(&self, owner: &str, after: ReservationId, most: usize) -> Vec<ReservationRow> {
        let Some(owner) = self.books.owner(owner) else { return Vec::new() };
        self.books.of_owner(owner, after).take(most).map(|resv| self.books.row(resv)).collect()
    }

    /// Everybody's reservations behind a number, ascending, at most so many. Costs a step for each that there is.
    pub fn all(&self, after: ReservationId, most: usize) -> Vec<ReservationRow> {
        let mut ids: Vec<ReservationId> =
            self.books.by_end().map(|(_, id)| id).filter(|id| *id > after).collect();
        if ids.len() > most {
            ids.select_nth_unstable(most);
            ids.truncate(most);
        }
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.reservation(id)).collect()
    }

    /// Everybody's reservations, in no order that counts, each made as it is taken.
    pub fn each(&self) -> impl Iterator<Item = ReservationRow> {
        self.books.by_end().filter_map(|(_, id)| self.reservation(id))
    }

    /// Who may ask.
    pub fn clients(&self) -> impl Iterator<Item = &ClientRow> {
        self.books.owners.iter().filter_map(|owner| owner.row.as_deref())
    }

    /// A path by its number.
    pub fn path_numbered(&self, id: PathId) -> Option<Arc<PathRow>> {
        self.books.map.path(id)
    }

    /// The link that a path is, if it is one alone.
    pub fn one_link(&self, id: PathId) -> Option<&LinkRow> {
        self.books.map.links.get(&id.checked_sub(ONE_LINK)?)
    }

    /// How many reservations there are.
    pub fn reservations(&self) -> usize {
        self.books.reservations()
    }

    /// All links by number, with what is reserved of them. Costs a step a class.
    pub fn links(&self) -> Vec<LinkView> {
        self.views(|_| true)
    }

    /// The same of the links that leave a node.
    pub fn links_of(&self, node: &str) -> Vec<LinkView> {
        self.views(|row| row.node == node)
    }

    fn views(&self, of: impl Fn(&LinkRow) -> bool) -> Vec<LinkView> {
        let map = &self.books.map;
        let mut views: std::collections::BTreeMap<LinkId, LinkView> = Default::default();
        for (id, row) in map.links.iter().filter(|(_, row)| of(row)) {
            let (node, port, to_node) = (row.node.clone(), row.port.clone(), row.to_node.clone());
            views.insert(*id, LinkView { id: *id, node, port, to_node, classes: Vec::new() });
        }
        for cell in self.books.cells.iter().filter(|cell| cell.terms.present) {
            let Some(view) = views.get_mut(&cell.link) else { continue };
            let (class, bps) = (self.books.classes.name(cell.class).clone(), cell.terms.bps);
            let (reserved_bps, share_bps, short) = (cell.reserved, cell.share(), cell.is_short());
            let free_bps = bps.saturating_sub(reserved_bps);
            view.classes.push(ClassView { class, bps, reserved_bps, share_bps, free_bps, short });
        }
        let mut views: Vec<LinkView> = views.into_values().collect();
        for view in &mut views {
            view.classes.sort_by(|a, b| a.class.cmp(&b.class));
        }
        views
    }

    /// The number of the link that leaves a node by a port.
    pub fn link(&self, node: &str, port: &str) -> Option<LinkId> {
        let row = self.books.map.links.values().find(|row| row.node == node && row.port == port);
        row.map(|row| row.id)
    }

    /// The path that new reservations take between two edges or peers.
    pub fn path(&self, from: &str, to: &str) -> Option<&PathRow> {
        let map = &self.books.map;
        map.pairs.get(from)?.get(to).and_then(|id| map.paths.get(id)).map(|path| path.as_ref())
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&NodeRow> {
        self.books.map.nodes.get(name)
    }

    /// The nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRow> {
        self.books.map.nodes.values()
    }

    /// A client that may ask.
    pub fn client(&self, name: &str) -> Option<&ClientRow> {
        let owner = self.books.owner(name)?;
        self.books.owners[owner as usize].row.as_deref()
    }

    /// How many requests wait for the database.
    pub fn waiting(&self) -> usize {
        self.forming.asks.len() + self.flight.as_ref().map_or(0, |flight| flight.asks.len())
    }

    /// Whether decisions are made at present: another instance does not lead, and the database takes groups.
    pub fn is_open(&self) -> bool {
        self.closed().is_none()
    }

    /// Whether another instance leads: nothing is decided here any more.
    pub fn is_over(&self) -> bool {
        self.state == super::states::State::Over
    }

    /// All rows as decided: what the database has when all groups are written.
    pub fn snapshot(&self) -> Snapshot {
        let map = &self.books.map;
        let mut ids: Vec<_> = self.books.by_end().map(|(_, id)| id).collect();
        ids.sort_unstable();
        let mut capacities: Vec<_> =
            self.books.cells.iter().filter(|c| c.terms.present).map(|c| self.books.capacity_row(c)).collect();
        capacities.sort_by(|a, b| (a.link, &a.class).cmp(&(b.link, &b.class)));
        let mut clients: Vec<ClientRow> =
            self.books.owners.iter().filter_map(|owner| owner.row.as_deref().cloned()).collect();
        clients.sort_by(|a, b| a.name.cmp(&b.name));
        let flying = self.flight.as_ref().map_or(0, |flight| flight.audits);
        Snapshot {
            nodes: map.nodes.values().cloned().collect(),
            links: map.links.values().cloned().collect(),
            capacities,
            paths: map.paths.values().map(|path| path.as_ref().clone()).collect(),
            clients,
            reservations: ids.into_iter().filter_map(|id| self.reservation(id)).collect(),
            audit_seq: self.audit_seq + flying + self.forming.audit.len() as u64,
            last_reservation: self.last_reservation,
        }
    }
}
