//! Queue lengths over time, folded into intervals as they happen.

use perhop_measure::QueueSeries;
use perhop_units::{Duration, Instant};

/// Most intervals kept: 10 ms over 28 hours.
const MAX_INTERVALS: u64 = 10_000_000;

/// An interval in which something happened.
#[derive(Clone, Copy, Debug)]
struct Busy {
    slot: u32,
    /// Smallest, largest, last.
    bytes: [u32; 3],
    drops: u32,
}

/// Smallest, largest and last length of each interval, drops in each. Intervals in which nothing happens cost nothing
/// until [`SeriesRecorder::finish`].
#[derive(Debug)]
pub(crate) struct SeriesRecorder {
    name: String,
    interval: Duration,
    busy: Vec<Busy>,
    borrows: Vec<(u32, u64)>,
    last: u32,
}

impl SeriesRecorder {
    /// A queue that is empty at time 0.
    pub(crate) fn new(name: &str, interval: Duration) -> Self {
        let interval = Duration(interval.as_nanos().max(1));
        Self { name: name.to_owned(), interval, busy: Vec::new(), borrows: Vec::new(), last: 0 }
    }

    /// The queue has `bytes` from `at` on. Times never go back.
    pub(crate) fn length(&mut self, at: Instant, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if bytes == self.last {
            return;
        }
        if let Some(busy) = self.slot(at) {
            let [least, most, last] = &mut busy.bytes;
            *least = (*least).min(bytes);
            *most = (*most).max(bytes);
            *last = bytes;
        }
        self.last = bytes;
    }

    /// Until `until` from the last call on the queue was between `least` and `most` bytes, and it has `last` then.
    pub(crate) fn range(&mut self, until: Instant, [least, most, last]: [u64; 3]) {
        let [least, most, last] = [least, most, last].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        if [least, most, last] == [self.last; 3] {
            return;
        }
        // An instant that ends an interval begins the next.
        if let Some(busy) = self.slot(Instant(until.as_nanos().saturating_sub(1))) {
            let [smallest, largest, _] = busy.bytes;
            busy.bytes = [smallest.min(least), largest.max(most), last];
        }
        self.last = last;
    }

    /// `packets` were dropped at `at`.
    pub(crate) fn dropped(&mut self, at: Instant, packets: u32) {
        if let Some(busy) = self.slot(at) {
            busy.drops += packets;
        }
    }

    /// What was borrowed until `at`.
    pub(crate) fn borrowed(&mut self, at: Instant, total: u64) {
        let Some(slot) = self.number(at) else { return };
        if self.borrows.last().is_none_or(|(_, before)| *before != total) {
            self.borrows.push((slot, total));
        }
    }

    fn number(&self, at: Instant) -> Option<u32> {
        let slot = at.as_nanos() / self.interval.as_nanos();
        (slot < MAX_INTERVALS).then_some(slot as u32)
    }

    fn slot(&mut self, at: Instant) -> Option<&mut Busy> {
        let slot = self.number(at)?;
        if self.busy.last().is_none_or(|busy| busy.slot != slot) {
            self.busy.push(Busy { slot, bytes: [self.last; 3], drops: 0 });
        }
        self.busy.last_mut()
    }

    /// The series up to `end`: an interval in which nothing happened holds the length of its start.
    pub(crate) fn finish(self, end: Instant) -> QueueSeries {
        let count = end.as_nanos().div_ceil(self.interval.as_nanos()).min(MAX_INTERVALS) as usize;
        let mut bytes = vec![[0; 3]; count];
        let mut drops = vec![0; count];
        let (mut at, mut last) = (0, 0);
        for busy in &self.busy {
            let slot = (busy.slot as usize).min(count);
            bytes[at.min(slot)..slot].fill([last; 3]);
            if let (Some(bytes), Some(drops)) = (bytes.get_mut(slot), drops.get_mut(slot)) {
                (*bytes, *drops) = (busy.bytes, busy.drops);
            }
            (at, last) = (slot + 1, busy.bytes[2]);
        }
        bytes[at.min(count)..].fill([last; 3]);
        let mut borrows = Vec::new();
        if !self.borrows.is_empty() {
            borrows.resize(count, 0);
            for pair in self.borrows.windows(2) {
                borrows[(pair[0].0 as usize).min(count)..(pair[1].0 as usize).min(count)].fill(pair[0].1);
            }
            if let Some((slot, total)) = self.borrows.last() {
                borrows[(*slot as usize).min(count)..].fill(*total);
            }
        }
        QueueSeries { name: self.name, interval: self.interval, bytes, drops, borrows }
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
        recorder.borrowed(Instant(20), 7);
        recorder.borrowed(Instant(30), 7);
        recorder.borrowed(Instant(40), 9);
        let series = recorder.finish(Instant(50));
        assert_eq!(series.bytes, [[0, 100, 40], [40; 3], [40; 3], [0, 40, 0], [0; 3]]);
        assert_eq!(series.drops, [0, 0, 0, 2, 0]);
        assert_eq!(series.borrows, [0, 0, 7, 7, 9]);
    }

    #[test]
    fn a_range_is_of_the_interval_that_it_ends() {
        let mut recorder = SeriesRecorder::new("voice", Duration(10));
        for (until, range) in
            [(10, [0, 700, 500]), (20, [500; 3]), (25, [500, 900, 800]), (30, [200, 800, 200])]
        {
            recorder.range(Instant(until), range);
        }
        assert_eq!(recorder.finish(Instant(40)).bytes, [[0, 700, 500], [500; 3], [200, 900, 200], [200; 3]]);
    }

    #[test]
    fn nothing_is_an_empty_queue() {
        let series = SeriesRecorder::new("queue", Duration(10)).finish(Instant(25));
        assert_eq!((series.bytes.len(), series.bytes[2], series.borrows.len()), (3, [0; 3], 0));
    }
}
