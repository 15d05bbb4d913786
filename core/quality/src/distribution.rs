//! An exact distribution of times: samples kept, percentiles by nearest rank, merged by concatenation.
//!
//! Eight bytes a sample. Exact rather than bucketed, so that a result is byte-equal whatever the order of merging; the
//! runs whose records it serves have at most a few million packets.

/// Times in ns; differences of two clocks may be negative. Percentiles are the nearest-rank ones: the smallest sample with at least p of all at or below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    sorted_ns: Vec<i64>,
}

impl Distribution {
    /// Takes the samples, O(n log n); what is beyond 292 years counts as that.
    pub fn from_nanos(samples: Vec<u64>) -> Self {
        Self::from_signed_nanos(samples.into_iter().map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)).collect())
    }

    /// Takes samples that may be negative, O(n log n).
    pub fn from_signed_nanos(mut samples: Vec<i64>) -> Self {
        samples.sort_unstable();
        Self { sorted_ns: samples }
    }

    /// Pools many sets of samples at once, O(n log k): the sort merges the runs it finds.
    pub fn pooled<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut samples = Vec::new();
        for part in parts {
            samples.extend_from_slice(&part.sorted_ns);
        }
        samples.sort();
        Self { sorted_ns: samples }
    }

    /// Number of samples.
    pub fn count(&self) -> usize {
        self.sorted_ns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sorted_ns.is_empty()
    }

    /// Pools both sets of samples, O(n).
    pub fn merge(&mut self, other: &Self) {
        let own = std::mem::take(&mut self.sorted_ns);
        self.sorted_ns.reserve(own.len() + other.sorted_ns.len());
        let (mut left, mut right) = (own.iter().peekable(), other.sorted_ns.iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a <= b => left.next(),
                (_, Some(_)) => right.next(),
                (Some(_), None) => left.next(),
                (None, None) => break,
            };
            self.sorted_ns.extend(next);
        }
    }

    /// The `percent`-th percentile in ms, nearest rank; `percent` is clamped to 0 … 100. `None` without samples.
    pub fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let n = self.sorted_ns.len();
        let rank = libm::ceil(percent.clamp(0.0, 100.0) / 100.0 * n as f64 - 1e-9) as usize;
        self.sorted_ns.get(rank.max(1) - 1).map(|ns| *ns as f64 / 1e6)
    }

    /// Smallest sample in ms.
    pub fn min_ms(&self) -> Option<f64> {
        self.sorted_ns.first().map(|ns| *ns as f64 / 1e6)
    }

    /// Largest sample in ms.
    pub fn max_ms(&self) -> Option<f64> {
        self.sorted_ns.last().map(|ns| *ns as f64 / 1e6)
    }

    /// Arithmetic mean in ms; the sum is exact.
    pub fn mean_ms(&self) -> Option<f64> {
        let sum: i128 = self.sorted_ns.iter().map(|ns| i128::from(*ns)).sum();
        (!self.is_empty()).then(|| sum as f64 / self.count() as f64 / 1e6)
    }

    /// At most `points` pairs (ms, share of samples at or below, 0 … 1), for a cumulative plot; the extremes are kept.
    pub fn cumulative(&self, points: usize) -> Vec<(f64, f64)> {
        let n = self.count();
        if n == 0 || points == 0 {
            return Vec::new();
        }
        let steps = points.min(n);
        let mut curve = Vec::with_capacity(steps);
        for i in 0..steps {
            let index = if steps == 1 { n - 1 } else { i * (n - 1) / (steps - 1) };
            curve.push((self.sorted_ns[index] as f64 / 1e6, (index + 1) as f64 / n as f64));
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nearest_rank_on_a_known_set() {
        let d = Distribution::from_nanos((1..=100).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!(d.percentile_ms(50.0), Some(50.0));
        assert_eq!(d.percentile_ms(99.0), Some(99.0));
        assert_eq!(d.percentile_ms(100.0), Some(100.0));
        assert_eq!(d.percentile_ms(0.0), Some(1.0));
        assert_eq!((d.min_ms(), d.max_ms(), d.mean_ms()), (Some(1.0), Some(100.0), Some(50.5)));
        assert_eq!(Distribution::default().percentile_ms(50.0), None);
        assert_eq!(Distribution::default().mean_ms(), None);
    }

    #[test]
    fn differences_of_clocks_may_be_negative() {
        let d = Distribution::from_signed_nanos(vec![1_000_000, -3_000_000, -1_000_000]);
        assert_eq!((d.min_ms(), d.mean_ms(), d.percentile_ms(50.0)), (Some(-3.0), Some(-1.0), Some(-1.0)));
    }

    proptest! {
        #[test]
        fn merging_equals_pooling(a in prop::collection::vec(any::<u64>(), 0..60), b in prop::collection::vec(any::<u64>(), 0..60)) {
            let mut merged = Distribution::from_nanos(a.clone());
            merged.merge(&Distribution::from_nanos(b.clone()));
            let parts = [Distribution::from_nanos(a.clone()), Distribution::from_nanos(b.clone())];
            prop_assert_eq!(&merged, &Distribution::pooled(&parts));
            prop_assert_eq!(merged, Distribution::from_nanos([a, b].concat()));
        }

        #[test]
        fn cumulative_curve_rises_to_one(a in prop::collection::vec(0u64..1_000_000, 1..200), points in 1usize..50) {
            let curve = Distribution::from_nanos(a.clone()).cumulative(points);
            prop_assert!(curve.len() <= points);
            prop_assert!(curve.windows(2).all(|w| w[0].0 <= w[1].0 && w[0].1 <= w[1].1));
            prop_assert_eq!(curve.last().map(|p| p.1), Some(1.0));
        }
    }
}
