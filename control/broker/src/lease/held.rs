//! A lease at its holder: what of it is held, usable and used.

use super::message::at;
use super::settings::{ClassSettings, Model};
use super::states::State;
use super::{LeaseId, Settings};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeSet, VecDeque};

/// What the lease could not get for this reason is not asked for again before this time has passed, unless a flow needs it.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// What a question for more asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Chunks.
    Chunk,
    /// What is needed.
    Exact,
    /// What is needed by those who fit into what is said to be free.
    Fit,
}

/// A question that has not been answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) number: u64,
    pub(super) bps: u64,
    pub(super) first_sent: Instant,
    /// What was asked for is refused: the lease is as it was, and no longer.
    pub(super) refused: bool,
    pub(super) resend_at: Instant,
    pub(super) tries: u32,
}

/// See the module. `admitted` ≤ `usable` ≤ `target` ≤ `granted`, all in bit/s.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    pub(super) class: ClassSettings,
    /// It has the minimum also while nobody uses it.
    pub(super) keeps: bool,
    pub(super) state: State,
    /// What who gives it has certainly booked.
    pub(super) granted: u64,
    /// What of that is to be held: the router is to have as much.
    pub(super) target: u64,
    /// What of that the router has.
    pub(super) usable: u64,
    /// What flows have.
    pub(super) admitted: u64,
    /// Flows that have something, from the oldest on.
    pub(super) flows: BTreeSet<u64>,
    /// Flows that wait, in order, and what they need beyond what they have here.
    pub(super) waiting: VecDeque<u64>,
    pub(super) waiting_bps: u64,
    /// None of them needs less.
    pub(super) least_waiting: u64,
    /// What the open question, or the next, asks for.
    pub(super) attempt: Attempt,
    pub(super) open: Option<Open>,
    /// Number of the last question that was decided.
    pub(super) decided: u64,
    pub(super) renew_at: Instant,
    pub(super) expires: Instant,
    /// Nothing is asked for in advance before this.
    pub(super) grow_after: Instant,
    /// The number of the class's want that has its target, if the router has not answered that yet.
    pub(super) since: Option<u64>,
    /// The entry of the timers.
    pub(super) armed: Option<Instant>,
}

impl Lease {
    pub(super) fn new(id: LeaseId, class: &ClassSettings, keeps: bool) -> Self {
        // Whose flow it is has all of it, and nothing else.
        let own =
            ClassSettings { model: Model::Outsourced, chunk: 1, high_water: 0, low_water: 0, minimum: 0 };
        Self {
            class: if id.flow.is_some() { own } else { *class },
            keeps,
            id,
            state: State::None,
            granted: 0,
            target: 0,
            usable: 0,
            admitted: 0,
            flows: BTreeSet::new(),
            waiting: VecDeque::new(),
            waiting_bps: 0,
            least_waiting: u64::MAX,
            attempt: Attempt::Chunk,
            open: None,
            decided: 0,
            renew_at: Instant::FAR_FUTURE,
            expires: Instant::FAR_FUTURE,
            grow_after: Instant::ZERO,
            since: None,
            armed: None,
        }
    }

    /// What flows may still get without anybody being asked.
    pub(super) fn room(&self) -> u64 {
        self.usable - self.admitted
    }

    /// Nobody has or needs anything of it.
    pub(super) fn is_idle(&self) -> bool {
        self.flows.is_empty() && self.waiting.is_empty()
    }

    /// What it is never below.
    pub(super) fn floor(&self) -> u64 {
        let keeps = self.keeps || self.class.model == Model::Mixed || !self.is_idle();
        if keeps { self.class.minimum } else { 0 }
    }

    /// What all of its flows need, those that wait included.
    pub(super) fn needed(&self) -> u64 {
        self.admitted.saturating_add(self.waiting_bps)
    }

    /// What to ask for, if what is held is too little.
    pub(super) fn more(&self, now: Instant) -> Option<(u64, Attempt)> {
        let need = self.needed().saturating_sub(self.target);
        if need > 0 {
            let chunks = need.div_ceil(self.class.chunk).saturating_mul(self.class.chunk);
            return Some((self.target.saturating_add(chunks).max(self.floor()), Attempt::Chunk));
        }
        (self.target < self.floor() && self.grow_after <= now).then(|| (self.floor(), Attempt::Exact))
    }

    /// What to hold, if what is held is too much.
    pub(super) fn less(&self) -> Option<u64> {
        let free = self.target.saturating_sub(self.needed());
        if free <= self.class.high_water {
            return None;
        }
        let chunks = (free - self.class.low_water) / self.class.chunk * self.class.chunk;
        let to = (self.target - chunks).max(self.floor());
        (to < self.target).then_some(to)
    }

    /// Whether the open question is for more than is held.
    pub(super) fn is_growing(&self) -> bool {
        self.open.is_some_and(|open| open.bps > self.granted)
    }

    /// Whether half of its time has passed and nothing is on its way that renews it.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.renews() && self.renew_at <= now
    }

    fn renews(&self) -> bool {
        matches!(self.state, State::Held | State::Returning) && self.open.is_none() && self.granted > 0
    }

    /// When something is due.
    pub(super) fn next(&self, now: Instant, settings: &Settings) -> Option<Instant> {
        let resend = self.open.map(|open| open.resend_at);
        let gives_up =
            self.open.filter(|_| self.is_growing()).map(|open| open.first_sent + settings.patience);
        let renews = self.renews().then_some(self.renew_at);
        let expires = (self.granted > 0).then_some(self.expires);
        let grows = (self.target < self.floor() && self.grow_after > now).then_some(self.grow_after);
        at([resend, gives_up, renews, expires, grows])
    }

    /// Of an answer to a question that was first sent then.
    pub(super) fn renewed(&mut self, sent: Instant, settings: &Settings) {
        self.renew_at = sent + Duration(settings.lifetime.0 / 2);
        self.expires = sent + Duration(settings.lifetime.0 - settings.margin.0);
    }
}
