//! States of a subscriber, and the table of what follows what. The diagram is in the module above.

/// Where a subscriber stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Present,
    /// It is at its new place, and what it had at the old one is still there.
    Moving,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It is where it was not, on the same router if there was one.
    Came,
    /// It is on another router.
    Elsewhere,
    /// What it had at the last old place goes.
    Settled,
    Left,
}

/// What an event does in a state. A pair that is not here changes nothing.
pub(super) fn step(state: State, event: Event) -> Option<State> {
    use State::{Absent, Moving, Present};
    Some(match (state, event) {
        (Absent, Event::Came | Event::Elsewhere) => Present,
        (Present, Event::Came) => Present,
        (Moving, Event::Came) => Moving,
        (Present | Moving, Event::Elsewhere) => Moving,
        (Moving, Event::Settled) => Present,
        (Present | Moving, Event::Left) => Absent,
        (Absent, Event::Settled | Event::Left) | (Present, Event::Settled) => return None,
    })
}
