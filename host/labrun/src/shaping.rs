//! What a router sends on an emulated link.

use perhop_units::Rate;

/// What a router sends on a link of `rate`: one per cent less, so that a backlog which a late wake-up leaves in the
/// link goes away and the queue stands in the router, where classes count.
pub(crate) fn shaped(rate: Rate) -> Rate {
    Rate((u128::from(rate.bits_per_sec()) * 99 / 100) as u64)
}
