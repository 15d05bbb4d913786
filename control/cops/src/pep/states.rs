//! Where a PEP's connection and its clients stand, and the tables of what happens in them.
//!
//! ```text
//!              due              connected, plain
//!   Waiting ────────► Connecting ─────────────────────────────────────► Up
//!      ▲                  │ connected, to be secured                    ▲ ▲
//!      │                  ▼               accepted, with a digest       │ │
//!      │               Securing ────────────────────────────────────────┘ │
//!      │                  │ accepted, for TLS             secured         │
//!      │                  └────────────────► Handshake ───────────────────┘
//!      └── all others: gone, broken, closed, silent; Up: no client is left
//!
//!                 up, due            accepted
//!   a client: Closed ──────► Opening ────────► Open ─┐ accepted again
//!               ▲               │                │ ◄─┘
//!               └───────────────┴── closed, gone ┘
//! ```

use crate::wire::{Accept, Close, Error};

/// Of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// For the time of the next try.
    Waiting,
    Connecting,
    /// OPN of client-type 0 has been sent.
    Securing,
    /// TLS begins.
    Handshake,
    /// Clients are opened.
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Due,
    Connected,
    /// There is a connection, and security is to be agreed on.
    ConnectedBare,
    AcceptedWithDigest,
    AcceptedForTls,
    Secured,
    /// The PDP closes the connection.
    Closed,
    /// The PDP does what it must not.
    Broken(Error),
    /// The PDP says nothing for too long.
    Silent,
    Gone,
    /// No client is open, and none will be on this connection.
    Unused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Connect,
    OpenConnection,
    OpenClients,
    StartTls,
    /// Says why, and disconnects.
    Break(Error),
    /// Says of each client that nothing was heard, and disconnects.
    Mourn,
    Disconnect,
    Forget,
}

/// What an event does to a connection. A pair that is not here changes nothing.
pub(super) fn step(state: State, event: Event) -> Option<(State, Action)> {
    use State::{Connecting, Handshake, Securing, Up, Waiting};
    Some(match (state, event) {
        (Waiting, Event::Due) => (Connecting, Action::Connect),
        (Waiting, _) => return None,
        (_, Event::Gone) => (Waiting, Action::Forget),
        (Connecting, Event::Connected) => (Up, Action::OpenClients),
        (Connecting, Event::ConnectedBare) => (Securing, Action::OpenConnection),
        (Connecting | Securing | Handshake, Event::Silent) => (Waiting, Action::Disconnect),
        (Securing, Event::AcceptedWithDigest) => (Up, Action::OpenClients),
        (Securing, Event::AcceptedForTls) => (Handshake, Action::StartTls),
        (Handshake, Event::Secured) => (Up, Action::OpenClients),
        (Securing | Handshake | Up, Event::Broken(error)) => (Waiting, Action::Break(error)),
        (Securing | Up, Event::Closed) => (Waiting, Action::Disconnect),
        (Up, Event::Silent) => (Waiting, Action::Mourn),
        (Up, Event::Unused) => (Waiting, Action::Disconnect),
        _ => return None,
    })
}

/// Of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Closed,
    /// OPN has been sent.
    Opening,
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientEvent {
    /// The connection is ready.
    Up,
    /// It is time to try again.
    Due,
    Accepted(Accept),
    Closed(Close),
    /// The PDP said what cannot be read.
    Broken(Error),
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAction {
    Open,
    Begin(Accept),
    Adjust(Accept),
    /// The PDP closed it.
    End(Close),
    /// It is closed from here.
    Close(Error),
    Lose,
}

/// What an event does to a client. A pair that is not here changes nothing.
pub(super) fn client_step(state: Client, event: ClientEvent) -> Option<(Client, ClientAction)> {
    use Client::{Closed, Open, Opening};
    Some(match (state, event) {
        (Closed, ClientEvent::Up | ClientEvent::Due) => (Opening, ClientAction::Open),
        (Opening, ClientEvent::Accepted(accept)) => (Open, ClientAction::Begin(accept)),
        (Open, ClientEvent::Accepted(accept)) => (Open, ClientAction::Adjust(accept)),
        (Opening | Open, ClientEvent::Closed(close)) => (Closed, ClientAction::End(close)),
        (Opening | Open, ClientEvent::Broken(error)) => (Closed, ClientAction::Close(error)),
        (Opening | Open, ClientEvent::Gone) => (Closed, ClientAction::Lose),
        _ => return None,
    })
}
