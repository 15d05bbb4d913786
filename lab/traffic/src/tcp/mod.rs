//! TCP applications as machines without sockets: one machine drives both ends of every one of its connections.
//!
//! A driver, over real sockets or simulated hosts, tells the machine what happened at either end with
//! [`TcpApplication::handle`], then takes what to do from [`TcpApplication::poll`] until that gives `None`, and comes
//! back at [`TcpApplication::next_wakeup`]. Only lengths are exchanged; the bytes' values mean nothing.
//!
//! A driver's duties: it keeps apart the connections of several machines (each counts from 0); it queues what a `Write`
//! asks for and feeds it to the socket as that takes it; a `Close` takes effect behind the bytes written before it on
//! that side; it reports `Opened` once and `Accepted` once before bytes at that end; after `Abort` it reports no more.

pub mod files;
mod job;
mod live;
pub mod record;
pub mod transfers;
pub mod web;
mod workload;

pub use job::MIN_BACK_OFF;
pub use live::ENDLESS_BACKLOG_BYTES;
use perhop_units::Instant;
pub use record::{ConnRecord, TcpCounters};
pub use workload::{MAX_CONNECTIONS, TcpWorkload};

/// Number of a connection, counted up from 0 by the application that opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u32);

/// One of the ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that connects.
    Client,
    /// The end that accepts.
    Server,
}

impl Side {
    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Which way the bytes of a transfer go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From server to client.
    Down,
    /// From client to server.
    Up,
}

/// What a driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppAction {
    /// Connect from the client's side to the server's.
    Open {
        /// The new connection.
        conn: ConnId,
    },
    /// Send bytes from one side, behind those written before.
    Write {
        /// The connection.
        conn: ConnId,
        /// The side that sends.
        side: Side,
        /// How many, above 0.
        bytes: u64,
    },
    /// Send nothing more from one side: FIN behind what was written. The other direction goes on.
    Close {
        /// The connection.
        conn: ConnId,
        /// The side that has nothing more to send.
        side: Side,
    },
    /// Reset the connection at both ends and forget it. Nothing more is reported about it.
    Abort {
        /// The connection.
        conn: ConnId,
    },
}

/// What happened at an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppEvent {
    /// The client's side is connected.
    Opened {
        /// The connection.
        conn: ConnId,
    },
    /// The server's side is connected.
    Accepted {
        /// The connection.
        conn: ConnId,
    },
    /// One side has read new bytes.
    Received {
        /// The connection.
        conn: ConnId,
        /// The side that read.
        side: Side,
        /// How many since the last such event of this side.
        bytes: u64,
    },
    /// One side has read the end of its peer's bytes, behind all of them.
    PeerClosed {
        /// The connection.
        conn: ConnId,
        /// The side that read it.
        side: Side,
    },
    /// Both directions are closed.
    Ended {
        /// The connection.
        conn: ConnId,
    },
    /// Refused, reset or timed out, at either end; the connection is gone.
    Failed {
        /// The connection.
        conn: ConnId,
    },
}

impl AppEvent {
    /// The connection it happened to.
    pub const fn conn(&self) -> ConnId {
        match *self {
            Self::Opened { conn }
            | Self::Accepted { conn }
            | Self::Received { conn, .. }
            | Self::PeerClosed { conn, .. }
            | Self::Ended { conn }
            | Self::Failed { conn } => conn,
        }
    }
}

/// An application over TCP. Instants do not go back.
pub trait TcpApplication: Send {
    /// Something happened. All actions must have been taken before; debug builds panic otherwise.
    fn handle(&mut self, now: Instant, event: AppEvent);

    /// The next thing to do; call until `None`, after each event and at each wake-up.
    fn poll(&mut self, now: Instant) -> Option<AppAction>;

    /// When to poll if nothing happens before; `None` when only events can go on. Earlier is harmless.
    fn next_wakeup(&self) -> Option<Instant>;

    /// All connections so far: the record of `ConnId(i)` is at i.
    fn records(&self) -> &[ConnRecord];

    /// What was counted so far.
    fn counters(&self) -> TcpCounters;

    /// Nothing will be opened or written any more.
    fn finished(&self) -> bool;
}
