//! What a PEP is told, and what it says.

use super::request::Answers;
use crate::session::Keyring;
use crate::wire::{ClientSi, ClientType, Close, Decision, Error, Handle, MAX_MESSAGE, Malformed, PepId};
use perhop_units::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error as ThisError;

/// How a connection is secured before clients are opened.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// Not by COPS; the connection may have TLS from its beginning.
    #[default]
    None,
    /// Digests (RFC 2748 §4.1).
    Digest(Arc<Keyring>),
    /// TLS that OPN and CAT agree on (RFC 4261).
    Tls,
}

/// A client that is opened.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its type.
    pub client_type: ClientType,
    /// What its OPN says.
    pub client_si: Option<ClientSi>,
}

/// What a PEP is told once.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who it is.
    pub id: PepId,
    /// PDPs, the preferred one first; at least one.
    pub servers: Vec<SocketAddr>,
    /// Clients; at least one, no two of a type.
    pub clients: Vec<Client>,
    /// Security.
    pub security: Security,
    /// Longest time for a decision, and for each step of opening.
    pub patience: Duration,
    /// How long decisions are kept without a connection.
    pub keep: Duration,
    /// Shortest and longest time between two tries to connect; it doubles from one round of the servers to the next.
    pub retry: (Duration, Duration),
    /// Most requests of a client.
    pub max_requests: usize,
}

/// What happens to a PEP.
#[derive(Clone, Debug)]
pub enum Input {
    /// The connection that was asked for is there. Digests begin with `sequence`, which should be greater than any before.
    Connected {
        /// First number of the PDP's messages.
        sequence: u32,
    },
    /// TLS is there, and with whom it should be.
    Secured,
    /// Octets came.
    Bytes(Vec<u8>),
    /// The connection is gone, or could not be made.
    Disconnected,
    /// Time has passed.
    Tick,
}

/// What a PEP wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A connection to this PDP.
    Connect(SocketAddr),
    /// Octets sent.
    Send(Vec<u8>),
    /// TLS as its client, once everything before is sent; then [`Input::Secured`].
    StartTls,
    /// The connection closed once everything before is sent, or the try given up. No [`Input::Disconnected`] is to follow.
    Disconnect,
    /// Something known.
    Notice(Notice),
}

/// What a PEP lets know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A client is open.
    Opened {
        /// Which.
        client_type: ClientType,
        /// By whom.
        server: SocketAddr,
    },
    /// A client is closed by the PDP, or by the PEP as the PDP could not be understood; it is tried again.
    Closed {
        /// Which.
        client_type: ClientType,
        /// Why, and whom the PDP names instead. The PEP goes there by itself if no other client is open on the connection;
        /// otherwise another PEP has to.
        close: Close,
    },
    /// The connection is lost.
    Lost,
    /// A decision.
    Decided {
        /// Of which client.
        client_type: ClientType,
        /// On which request.
        handle: Handle,
        /// On which question.
        answers: Answers,
        /// What. Of configuration each has to be reported on with [`Pep::report`](super::Pep::report).
        decisions: Vec<Decision>,
    },
    /// A request is gone.
    Failed {
        /// Of which client.
        client_type: ClientType,
        /// Which.
        handle: Handle,
        /// Why.
        why: Failure,
    },
    /// It is time for accounting reports.
    AccountingDue {
        /// Of which client.
        client_type: ClientType,
    },
}

/// Why a request is gone although nobody dropped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum Failure {
    /// No decision came in time.
    #[error("no decision came in time")]
    Timeout,
    /// The PDP could not process it.
    #[error("the PDP: {}", .0.code)]
    Refused(Error),
    /// The decision could not be read.
    #[error("the decision: {0}")]
    Unreadable(Malformed),
    /// There was no connection for longer than decisions are kept.
    #[error("no connection for too long")]
    Expired,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum Refused {
    /// There is no such client.
    #[error("there is no client of type {0}")]
    NoClient(ClientType),
    /// There is no such request.
    #[error("there is no such request")]
    NoRequest,
    /// There are too many requests.
    #[error("there are {0} requests already")]
    TooMany(usize),
    /// It is longer than a message.
    #[error("{0} octets; a message has {MAX_MESSAGE} at most")]
    TooLong(usize),
    /// There is no connection.
    #[error("the client is not open")]
    NotOpen,
    /// There is no decision to report on.
    #[error("there is no decision to report on")]
    NothingToReport,
    /// The PDP wants accounting reports later, or not at all.
    #[error("the PDP does not want accounting reports as often")]
    TooOften,
}
