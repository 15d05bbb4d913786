//! The search for the highest rate without loss, apart from what is measured.
//!
//! Source: RFC 2544 §26.1 (a fixed number of frames at a rate; all of them back: raise it, fewer: lower it). Rates are
//! bisected instead of stepped, and the rate that was found has to hold in further trials.

/// Search between a rate that is believed to lose nothing and one that lost something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Frames a second; only confirmation makes it an answer. 0: nothing is known to pass.
    low: u64,
    /// Frames a second; at first one more than there is to be tried.
    high: u64,
    /// Both are close enough when they differ by no more than so many thousandths of `high`.
    per_mille: u64,
    /// Trials at `low` in a row without loss.
    confirmed: u32,
    /// Of these an answer needs so many.
    wanted: u32,
    refuted: u32,
    trials: u32,
}

/// Rates below this are not searched, frames a second.
const LEAST: u64 = 100;
/// Trials after which there is no answer: losses that do not depend on the rate would lead down for ever.
const MOST_TRIALS: u32 = 200;

impl Search {
    /// Up to `most` frames a second, which is tried first. An answer has lost nothing in `wanted` trials (1 at least), the
    /// one that found it among them.
    pub fn new(most: u64, per_mille: u64, wanted: u32) -> Self {
        let high = most.max(LEAST) + 1;
        Self { low: 0, high, per_mille, confirmed: 0, wanted: wanted.max(1), refuted: 0, trials: 0 }
    }

    /// Rate of the next trial; `None` when the search is over.
    pub fn next(&self) -> Option<u64> {
        if self.trials >= MOST_TRIALS {
            return None;
        }
        if self.trials == 0 {
            return Some(self.high - 1);
        }
        if self.is_close() {
            return (self.confirmed < self.wanted && self.low > 0).then_some(self.low);
        }
        Some(self.low + (self.high - self.low) / 2)
    }

    fn is_close(&self) -> bool {
        let apart = self.high - self.low;
        let wanted = u128::from(self.high) * u128::from(self.per_mille) / 1000;
        self.high <= LEAST || u128::from(apart) <= wanted.max(1)
    }

    /// Takes the result of a trial at [`Search::next`].
    pub fn tried(&mut self, without_loss: bool) {
        let Some(rate) = self.next() else { return };
        self.trials += 1;
        match (without_loss, rate == self.low) {
            (true, true) => self.confirmed += 1,
            (true, false) => (self.low, self.confirmed) = (rate, 1),
            (false, false) => self.high = rate,
            (false, true) => {
                // It was luck, and lower rates may have passed by luck, too.
                self.refuted += 1;
                (self.low, self.high, self.confirmed) = (rate - rate.div_ceil(10), rate, 0);
            }
        }
    }

    /// The highest rate that was confirmed; 0 when there is none.
    pub fn answer(&self) -> u64 {
        if self.confirmed >= self.wanted { self.low } else { 0 }
    }

    /// Rates found that a confirmation has refuted.
    pub fn refuted(&self) -> u32 {
        self.refuted
    }

    /// Trials so far.
    pub fn trials(&self) -> u32 {
        self.trials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a device that gives its verdict by rate and number of the trial.
    fn search(most: u64, wanted: u32, passes: impl Fn(u64, u32) -> bool) -> (Search, Vec<u64>) {
        let (mut search, mut tried) = (Search::new(most, 10, wanted), Vec::new());
        while let Some(rate) = search.next() {
            tried.push(rate);
            search.tried(passes(rate, tried.len() as u32));
        }
        (search, tried)
    }

    #[test]
    fn the_limit_of_a_device_is_found_to_the_resolution_from_below() {
        for limit in [100, 101, 999, 12_345, 700_001, 999_999] {
            let (search, tried) = search(1_000_000, 5, |rate, _| rate <= limit);
            let answer = search.answer();
            assert!(answer <= limit && answer + answer / 50 + 2 >= limit, "{limit}: {answer}");
            assert!(tried.ends_with(&[answer; 4]), "{limit}: confirmed: {tried:?}");
            assert!(tried.len() < 30 && search.refuted() == 0, "{limit}: {tried:?}");
        }
    }

    #[test]
    fn a_device_that_is_never_the_limit_is_tried_at_the_highest_rate_alone() {
        let (search, tried) = search(50_000, 3, |_, _| true);
        assert_eq!((search.answer(), tried), (50_000, vec![50_000; 3]));
    }

    #[test]
    fn a_rate_that_passes_once_and_not_again_is_no_answer() {
        // Above 300,000 every second trial passes by luck.
        let (search, _) = search(1_000_000, 6, |rate, trial| rate <= 300_000 || trial % 2 == 0);
        assert!(search.refuted() > 0);
        assert!((250_000..=300_000).contains(&search.answer()), "{}", search.answer());
    }

    #[test]
    fn a_device_that_always_loses_has_no_answer() {
        let (search, tried) = search(1_000_000, 5, |_, _| false);
        assert_eq!(search.answer(), 0);
        assert!(tried.len() < 30, "{tried:?}");
        // Nor has one that loses now and then whatever the rate; the search ends all the same.
        let (search, tried) = self::search(1_000_000, 5, |_, trial| trial % 3 != 0);
        assert_eq!(search.answer(), 0);
        assert!(tried.len() <= MOST_TRIALS as usize);
    }
}
