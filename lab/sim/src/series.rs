//! Queue lengths over time, folded into intervals as they happen.

use perhop_measure::QueueSeries;
use perhop_units::{Duration, Instant};

/// Most intervals kept: 10 ms over 28 hours.
const MAX_INTERVALS: usize = 10_000_000;

/// Smallest, largest and last length of each interval, drops in each.
#[derive(Debug)]
pub(crate) struct SeriesRecorder {
    series: QueueSeries,
    last: u32,
}

impl SeriesRecorder {
    /// A queue that is empty at time 0.
    pub(crate) fn new(name: &str, interval: Duration) -> Self {
        let series = QueueSeries { name: name.to_owned(), interval, ..QueueSeries::default() };
        Self { series, last: 0 }
    }

    /// The queue has `bytes` from `at` on. Times never go back.
    pub(crate) fn length(&mut self, at: Instant, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(slot) = self.slot(at) {
            let [least, most, last] = &mut self.series.bytes[slot];
            *least = (*least).min(bytes);
            *most = (*most).max(bytes);
            *last = bytes;
        }
        self.last = bytes;
    }

    /// `packets` were dropped at `at`.
    pub(crate) fn dropped(&mut self, at: Instant, packets: u32) {
        if let Some(slot) = self.slot(at) {
            self.series.drops[slot] += packets;
        }
    }

    /// What was borrowed until `at`.
    pub(crate) fn borrowed(&mut self, at: Instant, total: u64) {
        if let Some(slot) = self.slot(at) {
            let before = self.series.borrows.last().copied().unwrap_or(0);
            self.series.borrows.resize(slot, before);
            self.series.borrows.push(total);
        }
    }

    /// The series up to `end`.
    pub(crate) fn finish(mut self, end: Instant) -> QueueSeries {
        self.slot(end - Duration(1));
        self.series
    }

    /// Index of the interval of `at`; intervals before it in which nothing happened hold the length of their start.
    fn slot(&mut self, at: Instant) -> Option<usize> {
        let slot = (at.as_nanos() / self.series.interval.as_nanos().max(1)) as usize;
        if slot >= MAX_INTERVALS {
            return None;
        }
        while self.series.bytes.len() <= slot {
            self.series.bytes.push([self.last; 3]);
            self.series.drops.push(0);
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_what_was_true_in_them() {
        let mut recorder = SeriesRecorder::new("queue", Duration(10));
        recorder.length(Instant(3), 100);
        recorder.length(Instant(8), 40);
        recorder.dropped(Instant(35), 2);
        recorder.length(Instant(36), 0);
        let series = recorder.finish(Instant(50));
        assert_eq!(series.bytes, [[0, 100, 40], [40; 3], [40; 3], [0, 40, 0], [0; 3]]);
        assert_eq!(series.drops, [0, 0, 0, 2, 0]);
    }
}
