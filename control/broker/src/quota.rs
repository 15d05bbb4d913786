//! How often a client may ask.

use perhop_units::Instant;

const SECOND_NS: u64 = 1_000_000_000;

/// Requests that a client may make now: at most as many as a second brings, and never more. Exact: no time is rounded away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TokenBucket {
    /// When it will be full again, ns. What it lacks is the time until then times the rate.
    full_at: u128,
}

impl TokenBucket {
    /// Takes one request if `per_second` allow it now; else in how many ms they do. Nothing is ever allowed of none.
    pub fn take(&mut self, now: Instant, per_second: u64) -> Result<(), u32> {
        if per_second == 0 {
            return Err(0);
        }
        // In parts of 1/per_second ns, so that a request costs whole ones.
        let now = u128::from(now.0) * u128::from(per_second);
        let full_at = self.full_at.max(now) + u128::from(SECOND_NS);
        let latest = now + u128::from(SECOND_NS) * u128::from(per_second);
        if full_at > latest {
            let wait_ms = (full_at - latest).div_ceil(u128::from(per_second) * 1_000_000);
            return Err(u32::try_from(wait_ms).unwrap_or(u32::MAX));
        }
        self.full_at = full_at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn in_no_span_are_more_than_its_length_brings_and_one_second_more(
            gaps in prop::collection::vec(0..400_000_000_u64, 1..80), per_second in 1..20_u64,
        ) {
            let mut bucket = TokenBucket::default();
            let (mut now, mut taken) = (0, Vec::new());
            for gap in gaps {
                now += gap;
                match bucket.take(Instant(now), per_second) {
                    Ok(()) => taken.push(now),
                    Err(wait_ms) => {
                        let mut later = bucket;
                        let then = now + u64::from(wait_ms) * 1_000_000;
                        prop_assert!(wait_ms > 0 && later.take(Instant(then), per_second).is_ok());
                    }
                }
                for (i, first) in taken.iter().enumerate() {
                    let brought = (now - first) * per_second / SECOND_NS;
                    prop_assert!((taken.len() - i) as u64 <= per_second + brought);
                }
            }
        }

        #[test]
        fn who_asks_at_the_rate_is_never_refused(per_second in 1..1_000_u64, begin in 0..10_u64) {
            let mut bucket = TokenBucket::default();
            for i in 0..3 * per_second {
                let now = begin + (i * SECOND_NS).div_ceil(per_second);
                prop_assert_eq!(bucket.take(Instant(now), per_second), Ok(()));
            }
        }
    }
}
