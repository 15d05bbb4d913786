//! States of transactions, and the table of what happens in them. See the diagram of [`super`].

/// Which of the four machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ClientInvite,
    ClientOther,
    ServerInvite,
    ServerOther,
}

/// Where a transaction stands. What is over is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// An INVITE has been sent.
    Calling,
    /// Another request has been sent or received.
    Trying,
    Proceeding,
    /// A 2xx to INVITE has passed: only its repetitions are of interest (RFC 6026).
    Accepted,
    Completed,
    /// ACK has arrived for a final response other than 2xx.
    Confirmed,
    Over,
}

/// What has happened. Responses come from the network to a client and from the proxy to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Provisional,
    Success,
    Failure,
    /// The request came again.
    Again,
    Ack,
    /// Timers A, E, G: time to send again.
    Resend,
    /// Timers B, F, H: time is over without an end.
    Timeout,
    /// Timers D, I, J, K, L, M: nothing can come any more.
    Linger,
    /// Nothing can be sent to where it should go.
    Broken,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Tell the proxy.
    Tell,
    /// Send the response that is given, and keep it where it may be asked for again.
    Send,
    /// Send what was sent last.
    Repeat,
    /// Acknowledge the response and tell the proxy.
    AckAndTell,
    Nothing,
}

/// What an event does in a state. A pair that is not here changes nothing: what comes is of no use any more.
pub(crate) fn step(kind: Kind, state: State, event: Event) -> Option<(State, Action)> {
    use Action::{AckAndTell, Nothing, Repeat, Send, Tell};
    use Event::{Ack, Again, Broken, Failure, Linger, Provisional, Resend, Success, Timeout};
    use State::{Accepted, Calling, Completed, Confirmed, Over, Proceeding, Trying};
    Some(match (kind, state, event) {
        // RFC 3261 §17.1.1.2, RFC 6026 §7.2.
        (Kind::ClientInvite, Calling | Proceeding, Provisional) => (Proceeding, Tell),
        (Kind::ClientInvite, Calling | Proceeding | Accepted, Success) => (Accepted, Tell),
        (Kind::ClientInvite, Calling | Proceeding, Failure) => (Completed, AckAndTell),
        (Kind::ClientInvite, Calling, Resend) => (Calling, Repeat),
        (Kind::ClientInvite, Calling, Timeout | Broken) => (Over, Tell),
        (Kind::ClientInvite, Completed, Failure) => (Completed, Repeat),
        (Kind::ClientInvite, Completed, Broken) => (Over, Nothing),
        (Kind::ClientInvite, Accepted | Completed, Linger) => (Over, Nothing),
        // §17.1.2.2.
        (Kind::ClientOther, Trying | Proceeding, Provisional) => (Proceeding, Tell),
        (Kind::ClientOther, Trying | Proceeding, Success | Failure) => (Completed, Tell),
        (Kind::ClientOther, Trying | Proceeding, Resend) => (state, Repeat),
        (Kind::ClientOther, Trying | Proceeding, Timeout | Broken) => (Over, Tell),
        (Kind::ClientOther, Completed, Linger) => (Over, Nothing),
        // §17.2.1, RFC 6026 §7.1.
        (Kind::ServerInvite, Proceeding, Again) => (Proceeding, Repeat),
        (Kind::ServerInvite, Proceeding, Provisional) => (Proceeding, Send),
        (Kind::ServerInvite, Proceeding | Accepted, Success) => (Accepted, Send),
        (Kind::ServerInvite, Proceeding, Failure) => (Completed, Send),
        (Kind::ServerInvite, Completed, Again | Resend) => (Completed, Repeat),
        (Kind::ServerInvite, Completed, Ack) => (Confirmed, Nothing),
        (Kind::ServerInvite, Completed, Timeout | Broken) => (Over, Nothing),
        (Kind::ServerInvite, Accepted, Ack) => (Accepted, Tell),
        (Kind::ServerInvite, Accepted | Confirmed, Linger) => (Over, Nothing),
        // §17.2.2.
        (Kind::ServerOther, Trying | Proceeding, Provisional) => (Proceeding, Send),
        (Kind::ServerOther, Trying | Proceeding, Success | Failure) => (Completed, Send),
        (Kind::ServerOther, Proceeding | Completed, Again) => (state, Repeat),
        (Kind::ServerOther, Completed, Linger | Broken) => (Over, Nothing),
        _ => return None,
    })
}
