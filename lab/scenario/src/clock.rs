//! A node's own clock, which may run fast or slow: what packets are stamped with in every world.

use perhop_units::Instant;

/// Reads true unless it drifts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    since: Instant,
    offset_ns: i64,
    ppm: i64,
}

impl Clock {
    /// What it shows at `now`.
    pub fn read(&self, now: Instant) -> Instant {
        let drift = i128::from(now.since(self.since).as_nanos()) * i128::from(self.ppm) / 1_000_000;
        let shown = i128::from(now.as_nanos()) + i128::from(self.offset_ns) + drift;
        Instant(shown.clamp(0, i128::from(u64::MAX)) as u64)
    }

    /// From `now` on it runs this much fast (or slow).
    pub fn drift(&mut self, now: Instant, ppm: i32) {
        let offset = i128::from(self.read(now).as_nanos()) - i128::from(now.as_nanos());
        *self = Self { since: now, offset_ns: offset as i64, ppm: i64::from(ppm) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_drifts_from_when_it_is_told_and_keeps_what_it_has_gained() {
        let second = 1_000_000_000;
        let mut clock = Clock::default();
        assert_eq!(clock.read(Instant(5)), Instant(5));
        clock.drift(Instant(second), 100);
        assert_eq!(clock.read(Instant(11 * second)), Instant(11 * second + 1_000_000));
        clock.drift(Instant(11 * second), -50);
        assert_eq!(clock.read(Instant(31 * second)), Instant(31 * second));
    }
}
