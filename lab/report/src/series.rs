//! Values over time, kept as smallest, largest, last, sum and count of every bin.

use perhop_units::Duration;

/// Most bins a series keeps; values later than that are counted as refused.
pub const MAX_BINS: usize = 1 << 20;

/// What is kept of the values of one bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// Smallest value, +∞ in an empty bin.
    pub min: f64,
    /// Largest value, −∞ in an empty bin.
    pub max: f64,
    /// Value recorded last.
    pub last: f64,
    /// Sum of values.
    pub sum: f64,
    /// Number of values.
    pub count: u64,
}

impl Bin {
    const EMPTY: Self =
        Self { min: f64::INFINITY, max: f64::NEG_INFINITY, last: f64::NAN, sum: 0.0, count: 0 };

    /// Mean of the values, `None` in an empty bin.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    fn absorb(&mut self, later: &Self) {
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        self.sum += later.sum;
        self.count += later.count;
        if later.count > 0 {
            self.last = later.last;
        }
    }
}

/// Values over time since the start of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    bin: Duration,
    bins: Vec<Bin>,
    refused: u64,
}

impl Series {
    /// An empty series with bins of this length; a length of zero counts as 1 ns.
    pub fn new(bin: Duration) -> Self {
        Self { bin: bin.max(Duration(1)), bins: Vec::new(), refused: 0 }
    }

    /// Records a value. Values that are no numbers, and those past the last possible bin, are counted as refused.
    pub fn record(&mut self, at: Duration, value: f64) {
        let position = at.as_nanos() / self.bin.as_nanos();
        if position >= MAX_BINS as u64 || !value.is_finite() {
            self.refused += 1;
            return;
        }
        let position = position as usize;
        if position >= self.bins.len() {
            self.bins.resize(position + 1, Bin::EMPTY);
        }
        if let Some(bin) = self.bins.get_mut(position) {
            bin.absorb(&Bin { min: value, max: value, last: value, sum: value, count: 1 });
        }
    }

    /// Length of a bin.
    pub fn bin(&self) -> Duration {
        self.bin
    }

    /// Number of bins up to the last that has a value.
    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// Values that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Start of every bin and the bin, empty ones included.
    pub fn iter(&self) -> impl Iterator<Item = (Duration, &Bin)> {
        self.bins.iter().enumerate().map(|(i, bin)| (self.bin.saturating_mul(i as u64), bin))
    }

    /// Largest value.
    pub fn max(&self) -> Option<f64> {
        self.bins.iter().filter(|bin| bin.count > 0).map(|bin| bin.max).reduce(f64::max)
    }

    /// The same values in at most `bins` bins (at least one), by joining neighbours.
    #[must_use]
    pub fn downsampled(&self, bins: usize) -> Self {
        let join = self.bins.len().div_ceil(bins.max(1)).max(1);
        let joined = self
            .bins
            .chunks(join)
            .map(|chunk| {
                let mut whole = Bin::EMPTY;
                chunk.iter().for_each(|bin| whole.absorb(bin));
                whole
            })
            .collect();
        Self { bin: self.bin.saturating_mul(join as u64), bins: joined, refused: self.refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn bins_keep_extremes_last_and_mean() {
        let mut series = Series::new(ms(100));
        for (at, value) in [(0, 5.0), (99, 1.0), (50, 3.0), (250, 7.0)] {
            series.record(ms(at), value);
        }
        series.record(ms(10), f64::NAN);
        let bins: Vec<_> = series.iter().map(|(at, b)| (at, b.min, b.max, b.last, b.mean())).collect();
        assert_eq!(bins[0], (ms(0), 1.0, 5.0, 3.0, Some(3.0)));
        assert_eq!(bins[1].4, None);
        assert_eq!(bins[2], (ms(200), 7.0, 7.0, 7.0, Some(7.0)));
        assert_eq!((series.len(), series.refused(), series.max()), (3, 1, Some(7.0)));
        series.record(Duration::MAX, 1.0);
        assert_eq!((series.len(), series.refused()), (3, 2));
    }

    proptest! {
        /// Joining loses no value.
        #[test]
        fn sums_and_extremes_survive(
            values in prop::collection::vec((0u64..5000, -100i32..100), 1..200), bins in 1usize..50,
        ) {
            let fill = |part: &[(u64, i32)]| {
                let mut series = Series::new(ms(10));
                part.iter().for_each(|(at, v)| series.record(ms(*at), f64::from(*v)));
                series
            };
            let whole = fill(&values);
            prop_assert_eq!(whole.iter().map(|(_, b)| b.count).sum::<u64>(), values.len() as u64);
            let small = whole.downsampled(bins);
            prop_assert!(small.len() <= bins);
            prop_assert_eq!(small.max(), whole.max());
            prop_assert_eq!(small.iter().map(|(_, b)| b.sum).sum::<f64>(), whole.iter().map(|(_, b)| b.sum).sum::<f64>());
        }
    }
}
