//! Samples gauges at a fixed interval; keeps only changes, within a bound.

use crate::report::Recording;
use perhop_element::CounterSink;
use perhop_elements::queue::Wait;
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;

/// Values kept of one recording.
const VALUES: usize = 4_000_000;

pub(crate) struct Recorder {
    interval: Duration,
    start: Instant,
    next: Instant,
    series: BTreeMap<String, Vec<(u32, u64)>>,
    sample: u32,
    values: usize,
    lost: u64,
}

impl Recorder {
    pub(crate) fn new(now: Instant, interval: Duration) -> Self {
        let interval = Duration(interval.0.max(1_000_000));
        Self { interval, start: now, next: now, series: BTreeMap::new(), sample: 0, values: 0, lost: 0 }
    }

    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Begins the sample of `now`, which is numbered by time: missed ones stay out.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.sample = (now.since(self.start).0 / self.interval.0) as u32;
        self.next = self.start + Duration((u64::from(self.sample) + 1) * self.interval.0);
    }

    /// What was sampled, with the waits that were kept meanwhile.
    pub(crate) fn finish(self, waits: Vec<(String, Vec<Wait>)>) -> Recording {
        let plain = |wait: Wait| (wait.came.0, wait.length().0);
        let waits = waits.into_iter().filter(|(_, waits)| !waits.is_empty());
        let waits = waits.map(|(name, waits)| (name, waits.into_iter().map(plain).collect())).collect();
        Recording {
            start_ns: self.start.0,
            interval_ns: self.interval.0,
            series: self.series,
            waits,
            samples: self.sample + 1,
            lost: self.lost,
        }
    }
}

impl CounterSink for Recorder {
    fn counter(&mut self, name: &str, value: u64) {
        let sample = self.sample;
        if !self.series.contains_key(name) {
            self.series.insert(name.to_owned(), Vec::new());
        }
        let Some(series) = self.series.get_mut(name) else { return };
        if series.last().is_some_and(|(_, v)| *v == value) {
            return;
        }
        if self.values >= VALUES {
            self.lost += 1;
            return;
        }
        self.values += 1;
        series.push((sample, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_kept_at_their_time() {
        let mut r = Recorder::new(Instant(5_000_000), Duration::from_millis(10));
        for (ms, value) in [(5, 1), (15, 1), (27, 4), (29, 5), (60, 0)] {
            r.begin(Instant(ms * 1_000_000));
            r.counter("wan.backlog_bytes", value);
        }
        assert_eq!(r.next(), Instant(65_000_000));
        let waits = vec![
            ("wan".to_owned(), vec![Wait { came: Instant(3), began: Instant(10) }]),
            ("lan".to_owned(), vec![]),
        ];
        let recording = r.finish(waits);
        assert_eq!(recording.series["wan.backlog_bytes"], [(0, 1), (2, 4), (2, 5), (5, 0)]);
        assert_eq!(recording.waits.into_iter().collect::<Vec<_>>(), [("wan".to_owned(), vec![(3, 7)])]);
        assert_eq!((recording.samples, recording.lost), (6, 0));
    }
}
