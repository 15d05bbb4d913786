//! HyStart: leaving slow start when the path is full (Ha and Rhee, "Taming the elephants", 2011).
//!
//! Two signs: acknowledgments that follow each other without a gap for as long as the least round-trip time, so that
//! the path holds no idle time any more; or a least round-trip time of the round's first acknowledgments that exceeds
//! the least ever by an eighth (4–16 ms).
//!
//! The paper ends a train at half the round-trip time, as an estimate of the one-way delay; here it is the whole, as in
//! the present Linux for senders that pace, and in ns-3: less eager on paths whose acknowledgments come in bursts.

use super::Acked;
use perhop_units::{Duration, Instant};

/// Acknowledgments closer than this belong to one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Below this window, in segments, nothing is concluded.
const LEAST_WINDOW: u64 = 16;
/// Round-trip times of a round that are looked at.
const SAMPLES: u32 = 8;
const MIN_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_THRESHOLD: Duration = Duration::from_millis(16);

/// What to do with the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// Grow by standard slow start.
    Standard,
    /// Add these bytes.
    Bytes(u64),
    /// Slow start is over.
    End,
}

/// The state of one slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    round_end: u64,
    round_start: Instant,
    last_ack: Instant,
    least: Duration,
    this_round: Duration,
    samples: u32,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            round_end: 0,
            round_start: Instant::ZERO,
            last_ack: Instant::ZERO,
            least: Duration::MAX,
            this_round: Duration::MAX,
            samples: 0,
        }
    }

    /// An acknowledgment in slow start.
    pub(super) fn acked(&mut self, cwnd: u64, ack: &Acked) -> Growth {
        if ack.acked >= self.round_end {
            self.round_end = ack.sent;
            (self.round_start, self.last_ack) = (ack.now, ack.now);
            (self.this_round, self.samples) = (Duration::MAX, 0);
        }
        if let Some(sample) = ack.sample {
            self.least = self.least.min(sample);
            if self.samples < SAMPLES {
                self.this_round = self.this_round.min(sample);
                self.samples += 1;
            }
        }
        if cwnd < LEAST_WINDOW * ack.mss || self.least == Duration::MAX {
            return Growth::Standard;
        }
        let mut full = false;
        if ack.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = ack.now;
            full = ack.now.since(self.round_start) > self.least;
        }
        let threshold = Duration(self.least.as_nanos() / 8).max(MIN_THRESHOLD).min(MAX_THRESHOLD);
        full |= self.samples >= SAMPLES && self.this_round > self.least + threshold;
        if full { Growth::End } else { Growth::Standard }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round of acknowledgments `gap_us` apart with this round-trip time, after a first sample of 50 ms; how many
    /// it took to end slow start.
    fn ends_after(gap_us: u64, rtt_ms: u64) -> Option<u64> {
        let mut hystart = HyStart::new();
        (0..1000).find(|n| {
            let ack = Acked {
                now: Instant(n * gap_us * 1000),
                bytes: 1000,
                mss: 1000,
                acked: *n,
                sent: 1000,
                sample: Some(Duration::from_millis(if *n == 0 { 50 } else { rtt_ms })),
                limited: true,
                after_timeout: false,
            };
            hystart.acked(20_000, &ack) == Growth::End
        })
    }

    #[test]
    fn a_train_as_long_as_the_round_trip_ends_slow_start() {
        assert_eq!(ends_after(500, 50), Some(101));
        assert_eq!(ends_after(2500, 50), None);
    }

    #[test]
    fn a_round_that_begins_late_ends_slow_start() {
        let mut hystart = HyStart::new();
        let mut ended = None;
        for n in 0..40u64 {
            let round = n / 10;
            let ms = [50, 52, 55, 60][round as usize];
            let ack = Acked {
                now: Instant(n * 10_000_000),
                bytes: 1000,
                mss: 1000,
                acked: n,
                sent: (round + 1) * 10,
                sample: Some(Duration::from_millis(ms)),
                limited: true,
                after_timeout: false,
            };
            if hystart.acked(20_000, &ack) == Growth::End {
                ended.get_or_insert(n);
            }
        }
        // The eighth sample of the fourth round: 60 ms exceeds 50 ms by more than 6.25 ms.
        assert_eq!(ended, Some(37));
    }
}
