//! Editions: how a policy becomes the one in force, and how it returns.
//!
//! ```text
//!            proposed            checked             committed         written
//!   Idle ─────────────► Candidate ───────► Ready ───────────► Writing ─────────► Idle
//!    ▲ ▲                 │ ▲ │ broken       │ ▲                 │  │                │
//!    │ └── withdrawn ────┴─┼─┴──────────────┘ └──── failed ─────┘  │ to be confirmed
//!    │                     └── proposed (both)                     ▼
//!    │      written                 confirmed, rolled back,  ToConfirm
//!    └──────────────── Settling ◄── late ─────────────────────────┘ ▲
//!                          └──────────────── failed ────────────────┘
//! ```
//!
//! A candidate that was found without faults may be tried before it is committed ([`Output::Try`]); whoever tries it says
//! whether a guarantee would break. Rolling back is an edition of its own with the policy of another, so numbers only rise and
//! history has no branches. What was not confirmed in time returns by itself, also after a restart.
//!
//! Changes are plain rows: whoever drives the machine writes them in one transaction, together with what agents are to take
//! over, and says so. Only then is an edition in force.

mod rows;
mod states;
mod wish;

pub use rows::{Change, EditionRow, EditionState, Group, sha256_of};
pub use wish::{Broken, Input, Output, Refused, Wish};

use crate::diff::row_changes;
use crate::model::Policy;
use crate::validate::faults;
use perhop_units::{Duration, Instant};
use states::{Event, State, step};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Editions of the past that are known at once; older ones are in the store.
pub const MAX_HISTORY: usize = 10_000;
/// Characters of an author or a reason.
pub const MAX_TEXT: usize = 1_000;
/// How long an edition may wait to be confirmed.
pub const CONFIRM_WITHIN: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(7 * 86_400);
/// What is written for the domain itself.
pub const DOMAIN: &str = "domain";
/// What could not be written is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// A policy that may become an edition.
#[derive(Debug)]
struct Candidate {
    number: u64,
    policy: Arc<Policy>,
    /// Who proposed it and waits to hear of the trial.
    request: Option<u64>,
}

/// What is being written.
#[derive(Debug)]
struct Writing {
    group: Group,
    row: EditionRow,
    /// The row that it ends, if it settles what waited to be confirmed.
    ends: Option<EditionRow>,
    policy: Arc<Policy>,
    request: Option<u64>,
}

/// An edition that waits to be confirmed, and what it returns to.
#[derive(Debug)]
struct Pending {
    until: Instant,
    fallback: Arc<Policy>,
}

/// Somebody who waits for the policy of an edition.
#[derive(Debug)]
struct Loading {
    edition: u64,
    request: u64,
    by: String,
    reason: String,
}

/// See the module.
#[derive(Debug)]
pub struct Editions {
    state: State,
    unix_ms_at_zero: u64,
    history: BTreeMap<u64, EditionRow>,
    in_force: Arc<Policy>,
    candidates: u64,
    candidate: Option<Candidate>,
    writing: Option<Writing>,
    pending: Option<Pending>,
    loading: Option<Loading>,
    /// The deadline that passed is tried again then.
    again: Option<Instant>,
    groups: u64,
    outputs: VecDeque<Output>,
}

/// What the store has at start.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Editions by number, at least the last; none = there was none yet.
    pub editions: Vec<EditionRow>,
    /// The policy of the last.
    pub in_force: Policy,
    /// The policy of the last's parent, if the last waits to be confirmed.
    pub fallback: Option<Policy>,
}

impl Editions {
    /// Goes on from what is kept. `unix_ms_at_zero`: ms from 1970 to the beginning of the machine's clock.
    pub fn new(kept: Kept, unix_ms_at_zero: u64) -> Self {
        let history: BTreeMap<u64, EditionRow> = kept.editions.into_iter().map(|row| (row.n, row)).collect();
        let last = history.values().next_back();
        let until = last.filter(|row| row.state == EditionState::ToConfirm).and_then(|row| row.confirm_by_ms);
        let pending = until.map(|until_ms| Pending {
            until: Instant(0) + Duration::from_millis(until_ms.saturating_sub(unix_ms_at_zero)),
            fallback: Arc::new(kept.fallback.unwrap_or_default()),
        });
        let mut this = Self {
            state: if pending.is_some() { State::ToConfirm } else { State::Idle },
            unix_ms_at_zero,
            history,
            in_force: Arc::new(kept.in_force),
            candidates: 0,
            candidate: None,
            writing: None,
            pending,
            loading: None,
            again: None,
            groups: 0,
            outputs: VecDeque::new(),
        };
        this.shorten();
        this
    }

    /// Takes one input. All outputs must be polled before the next.
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        debug_assert!(self.outputs.is_empty(), "poll the outputs before the next input");
        match input {
            Input::Wish { request, by, wish } => {
                if let Err(refused) = self.wish(now, request, by, wish) {
                    self.answer(request, Err(refused));
                }
            }
            Input::Tried { candidate, broken } => self.tried(candidate, broken),
            Input::Loaded { edition, policy } => self.loaded(now, edition, policy),
            Input::Written { group, done } => self.written(now, group, done),
            Input::Tick => {}
        }
        if self.next_wakeup().is_some_and(|due| due <= now) {
            self.late(now);
        }
        self.check();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When an input is due at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let until =
            self.pending.as_ref().filter(|_| self.state == State::ToConfirm).map(|pending| pending.until);
        until.map(|until| self.again.map_or(until, |again| again.max(until)))
    }

    /// The number of the edition in force; 0 = there was none yet.
    pub fn number(&self) -> u64 {
        self.history.keys().next_back().copied().unwrap_or(0)
    }

    /// The policy in force.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.in_force
    }

    /// Editions that are known, the last first.
    pub fn history(&self) -> impl Iterator<Item = &EditionRow> {
        self.history.values().rev()
    }

    /// Whether the edition in force returns unless it is confirmed, and when.
    pub fn confirm_by(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.until)
    }

    // ---- what somebody wants

    fn wish(&mut self, now: Instant, request: u64, by: String, wish: Wish) -> Result<(), Refused> {
        if by.chars().count() > MAX_TEXT {
            return Err(Refused::OutOfRange);
        }
        match wish {
            Wish::Propose { policy, base, trial } => self.propose(request, policy, base, trial),
            Wish::Withdraw => {
                self.take(Event::Withdraw)?;
                self.drop_candidate();
                self.answer(request, Ok(self.number()));
                Ok(())
            }
            Wish::Commit { reason, confirm_within } => self.commit(now, request, by, reason, confirm_within),
            Wish::Confirm => self.confirm(request),
            Wish::Rollback { to, reason } => self.rollback(now, request, by, to, reason),
        }
    }

    fn propose(&mut self, request: u64, policy: Box<Policy>, base: u64, trial: bool) -> Result<(), Refused> {
        self.may(Event::Propose { trial })?;
        if base != self.number() {
            return Err(Refused::Stale { in_force: self.number() });
        }
        let problems = faults(&policy);
        if !problems.is_empty() {
            return Err(Refused::Faults(problems));
        }
        self.take(Event::Propose { trial })?;
        self.drop_candidate();
        self.candidates += 1;
        let (candidate, policy) = (self.candidates, Arc::<Policy>::from(policy));
        self.candidate =
            Some(Candidate { number: candidate, policy: policy.clone(), request: trial.then_some(request) });
        match trial {
            true => self.outputs.push_back(Output::Try { candidate, policy }),
            false => self.answer(request, Ok(self.number())),
        }
        Ok(())
    }

    fn tried(&mut self, number: u64, broken: Vec<Broken>) {
        let Some(candidate) = self.candidate.as_mut().filter(|candidate| candidate.number == number) else {
            return;
        };
        let request = candidate.request.take();
        let is_sound = broken.is_empty();
        if self.take(if is_sound { Event::Sound } else { Event::Broken }).is_err() {
            return;
        }
        if !is_sound {
            self.candidate = None;
        }
        if let Some(request) = request {
            self.answer(request, if is_sound { Ok(self.number()) } else { Err(Refused::Broken(broken)) });
        }
    }

    /// Another takes its place, or it is not wanted any more: who waits for its trial hears so.
    fn drop_candidate(&mut self) {
        if let Some(request) = self.candidate.take().and_then(|candidate| candidate.request) {
            self.answer(request, Err(Refused::NoCandidate));
        }
    }

    fn commit(
        &mut self,
        now: Instant,
        request: u64,
        by: String,
        reason: String,
        confirm_within: Option<Duration>,
    ) -> Result<(), Refused> {
        let is_time = confirm_within.is_none_or(|within| CONFIRM_WITHIN.contains(&within));
        if !is_time || reason.chars().count() > MAX_TEXT {
            return Err(Refused::OutOfRange);
        }
        self.take(Event::Commit)?;
        let Some(candidate) = &self.candidate else { return Err(Refused::NoCandidate) };
        let policy = candidate.policy.clone();
        let row = self.row(now, by, reason, confirm_within, &policy);
        self.write(row, None, policy, Some(request));
        Ok(())
    }

    fn confirm(&mut self, request: u64) -> Result<(), Refused> {
        self.take(Event::Confirm)?;
        let Some(row) = self.history.values().next_back().cloned() else {
            return Err(Refused::NothingPending);
        };
        let row = EditionRow { state: EditionState::Confirmed, ..row };
        self.write(row, None, self.in_force.clone(), Some(request));
        Ok(())
    }

    fn rollback(
        &mut self,
        now: Instant,
        request: u64,
        by: String,
        to: u64,
        reason: String,
    ) -> Result<(), Refused> {
        if reason.chars().count() > MAX_TEXT {
            return Err(Refused::OutOfRange);
        }
        if to >= self.number() || to == 0 {
            return Err(Refused::NoEdition(to));
        }
        if self.loading.is_some() {
            return Err(Refused::Busy);
        }
        if self.state == State::ToConfirm {
            let parent = self.history.values().next_back().map_or(0, |row| row.parent);
            if to != parent {
                return Err(Refused::Pending(self.number()));
            }
            return self.return_to_fallback(now, by, reason, Some(request));
        }
        self.may(Event::Rollback)?;
        self.loading = Some(Loading { edition: to, request, by, reason });
        self.outputs.push_back(Output::Load { edition: to });
        Ok(())
    }

    fn loaded(&mut self, now: Instant, edition: u64, policy: Option<Box<Policy>>) {
        let Some(loading) = self.loading.take_if(|loading| loading.edition == edition) else { return };
        let Some(policy) = policy.map(Arc::from) else {
            return self.answer(loading.request, Err(Refused::NoEdition(edition)));
        };
        if let Err(refused) = self.take(Event::Rollback) {
            return self.answer(loading.request, Err(refused));
        }
        self.drop_candidate();
        let row = self.row(now, loading.by, loading.reason, None, &policy);
        self.write(row, None, policy, Some(loading.request));
    }

    // ---- what is not confirmed

    fn late(&mut self, now: Instant) {
        let refused = self.return_to_fallback(now, DOMAIN.into(), "not confirmed in time".into(), None);
        debug_assert!(refused.is_ok(), "only what waits is late");
    }

    fn return_to_fallback(
        &mut self,
        now: Instant,
        by: String,
        reason: String,
        request: Option<u64>,
    ) -> Result<(), Refused> {
        self.take(Event::Return)?;
        let Some(pending) = &self.pending else { return Err(Refused::NothingPending) };
        let policy = pending.fallback.clone();
        let ended = self.history.values().next_back().cloned();
        let ended = ended.map(|row| EditionRow { state: EditionState::Reverted, ..row });
        let row = self.row(now, by, reason, None, &policy);
        self.write(row, ended, policy, request);
        Ok(())
    }

    // ---- writing

    fn row(
        &self,
        now: Instant,
        author: String,
        reason: String,
        confirm_within: Option<Duration>,
        policy: &Policy,
    ) -> EditionRow {
        let at_ms = self.unix_ms_at_zero + now.as_nanos() / 1_000_000;
        let within_ms = confirm_within.map(|within| within.as_nanos().div_ceil(1_000_000));
        EditionRow {
            n: self.number() + 1,
            parent: self.number(),
            author,
            at_ms,
            reason,
            state: if within_ms.is_some() { EditionState::ToConfirm } else { EditionState::Confirmed },
            confirm_by_ms: within_ms.map(|within| at_ms + within),
            sha256: sha256_of(policy),
        }
    }

    fn write(
        &mut self,
        row: EditionRow,
        ends: Option<EditionRow>,
        policy: Arc<Policy>,
        request: Option<u64>,
    ) {
        self.groups += 1;
        let edition = row.n;
        let rows = row_changes(&self.in_force, &policy);
        let editions = ends.iter().chain([&row]).cloned().map(Change::Edition);
        let policies = rows.into_iter().map(|change| Change::Policy { edition, change });
        let group = Group { number: self.groups, changes: editions.chain(policies).collect() };
        let before = self.in_force.clone();
        self.outputs.push_back(Output::Write { group: group.clone(), before, after: policy.clone() });
        self.writing = Some(Writing { group, row, ends, policy, request });
    }

    fn written(&mut self, now: Instant, group: u64, done: bool) {
        let Some(writing) = self.writing.take_if(|writing| writing.group.number == group) else { return };
        let to_confirm = writing.row.state == EditionState::ToConfirm;
        let candidate = self.candidate.is_some();
        let event = if done { Event::Written { to_confirm } } else { Event::NotWritten { candidate } };
        if self.take(event).is_err() {
            debug_assert!(false, "what is written was asked for");
            return;
        }
        if !done {
            self.again = Some(now + RETRY);
            if let Some(request) = writing.request {
                self.answer(request, Err(Refused::NotWritten));
            }
            return;
        }
        let edition = writing.row.n;
        let is_other = writing.policy != self.in_force || !self.history.contains_key(&edition);
        let until = writing.row.confirm_by_ms.filter(|_| to_confirm);
        let fallback = std::mem::replace(&mut self.in_force, writing.policy);
        self.pending = until.map(|until_ms| Pending {
            until: Instant(0) + Duration::from_millis(until_ms.saturating_sub(self.unix_ms_at_zero)),
            fallback,
        });
        (self.candidate, self.again) = (None, None);
        self.history.extend(writing.ends.into_iter().chain([writing.row]).map(|row| (row.n, row)));
        self.shorten();
        if is_other {
            self.outputs.push_back(Output::InForce { edition, policy: self.in_force.clone() });
        }
        if let Some(request) = writing.request {
            self.answer(request, Ok(edition));
        }
    }

    // ---- helpers

    /// Whether an event may happen now.
    fn may(&self, event: Event) -> Result<State, Refused> {
        step(self.state, event).ok_or(match (self.state, event) {
            (State::Writing | State::Settling, _) => Refused::Busy,
            (_, Event::Confirm | Event::Return) => Refused::NothingPending,
            (State::ToConfirm, _) => Refused::Pending(self.number()),
            _ => Refused::NoCandidate,
        })
    }

    fn take(&mut self, event: Event) -> Result<(), Refused> {
        self.state = self.may(event)?;
        Ok(())
    }

    fn answer(&mut self, request: u64, answer: Result<u64, Refused>) {
        self.outputs.push_back(Output::Answer { request, answer });
    }

    fn shorten(&mut self) {
        while self.history.len() > MAX_HISTORY {
            self.history.pop_first();
        }
    }

    fn check(&self) {
        let is_writing = matches!(self.state, State::Writing | State::Settling);
        debug_assert_eq!(is_writing, self.writing.is_some(), "what is written is answered");
        let has_candidate = self.candidate.is_some();
        debug_assert!(match self.state {
            State::Candidate | State::Ready => has_candidate,
            State::Idle | State::ToConfirm | State::Settling => !has_candidate,
            State::Writing => true,
        });
        debug_assert!(
            !matches!(self.state, State::ToConfirm | State::Settling) || self.pending.is_some(),
            "what waits has something to return to"
        );
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
