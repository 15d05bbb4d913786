//! The timers of an endpoint: deadlines that are overwritten, never queued.

use perhop_units::Instant;

/// Deadlines; `FAR_FUTURE` is "not running".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    /// Retransmission, of the SYN too (RFC 6298).
    pub(crate) retransmit: Instant,
    /// Loss that time alone shows (RFC 8985 §6.2).
    pub(crate) reorder: Instant,
    /// Tail loss probe (RFC 8985 §7).
    pub(crate) tail: Instant,
    /// Window probe (RFC 9293 §3.8.6.1).
    pub(crate) persist: Instant,
    /// Delayed acknowledgment.
    pub(crate) delayed_ack: Instant,
    /// End of TIME-WAIT.
    pub(crate) time_wait: Instant,
}

impl Timers {
    /// None runs.
    pub(crate) const IDLE: Self = Self {
        retransmit: Instant::FAR_FUTURE,
        reorder: Instant::FAR_FUTURE,
        tail: Instant::FAR_FUTURE,
        persist: Instant::FAR_FUTURE,
        delayed_ack: Instant::FAR_FUTURE,
        time_wait: Instant::FAR_FUTURE,
    };

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        let sender = self.retransmit.min(self.reorder).min(self.tail).min(self.persist);
        let next = sender.min(self.delayed_ack).min(self.time_wait);
        (next < Instant::FAR_FUTURE).then_some(next)
    }
}

/// Whether the deadline has come; if so it no longer runs.
pub(crate) fn expired(deadline: &mut Instant, now: Instant) -> bool {
    let due = *deadline <= now && *deadline < Instant::FAR_FUTURE;
    if due {
        *deadline = Instant::FAR_FUTURE;
    }
    due
}
