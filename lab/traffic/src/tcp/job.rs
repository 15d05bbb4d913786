//! What a slot of a workload does on a connection: an exchange of bytes, and when.

use crate::error::TrafficError;
use crate::source::check_range;
use crate::tcp::{Direction, Side};
use perhop_units::Duration;

/// Shortest time from a failure to the next attempt.
pub const MIN_BACK_OFF: Duration = Duration::from_millis(1);

/// What one slot does next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// How long to wait before.
    pub(crate) wait: Duration,
    /// On the connection of the job before, if that still exists.
    pub(crate) reuse: bool,
    pub(crate) exchange: Exchange,
    /// A page is complete with it.
    pub(crate) page_ends: bool,
}

/// Bytes from client to server, and bytes back when all of these have arrived; one of both may be nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Volume,
    pub(crate) response: Volume,
    /// The sender of the last bytes closes behind them; otherwise the client closes when it has them.
    pub(crate) sender_closes: bool,
}

/// An amount of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Volume {
    Bytes(u64),
    Endless,
}

impl Volume {
    pub(crate) const NOTHING: Self = Self::Bytes(0);

    /// Whether so many bytes are all.
    pub(crate) fn is_met(self, bytes: u64) -> bool {
        matches!(self, Self::Bytes(all) if bytes >= all)
    }
}

impl Exchange {
    /// All bytes in one direction.
    pub(crate) fn one_way(volume: Volume, direction: Direction) -> Self {
        match direction {
            Direction::Down => Self { request: Volume::NOTHING, response: volume, sender_closes: true },
            Direction::Up => Self { request: volume, response: Volume::NOTHING, sender_closes: true },
        }
    }

    /// The side that reads the data.
    pub(crate) fn reader(&self) -> Side {
        if self.response == Volume::NOTHING { Side::Server } else { Side::Client }
    }
}

/// Checks a time from a failure to the next attempt.
pub(crate) fn check_back_off(back_off: Duration) -> Result<(), TrafficError> {
    check_range("back-off in ns", back_off.as_nanos(), MIN_BACK_OFF.as_nanos(), u64::MAX)
}
