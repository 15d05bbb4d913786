//! A ledger from what the database has.

use super::ask::Settings;
use super::books::{Books, Map, Resv, Terms};
use super::decide::RATES;
use super::group::Forming;
use super::states::State;
use super::{Ledger, digest};
use crate::record::{ReservationRow, Snapshot};
use perhop_units::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thiserror::Error;

/// Why the rows are not a domain's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// A capacity of a link that is not there.
    #[error("class {class} has a capacity of link {link}, which is not there")]
    NoLink {
        /// The link.
        link: u64,
        /// The class.
        class: String,
    },
    /// A path over a link that is not there.
    #[error("path {path} leads over link {link}, which is not there")]
    BrokenPath {
        /// The path.
        path: u64,
        /// The link.
        link: u64,
    },
    /// A reservation on a path that is not there, or whose class has nothing of a link of it.
    #[error("reservation {id} is of class {class} on path {path}, which does not have it")]
    NoLane {
        /// The reservation.
        id: u64,
        /// Its class.
        class: String,
        /// Its path.
        path: u64,
    },
    /// A rate that no reservation can have.
    #[error("reservation {id} has {bps} bit/s")]
    NoRate {
        /// The reservation.
        id: u64,
        /// Its rate.
        bps: u64,
    },
    /// A digest that is not 64 hexadecimal digits.
    #[error("reservation {id} has a digest that is none")]
    NoDigest {
        /// The reservation.
        id: u64,
    },
    /// Two reservations with one number, or with one key of one owner.
    #[error("reservation {id} is there twice, or has the same key as another of {owner}")]
    Twice {
        /// The reservation.
        id: u64,
        /// Its owner.
        owner: String,
    },
    /// A reservation whose other direction is not there, or does not know of it.
    #[error("reservation {id} has another direction that does not match")]
    NoTwin {
        /// The reservation.
        id: u64,
    },
}

/// A ledger while it is loaded, for whoever reads reservations one after the other: all of them as rows take as much memory as the
/// ledger itself.
#[derive(Debug)]
pub struct Loading {
    ledger: Ledger,
    reserved: BTreeMap<u32, u64>,
    twins: Vec<(u64, u64)>,
}

impl Loading {
    /// Takes all of a snapshot but its reservations, which are passed over.
    ///
    /// # Errors
    /// [`LoadError`]: the rows contradict each other.
    pub fn new(settings: Settings, snapshot: &mut Snapshot, now: Instant) -> Result<Self, LoadError> {
        let mut books = Books::new();
        let mut map = Map::default();
        map.nodes.extend(std::mem::take(&mut snapshot.nodes).into_iter().map(|row| (row.name.clone(), row)));
        map.links.extend(std::mem::take(&mut snapshot.links).into_iter().map(|row| (row.id, row)));
        let mut reserved = BTreeMap::new();
        for row in std::mem::take(&mut snapshot.capacities) {
            if !map.links.contains_key(&row.link) {
                return Err(LoadError::NoLink { link: row.link, class: row.class });
            }
            let class = books.classes.add(&row.class);
            let number = books.make_cell(row.link, class);
            let cell = &mut books.cells[number as usize];
            cell.terms = Terms { present: true, bps: row.bps, scheduled: None };
            cell.remembered = Some(row.bps);
            reserved.insert(number, row.reserved);
        }
        for row in std::mem::take(&mut snapshot.paths) {
            if let Some(link) = row.links.iter().find(|link| !map.links.contains_key(link)) {
                return Err(LoadError::BrokenPath { path: row.id, link: *link });
            }
            map.paths.insert(row.id, Arc::new(row));
        }
        for row in std::mem::take(&mut snapshot.clients) {
            let owner = books.own(&row.name);
            books.owners[owner as usize].row = Some(Arc::new(row));
        }
        map.find_pairs();
        let last = |last: Option<&u64>| last.copied().unwrap_or(0);
        let (last_link, last_path) = (last(map.links.keys().next_back()), last(map.paths.keys().next_back()));
        books.map = Arc::new(map);
        let ledger = Ledger {
            settings,
            state: State::Ready,
            now,
            books,
            forming: Forming::default(),
            flight: None,
            outputs: VecDeque::new(),
            number: 0,
            audit_seq: snapshot.audit_seq,
            last_reservation: snapshot.last_reservation,
            last_link,
            last_path,
            paused_until_ms: 0,
            told: BTreeMap::new(),
            remembered_until_ms: None,
            next_change_ms: None,
        };
        let remembered_until_ms = Some(ledger.now_ms().saturating_add(settings.remember_ms));
        let ledger = Ledger { remembered_until_ms, ..ledger };
        Ok(Self { ledger, reserved, twins: Vec::new() })
    }

    /// Takes a reservation.
    ///
    /// # Errors
    /// [`LoadError`]: it contradicts other rows.
    pub fn reservation(&mut self, row: ReservationRow) -> Result<(), LoadError> {
        let books = &mut self.ledger.books;
        let (id, path) = (row.id, row.path);
        let map = books.map.clone();
        let number = map.path(path).zip(books.classes.get(&row.class));
        let lane = number.and_then(|(path, class)| books.lane(&path, class).ok());
        let Some(lane) = lane else { return Err(LoadError::NoLane { id, class: row.class, path }) };
        let Some(digest) = digest::from_hex(&row.digest) else { return Err(LoadError::NoDigest { id }) };
        if !RATES.contains(&row.bps) {
            return Err(LoadError::NoRate { id, bps: row.bps });
        }
        let owner = books.own(&row.owner);
        let idem: Arc<str> = row.idem.into();
        if books.reservation(id).is_some() || books.by_key(owner, &idem).is_some() {
            return Err(LoadError::Twice { id, owner: row.owner });
        }
        self.twins.extend(row.twin.map(|twin| (id, twin)));
        self.ledger.last_reservation = self.ledger.last_reservation.max(id);
        let resv = Resv {
            id,
            owner,
            idem,
            digest,
            kind: row.kind,
            twin: row.twin,
            lane,
            bps: row.bps,
            floor_bps: row.floor_bps,
            priority: row.priority,
            state: row.state,
            peer_handle: row.peer_handle.map(Into::into),
            flow: row.flow.into(),
            created_ms: row.created_ms,
            expires_ms: row.expires_ms,
        };
        books.swap(id, Some(Arc::new(resv)));
        Ok(())
    }

    /// The ledger. What capacities say is reserved is counted anew, and where it is wrong the rows are written again.
    ///
    /// # Errors
    /// [`LoadError::NoTwin`].
    pub fn finish(mut self) -> Result<Ledger, LoadError> {
        let books = &mut self.ledger.books;
        for (id, twin) in self.twins {
            if books.reservation(twin).is_none_or(|other| other.twin != Some(id)) {
                return Err(LoadError::NoTwin { id });
            }
        }
        let _ = books.take_changes();
        for (number, reserved) in self.reserved {
            if books.cells[number as usize].reserved != reserved {
                books.note(number);
            }
        }
        Ok(self.ledger)
    }
}

impl Ledger {
    /// A ledger with what the database has. Links carry what their rows say until [`super::Input::Topology`] tells more. Costs a
    /// few microseconds a reservation.
    ///
    /// # Errors
    /// [`LoadError`]: the rows contradict each other.
    pub fn load(settings: Settings, mut snapshot: Snapshot, now: Instant) -> Result<Self, LoadError> {
        let reservations = std::mem::take(&mut snapshot.reservations);
        let mut loading = Loading::new(settings, &mut snapshot, now)?;
        for row in reservations {
            loading.reservation(row)?;
        }
        loading.finish()
    }
}
