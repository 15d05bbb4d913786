//! A histogram of bounded memory and bounded relative error.

/// Buckets an octave: one is at most 1/32 of its least value wide.
const STEPS_LOG2: u32 = 5;
const STEPS: u64 = 1 << STEPS_LOG2;
/// Values from 2⁴⁴ on share the last bucket.
const TOP: u32 = 44;
const BUCKETS: usize = ((TOP - STEPS_LOG2 + 1) as usize) << STEPS_LOG2;

/// Counts of values in buckets whose width grows with the value: exact below 32, within 1/32 (3.2 %) from there to 2⁴⁴.
/// 10 KiB, whatever it is given; it never allocates after its construction.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0, max: 0 }
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let octave = value.ilog2();
    if octave >= TOP {
        return BUCKETS - 1;
    }
    let step = (value >> (octave - STEPS_LOG2)) & (STEPS - 1);
    (u64::from(octave - STEPS_LOG2 + 1) * STEPS + step) as usize
}

/// The largest value that falls into a bucket other than the last.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (octave, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step + 1) << octave) - 1
}

impl Histogram {
    /// Adds `value`. O(1).
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds `value` as often as `times` says. O(1).
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u64) {
        self.buckets[bucket(value)] += times;
        self.count += times;
        if times > 0 {
            self.max = self.max.max(value);
        }
    }

    /// Values so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest so far, exact; 0 without values.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that `per_thousand` (at most 1000) of all do not exceed: not less than it and at most 1/32 more, for
    /// values below 2⁴⁴. 0 without values. O(buckets).
    pub fn quantile(&self, per_thousand: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(per_thousand)).div_ceil(1000).max(1) as u64;
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate().take(BUCKETS - 1) {
            seen += n;
            if seen >= rank {
                return upper(i).min(self.max);
            }
        }
        self.max
    }

    /// Buckets that hold something, lowest first: the largest value of the bucket (of the last: the largest there is) and
    /// how many it holds.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let top = |i| if i + 1 == BUCKETS { self.max } else { upper(i).min(self.max) };
        self.buckets.iter().enumerate().filter(|(_, n)| **n > 0).map(move |(i, n)| (top(i), *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: the smallest value that at least the share does not exceed.
    fn exact(values: &mut [u64], per_thousand: u64) -> u64 {
        values.sort_unstable();
        let rank = (values.len() as u64 * per_thousand).div_ceil(1000).max(1);
        values[rank as usize - 1]
    }

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for i in 0..BUCKETS - 1 {
            assert_eq!(bucket(upper(i)), i);
            assert_eq!(bucket(upper(i) + 1), i + 1, "{i}");
        }
        assert_eq!(upper(BUCKETS - 2) + 1, (1 << TOP) - (1 << (TOP - 1 - STEPS_LOG2)));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn it_is_empty_at_first_and_the_largest_is_exact() {
        let mut h = Histogram::default();
        assert_eq!((h.quantile(990), h.max(), h.count(), h.filled().count()), (0, 0, 0, 0));
        h.record_many(5, 0);
        assert_eq!((h.max(), h.count()), (0, 0));
        h.record_many(1_000_001, 3);
        h.record(u64::MAX);
        assert_eq!((h.count(), h.max(), h.quantile(1000)), (4, u64::MAX, u64::MAX));
        assert!((1_000_001..=1_000_001 + 1_000_001 / 32).contains(&h.quantile(750)));
        assert_eq!(h.filled().map(|(_, n)| n).collect::<Vec<_>>(), [3, 1]);
    }

    proptest! {
        #[test]
        fn a_quantile_is_at_most_a_32nd_above_the_exact_one(
            mut values in prop::collection::vec((0u32..44).prop_flat_map(|s| 0..=(1u64 << s)), 1..300),
            per_thousand in 0u64..=1000,
        ) {
            let mut h = Histogram::default();
            values.iter().for_each(|v| h.record(*v));
            let (got, exact) = (h.quantile(per_thousand), exact(&mut values, per_thousand));
            prop_assert!(got >= exact && got - exact <= exact / 32, "{got} for {exact}");
            prop_assert_eq!(h.filled().map(|(_, n)| n).sum::<u64>(), h.count());
        }
    }
}
