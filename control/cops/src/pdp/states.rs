//! Where a connection of a PDP and a request stand, and the tables of what happens to them.
//!
//! ```text
//!           OPN of 0, with a digest                     a client was accepted
//!   Fresh ──────────────────────────────────────► Ready ──────────────────────► Used
//!     │ │   OPN of 0, for TLS         secured       ▲                            ▲
//!     │ └─────────────────────► Handshake ──────────┘                            │
//!     └── a client was accepted, where no security is asked for ─────────────────┘
//!
//!   all else that would change something: CC of client-type 0, and the connection ends
//!
//!                    REQ             answer
//!   a request: ─► Asked ◄─────┐ ─────────────► Decided ─┐ change
//!                 ▲  └────────┘   REQ             │ ▲   │
//!                 │               another waits   │ └───┘
//!                 ├─────────────── REQ ───────────┤
//!                 └── REQ ── Stale ◄── resumed ───┴── (also Asked)
//!                              └── complete → gone      all: DRQ → gone
//! ```

/// Of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is agreed on.
    Fresh,
    /// TLS begins.
    Handshake,
    /// Security is agreed on.
    Ready,
    /// A client has been open.
    Used,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// OPN of client-type 0: as it is wanted, or not.
    OpenedWithDigest,
    OpenedForTls,
    OpenedOtherwise,
    Secured,
    /// Any other message; where security is asked for, or not.
    Traffic {
        must_be_secure: bool,
    },
    /// A client was accepted.
    Accepted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    AcceptWithDigest,
    AcceptForTls,
    /// Security is wanted that is not there.
    Want,
    /// It is too late for security.
    Refuse,
}

/// What an event does to a connection.
pub(super) fn step(state: State, event: Event) -> (State, Action) {
    use State::{Fresh, Handshake, Ready, Used};
    match (state, event) {
        (Fresh, Event::OpenedWithDigest) => (Ready, Action::AcceptWithDigest),
        (Fresh, Event::OpenedForTls) => (Handshake, Action::AcceptForTls),
        (Handshake, Event::Secured) => (Ready, Action::Nothing),
        (Fresh, Event::Traffic { must_be_secure: false }) | (Ready | Used, Event::Traffic { .. }) => {
            (state, Action::Nothing)
        }
        (Fresh | Ready | Used, Event::Accepted) => (Used, Action::Nothing),
        (Fresh, Event::OpenedOtherwise | Event::Traffic { .. }) | (Handshake, _) => (state, Action::Want),
        (Ready | Used, Event::OpenedWithDigest | Event::OpenedForTls | Event::OpenedOtherwise) => {
            (state, Action::Refuse)
        }
        (_, Event::Secured) => (state, Action::Nothing),
    }
}

/// Of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A decision is owed.
    Asked,
    /// None is owed.
    Decided,
    /// Kept from another connection; the PEP has to ask it again.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestEvent {
    /// REQ.
    Asked,
    /// A decision was sent; it was the last that was owed.
    Answered,
    /// The PEP is on another connection.
    Resumed,
    /// The PEP has asked all that it has.
    Complete,
}

/// What an event does to a request. `None`: it is gone.
pub(super) fn request_step(state: Request, event: RequestEvent) -> Option<Request> {
    use Request::{Asked, Decided, Stale};
    match (state, event) {
        (_, RequestEvent::Asked) => Some(Asked),
        (Asked, RequestEvent::Answered) => Some(Decided),
        (_, RequestEvent::Resumed) => Some(Stale),
        (Stale, RequestEvent::Complete) => None,
        (Decided | Stale, RequestEvent::Answered) | (Asked | Decided, RequestEvent::Complete) => Some(state),
    }
}
