//! A log of bounded length: when it is full every second entry goes, and from then on only every second comes in.

use perhop_units::{Duration, Instant};

/// How long a packet waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When this machine received it.
    pub came: Instant,
    /// When the line began on it.
    pub began: Instant,
}

impl Wait {
    /// From the one to the other.
    pub fn length(&self) -> Duration {
        self.began.since(self.came)
    }
}

/// Entries in their order: all of them, or from some number on every second, every fourth … O(1) amortised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThinnedLog<T> {
    kept: Vec<T>,
    most: usize,
    stride: u64,
    seen: u64,
}

impl<T> ThinnedLog<T> {
    /// An empty log of at most `most` entries, at least 2. Takes memory as it grows.
    pub fn new(most: usize) -> Self {
        Self { kept: Vec::new(), most: most.max(2), stride: 1, seen: 0 }
    }

    /// The next entry.
    #[inline]
    pub fn note(&mut self, entry: T) {
        if self.seen.is_multiple_of(self.stride) {
            self.keep(entry);
        }
        self.seen += 1;
    }

    fn keep(&mut self, entry: T) {
        if self.kept.len() >= self.most {
            let mut keep = false;
            self.kept.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
            if !self.seen.is_multiple_of(self.stride) {
                return;
            }
        }
        self.kept.push(entry);
    }

    /// What was kept.
    pub fn into_kept(self) -> Vec<T> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_kept_is_evenly_spaced_from_the_first_on(most in 2usize..40, count in 0u64..2000) {
            let mut log = ThinnedLog::new(most);
            (0..count).for_each(|n| log.note(n));
            let kept = log.into_kept();
            prop_assert!(kept.len() <= most && (kept.len() * 2 + 1 >= most || kept.len() as u64 == count));
            let stride = kept.get(1).copied().unwrap_or(1);
            prop_assert!(stride.is_power_of_two());
            let expected: Vec<u64> = (0..count).step_by(stride as usize).collect();
            prop_assert!(count < 2 || kept == expected, "{kept:?}");
        }
    }

    #[test]
    fn a_wait_is_from_the_arrival_to_the_line() {
        assert_eq!(Wait { came: Instant(40), began: Instant(100) }.length(), Duration(60));
    }
}
