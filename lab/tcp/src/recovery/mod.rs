//! What to send again, and when that ends.
//!
//! | phase | entered by | left when |
//! |---|---|---|
//! | `Open` | start | |
//! | `NewReno` | third duplicate acknowledgment, without SACK (RFC 6582) | everything sent until then is acknowledged |
//! | `Sack` | third duplicate or a gap judged lost, with SACK (RFC 6675) | the same |
//! | `Loss` | retransmission timeout (RFC 6298 §5) | the same |
//!
//! With RACK (RFC 8985) a gap is judged lost by time, in every phase, and the scoreboard only says what has arrived; what turns
//! out not to have been lost is taken back ([`Undo`]). Without it the scoreboard serves all of them: without SACK it is empty, and after a timeout everything outstanding counts as
//! lost, which is go-back-N.

mod newreno;
mod prr;
mod rack;
mod sack;
mod undo;

pub(crate) use newreno::{Inflation, deflated};
pub(crate) use prr::Prr;
pub(crate) use rack::{Arrival, Rack};
pub(crate) use sack::Scoreboard;
pub(crate) use undo::Undo;

/// Duplicate acknowledgments that mean loss (RFC 5681 §3.2).
pub(crate) const DUP_THRESHOLD: u32 = 3;

/// How a sender stands to loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Fast recovery without SACK.
    NewReno,
    /// Fast recovery with SACK.
    Sack,
    /// Repairing after a retransmission timeout.
    Loss,
}

/// The state shared by the phases.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// Number behind the highest byte sent when recovery began: `recover` of RFC 6582, RecoveryPoint of RFC 6675.
    pub(crate) point: u64,
    /// Duplicate acknowledgments in a row.
    pub(crate) duplicates: u32,
    /// The first unacknowledged segment is to be sent now, whatever the window says.
    pub(crate) forced: bool,
    /// A partial acknowledgment has come (RFC 6582 §3.2 step 3: only the first restarts the timer).
    pub(crate) partial: bool,
    pub(crate) board: Scoreboard,
    /// Detection by time, where both ends agreed on SACK and the configuration asks for it.
    pub(crate) rack: Option<Rack>,
    /// What to return to if the last reduction was for nothing.
    pub(crate) undo: Option<Box<Undo>>,
    /// Number behind a tail loss probe that is not answered, and whether it was sent before (RFC 8985 §7).
    pub(crate) probe: Option<(u64, bool)>,
    pub(crate) inflation: Inflation,
    pub(crate) prr: Prr,
    /// Bytes believed to be in the network; kept up to date between acknowledgments by adding what is sent.
    pub(crate) pipe: u64,
}

impl Recovery {
    pub(crate) fn new(ranges: u16, first: u64) -> Self {
        Self {
            phase: Phase::Open,
            point: first,
            duplicates: 0,
            forced: false,
            partial: false,
            board: Scoreboard::new(ranges),
            rack: None,
            undo: None,
            probe: None,
            inflation: Inflation::default(),
            prr: Prr::default(),
            pipe: 0,
        }
    }

    /// Everything sent before recovery has arrived.
    pub(crate) fn finish(&mut self, una: u64) {
        self.phase = Phase::Open;
        self.duplicates = 0;
        self.forced = false;
        self.partial = false;
        self.inflation = Inflation::default();
        self.board.finish(una);
    }
}
