//! The router's contract as a sans-I/O machine: owners, fences, validation, replay, events.
//!
//! [`Control`] owns the objects of a router. Requests come in as [`Input`]; what must happen to the data plane comes
//! out as [`Output::Apply`], planned by a [`Planner`] that reserves everything first, so that applying cannot fail. A
//! commit is answered when every worker has switched ([`Input::Applied`]). One commit is in flight at a time; others
//! wait in a bounded queue.
#![forbid(unsafe_code)]

mod commit;
mod deadlines;
mod events;
mod hits;
mod index;
mod kept;
mod objects;
mod owners;
mod read;
mod replay;
mod scaled;
mod soft;
mod store;
mod submit;
mod validate;
mod work;

pub use commit::{GraphRequest, RESET_ALL};
pub use events::{Events, RING as EVENT_RING};
pub use index::Index;
pub use objects::{Entry, Objects};
pub use replay::{KEPT_EACH, KEPT_FOR, KEPT_MAX, KEPT_TRANSACTIONS};
pub use store::Draft;
pub use submit::ERRORS_MAX;
pub use validate::{
    ABR_POLICIES, FRAME_MTU, Limits, MAX_DEPTH, MAX_RULED_CLASSES, Trees, foreign_goals, idle_fields,
    is_flat, leaf_fields, needs_rate, port_queue, port_rate, port_scheduler, touched_ports, unknown_fields,
    validate,
};

use owners::{Owners, Place};
use perhop_model::{
    Claim, Credentials, ErrorItem, EventKind, Key, Mode, ObjectState, Outcome, Owner, Reply, Role,
    Transaction, TxnId,
};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use replay::{Replays, RequestDigest};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Requests that may wait.
pub const QUEUE_LIMIT: usize = 1024;
/// How long a removed class may drain unless the request says otherwise.
pub const DEFAULT_DRAIN: Duration = Duration::from_millis(1000);
/// Commits that may wait for their confirmation at the same time. Whatever is committed meanwhile must stay valid
/// whichever of them are taken back, so each doubles the work of a check.
pub const MAX_PENDING: usize = 4;
/// Name of the limit on owners where hits are counted.
const OWNERS_LIMIT: &str = "owners";
/// How long soft state, and a lease, may last unless it is renewed, ms: up to a week.
pub const TTL_MS: RangeInclusive<u64> = 1..=7 * 86_400_000;
/// Soft state whose expiry something else forbids is tried again after this.
const EXPIRY_RETRY: Duration = Duration::from_secs(1);

/// A class that is going away: what the planner must let drain and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draining {
    /// Object.
    pub key: Key,
    /// Its id.
    pub id: u64,
    /// What is left then is dropped.
    pub until: Instant,
}

/// Turns states into changes of a data plane.
pub trait Planner {
    /// What a worker applies.
    type Change;

    /// Everything about `draft` (and a new graph) that this data plane cannot do. Mutates nothing.
    fn check(&self, draft: &Draft<'_>, graph: Option<&GraphRequest>) -> Vec<ErrorItem>;

    /// Plans and reserves the change to `draft`, which passed [`Planner::check`]. Cannot fail.
    fn plan(
        &mut self,
        now: Instant,
        draft: &Draft<'_>,
        draining: &[Draining],
        graph: Option<&GraphRequest>,
    ) -> Self::Change;
}

/// What happens to a control machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// A client asks for a transaction; answered by [`Output::Reply`] with the same `request`.
    Request {
        /// Chosen by the caller.
        request: u64,
        /// Who asks.
        who: Credentials,
        /// What.
        transaction: Box<Transaction>,
    },
    /// Every worker has applied a change.
    Applied {
        /// Of [`Output::Apply`].
        ticket: u64,
    },
    /// A removed class is empty.
    Drained {
        /// Id of the class object.
        id: u64,
        /// Packets dropped at the end of its time.
        dropped: u64,
    },
    /// Something else to be told to readers of events.
    Event(EventKind),
    /// Time passes.
    Tick,
    /// No more changes: everything waiting and to come is `shutting_down`.
    Shutdown,
}

/// What a control machine wants done.
#[derive(Debug)]
pub enum Output<C> {
    /// Apply this change in every worker, then say [`Input::Applied`].
    Apply {
        /// To be returned.
        ticket: u64,
        /// The change.
        change: C,
    },
    /// Answer a request.
    Reply {
        /// As given.
        request: u64,
        /// Answer.
        reply: Arc<Reply>,
    },
}

#[derive(Debug)]
struct Waiting {
    request: u64,
    who: Credentials,
    transaction: Box<Transaction>,
    received: Instant,
}

/// Why a change is on its way.
#[derive(Debug)]
enum Cause {
    Transaction { request: u64, reply: Box<Reply>, digest: RequestDigest, owner: Owner, forced: bool },
    Expired { keys: Vec<Key>, lapsed: Vec<Owner>, owners: Vec<Owner> },
    Reverted { owner: Owner, txn_id: TxnId },
}

#[derive(Debug)]
struct InFlight {
    ticket: u64,
    cause: Cause,
    /// To be told when it is in force.
    events: Vec<EventKind>,
}

/// A commit that must be confirmed.
#[derive(Debug)]
struct Pending {
    owner: Owner,
    txn_id: TxnId,
    deadline: Instant,
    undo: BTreeMap<Key, Option<Arc<Entry>>>,
    /// The graph before; an empty text is the router's own.
    undo_graph: Option<GraphRequest>,
}

/// The control half of a router.
#[derive(Debug)]
pub struct Control<P: Planner> {
    planner: P,
    limits: Limits,
    epoch: u64,
    revision: u64,
    generation: u64,
    next_id: u64,
    next_ticket: u64,
    objects: Objects,
    index: Index,
    graph: Option<GraphRequest>,
    /// By id.
    draining: BTreeMap<u64, ObjectState>,
    soft: soft::Soft,
    owners: Owners,
    /// Time of the latest input.
    now: Instant,
    replays: Replays,
    pending: Vec<Pending>,
    queue: VecDeque<Waiting>,
    in_flight: Option<InFlight>,
    outputs: VecDeque<Output<P::Change>>,
    events: Events,
    hits: hits::LimitHits,
    snapshots: read::Snapshots,
    expiry_retry: Option<Instant>,
    stopping: bool,
}

impl<P: Planner> Control<P> {
    /// An empty router of a new epoch.
    pub fn new(epoch: u64, planner: P, limits: Limits) -> Self {
        Self {
            planner,
            limits,
            epoch,
            revision: 0,
            generation: 0,
            next_id: 1,
            next_ticket: 1,
            objects: Objects::new(),
            index: Index::default(),
            graph: None,
            draining: BTreeMap::new(),
            soft: soft::Soft::default(),
            owners: Owners::default(),
            now: Instant::ZERO,
            replays: Replays::default(),
            pending: Vec::new(),
            queue: VecDeque::new(),
            in_flight: None,
            outputs: VecDeque::new(),
            events: Events::new(epoch),
            hits: hits::LimitHits::default(),
            snapshots: read::Snapshots::default(),
            expiry_retry: None,
            stopping: false,
        }
    }

    /// The planner.
    pub fn planner(&self) -> &P {
        &self.planner
    }
    /// The planner, mutable: for facts about the world (interfaces, addresses).
    pub fn planner_mut(&mut self) -> &mut P {
        &mut self.planner
    }
    /// Active objects.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }
    /// Current epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// Revision of the latest commit.
    pub fn revision(&self) -> u64 {
        self.revision
    }
    /// The packet graph given by the latest `replace_graph`; `None` = the router's own.
    pub fn graph(&self) -> Option<&GraphRequest> {
        self.graph.as_ref()
    }
    /// The event ring.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// How often each limit was hit that is counted here, by its name: see [`Limits`].
    pub fn limit_hits(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.hits.totals()
    }

    /// Bytes that kept answers take: of all owners, and of `owner`.
    pub fn kept_bytes(&self, owner: &Owner) -> (usize, usize) {
        self.replays.bytes(owner)
    }

    /// Takes an owner over, with a lease or without one from then on.
    ///
    /// # Errors
    /// [`Code::Forbidden`] when `who` may not speak for the owner, [`Code::OutOfRange`] when the lease is none,
    /// [`Code::Fenced`] when a newer instance has taken it over, [`Code::LimitReached`] when there are too many owners for a
    /// new one.
    pub fn claim(&mut self, now: Instant, who: &Credentials, claim: &Claim) -> Result<(), Code> {
        self.now = self.now.max(now);
        if who.role == Role::Read || !who.speaks.covers(&claim.owner) {
            return Err(Code::Forbidden);
        }
        if claim.ttl_ms.is_some_and(|ms| !TTL_MS.contains(&ms)) {
            return Err(Code::OutOfRange);
        }
        if !self.takes_owner(&claim.owner) {
            self.hits.hit(OWNERS_LIMIT, self.limits.owners);
            return Err(Code::LimitReached);
        }
        if claim.fence < self.owners.fence(&claim.owner) {
            return Err(Code::Fenced);
        }
        self.owners.accepted(self.now, &claim.owner, claim.fence);
        self.owners.set_keeps_answers(&claim.owner, claim.keeps_answers);
        if claim.keeps_answers {
            self.replays.forget_owner(&claim.owner);
        }
        let until = claim.ttl_ms.map(|ms| self.now + Duration::from_millis(ms));
        self.soft.lease(&claim.owner, until);
        Ok(())
    }

    /// Whether an owner is known or may become so; one that has nothing may be forgotten for it.
    fn takes_owner(&mut self, owner: &Owner) -> bool {
        let (pending, soft, now) = (&self.pending, &self.soft, self.now);
        let busy = |o: &Owner| soft.is_leased(now, o) || pending.iter().any(|p| p.owner == *o);
        match self.owners.place(self.now, owner, self.limits.owners, busy) {
            Place::Free => true,
            Place::Instead(gone) => {
                self.replays.forget_owner(&gone);
                self.soft.lease(&gone, None);
                true
            }
            Place::None => false,
        }
    }

    /// Feeds one input; poll the outputs afterwards.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Request { request, who, transaction } => self.enqueue(now, request, who, transaction),
            Input::Applied { ticket } => self.applied(now, ticket),
            Input::Drained { id, dropped } => self.drained(now, id, dropped),
            Input::Event(kind) => {
                self.events.push(now, kind);
            }
            Input::Tick => {}
            Input::Shutdown => self.shut_down(now),
        }
        self.advance(now);
        self.hits.tell(now, &mut self.events);
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output<P::Change>> {
        self.outputs.pop_front()
    }

    fn enqueue(&mut self, now: Instant, request: u64, who: Credentials, transaction: Box<Transaction>) {
        let refusal = if self.stopping {
            Some((Code::ShuttingDown, "the router is stopping", None))
        } else if self.queue.len() >= QUEUE_LIMIT {
            self.hits.hit("queue", QUEUE_LIMIT);
            Some((Code::Overload, "too many transactions are waiting", Some(100)))
        } else {
            None
        };
        match refusal {
            None => self.queue.push_back(Waiting { request, who, transaction, received: now }),
            Some((code, why, retry)) => {
                let mut reply = self.reply(&transaction, now, Outcome::Rejected);
                reply.errors = vec![whole(code, why.to_owned())];
                reply.retry_after_ms = retry;
                self.answer(request, Arc::new(reply));
            }
        }
    }

    /// Does whatever can be done now: deadlines first, then waiting requests, one commit at a time.
    fn advance(&mut self, now: Instant) {
        while self.in_flight.is_none() {
            if self.revert_due(now) || self.expire_due(now) {
                continue;
            }
            let Some(next) = self.queue.pop_front() else { break };
            self.serve(now, next);
        }
    }

    fn reply(&self, transaction: &Transaction, received: Instant, outcome: Outcome) -> Reply {
        Reply {
            epoch: self.epoch,
            revision: self.revision,
            generation: self.generation,
            txn_id: transaction.txn_id,
            outcome,
            replayed: false,
            received_ns: received.as_nanos(),
            committed_ns: 0,
            ops: Vec::new(),
            errors: Vec::new(),
            retry_after_ms: None,
        }
    }

    fn answer(&mut self, request: u64, reply: Arc<Reply>) {
        self.outputs.push_back(Output::Reply { request, reply });
    }
}

/// An error of a transaction as a whole.
fn whole(code: Code, message: String) -> ErrorItem {
    ErrorItem::new(code, "", message)
}

/// An error of one operation.
fn item(op: usize, path: &str, code: Code, message: String) -> ErrorItem {
    ErrorItem { op: Some(op), path: path.to_owned(), ..whole(code, message) }
}

/// Whether a transaction only asks.
fn only_checks(transaction: &Transaction) -> bool {
    transaction.mode == Mode::Check
}
