//! What flows admitted just now are expected to carry, until an interval has measured it.

use perhop_units::{Duration, Instant};
use std::collections::VecDeque;

/// Admissions remembered one by one; more count with the last of them.
const ADMISSIONS: usize = 1_024;

/// Rates of admissions by their time. Memory is reserved when it is made.
#[derive(Debug)]
pub(super) struct Pending {
    admitted: VecDeque<(Instant, u64)>,
    total: u64,
}

impl Pending {
    /// Nothing was admitted.
    pub fn new() -> Self {
        Self { admitted: VecDeque::with_capacity(ADMISSIONS), total: 0 }
    }

    /// A flow of `rate` bit/s was admitted.
    pub fn admit(&mut self, now: Instant, rate: u64) {
        if rate == 0 {
            return;
        }
        let rate = rate.min(u64::MAX - self.total);
        self.total += rate;
        let full = self.admitted.len() == ADMISSIONS;
        match self.admitted.back_mut() {
            Some(last) if full => *last = (now, last.1 + rate),
            _ => self.admitted.push_back((now, rate)),
        }
    }

    /// What was admitted less than `interval` ago, bit/s.
    pub fn rate(&mut self, now: Instant, interval: Duration) -> u64 {
        while let Some((at, rate)) = self.admitted.front().copied()
            && now.since(at) >= interval
        {
            self.total -= rate;
            self.admitted.pop_front();
        }
        self.total
    }

    /// The same, as it was when somebody asked last.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.admitted.clear();
        self.total = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_admission_counts_for_one_interval_and_none_is_forgotten_before() {
        let (mut pending, interval) = (Pending::new(), Duration(100));
        for at in 0..3_000 {
            pending.admit(Instant(at / 30), 7);
        }
        assert_eq!(pending.rate(Instant(99), interval), 21_000);
        assert_eq!(pending.rate(Instant(100), interval), 21_000 - 30 * 7);
        assert_eq!(pending.rate(Instant(199), interval), 0);
        pending.admit(Instant(200), u64::MAX);
        pending.admit(Instant(200), 5);
        assert_eq!(pending.rate(Instant(200), interval), u64::MAX);
        assert_eq!(pending.rate(Instant(300), interval), 0);
    }
}
