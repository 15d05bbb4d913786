//! What a router sends on an emulated link, and what the link takes.
//!
//! A link whose router sends exactly as fast as it keeps for ever what a late wake-up left in it. So it must be a little
//! faster than its router: then such a backlog goes away and the queue stands in the router, where classes count.

use perhop_units::{Duration, Rate};

/// Share of the link that the router uses, percent.
const USED_PCT: u128 = 99;

/// What a router sends on a link of `rate`, when the link keeps to it: one per cent less.
pub(crate) fn shaped(rate: Rate) -> Rate {
    Rate((u128::from(rate.bits_per_sec()) * USED_PCT / 100) as u64)
}

/// What a link takes behind a router that sends `rate`, when the router keeps to it: [`shaped`] of it is at least `rate`.
pub(crate) fn widened(rate: Rate) -> Rate {
    Rate(widen(rate.bits_per_sec()))
}

/// Line time at the rate of the file of what took `busy` on a widened link.
pub(crate) fn unwidened(busy: Duration) -> Duration {
    Duration(widen(busy.as_nanos()))
}

fn widen(value: u64) -> u64 {
    u64::try_from((u128::from(value) * 100).div_ceil(USED_PCT)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_widened_link_has_room_for_what_it_was_widened_for() {
        for rate in [0, 1, 98, 99, 100, 9_999_999, 10_000_000, u64::MAX / 2].map(Rate) {
            assert!(shaped(widened(rate)) >= rate, "{rate}");
        }
        assert_eq!(widened(Rate::from_mbit(99)), Rate::from_mbit(100));
        assert_eq!(unwidened(Duration::from_millis(990)), Duration::from_millis(1000));
    }
}
