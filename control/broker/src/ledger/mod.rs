//! The domain's ledger: who has reserved how much of what its links carry.
//!
//! ```text
//!          seal                written
//! Ready ─────────► Writing ─────────────► Ready
//!   ▲                 │ failed
//!   │ pause over      ▼
//!   └────────────── Paused          any ── another instance leads ──► Over
//! ```
//!
//! Decisions are made in memory at once. What is decided while a group is being written forms the next; a decision is
//! answered when its group is in the database. If a group fails, everything that is not in the database is undone in reverse
//! order, and all who wait are told so: decisions of the next group may rest on those of the one that failed. For the same reason a
//! refusal that rests on a decision still on its way is answered together with it.
//!
//! Time is that of the wall, ns since 1970 UTC, and is taken as standing still where it goes backwards.

mod admit;
mod ask;
mod audit;
mod books;
mod decide;
mod digest;
mod domain;
mod group;
mod load;
mod names;
mod read;
mod short;
mod states;

pub use ask::{
    AskId, ClientChange, Granted, Held, Input, MOST_FLOW, MOST_KEY, OnShort, Output, Refusal, Request,
    Reserve, Settings, Told, Way,
};
pub use audit::DOMAIN;
pub use load::{LoadError, Loading};
pub use read::{ClassView, LinkView};

use books::Books;
use group::{Flight, Forming};
use perhop_reason::Code;
use perhop_units::Instant;
use states::{Event, State};
use std::collections::{BTreeMap, VecDeque};

/// Nobody pauses for less after a group that failed, ms.
const LEAST_PAUSE_MS: u64 = 10;
/// When to try again if too much is waiting, ms.
const BUSY_MS: u32 = 100;

/// Decides what is reserved. One for a domain at a time: see [`Settings::fence`].
#[derive(Debug)]
pub struct Ledger {
    settings: Settings,
    state: State,
    now: Instant,
    books: Books,
    forming: Forming,
    flight: Option<Flight>,
    outputs: VecDeque<Output>,
    /// Number of the last group.
    number: u64,
    audit_seq: u64,
    last_reservation: u64,
    last_link: u64,
    last_path: u64,
    paused_until_ms: u64,
    /// Rates of links as they were last told. Nothing undoes them: they are facts.
    told: BTreeMap<u64, u64>,
    /// Until when what links had before the start is remembered; none = not any more.
    remembered_until_ms: Option<u64>,
    /// When the rate of a link changes next by its schedule.
    next_change_ms: Option<u64>,
}

impl Ledger {
    /// Takes an input at `now`. Costs what it decides; what it says waits in [`Ledger::poll_output`].
    pub fn handle_input(&mut self, now: Instant, input: Input) {
        self.now = self.now.max(now);
        self.pass_time();
        match input {
            Input::Ask { ask, client, request } => self.ask(ask, &client, request),
            Input::Written { number } => {
                if self.flight.as_ref().is_some_and(|flight| flight.number == number)
                    && self.step(Event::Written)
                {
                    self.written();
                    self.pass_time();
                }
            }
            Input::Failed { number, code, retry_after_ms } => self.failed(number, code, retry_after_ms),
            Input::Replaced => self.replaced(),
            Input::Topology { ask, who, topology } => self.take_topology(ask, &who, &topology),
            Input::Rate { who, link, bps } => self.take_rate(&who, link, bps),
            Input::Client { ask, who, change } => self.take_client(ask, &who, change),
            Input::Refused { client, request, refusal } => {
                if self.closed().is_none()
                    && let Ok(owner) = self.who(&client)
                {
                    self.audit_refusal(owner, &request, &refusal);
                }
            }
            Input::Wake => {}
        }
    }

    /// Decides by these from now on; what is decided stays. The fence is that of the start.
    pub fn configure(&mut self, settings: Settings) {
        self.settings = Settings { fence: self.settings.fence, ..settings };
    }

    /// How it decides.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The next thing to say.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() && self.has_news() && self.step(Event::Sealed) {
            let group = self.seal();
            self.outputs.push_back(Output::Write(group));
        }
        self.outputs.pop_front()
    }

    /// When to say [`Input::Wake`] at the latest.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let ms = match self.state {
            State::Over => None,
            State::Paused => Some(self.paused_until_ms),
            State::Ready | State::Writing => {
                // A group that is full waits for the one before it.
                let first = self.books.by_end().next().map(|(end, _)| end);
                let end = first.filter(|_| self.forming.ended < self.settings.group);
                [end, self.next_change_ms, self.remembered_until_ms].into_iter().flatten().min()
            }
        };
        ms.map(|ms| Instant(ms.saturating_mul(1_000_000)))
    }

    fn now_ms(&self) -> u64 {
        self.now.0 / 1_000_000
    }

    /// Goes on by the table; false = the event does not belong here.
    fn step(&mut self, event: Event) -> bool {
        match self.state.after(event) {
            Some(state) => {
                self.state = state;
                true
            }
            None => false,
        }
    }

    /// Whatever was due until now.
    fn pass_time(&mut self) {
        let now_ms = self.now_ms();
        if self.state == State::Paused && now_ms >= self.paused_until_ms && self.step(Event::Resumed) {
            self.reshape_all();
        }
        if !matches!(self.state, State::Ready | State::Writing) {
            return;
        }
        if self.remembered_until_ms.is_some_and(|until| until <= now_ms) {
            self.forget_remembered();
        }
        if self.next_change_ms.is_some_and(|change| change <= now_ms) {
            self.reshape_all();
        }
        self.end_due();
    }

    fn failed(&mut self, number: u64, code: Code, retry_after_ms: u32) {
        if self.flight.as_ref().is_none_or(|flight| flight.number != number) {
            return;
        }
        if matches!(code, Code::Fenced | Code::HeldElsewhere) {
            return self.replaced();
        }
        if self.step(Event::Failed) {
            let pause_ms = u64::from(retry_after_ms).max(LEAST_PAUSE_MS);
            self.paused_until_ms = self.now_ms().saturating_add(pause_ms);
            self.undo_all(&self.pausing());
        }
    }

    fn replaced(&mut self) {
        if self.step(Event::Replaced) {
            self.undo_all(&elsewhere());
        }
    }

    /// Why nothing is decided now.
    fn pausing(&self) -> Refusal {
        let rest = self.paused_until_ms.saturating_sub(self.now_ms());
        let retry_after_ms = u32::try_from(rest).unwrap_or(u32::MAX);
        Refusal {
            retry_after_ms,
            ..Refusal::new(Code::BackendFailed, "the database does not take decisions")
        }
    }

    /// Why nothing can be decided at all, if so.
    fn closed(&self) -> Option<Refusal> {
        match self.state {
            State::Ready | State::Writing => None,
            State::Paused => Some(self.pausing()),
            State::Over => Some(elsewhere()),
        }
    }
}

fn elsewhere() -> Refusal {
    Refusal::new(Code::HeldElsewhere, "another instance leads the domain")
}
