//! States of a session, and the table of what happens in them.
//!
//! ```text
//!        appeared            taken            objects            wish
//!   Away ───────► Claiming ────────► Reading ────────► Running ─────────► Submitting
//!                  ▲  ▲ │              ▲                 ▲ │                │ │ │
//!                  │  └─┘              └─ refused ───────┼─┼────────────────┘ │ │
//!                  │  busy, due,                         └─┼─ committed ──────┘ │
//!                  │  too low                              │                    │
//!                  └─ changed, another life ───────────────┴─ another life ─────┘
//!
//!   all but Superseded: gone → Away       Claiming: barred, Submitting: shut out → Superseded
//! ```

use crate::reading::Readings;
use perhop_model::{ErrorItem, ObjectState, Op, Reply};

/// Where the session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Away,
    Claiming,
    Reading,
    Running,
    Submitting,
    Superseded,
}

/// What has happened, judged.
pub(crate) enum Event<'a> {
    Appeared,
    Gone,
    /// The claim was taken; the router is busy; the fence is too low; it is time to claim again.
    Taken,
    Busy,
    TooLow,
    Due,
    /// A claim was refused for good.
    Barred(&'a ErrorItem),
    Objects(u64, &'a [ObjectState]),
    /// Readings of the router that is known, or of another life of it.
    Read(&'a Readings),
    ReadAnew(u64),
    /// Readings of this revision, which is not the session's.
    Changed(u64),
    /// Parts want something; whether it is forced.
    Wish(Vec<Op>, bool),
    Committed(&'a Reply),
    Refused(&'a Reply),
    /// A transaction was refused, as another instance has the owner.
    ShutOut(&'a ErrorItem),
    /// An answer to a transaction by another life of the router.
    RepliedAnew(u64),
}

/// What is to be done.
pub(crate) enum Action<'a> {
    Claim,
    ClaimHigher,
    ClaimLater,
    ClaimFrom(u64),
    BeginAgain(u64),
    ReadObjects,
    Adopt(u64, &'a [ObjectState]),
    Take(&'a Readings),
    Miss,
    Submit(Vec<Op>, bool),
    Commit(&'a Reply),
    Refuse(&'a Reply),
    Forget,
    End(&'a ErrorItem),
}

/// What an event does in a state. A pair that is not here changes nothing.
pub(crate) fn step(state: State, event: Event<'_>) -> Option<(State, Action<'_>)> {
    use State::{Away, Claiming, Reading, Running, Submitting, Superseded};
    Some(match (state, event) {
        (Superseded, _) => return None,
        (_, Event::Gone) => (Away, Action::Forget),
        (Away, Event::Appeared) => (Claiming, Action::Claim),
        (Claiming, Event::Taken) => (Reading, Action::ReadObjects),
        (Claiming, Event::Busy) => (Claiming, Action::ClaimLater),
        (Claiming, Event::Due) => (Claiming, Action::Claim),
        (Claiming, Event::TooLow) => (Claiming, Action::ClaimHigher),
        (Claiming, Event::Barred(error)) => (Superseded, Action::End(error)),
        (Reading, Event::Objects(revision, objects)) => (Running, Action::Adopt(revision, objects)),
        (Running | Submitting, Event::Read(readings)) => (state, Action::Take(readings)),
        (Running | Submitting, Event::ReadAnew(epoch)) => (Claiming, Action::BeginAgain(epoch)),
        (_, Event::Read(_) | Event::ReadAnew(_)) => (state, Action::Miss),
        (Running, Event::Changed(revision)) => (Claiming, Action::ClaimFrom(revision)),
        (Running, Event::Wish(ops, force)) => (Submitting, Action::Submit(ops, force)),
        (Submitting, Event::Committed(reply)) => (Running, Action::Commit(reply)),
        (Submitting, Event::Refused(reply)) => (Reading, Action::Refuse(reply)),
        (Submitting, Event::ShutOut(error)) => (Superseded, Action::End(error)),
        (Submitting, Event::RepliedAnew(epoch)) => (Claiming, Action::BeginAgain(epoch)),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "states_tests.rs"]
mod tests;
