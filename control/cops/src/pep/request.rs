//! Where a request of a PEP stands, and the table of what happens to it (RFC 2748 §2.4, §2.5, §3.1, §3.2).
//!
//! ```text
//!              opened: REQ           answer
//!   Unsent ──────────────► Asked ─────────────► Decided
//!      ▲ ▲                  │ ▲ ▲                 │ │ lost: kept
//!      │ │            update│ │ └─ update, sync ──┘ │  change: delivered
//!      │ │                  ▼ │ answer: REQ         │
//!      │ └──── lost ──── Changed                    │
//!      └──────── lost (Asked), update while away ───┘
//!
//!   all: dropped, timed out, unreadable or refused → gone, with DRQ
//! ```
//!
//! There is one REQ without its answer at a time: what is asked anew meanwhile goes when the answer has come.

use crate::wire::Request;
use perhop_units::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// To be asked when the client is open.
    Unsent,
    /// Asked on this connection; the answer has not come.
    Asked,
    /// Asked, and to be asked again for something else.
    Changed,
    /// The PDP's decision on what is asked has come. Kept while there is no connection.
    Decided,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The client is open.
    Opened,
    /// The client is open no longer.
    Lost,
    /// Something else is asked, while the client is open or not.
    Update,
    UpdateAway,
    /// A decision: the solicited one, or another.
    Answer,
    Change,
    /// The PDP wants to hear it again.
    Sync,
    /// No answer has come for too long.
    Timeout,
}

/// Which question a decision answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// What is asked now.
    Request,
    /// What was asked before it was changed; another decision follows.
    Earlier,
    /// None: the PDP has changed its mind.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Send,
    Deliver(Answers),
    /// Delivers what answers the earlier question, and asks the new one.
    DeliverAndSend,
}

/// What an event does to a request. `None`: it has timed out and is gone.
pub(super) fn step(state: State, event: Event) -> Option<(State, Action)> {
    use State::{Asked, Changed, Decided, Unsent};
    let (next, action) = match (state, event) {
        (Unsent, Event::Opened) => (Asked, Action::Send),
        (Asked | Changed, Event::Lost) | (Decided, Event::UpdateAway) => (Unsent, Action::Nothing),
        (Asked, Event::Update) => (Changed, Action::Nothing),
        (Decided, Event::Update | Event::Sync) => (Asked, Action::Send),
        (Asked, Event::Answer) => (Decided, Action::Deliver(Answers::Request)),
        (Changed, Event::Answer) => (Asked, Action::DeliverAndSend),
        (Decided, Event::Answer) | (Asked | Changed | Decided, Event::Change) => {
            (state, Action::Deliver(Answers::Nothing))
        }
        (Unsent | Asked | Changed, Event::Timeout) => return None,
        (
            Unsent,
            Event::Lost | Event::Update | Event::UpdateAway | Event::Answer | Event::Change | Event::Sync,
        )
        | (Asked | Changed, Event::Opened | Event::Sync | Event::UpdateAway)
        | (Changed, Event::Update)
        | (Decided, Event::Opened | Event::Lost | Event::Timeout) => (state, Action::Nothing),
    };
    Some((next, action))
}

/// A request.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) request: Box<Request>,
    /// A PDP may know it, so it must be deleted there.
    pub(super) is_known: bool,
    /// A decision has come at some time.
    pub(super) is_decided: bool,
    /// Decisions that have not been reported on.
    pub(super) unreported: u16,
    /// When the answer must have come; none in [`State::Decided`].
    pub(super) deadline: Option<Instant>,
    /// Of accounting.
    pub(super) last_report: Option<Instant>,
}
