//! What a PDP is told, and what it says.

use crate::session::Keyring;
use crate::wire::{ClientSi, ClientType, Handle, MAX_MESSAGE, PepId, Reason, ReportType, Request};
use perhop_units::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error as ThisError;

/// Which security connections must have before clients are opened.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// None by COPS; connections may have TLS from their beginning.
    #[default]
    None,
    /// Digests, with keys by PEP (RFC 2748 §4.1).
    Digest(BTreeMap<PepId, Arc<Keyring>>),
    /// TLS that OPN and CAT agree on (RFC 4261).
    Tls,
}

/// What a PDP is told once.
#[derive(Clone, Debug)]
pub struct Config {
    /// Types of clients that there are.
    pub client_types: Vec<ClientType>,
    /// Security.
    pub security: Security,
    /// How long requests are kept without a connection.
    pub keep: Duration,
    /// How long a connection may be without a client.
    pub patience: Duration,
    /// Most clients, with those that are kept.
    pub max_peers: usize,
    /// Most requests of a client.
    pub max_requests: usize,
}

/// A client of a PEP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId {
    /// Whose.
    pub pep: PepId,
    /// Which.
    pub client_type: ClientType,
}

/// What happens to a PDP. Connections are named by numbers that are not used again.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody connected. Digests begin with `sequence`, which should be greater than any before.
    Connected {
        /// Which connection.
        connection: u64,
        /// First number of the PEP's messages.
        sequence: u32,
    },
    /// TLS is there, and with whom it should be.
    Secured(u64),
    /// Octets came.
    Bytes(u64, Vec<u8>),
    /// A connection is gone.
    Disconnected(u64),
    /// Time has passed.
    Tick,
}

/// What a PDP wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Octets sent.
    Send(u64, Vec<u8>),
    /// TLS as its server, once everything before is sent; then [`Input::Secured`].
    StartTls(u64),
    /// The connection closed, once everything before is sent. No [`Input::Disconnected`] is to follow.
    Disconnect(u64),
    /// Something known.
    Notice(Notice),
}

/// What a PDP lets know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A PEP opens a client, or says once more how: [`Pdp::accept`](super::Pdp::accept) or [`Pdp::refuse`](super::Pdp::refuse) answers. Whether it is who it says it
    /// is, the caller has to know from the connection.
    Opening {
        /// On which connection.
        connection: u64,
        /// Who.
        peer: PeerId,
        /// What the client-type says.
        client_si: Option<ClientSi>,
        /// The PDP whose decisions it has.
        last_pdp: Option<SocketAddr>,
    },
    /// A request, to be answered with [`Pdp::decide`](super::Pdp::decide).
    Asked {
        /// Whose.
        peer: PeerId,
        /// Number of the question.
        question: u64,
        /// What.
        request: Box<Request>,
        /// By this handle something was asked before: this takes its place.
        is_update: bool,
    },
    /// A report.
    Reported {
        /// By whom.
        peer: PeerId,
        /// On which request.
        handle: Handle,
        /// It answers a decision: the oldest that it may be on and that was not reported on.
        solicited: bool,
        /// What.
        report_type: ReportType,
        /// What the client-type says.
        client_si: Vec<ClientSi>,
    },
    /// A request is gone.
    Deleted {
        /// Whose.
        peer: PeerId,
        /// Which.
        handle: Handle,
        /// Why.
        why: Gone,
    },
    /// A PEP has asked all that it has.
    Synchronized(PeerId),
    /// A client is open no longer. Its requests are kept for a while unless they are deleted one by one.
    Closed(PeerId),
}

/// Why a request is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The PEP says so.
    Deleted(Reason),
    /// The PEP does not have it any more.
    NotAskedAgain,
    /// The PEP has begun anew.
    Restarted,
    /// The PEP has closed the client.
    Closed,
    /// The PEP has been away for too long.
    Expired,
}

/// On what a decision is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The question of this number, which must be the oldest on its handle.
    Question(u64),
    /// What was decided before: it holds no longer.
    Change,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum Refused {
    /// There is no such client, or it is not open.
    #[error("the client is not open")]
    NotOpen,
    /// There is no such request.
    #[error("there is no such request")]
    NoRequest,
    /// The question is not the oldest that waits, if it is one.
    #[error("that is not the question to be answered")]
    NotAsked,
    /// Nothing has been decided yet that could change.
    #[error("nothing has been decided yet")]
    NotDecided,
    /// It is longer than a message.
    #[error("{0} octets; a message has {MAX_MESSAGE} at most")]
    TooLong(usize),
}
