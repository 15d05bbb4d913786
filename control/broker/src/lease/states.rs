//! States of a lease at its holder, and the table of what happens in them.
//!
//! ```text
//!        more               decided           more, renew            less
//!   None ─────► Asking ───────────────► Held ◄──────────► Changing    (from Held: the router goes first)
//!    ▲            │ timed out            │       decided     │ timed out: what was held is asked for again
//!    │            ▼                      │ less              │
//!    ├─────── Returning ◄────────────────┘                   │
//!    │ decided: nothing is held; otherwise → Held            │
//!    │                                                       │
//!    └─────── Frozen ◄──── lost: Asking, Held, Changing, Returning
//!     expired   │ back → Changing; Returning where less is to be held
//!
//!   expired: Held, Changing, Returning → Returning, with nothing used any more
//!   all taken back: Held → None
//! ```

/// Where a lease stands with who gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Nothing is held, and nothing asked for.
    None,
    /// Nothing is held, and something asked for.
    Asking,
    /// What is held is certain.
    Held,
    /// More, or the same for another time, is asked for.
    Changing,
    /// Less is to be held: the router is told, then who gave the lease.
    Returning,
    /// Who gives it is away: what is held may be used until it ends, and does not grow.
    Frozen,
}

/// What has happened, judged. Rates are what the lease has in all, bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// More is needed.
    More(u64),
    /// Less is enough.
    Less(u64),
    /// Half of its time has passed.
    Renew,
    /// The router has no more than what is to be held.
    Lowered,
    /// The question is decided: this is held.
    Decided(u64),
    /// It was refused, and less of more is asked for.
    Retry(u64),
    /// It was for more, and has taken too long.
    TimedOut,
    /// Who gives the lease is away.
    Lost,
    /// And there again; whether all that is held is to be held.
    Back(bool),
    /// The lease has run out.
    Expired,
    /// Who gave it has taken all but this back.
    TakenBack(u64),
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask for this.
    Ask(u64),
    /// Ask for what is held.
    Renew,
    /// Use no more than this, and tell the router.
    Lower(u64),
    /// Ask for what is to be held.
    Return,
    /// This is held, and may be used when the router has it.
    Take(u64),
    /// The question is answered, and this is held: no more than was thought.
    Settle(u64),
    /// At most this is held, whatever is asked.
    Shrink(u64),
    /// Nothing that was asked will be answered.
    Forget,
    /// It is not certain any more that something is held: nothing may be used.
    End,
}

/// What an event does in a state. A pair that is not here changes nothing.
pub(crate) fn step(state: State, event: Event) -> Option<(State, Action)> {
    use State::{Asking, Changing, Frozen, Held, None as Nothing, Returning};
    Some(match (state, event) {
        (Nothing, Event::More(bps)) => (Asking, Action::Ask(bps)),
        (Held, Event::More(bps)) => (Changing, Action::Ask(bps)),
        (Held, Event::Less(bps)) => (Returning, Action::Lower(bps)),
        (Held, Event::Renew) => (Changing, Action::Renew),
        (Returning, Event::Renew) => (Returning, Action::Renew),
        (Returning, Event::Lowered) => (Returning, Action::Return),
        (Asking | Changing, Event::Decided(0)) => (Nothing, Action::Take(0)),
        (Asking | Changing, Event::Decided(bps)) => (Held, Action::Take(bps)),
        (Returning, Event::Decided(0)) => (Nothing, Action::Settle(0)),
        (Returning, Event::Decided(bps)) => (Held, Action::Settle(bps)),
        (Asking | Changing, Event::Retry(bps)) => (state, Action::Ask(bps)),
        (Asking, Event::TimedOut) => (Returning, Action::Return),
        (Changing, Event::TimedOut) => (Changing, Action::Renew),
        (Asking | Held | Changing | Returning, Event::Lost) => (Frozen, Action::Forget),
        (Frozen, Event::Back(true)) => (Changing, Action::Renew),
        (Frozen, Event::Back(false)) => (Returning, Action::Forget),
        (Held | Changing | Returning, Event::Expired) => (Returning, Action::End),
        (Frozen, Event::Expired) => (Nothing, Action::End),
        (Held, Event::TakenBack(0)) => (Nothing, Action::Shrink(0)),
        (Held | Changing | Returning | Frozen, Event::TakenBack(bps)) => (state, Action::Shrink(bps)),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "states_tests.rs"]
mod tests;
