//! Bytes by numbered parts of the time, bins or sections, from the first in which there are any: a short connection late in a run has few.

/// Most bins.
const MAX_BINS: usize = 10_000_000;

/// Sums by number of bin, counted from the start of the repetition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins {
    first: u64,
    sums: Vec<u64>,
}

impl Bins {
    /// Adds to a bin, O(1) in order of time. What is before the first, or too far behind it, is left out.
    pub fn add(&mut self, bin: u64, amount: u64) {
        if self.sums.is_empty() {
            self.first = bin;
        }
        let position = bin.checked_sub(self.first).and_then(|position| usize::try_from(position).ok());
        let Some(position) = position.filter(|position| *position < MAX_BINS) else { return };
        if self.sums.len() <= position {
            self.sums.resize(position + 1, 0);
        }
        self.sums[position] += amount;
    }

    /// Number and sum of every bin from the first that has any to the last.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (self.first..).zip(self.sums.iter().copied())
    }

    /// Sum of all.
    pub fn total(&self) -> u64 {
        self.sums.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_connection_has_no_bins_before_it() {
        let mut bins = Bins::default();
        assert_eq!((bins.iter().count(), bins.total()), (0, 0));
        for (bin, amount) in [(2_000_000, 3), (2_000_002, 4), (2_000_002, 1), (5, 9), (u64::MAX, 9)] {
            bins.add(bin, amount);
        }
        assert_eq!(bins.iter().collect::<Vec<_>>(), [(2_000_000, 3), (2_000_001, 0), (2_000_002, 5)]);
        assert_eq!(bins.total(), 8);
        assert!(bins.sums.capacity() < 16, "memory is that of its own life");
    }
}
