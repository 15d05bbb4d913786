//! States of a client's connection, and what follows what.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Down,
    Connecting,
    Greeting,
    Open,
    Shut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Due,
    Connected,
    Greeted,
    Lost,
    TurnedAway,
}

/// States and events: what follows, `None` where an event means nothing.
pub(super) fn follow(state: State, event: Event) -> Option<State> {
    use {Event as E, State as S};
    Some(match (state, event) {
        (S::Down, E::Due) => S::Connecting,
        (S::Connecting, E::Connected) => S::Greeting,
        (S::Greeting, E::Greeted) => S::Open,
        (S::Connecting | S::Greeting | S::Open, E::Lost) => S::Down,
        (S::Greeting | S::Open, E::TurnedAway) => S::Shut,
        (S::Down | S::Greeting | S::Open, E::Connected | E::Due) => return None,
        (S::Open, E::Greeted) => S::Open,
        (S::Connecting, E::Due) => return None,
        (S::Down | S::Connecting, E::Greeted | E::TurnedAway) | (S::Down, E::Lost) => return None,
        (S::Shut, _) => return None,
    })
}
