//! Bandwidth that policies have given up and their flows still use.
//!
//! A sender hears of a lower rate with the next acknowledgments, and what it may send already is not taken back: so a
//! policy with flows uses what it had for a round trip more. Were it given to others at once, both would fill the queue.

use perhop_units::{Duration, Instant, Rate};
use std::collections::BTreeMap;

/// Parts of the time that it takes, which entries are kept by: more exact than needed, and few.
const PARTS: u64 = 32;

/// What was given up of one link, by the time from which others can have it.
#[derive(Clone, Debug, Default)]
pub(super) struct Freeing(BTreeMap<Instant, Rate>);

impl Freeing {
    /// `rate` is given up now, and free after `delay` or up to a part of it later.
    pub(super) fn add(&mut self, now: Instant, delay: Duration, rate: Rate) {
        if delay == Duration::ZERO || rate == Rate::ZERO {
            return;
        }
        let part = (delay.as_nanos() / PARTS).max(1);
        let at = Instant((now + delay).0.div_ceil(part).saturating_mul(part));
        let sum = self.0.entry(at).or_insert(Rate::ZERO);
        *sum = sum.saturating_add(rate);
    }

    /// Forgets what is free by `now`; whether there was any.
    pub(super) fn pass(&mut self, now: Instant) -> bool {
        let later = self.0.split_off(&Instant(now.0.saturating_add(1)));
        !std::mem::replace(&mut self.0, later).is_empty()
    }

    /// What is not free yet.
    pub(super) fn sum(&self) -> Rate {
        self.0.values().fold(Rate::ZERO, |sum, rate| sum.saturating_add(*rate))
    }

    /// When the next part of it is free.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.keys().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_free_after_the_delay_and_not_before() {
        let (mut freeing, delay) = (Freeing::default(), Duration(3_200));
        freeing.add(Instant(1_000), delay, Rate(5));
        freeing.add(Instant(1_001), delay, Rate(7));
        freeing.add(Instant(1_002), Duration::ZERO, Rate(100));
        assert!(!freeing.pass(Instant(4_199)) && freeing.sum() == Rate(12));
        assert!(freeing.pass(Instant(4_200)) && freeing.sum() == Rate(7));
        assert_eq!(freeing.next(), Some(Instant(4_300)));
        assert!(freeing.pass(Instant(4_300)) && freeing.sum() == Rate::ZERO);
        assert_eq!(freeing.next(), None);
    }

    #[test]
    fn few_entries_are_kept_however_often_something_is_given_up() {
        let mut freeing = Freeing::default();
        for t in 0..40_000 {
            freeing.pass(Instant(t));
            freeing.add(Instant(t), Duration(32_000), Rate(1));
            assert!(freeing.0.len() <= PARTS as usize + 1);
        }
    }
}
