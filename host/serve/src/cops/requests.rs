//! What a door knows of its clients' requests: what waits for its turn, and which reservation each has.
//!
//! ```text
//!              ask: being decided           decided
//!   Idle ───────────────────────► Busy ───────────────► Idle, with a reservation or none
//!     │ renewal is due, or the request is deleted: being done ▲
//!     └───────────────────────────────────────────────────────┘
//!   gone when idle, nothing waits, there is no reservation, and the request was deleted or refused with an error
//! ```
//!
//! Of a request one thing is done at a time, in the order in which it was asked.

use perhop_broker::record::ReservationId;
use perhop_cops::dra::Tag;
use perhop_cops::pdp::PeerId;
use perhop_cops::wire::{Handle, Request};
use perhop_tcapi::wire::Request as Reservation;
use perhop_units::Instant;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Something that is to be done with a request.
#[derive(Debug)]
pub(super) enum Work {
    /// A question of this number.
    Ask(u64, Box<Request>),
    /// The client has it no more.
    Release,
}

/// A request.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) waiting: VecDeque<Work>,
    pub(super) is_busy: bool,
    /// Its reservation, as it was granted last.
    pub(super) holds: Option<Grant>,
    /// When the reservation is to be renewed.
    due: Option<Instant>,
    /// The machine does not know it any more.
    pub(super) is_deleted: bool,
}

/// What was granted.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) id: ReservationId,
    pub(super) tag: Tag,
    pub(super) lifetime_ms: Option<u64>,
}

impl Grant {
    pub(super) fn new(id: ReservationId, tag: Tag, wanted: &Reservation) -> Self {
        let seconds = wanted.lifetime_s.filter(|seconds| *seconds > 0);
        Self { id, tag, lifetime_ms: seconds.map(|seconds| u64::from(seconds) * 1_000) }
    }
}

/// A client of a PEP.
#[derive(Debug)]
pub(super) struct Client {
    /// The domain's name for it.
    pub(super) name: Arc<str>,
    /// Connections on which it is open: one, and two while it moves.
    pub(super) open: u8,
    /// The last of them.
    connection: u64,
    /// What it has from before is being sorted out: nothing else is done meanwhile.
    pub(super) is_sorting: bool,
    pub(super) requests: BTreeMap<Handle, Entry>,
}

impl Client {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self { name, open: 0, connection: 0, is_sorting: false, requests: BTreeMap::new() }
    }

    /// It is open on a connection; `false`: it was before, and only said once more how.
    pub(super) fn opened(&mut self, connection: u64) -> bool {
        let is_new = self.open == 0 || self.connection != connection;
        self.open += u8::from(is_new);
        self.connection = connection;
        is_new
    }
}

/// All clients of a door.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) clients: BTreeMap<PeerId, Client>,
    /// Whose reservation has this number.
    pub(super) holders: HashMap<ReservationId, (PeerId, Handle)>,
    renewals: BTreeSet<(Instant, PeerId, Handle)>,
}

impl Requests {
    pub(super) fn entry(&mut self, peer: &PeerId, handle: &Handle) -> Option<&mut Entry> {
        self.clients.get_mut(peer)?.requests.get_mut(handle)
    }

    /// Has something done when its turn comes.
    pub(super) fn add(&mut self, peer: &PeerId, handle: &Handle, work: Work) {
        let Some(client) = self.clients.get_mut(peer) else { return };
        match work {
            Work::Ask(..) => {
                let entry = client.requests.entry(handle.clone()).or_default();
                entry.is_deleted = false;
                entry.waiting.push_back(work);
            }
            Work::Release => {
                let Some(entry) = client.requests.get_mut(handle) else { return };
                // Nobody waits for the answers any more.
                entry.waiting.clear();
                entry.is_deleted = true;
                entry.waiting.push_back(work);
            }
        }
    }

    /// A reservation stands, and is to be renewed at some time.
    pub(super) fn holds(&mut self, peer: &PeerId, handle: &Handle, grant: Grant, due: Instant) {
        self.holders.insert(grant.id, (peer.clone(), handle.clone()));
        let Some(entry) = self.entry(peer, handle) else { return };
        let before = entry.holds.replace(grant.clone());
        if let Some(before) = before.filter(|before| before.id != grant.id) {
            self.holders.remove(&before.id);
        }
        self.set_due(peer, handle, Some(due));
    }

    /// A reservation is there no more.
    pub(super) fn lost(&mut self, peer: &PeerId, handle: &Handle) -> Option<Grant> {
        self.set_due(peer, handle, None);
        let grant = self.entry(peer, handle)?.holds.take()?;
        self.holders.remove(&grant.id);
        Some(grant)
    }

    pub(super) fn set_due(&mut self, peer: &PeerId, handle: &Handle, due: Option<Instant>) {
        let Some(entry) = self.clients.get_mut(peer).and_then(|client| client.requests.get_mut(handle))
        else {
            return;
        };
        if let Some(at) = entry.due.take() {
            self.renewals.remove(&(at, peer.clone(), handle.clone()));
        }
        entry.due = due;
        if let Some(at) = due {
            self.renewals.insert((at, peer.clone(), handle.clone()));
        }
    }

    pub(super) fn next_renewal(&self) -> Option<Instant> {
        self.renewals.first().map(|(at, ..)| *at)
    }

    /// The next reservation whose renewal is due, once.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(PeerId, Handle)> {
        let (_, peer, handle) = self.renewals.first().filter(|(at, ..)| *at <= now)?.clone();
        self.set_due(&peer, &handle, None);
        Some((peer, handle))
    }

    /// All that have a reservation.
    pub(super) fn holding(&self) -> Vec<(PeerId, Handle)> {
        self.holders.values().cloned().collect()
    }

    /// Forgets a request of which nothing is left, and a client.
    pub(super) fn tidy(&mut self, peer: &PeerId, handle: &Handle) {
        let Some(client) = self.clients.get_mut(peer) else { return };
        let is_over = |e: &Entry| e.is_deleted && !e.is_busy && e.waiting.is_empty() && e.holds.is_none();
        if client.requests.get(handle).is_some_and(is_over) {
            client.requests.remove(handle);
        }
        self.tidy_client(peer);
    }

    pub(super) fn tidy_client(&mut self, peer: &PeerId) {
        let is_over = |c: &Client| c.open == 0 && !c.is_sorting && c.requests.is_empty();
        if self.clients.get(peer).is_some_and(is_over) {
            self.clients.remove(peer);
        }
    }

    /// Forgets a request without doing anything about its reservation, which ends by itself.
    pub(super) fn forget(&mut self, peer: &PeerId, handle: &Handle) {
        self.lost(peer, handle);
        if let Some(entry) = self.entry(peer, handle) {
            entry.waiting.clear();
            entry.is_deleted = true;
        }
        self.tidy(peer, handle);
    }
}
