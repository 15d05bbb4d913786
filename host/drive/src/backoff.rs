//! How long somebody who is away is left alone.

use perhop_units::Duration;

/// Pauses between attempts: each is drawn from the upper half of a time that doubles from `least` to `most`, so that many
/// who lost the same peer do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff<R> {
    least: Duration,
    most: Duration,
    /// Bound of the next pause.
    next: Duration,
    bits: R,
}

impl<R: FnMut() -> u64> Backoff<R> {
    /// `least` is the bound of the first pause, `most` of all; `bits` is a stream of random words.
    pub fn new(least: Duration, most: Duration, bits: R) -> Self {
        let least = least.min(most);
        Self { least, most, next: least, bits }
    }

    /// The pause after one more failure.
    pub fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = whole.saturating_mul(2).min(self.most);
        let half = whole.0 / 2;
        let drawn = u128::from((self.bits)()) * u128::from(whole.0 - half) >> 64;
        Duration(half + drawn as u64 + 1)
    }

    /// The next pause is a first one again.
    pub fn reset(&mut self) {
        self.next = self.least;
    }

    /// The bound of all pauses.
    pub fn most(&self) -> Duration {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::words;

    #[test]
    fn pauses_double_up_to_the_bound_and_are_drawn_from_the_upper_half() {
        for seed in 0..200 {
            let mut backoff = Backoff::new(Duration(100), Duration(1_000), words(seed));
            for _ in 0..2 {
                for whole in [100, 200, 400, 800, 1_000, 1_000] {
                    let pause = backoff.pause().0;
                    assert!(whole / 2 < pause && pause <= whole, "seed {seed}: {pause} of {whole}");
                }
                backoff.reset();
            }
        }
    }

    #[test]
    fn the_same_stream_gives_the_same_pauses_and_another_gives_others() {
        let pauses = |seed| {
            let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_secs(1), words(seed));
            (0..20).map(|_| backoff.pause()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }

    #[test]
    fn the_ends_of_the_stream_are_the_ends_of_the_range() {
        let pause = |word| Backoff::new(Duration(100), Duration(100), move || word).pause();
        assert_eq!((pause(0), pause(u64::MAX)), (Duration(51), Duration(100)));
    }
}
