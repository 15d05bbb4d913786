//! Requests to a broker: one in flight, and pauses after those that were not granted.

use crate::settings::Patience;
use perhop_units::{Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

/// Number of a request, never reused by the same machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskId(pub u64);

/// Whether a request asks for more or for less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    Up,
    Down,
}

impl Direction {
    /// From one rate to another; `None` if they are equal.
    pub(crate) fn of(from: Rate, to: Rate) -> Option<Self> {
        match to.cmp(&from) {
            std::cmp::Ordering::Greater => Some(Self::Up),
            std::cmp::Ordering::Less => Some(Self::Down),
            std::cmp::Ordering::Equal => None,
        }
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Request {
    pub(crate) id: AskId,
    pub(crate) rate: Rate,
    pub(crate) direction: Direction,
    pub(crate) deadline: Instant,
}

/// The pause of each direction.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Pauses {
    up: Pause,
    down: Pause,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Pause {
    /// Length of the last one; zero after a full grant.
    length: Duration,
    /// Its length before the last full grant: that grant may turn out to be worth nothing.
    cleared: Duration,
    until: Instant,
}

impl Pauses {
    /// Whether nothing may be asked in this direction.
    pub(crate) fn holds(&self, direction: Direction, now: Instant) -> bool {
        let pause = match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        };
        now < pause.until
    }

    /// Begins a pause, twice as long as the one before.
    pub(crate) fn begin(&mut self, direction: Direction, now: Instant, patience: &Patience) {
        let pause = self.pause(direction);
        let doubled = pause.length.saturating_mul(2);
        pause.length = doubled.max(patience.first_retry).min(patience.longest_retry);
        pause.until = now + pause.length;
    }

    /// A full grant: the next pause is a first one.
    pub(crate) fn clear(&mut self, direction: Direction) {
        let pause = self.pause(direction);
        *pause = Pause { cleared: pause.length, ..Pause::default() };
    }

    /// The grant came to nothing: as [`Pauses::begin`], as if it had been a refusal.
    pub(crate) fn resume(&mut self, direction: Direction, now: Instant, patience: &Patience) {
        let pause = self.pause(direction);
        pause.length = pause.length.max(pause.cleared);
        self.begin(direction, now, patience);
    }

    fn pause(&mut self, direction: Direction) -> &mut Pause {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}
