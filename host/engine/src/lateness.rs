//! How late timers are served: the driver error of a live router.

use perhop_units::Duration;

/// Buckets an octave; the relative error of a percentile is at most 1/8.
const STEPS: u32 = 8;
const BUCKETS: usize = 62 * STEPS as usize;

/// Histogram of `served − due`, ns.
#[derive(Clone)]
pub(crate) struct Lateness {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    max: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), count: 0, max: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < u64::from(STEPS) {
        return ns as usize;
    }
    let octave = ns.ilog2();
    let step = (ns >> (octave - 3)) as u32 & (STEPS - 1);
    ((octave - 2) * STEPS + step) as usize
}

/// The largest value that falls into a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u32;
    if bucket < STEPS {
        return u64::from(bucket);
    }
    let (octave, step) = (bucket / STEPS + 2, bucket % STEPS);
    let width = 1u64 << (octave - 3);
    (1u64 << octave) + u64::from(step) * width + (width - 1)
}

impl Lateness {
    pub(crate) fn record(&mut self, late: Duration) {
        self.buckets[bucket(late.0).min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.max = self.max.max(late.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Worst so far, ns.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The value that `per_thousand` of all do not exceed (rounded up by at most 1/8), ns. 0 without values.
    pub(crate) fn quantile(&self, per_thousand: u64) -> u64 {
        let rank = (self.count * per_thousand).div_ceil(1000);
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank && *n > 0 {
                return upper(i).min(self.max);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        let mut previous = 0;
        for shift in 0..61 {
            for near in [0, 1, 3] {
                let ns = (1u64 << shift) + near;
                let b = bucket(ns);
                assert!(upper(b) >= ns && upper(b) - ns <= ns / 8, "{ns} {b} {}", upper(b));
                assert!(b == 0 || upper(b - 1) < ns, "{ns}");
                previous = previous.max(b);
            }
        }
        assert!(previous < BUCKETS);
    }

    #[test]
    fn quantiles_are_within_an_eighth() {
        let mut l = Lateness::default();
        assert_eq!(l.quantile(990), 0);
        for n in 1..=1000u64 {
            l.record(Duration(n * 1000));
        }
        assert_eq!((l.count(), l.max()), (1000, 1_000_000));
        let p99 = l.quantile(990);
        assert!((990_000..=990_000 * 9 / 8).contains(&p99), "{p99}");
        assert_eq!(l.quantile(1000), 1_000_000);
    }
}
