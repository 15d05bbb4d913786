//! States of the making of editions, and the table of what follows what. The diagram is in the module above.

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is under way.
    Idle,
    /// A policy without faults is being tried.
    Candidate,
    /// It can be committed.
    Ready,
    /// An edition is being written.
    Writing,
    /// The edition in force returns unless it is confirmed.
    ToConfirm,
    /// Its confirmation, or what it returns to, is being written.
    Settling,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A policy without faults is proposed; whether it is to be tried.
    Propose {
        trial: bool,
    },
    Withdraw,
    Sound,
    Broken,
    Commit,
    /// The policy of another edition is to be in force.
    Rollback,
    Confirm,
    /// The edition before is to be in force again, as it is late or as somebody wants.
    Return,
    /// It is written; whether it waits to be confirmed.
    Written {
        to_confirm: bool,
    },
    /// It is not; whether it was a candidate.
    NotWritten {
        candidate: bool,
    },
}

/// What an event does in a state. A pair that is not here is refused.
pub(super) fn step(state: State, event: Event) -> Option<State> {
    use State::{Candidate, Idle, Ready, Settling, ToConfirm, Writing};
    Some(match (state, event) {
        (Idle | Candidate | Ready, Event::Propose { trial: true }) => Candidate,
        (Idle | Candidate | Ready, Event::Propose { trial: false }) => Ready,
        (Candidate | Ready, Event::Withdraw) => Idle,
        (Candidate, Event::Sound) => Ready,
        (Candidate, Event::Broken) => Idle,
        (Ready, Event::Commit) => Writing,
        (Idle | Candidate | Ready, Event::Rollback) => Writing,
        (Writing, Event::Written { to_confirm: false }) => Idle,
        (Writing, Event::Written { to_confirm: true }) => ToConfirm,
        (Writing, Event::NotWritten { candidate: true }) => Ready,
        (Writing, Event::NotWritten { candidate: false }) => Idle,
        (ToConfirm, Event::Confirm | Event::Return) => Settling,
        (Settling, Event::Written { to_confirm: false }) => Idle,
        (Settling, Event::NotWritten { .. }) => ToConfirm,
        _ => return None,
    })
}
