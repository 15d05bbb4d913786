//! A bounded set of ranges of sequence numbers: what a receiver holds beyond a gap, and what a sender knows of it.
//!
//! A sorted vector of disjoint, not touching, non-empty ranges. It grows to its limit once and is reused; a range
//! that would exceed the limit is refused, which is harmless: SACK information is advisory, and data that is refused
//! is sent again.

/// Sorted ranges `[start, end)`.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    list: Vec<(u64, u64)>,
    limit: usize,
    total: u64,
}

impl Ranges {
    /// An empty set of at most `limit` ranges. Allocates nothing yet.
    pub(crate) fn new(limit: u16) -> Self {
        Self { list: Vec::new(), limit: usize::from(limit), total: 0 }
    }

    /// The ranges in order.
    pub(crate) fn as_slice(&self) -> &[(u64, u64)] {
        &self.list
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Sum of the lengths.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.total = 0;
    }

    /// Adds `[start, end)` and says how much of it is new, or `None` if there is no room for a further range.
    /// O(log n) at the end of the set, O(n) elsewhere.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> Option<u64> {
        if start >= end {
            return Some(0);
        }
        let from = self.list.partition_point(|range| range.1 < start);
        let to = from + self.list[from..].partition_point(|range| range.0 <= end);
        if from == to {
            if self.list.len() >= self.limit {
                return None;
            }
            self.list.insert(from, (start, end));
            self.total += end - start;
            return Some(end - start);
        }
        let merged = (start.min(self.list[from].0), end.max(self.list[to - 1].1));
        let held: u64 = self.list[from..to].iter().map(|range| range.1 - range.0).sum();
        self.list[from] = merged;
        self.list.drain(from + 1..to);
        let new = merged.1 - merged.0 - held;
        self.total += new;
        Some(new)
    }

    /// Forgets everything below `edge` and says how much that was.
    pub(crate) fn remove_below(&mut self, edge: u64) -> u64 {
        if self.list.first().is_none_or(|range| range.0 >= edge) {
            return 0;
        }
        let gone = self.list.partition_point(|range| range.1 <= edge);
        let mut removed: u64 = self.list[..gone].iter().map(|range| range.1 - range.0).sum();
        self.list.drain(..gone);
        if let Some(range) = self.list.first_mut()
            && range.0 < edge
        {
            removed += edge - range.0;
            range.0 = edge;
        }
        self.total -= removed;
        removed
    }

    /// The range that holds `at`.
    pub(crate) fn containing(&self, at: u64) -> Option<(u64, u64)> {
        let after = self.list.partition_point(|range| range.0 <= at);
        let range = *self.list.get(after.checked_sub(1)?)?;
        (at < range.1).then_some(range)
    }

    /// The first gap at or after `from`: its start, and its end, which is `None` behind the last range. O(log n).
    pub(crate) fn gap_from(&self, from: u64) -> (u64, Option<u64>) {
        let next = self.list.partition_point(|range| range.1 <= from);
        match self.list.get(next) {
            Some(range) if range.0 <= from => (range.1, self.list.get(next + 1).map(|range| range.0)),
            Some(range) => (from, Some(range.0)),
            None => (from, None),
        }
    }

    /// How much of the set lies below `edge`. O(n).
    pub(crate) fn below(&self, edge: u64) -> u64 {
        if self.list.last().is_none_or(|range| range.1 <= edge) {
            return self.total;
        }
        let whole = self.list.iter().take_while(|range| range.0 < edge);
        whole.map(|range| range.1.min(edge) - range.0).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// The same as a set of numbers.
    fn numbers(ranges: &Ranges) -> BTreeSet<u64> {
        ranges.as_slice().iter().flat_map(|range| range.0..range.1).collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(
            steps in proptest::collection::vec((0u64..120, 0u64..20, any::<bool>()), 0..40), probe in 0u64..130,
        ) {
            let mut ranges = Ranges::new(100);
            let mut set = BTreeSet::new();
            for (start, len, remove) in steps {
                let before = set.len() as u64;
                if remove {
                    set.retain(|number| *number >= start);
                    prop_assert_eq!(ranges.remove_below(start), before - set.len() as u64);
                } else {
                    set.extend(start..start + len);
                    prop_assert_eq!(ranges.insert(start, start + len), Some(set.len() as u64 - before));
                }
                prop_assert_eq!(numbers(&ranges), set.clone());
                prop_assert_eq!(ranges.total(), set.len() as u64);
                prop_assert!(ranges.as_slice().windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
            prop_assert_eq!(ranges.below(probe), set.range(..probe).count() as u64);
            prop_assert_eq!(ranges.containing(probe).is_some(), set.contains(&probe));
            let (start, end) = ranges.gap_from(probe);
            let gap = (probe..).find(|number| !set.contains(number)).unwrap();
            prop_assert_eq!(start, gap);
            prop_assert_eq!(end, set.range(gap..).next().copied());
        }
    }

    #[test]
    fn a_range_too_many_is_refused_and_one_that_joins_is_not() {
        let mut ranges = Ranges::new(2);
        assert_eq!((ranges.insert(10, 20), ranges.insert(30, 40)), (Some(10), Some(10)));
        assert_eq!(ranges.insert(50, 60), None);
        assert_eq!(ranges.insert(20, 30), Some(10));
        assert_eq!(ranges.as_slice(), [(10, 40)]);
    }
}
