//! The segments of one TCP connection, followed one by one where its data are sent and read.
//!
//! A segment is what was sent for the first time in one piece. It counts as delivered when an acknowledgement covers all
//! of it for the first time, however often it was sent, as in a capture at the sender.

use perhop_units::Instant;

/// Most segments, and most reads, that are noted of one connection; what comes later is left out and told.
pub const MOST_SEGMENTS: usize = 1 << 22;

/// A segment with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRecord {
    /// When it was sent for the first time.
    pub sent: Instant,
    /// When an acknowledgement first covered it; [`Instant::FAR_FUTURE`] if none did.
    pub covered: Instant,
    /// Place behind its last byte in the stream.
    end: u64,
}

/// Segments of a connection at its sender, in the order of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentLog {
    segments: Vec<SegmentRecord>,
    /// How many of them are covered.
    covered: usize,
    again: Vec<Instant>,
    /// Place behind the last byte sent.
    end: u64,
    cut: bool,
}

impl SegmentLog {
    /// The sender sent `len` bytes from place `start` of its stream, counted from 0. Bytes that were sent before make it a
    /// retransmission, others a segment, some of each both. Instants do not go back.
    pub fn sent(&mut self, now: Instant, start: u64, len: u32) {
        let end = start.saturating_add(u64::from(len));
        if len > 0 && start < self.end {
            self.note_again(now);
        }
        if end <= self.end {
            return;
        }
        self.end = end;
        if self.segments.len() < MOST_SEGMENTS {
            self.segments.push(SegmentRecord { sent: now, covered: Instant::FAR_FUTURE, end });
        } else {
            self.cut = true;
        }
    }

    fn note_again(&mut self, now: Instant) {
        if self.again.len() < MOST_SEGMENTS {
            self.again.push(now);
        } else {
            self.cut = true;
        }
    }

    /// An acknowledgement of all bytes before place `end` arrived at the sender. O(1) amortised.
    pub fn acknowledged(&mut self, now: Instant, end: u64) {
        while let Some(segment) = self.segments.get_mut(self.covered).filter(|segment| segment.end <= end) {
            segment.covered = now;
            self.covered += 1;
        }
    }

    /// The segments.
    pub fn segments(&self) -> &[SegmentRecord] {
        &self.segments
    }

    /// When segments were sent again, in order.
    pub fn again(&self) -> &[Instant] {
        &self.again
    }

    /// Whether there were more than [`MOST_SEGMENTS`].
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

/// What a connection's application read, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadLog {
    reads: Vec<(Instant, u64)>,
    cut: bool,
}

impl ReadLog {
    /// The receiver's application read bytes. Instants do not go back.
    pub fn read(&mut self, now: Instant, bytes: u64) {
        if self.reads.len() < MOST_SEGMENTS {
            self.reads.push((now, bytes));
        } else {
            self.cut = true;
        }
    }

    /// When, and how many bytes.
    pub fn reads(&self) -> &[(Instant, u64)] {
        &self.reads
    }

    /// Bytes read from one instant until before another.
    pub fn bytes(&self, from: Instant, until: Instant) -> u64 {
        let at = |instant: Instant| self.reads.partition_point(|(at, _)| *at < instant);
        self.reads.get(at(from)..at(until)).unwrap_or_default().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Whether there were more than [`MOST_SEGMENTS`].
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_delivered_when_it_is_first_covered() {
        let mut log = SegmentLog::default();
        let at = Instant;
        // Three segments; the second is lost, sent again alone, and again together with the third and new bytes.
        log.sent(at(10), 0, 100);
        log.sent(at(20), 100, 100);
        log.sent(at(30), 200, 50);
        log.acknowledged(at(40), 100);
        log.acknowledged(at(45), 100);
        log.sent(at(50), 100, 100);
        log.sent(at(60), 100, 200);
        // An acknowledgement in the middle of the third covers the second alone.
        log.acknowledged(at(70), 220);
        log.acknowledged(at(80), 300);
        // A bare acknowledgement or a FIN has no data.
        log.sent(at(90), 300, 0);
        let seen: Vec<(u64, u64)> = log.segments().iter().map(|s| (s.sent.0, s.covered.0)).collect();
        assert_eq!(seen, [(10, 40), (20, 70), (30, 80), (60, 80)]);
        assert_eq!(log.again(), [at(50), at(60)]);
        log.sent(at(95), 300, 10);
        assert_eq!(log.segments().last().map(|s| s.covered), Some(Instant::FAR_FUTURE));
    }

    #[test]
    fn bytes_of_a_part_of_the_time_include_its_beginning_only() {
        let mut log = ReadLog::default();
        for (at, bytes) in [(10, 1), (20, 2), (20, 4), (30, 8)] {
            log.read(Instant(at), bytes);
        }
        let bytes = |from, until| log.bytes(Instant(from), Instant(until));
        assert_eq!(
            [bytes(10, 30), bytes(11, 30), bytes(0, 31), bytes(30, 30), bytes(31, 40)],
            [7, 6, 15, 0, 0]
        );
    }
}
