//! What is known of each connection, and counts over all.

use perhop_units::{Duration, Instant};

/// One connection's result. "Data" are the bytes of a transfer in its direction, or of all responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnRecord {
    /// User or slot that opened it, from 0.
    pub user: u16,
    /// When it was opened, before the handshake.
    pub opened: Instant,
    /// The first byte of data was read.
    pub first_byte: Option<Instant>,
    /// The last byte of data was read, or it failed, or it was cut; `None` while it goes on.
    pub ended: Option<Instant>,
    /// Bytes of data read.
    pub bytes: u64,
    /// It was refused, reset, closed too early, or its user lost patience.
    pub failed: bool,
    /// It was still going on at the stop.
    pub cut: bool,
}

impl ConnRecord {
    pub(crate) const fn new(user: u16, opened: Instant) -> Self {
        Self { user, opened, first_byte: None, ended: None, bytes: 0, failed: false, cut: false }
    }

    /// From opening to the end; `None` while it goes on.
    pub fn lifetime(&self) -> Option<Duration> {
        Some(self.ended?.since(self.opened))
    }
}

/// Counts over all connections of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Connections opened.
    pub opened: u64,
    /// Transfers, files or objects that arrived whole.
    pub completed: u64,
    /// Pages of which every object arrived.
    pub pages: u64,
    /// Connections that failed, for whatever reason.
    pub failed: u64,
    /// Those of them whose user lost patience.
    pub given_up: u64,
    /// Openings after a failure.
    pub retries: u64,
    /// Connections still going on at the stop.
    pub cut: u64,
    /// Events of connections that were never opened.
    pub stray: u64,
    /// Openings refused because the application had opened as many as it may.
    pub limit_hits: u64,
}
