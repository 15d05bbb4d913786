//! A limit on events a second.

use perhop_units::Instant;

/// In 10⁻⁹ events, so that rate × nanoseconds is exact.
const ONE: u64 = 1_000_000_000;

/// A token bucket that counts events: in any time t at most `rate` × t + `burst` are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateLimit {
    rate: u32,
    burst: u32,
    credit: u64,
    refilled: Instant,
}

impl RateLimit {
    /// `rate` events a second, `burst` at once; full.
    pub(super) fn new(rate: u32, burst: u32) -> Self {
        Self { rate, burst, credit: u64::from(burst) * ONE, refilled: Instant::ZERO }
    }

    /// Whether `count` events may happen at `now`; then they are charged. O(1).
    pub(super) fn take(&mut self, now: Instant, count: u32) -> bool {
        let earned = now.since(self.refilled).as_nanos().saturating_mul(u64::from(self.rate));
        self.credit = self.credit.saturating_add(earned).min(u64::from(self.burst) * ONE);
        self.refilled = self.refilled.max(now);
        let cost = u64::from(count) * ONE;
        let covered = self.credit >= cost;
        if covered {
            self.credit -= cost;
        }
        covered
    }

    /// Continues with what `old` has left, clamped to the own burst.
    pub(super) fn adopt(&mut self, old: &Self) {
        self.credit = old.credit.min(u64::from(self.burst) * ONE);
        self.refilled = old.refilled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_interval_exceeds_the_envelope(
            rate in 1u32..10_000, burst in 1u32..100,
            list in proptest::collection::vec((0u64..200_000_000, 1u32..5), 1..60),
        ) {
            let mut limit = RateLimit::new(rate, burst);
            let mut now = 0;
            let mut passed = vec![];
            for (gap, count) in list {
                now += gap;
                if limit.take(Instant(now), count) {
                    passed.push((now, u64::from(count)));
                }
            }
            for (i, (from, _)) in passed.iter().enumerate() {
                let mut sum = 0;
                for (to, count) in &passed[i..] {
                    sum += u128::from(*count);
                    let allowed = u128::from(to - from) * u128::from(rate) + u128::from(burst) * u128::from(ONE);
                    prop_assert!(sum * u128::from(ONE) <= allowed);
                }
            }
        }
    }

    #[test]
    fn earns_exactly_its_rate() {
        let mut limit = RateLimit::new(3, 1);
        assert!(limit.take(Instant(0), 1));
        assert!(!limit.take(Instant(333_333_333), 1));
        assert!(limit.take(Instant(333_333_334), 1));
    }
}
