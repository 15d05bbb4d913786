//! Counters over time as instants of the run: what was sampled, read at any instant.

use perhop_engine::Recording;
use perhop_measure::QueueSeries;
use perhop_units::{Duration, Instant};

/// A recording of an engine or an emulated link, beside the run's own time.
pub(super) struct Samples<'a> {
    recording: &'a Recording,
    epoch: Instant,
}

/// A counter or gauge: the number of the sample from which each value held.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    changes: &'a [(u32, u64)],
    samples: &'a Samples<'a>,
}

impl<'a> Samples<'a> {
    /// `epoch` is the start of the run on this machine's clock.
    pub(super) fn new(recording: &'a Recording, epoch: Instant) -> Self {
        Self { recording, epoch }
    }

    /// A series by name; one that never changed from nothing is empty.
    pub(super) fn line(&'a self, name: &str) -> Line<'a> {
        let changes = self.recording.series.get(name).map_or(&[][..], Vec::as_slice);
        Line { changes, samples: self }
    }

    /// Names that begin with `prefix`, without it.
    pub(super) fn names(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.recording.series.keys().filter_map(move |name| name.strip_prefix(prefix))
    }

    /// The last sample taken at or before an instant of the run.
    fn number(&self, at: Instant) -> u32 {
        let since = (self.epoch.as_nanos() + at.as_nanos()).saturating_sub(self.recording.start_ns);
        u32::try_from(since / self.recording.interval_ns.max(1)).unwrap_or(u32::MAX)
    }
}

impl Line<'_> {
    /// The value at an instant.
    pub(super) fn at(&self, at: Instant) -> u64 {
        self.at_sample(self.samples.number(at))
    }

    fn at_sample(&self, number: u32) -> u64 {
        let before = self.changes.partition_point(|(sample, _)| *sample <= number);
        before.checked_sub(1).and_then(|i| self.changes.get(i)).map_or(0, |(_, value)| *value)
    }

    /// How much a counter grew in an interval.
    pub(super) fn growth(&self, from: Instant, until: Instant) -> u64 {
        self.at(until).saturating_sub(self.at(from))
    }

    /// Growth in each bin up to `end`.
    pub(super) fn bins(&self, bin: Duration, end: Instant) -> Vec<u64> {
        let bin = bin.as_nanos().max(1);
        let count = end.as_nanos().div_ceil(bin);
        (0..count).map(|i| self.growth(Instant(i * bin), Instant((i + 1) * bin))).collect()
    }

    /// Whether it was ever anything but zero.
    pub(super) fn is_silent(&self) -> bool {
        self.changes.iter().all(|(_, value)| *value == 0)
    }
}

/// The gauges of a queue: its length, and between which lengths it was since the sample before.
#[derive(Clone, Copy)]
pub(super) struct Lengths<'a> {
    pub(super) now: Line<'a>,
    pub(super) least: Line<'a>,
    pub(super) most: Line<'a>,
}

impl Lengths<'_> {
    /// Whether the queue was always empty.
    pub(super) fn is_silent(&self) -> bool {
        self.now.is_silent() && self.most.is_silent()
    }
}

/// A queue over time from its gauges, the counters of its drops, and what it borrowed.
pub(super) fn queue_series(
    name: &str,
    interval: Duration,
    end: Instant,
    bytes: Lengths<'_>,
    drops: &[Line<'_>],
    borrows: Option<Line<'_>>,
) -> QueueSeries {
    let step = interval.as_nanos().max(1);
    let count = end.as_nanos().div_ceil(step);
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let mut series = QueueSeries { name: name.to_owned(), interval, ..QueueSeries::default() };
    for i in 0..count {
        let (from, until) = (Instant(i * step), Instant((i + 1) * step));
        let [least, now, most] = [bytes.least, bytes.now, bytes.most].map(|line| narrow(line.at(until)));
        series.bytes.push([least.min(now), most.max(now), now]);
        series.drops.push(narrow(drops.iter().map(|line| line.growth(from, until)).sum()));
        if let Some(borrows) = borrows.filter(|line| !line.is_silent()) {
            series.borrows.push(borrows.at(until));
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_hold_until_the_next_change() {
        let mut recording = Recording { start_ns: 90, interval_ns: 10, samples: 9, ..Recording::default() };
        // Samples at 90, 100 … 170 of the clock: −10, 0 … 70 of the run.
        recording.series.insert("q.bytes".into(), vec![(0, 0), (3, 500), (6, 200)]);
        recording.series.insert("q.bytes_least".into(), vec![(4, 400), (5, 450), (6, 200)]);
        recording.series.insert("q.bytes_most".into(), vec![(3, 500), (5, 900), (6, 500), (7, 200)]);
        recording.series.insert("q.dropped_queue_full".into(), vec![(4, 7), (6, 9)]);
        let samples = Samples::new(&recording, Instant(100));
        let (bytes, drops) = (samples.line("q.bytes"), samples.line("q.dropped_queue_full"));
        let values: Vec<u64> = [0, 19, 20, 49, 50, 900].map(|at| bytes.at(Instant(at))).to_vec();
        assert_eq!(values, [0, 0, 500, 500, 200, 200]);
        assert_eq!((drops.growth(Instant(0), Instant(40)), drops.growth(Instant(40), Instant(70))), (7, 2));
        assert_eq!(drops.bins(Duration(30), Instant(70)), [7, 2, 0]);
        assert!(samples.line("none").is_silent() && !bytes.is_silent());
        assert_eq!(samples.names("q.dropped_").collect::<Vec<_>>(), ["queue_full"]);
        let (least, most) = (samples.line("q.bytes_least"), samples.line("q.bytes_most"));
        let lengths = Lengths { now: bytes, least, most };
        let series = queue_series("queue", Duration(10), Instant(60), lengths, &[drops], None);
        // At 31 it was longer than at any sample.
        assert_eq!(series.bytes[1..5], [[0, 500, 500], [400, 500, 500], [450, 900, 500], [200, 500, 200]]);
        assert_eq!(series.drops, [0, 0, 7, 0, 2, 0]);
        assert!(series.borrows.is_empty());
    }
}
