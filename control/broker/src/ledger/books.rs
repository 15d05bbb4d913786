//! All that is kept, in memory, with the way back of every change.
//!
//! A reservation is changed by [`Books::put`] alone. All sums and indices follow from reservations, so putting the former ones
//! back, in reverse order, gives exactly the former books.

use super::names::{IdHash, Names};
use crate::quota::TokenBucket;
use crate::record::{
    CapacityRow, ClientRow, LinkId, LinkRow, NodeRow, ONE_LINK, PathId, PathRow, ReservationId,
    ReservationKind, ReservationRow, ReservationState,
};
use crate::topology::Profile;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A reservation, small: what many have in common is named by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resv {
    pub id: ReservationId,
    pub owner: u32,
    pub idem: Arc<str>,
    pub digest: [u8; 32],
    pub kind: ReservationKind,
    pub twin: Option<ReservationId>,
    pub lane: u32,
    pub bps: u64,
    pub floor_bps: Option<u64>,
    pub priority: u8,
    pub state: ReservationState,
    pub peer_handle: Option<Arc<str>>,
    pub flow: Arc<str>,
    pub created_ms: u64,
    pub expires_ms: u64,
}

impl Resv {
    /// Whether it counts in its owner's number of reservations: of two directions the first does.
    fn counts(&self) -> bool {
        self.twin.is_none_or(|twin| self.id < twin)
    }

    fn in_lane(&self) -> (u8, u64) {
        (self.priority, !self.id)
    }
}

/// Nodes, links and paths. Changed as a whole, as that is rare.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    pub nodes: BTreeMap<String, NodeRow>,
    pub links: BTreeMap<LinkId, LinkRow>,
    pub paths: BTreeMap<PathId, Arc<PathRow>>,
    /// By first and last node: the path for new reservations.
    pub pairs: BTreeMap<String, BTreeMap<String, PathId>>,
    /// What each link carries, as far as it is known.
    pub profiles: BTreeMap<LinkId, Arc<Profile>>,
    /// Clients that the domain's description has.
    pub described: BTreeSet<String>,
}

impl Map {
    /// Finds the path of each pair anew: of several the one of the highest number.
    pub fn find_pairs(&mut self) {
        self.pairs.clear();
        for (id, path) in &self.paths {
            self.pairs.entry(path.from_node.clone()).or_default().insert(path.to_node.clone(), *id);
        }
    }

    /// The path of a number: one of the domain's, or a link alone.
    pub fn path(&self, id: PathId) -> Option<Arc<PathRow>> {
        let Some(link) = id.checked_sub(ONE_LINK) else { return self.paths.get(&id).cloned() };
        let row = self.links.get(&link)?;
        let (from_node, to_node) = (row.node.clone(), row.to_node.clone());
        Some(Arc::new(PathRow { id, from_node, to_node, links: vec![link] }))
    }

    /// `node/port` of a link.
    pub fn link_name(&self, link: LinkId) -> String {
        self.links.get(&link).map_or_else(|| link.to_string(), |row| format!("{}/{}", row.node, row.port))
    }
}

/// What a class has of a link, without what is reserved.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Terms {
    /// Whether there is a row of it.
    pub present: bool,
    /// What may be reserved now, bit/s.
    pub bps: u64,
    /// The link's profile if it has a schedule.
    pub scheduled: Option<Arc<Profile>>,
}

/// A class on a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub link: LinkId,
    pub class: u32,
    pub terms: Terms,
    pub reserved: u64,
    /// What of that is reserved of the link alone.
    pub alone: u64,
    /// What it had when the ledger was loaded, while nobody has said what the link's rate is.
    pub remembered: Option<u64>,
    /// Lanes that lead over it.
    pub lanes: Vec<u32>,
    /// The generation of changes in which it was last noted.
    noted: u64,
}

impl Cell {
    pub fn is_short(&self) -> bool {
        self.reserved > self.terms.bps
    }

    /// What is reserved over paths.
    pub fn share(&self) -> u64 {
        self.reserved - self.alone
    }
}

/// A class on a path.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub path: PathId,
    pub class: u32,
    pub cells: Box<[u32]>,
    /// Its reservations, the least important first, of those the youngest: priority and the number's complement.
    pub members: BTreeSet<(u8, u64)>,
}

/// Whoever has or may have reservations.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub name: Arc<str>,
    /// None = may not ask any more.
    pub row: Option<Arc<ClientRow>>,
    /// All that it has reserved, bit/s.
    pub bps: u64,
    /// Reservations, both directions as one.
    pub count: u64,
    pub requests: TokenBucket,
    pub refusals: TokenBucket,
    /// Refusals that the audit log has not.
    pub unlogged: u64,
}

/// How one change is undone.
#[derive(Clone, Debug)]
pub(super) enum Undo {
    Reservation(ReservationId, Option<Arc<Resv>>),
    Terms(u32, Terms),
    Map(Arc<Map>),
    Client(u32, Option<Arc<ClientRow>>),
}

#[derive(Debug, Default)]
pub(super) struct Books {
    pub map: Arc<Map>,
    pub cells: Vec<Cell>,
    cell_of: HashMap<(LinkId, u32), u32>,
    pub lanes: Vec<Lane>,
    lane_of: HashMap<(PathId, u32), u32>,
    pub classes: Names,
    pub owners: Vec<Owner>,
    owner_of: HashMap<Arc<str>, u32>,
    reservations: HashMap<ReservationId, Arc<Resv>, IdHash>,
    by_key: HashMap<(u32, Arc<str>), ReservationId>,
    by_owner: BTreeSet<(u32, ReservationId)>,
    by_end: BTreeSet<(u64, ReservationId)>,
    undo: Vec<Undo>,
    /// Cells that have changed since the last generation.
    noted: Vec<u32>,
    generation: u64,
}

impl Books {
    pub fn new() -> Self {
        Self { generation: 1, ..Self::default() }
    }

    pub fn reservation(&self, id: ReservationId) -> Option<&Arc<Resv>> {
        self.reservations.get(&id)
    }

    pub fn reservations(&self) -> usize {
        self.reservations.len()
    }

    pub fn by_key(&self, owner: u32, idem: &Arc<str>) -> Option<&Arc<Resv>> {
        self.by_key.get(&(owner, idem.clone())).and_then(|id| self.reservations.get(id))
    }

    /// Reservations of an owner behind a number, ascending.
    pub fn of_owner(&self, owner: u32, after: ReservationId) -> impl Iterator<Item = &Arc<Resv>> {
        let behind = (owner, after.saturating_add(1))..=(owner, u64::MAX);
        self.by_owner.range(behind).filter_map(|(_, id)| self.reservations.get(id))
    }

    /// All reservations, in the order in which they end.
    pub fn by_end(&self) -> impl Iterator<Item = (u64, ReservationId)> {
        self.by_end.iter().copied()
    }

    pub fn owner(&self, name: &str) -> Option<u32> {
        self.owner_of.get(name).copied()
    }

    /// The number of an owner, made if there is none.
    pub fn own(&mut self, name: &str) -> u32 {
        if let Some(number) = self.owner(name) {
            return number;
        }
        let (number, name): (u32, Arc<str>) = (self.owners.len() as u32, name.into());
        self.owner_of.insert(name.clone(), number);
        let (requests, refusals) = Default::default();
        self.owners.push(Owner { name, row: None, bps: 0, count: 0, requests, refusals, unlogged: 0 });
        number
    }

    pub fn cell(&self, link: LinkId, class: u32) -> Option<u32> {
        self.cell_of.get(&(link, class)).copied()
    }

    /// The number of a class on a link, made if there is none.
    pub fn make_cell(&mut self, link: LinkId, class: u32) -> u32 {
        let next = self.cells.len() as u32;
        let number = *self.cell_of.entry((link, class)).or_insert(next);
        if number == next {
            self.cells.push(Cell { link, class, ..Cell::default() });
        }
        number
    }

    /// The number of a class on a path, or the first link of the path that does not have the class.
    pub fn lane(&mut self, path: &PathRow, class: u32) -> Result<u32, LinkId> {
        if let Some(number) = self.lane_of.get(&(path.id, class)) {
            let lane = &self.lanes[*number as usize];
            let missing = lane.cells.iter().find(|cell| !self.cells[**cell as usize].terms.present);
            return missing.map_or(Ok(*number), |cell| Err(self.cells[*cell as usize].link));
        }
        let present = |cell: &u32| self.cells[*cell as usize].terms.present;
        let cell = |link: &LinkId| self.cell(*link, class).filter(present).ok_or(*link);
        let cells: Box<[u32]> = path.links.iter().map(cell).collect::<Result<_, _>>()?;
        let number = self.lanes.len() as u32;
        for cell in &cells {
            self.cells[*cell as usize].lanes.push(number);
        }
        self.lane_of.insert((path.id, class), number);
        self.lanes.push(Lane { path: path.id, class, cells, members: BTreeSet::new() });
        Ok(number)
    }

    /// Paths with reservations.
    pub fn used_paths(&self) -> BTreeSet<PathId> {
        self.lanes.iter().filter(|lane| !lane.members.is_empty()).map(|lane| lane.path).collect()
    }

    /// Reservations over a cell, the least important first, of those the youngest.
    pub fn least_important(&self, cell: u32) -> impl Iterator<Item = &Arc<Resv>> {
        let lanes = self.cells[cell as usize].lanes.iter();
        let mut members: Vec<_> = lanes.map(|l| self.lanes[*l as usize].members.iter().peekable()).collect();
        std::iter::from_fn(move || {
            let firsts = members.iter_mut().enumerate();
            let (_, lane) = firsts.filter_map(|(i, m)| m.peek().map(|first| (**first, i))).min()?;
            members[lane].next().and_then(|(_, id)| self.reservations.get(&!id))
        })
    }

    /// A reservation is as this from now on, or gone.
    pub fn put(&mut self, id: ReservationId, new: Option<Arc<Resv>>) {
        let old = self.swap(id, new);
        self.undo.push(Undo::Reservation(id, old));
    }

    /// Like [`Books::put`] without a way back: for reservations that are loaded.
    pub fn swap(&mut self, id: ReservationId, new: Option<Arc<Resv>>) -> Option<Arc<Resv>> {
        let old = match &new {
            Some(new) => self.reservations.insert(id, new.clone()),
            None => self.reservations.remove(&id),
        };
        match (&old, &new) {
            (None, Some(new)) => self.enter(new),
            (Some(old), None) => self.leave(old),
            (Some(old), Some(new)) => {
                debug_assert!(old.in_lane() == new.in_lane() && old.lane == new.lane && old.idem == new.idem);
                if old.expires_ms != new.expires_ms {
                    self.by_end.remove(&(old.expires_ms, id));
                    self.by_end.insert((new.expires_ms, id));
                }
                self.book(old.lane, old.owner, old.bps, new.bps);
            }
            (None, None) => {}
        }
        old
    }

    fn enter(&mut self, new: &Arc<Resv>) {
        self.by_key.insert((new.owner, new.idem.clone()), new.id);
        self.by_owner.insert((new.owner, new.id));
        self.by_end.insert((new.expires_ms, new.id));
        self.lanes[new.lane as usize].members.insert(new.in_lane());
        self.owners[new.owner as usize].count += u64::from(new.counts());
        self.book(new.lane, new.owner, 0, new.bps);
    }

    fn leave(&mut self, old: &Arc<Resv>) {
        self.by_key.remove(&(old.owner, old.idem.clone()));
        self.by_owner.remove(&(old.owner, old.id));
        self.by_end.remove(&(old.expires_ms, old.id));
        self.lanes[old.lane as usize].members.remove(&old.in_lane());
        self.owners[old.owner as usize].count -= u64::from(old.counts());
        self.book(old.lane, old.owner, old.bps, 0);
    }

    fn book(&mut self, lane: u32, owner: u32, old: u64, new: u64) {
        if old == new {
            return;
        }
        let owner = &mut self.owners[owner as usize];
        owner.bps = owner.bps - old + new;
        let lane = &self.lanes[lane as usize];
        for number in &lane.cells {
            let cell = &mut self.cells[*number as usize];
            cell.reserved = cell.reserved - old + new;
            if lane.path >= ONE_LINK {
                cell.alone = cell.alone - old + new;
            }
            if cell.noted != self.generation {
                cell.noted = self.generation;
                self.noted.push(*number);
            }
        }
    }

    /// A class has this of a link from now on.
    pub fn set_terms(&mut self, number: u32, terms: Terms) {
        let old = std::mem::replace(&mut self.cells[number as usize].terms, terms);
        self.note(number);
        self.undo.push(Undo::Terms(number, old));
    }

    /// A cell's row is to be written again.
    pub fn note(&mut self, number: u32) {
        let cell = &mut self.cells[number as usize];
        if cell.noted != self.generation {
            cell.noted = self.generation;
            self.noted.push(number);
        }
    }

    pub fn set_map(&mut self, map: Map) {
        let old = std::mem::replace(&mut self.map, Arc::new(map));
        self.undo.push(Undo::Map(old));
    }

    pub fn set_client(&mut self, owner: u32, row: Option<Arc<ClientRow>>) {
        let old = std::mem::replace(&mut self.owners[owner as usize].row, row);
        self.undo.push(Undo::Client(owner, old));
    }

    /// How much there is to undo.
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Undoes what came behind a mark.
    pub fn rollback_to(&mut self, mark: usize) {
        let undo = self.undo.split_off(mark);
        self.rollback(undo);
    }

    /// Undoes all changes of a log, the last first.
    pub fn rollback(&mut self, undo: Vec<Undo>) {
        for undo in undo.into_iter().rev() {
            match undo {
                Undo::Reservation(id, old) => {
                    self.swap(id, old);
                }
                Undo::Terms(number, old) => {
                    self.cells[number as usize].terms = old;
                    self.note(number);
                }
                Undo::Map(old) => self.map = old,
                Undo::Client(owner, old) => self.owners[owner as usize].row = old,
            }
        }
    }

    /// Takes out how all changes since the last time are undone, and the cells that have changed.
    pub fn take_changes(&mut self) -> (Vec<Undo>, Vec<u32>) {
        self.generation += 1;
        (std::mem::take(&mut self.undo), std::mem::take(&mut self.noted))
    }

    pub fn row(&self, resv: &Resv) -> ReservationRow {
        let lane = &self.lanes[resv.lane as usize];
        ReservationRow {
            id: resv.id,
            owner: self.owners[resv.owner as usize].name.to_string(),
            idem: resv.idem.to_string(),
            digest: super::digest::to_hex(&resv.digest),
            kind: resv.kind,
            twin: resv.twin,
            path: lane.path,
            class: self.classes.name(lane.class).to_string(),
            bps: resv.bps,
            floor_bps: resv.floor_bps,
            priority: resv.priority,
            state: resv.state,
            peer_handle: resv.peer_handle.as_deref().map(str::to_owned),
            flow: resv.flow.to_string(),
            created_ms: resv.created_ms,
            expires_ms: resv.expires_ms,
        }
    }

    pub fn capacity_row(&self, cell: &Cell) -> CapacityRow {
        CapacityRow {
            link: cell.link,
            class: self.classes.name(cell.class).to_string(),
            bps: cell.terms.bps,
            reserved: cell.reserved,
            short: cell.is_short(),
        }
    }
}
