//! Taking back a reduction that was for nothing: what was sent again had not been lost.
//!
//! Two signs: an acknowledgment caused by what was sent before the first retransmission (Eifel, RFC 3522), or the peer reports
//! every retransmission as a duplicate (RFC 2883, RFC 3708). The window and the algorithm are then as they were before
//! (RFC 4015, RFC 9438 §4.9).

use crate::congestion::{Controller, Window};
use perhop_units::Instant;

/// How it was before a recovery.
#[derive(Debug)]
pub(crate) struct Undo {
    pub(crate) window: Window,
    pub(crate) control: Controller,
    /// Once this is acknowledged, what reports of duplicates come are of something else.
    pub(crate) until: u64,
    /// When the first retransmission left.
    first: Option<Instant>,
    /// Retransmissions, and reports of duplicates.
    retransmissions: u64,
    duplicates: u64,
}

impl Undo {
    pub(crate) fn new(window: Window, control: Controller) -> Self {
        Self { window, control, until: u64::MAX, first: None, retransmissions: 0, duplicates: 0 }
    }

    /// Something was sent again.
    pub(crate) fn retransmitted(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.retransmissions += 1;
    }

    /// The peer reports a duplicate; whether all retransmissions were.
    pub(crate) fn duplicate(&mut self) -> bool {
        self.duplicates += 1;
        self.retransmissions > 0 && self.duplicates >= self.retransmissions
    }

    /// Whether what was sent at `echo`, of whole ms, is older than the first retransmission.
    pub(crate) fn is_older(&self, echo: Instant) -> bool {
        self.first.is_none_or(|first| echo.as_nanos() / 1_000_000 < first.as_nanos() / 1_000_000)
    }
}
