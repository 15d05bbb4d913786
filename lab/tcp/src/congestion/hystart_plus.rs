//! HyStart++: leaving slow start when the round-trip time grows (RFC 9406).
//!
//! A round lasts until everything sent at its start is acknowledged. When the least round-trip time of a round exceeds
//! that of the round before by an eighth (4–16 ms), growth slows to a quarter for up to five rounds (conservative slow
//! start); if the time falls again, it was jitter and slow start resumes, otherwise slow start ends.

use super::Acked;
use super::hystart::Growth;
use perhop_units::Duration;

/// RFC 9406 §4.3.
const MIN_THRESHOLD: Duration = Duration::from_millis(4);
const MAX_THRESHOLD: Duration = Duration::from_millis(16);
const SAMPLES: u32 = 8;
const GROWTH_DIVISOR: u64 = 4;
const CONSERVATIVE_ROUNDS: u32 = 5;
/// Most segments that one acknowledgment adds to the window of a sender that does not pace (§4.2).
const MOST_SEGMENTS: u64 = 8;

/// The state of one slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStartPlusPlus {
    round_end: u64,
    last_round: Duration,
    this_round: Duration,
    samples: u32,
    /// Least time of the round in which growth slowed, and rounds since.
    conservative: Option<(Duration, u32)>,
}

impl HyStartPlusPlus {
    pub(super) fn new() -> Self {
        Self {
            round_end: 0,
            last_round: Duration::MAX,
            this_round: Duration::MAX,
            samples: 0,
            conservative: None,
        }
    }

    /// An acknowledgment in slow start.
    pub(super) fn acked(&mut self, ack: &Acked) -> Growth {
        if ack.acked >= self.round_end && self.next_round(ack.sent) {
            return Growth::End;
        }
        if let Some(sample) = ack.sample {
            self.this_round = self.this_round.min(sample);
            self.samples = self.samples.saturating_add(1);
        }
        let enough = self.samples >= SAMPLES;
        match &mut self.conservative {
            None => {
                let threshold =
                    Duration(self.last_round.as_nanos() / 8).max(MIN_THRESHOLD).min(MAX_THRESHOLD);
                let known = self.last_round < Duration::MAX;
                if enough && known && self.this_round >= self.last_round + threshold {
                    self.conservative = Some((self.this_round, 0));
                }
            }
            Some((baseline, _)) => {
                if enough && self.this_round < *baseline {
                    self.conservative = None;
                }
            }
        }
        let growth = ack.bytes.min(MOST_SEGMENTS * ack.mss);
        Growth::Bytes(if self.conservative.is_some() { growth / GROWTH_DIVISOR } else { growth })
    }

    /// Starts a round; whether conservative slow start has lasted long enough.
    fn next_round(&mut self, sent: u64) -> bool {
        self.round_end = sent;
        self.last_round = self.this_round;
        self.this_round = Duration::MAX;
        self.samples = 0;
        match &mut self.conservative {
            None => false,
            Some((_, rounds)) => {
                *rounds += 1;
                *rounds >= CONSERVATIVE_ROUNDS
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::Instant;

    /// Rounds of ten acknowledgments with these times; the round in which slow start ended.
    fn ends_in_round(rtt_ms: &[u64]) -> Option<usize> {
        let mut hystart = HyStartPlusPlus::new();
        for (round, ms) in rtt_ms.iter().enumerate() {
            for step in 0..10 {
                let at = (round * 10 + step) as u64 * 1000;
                let ack = Acked {
                    now: Instant(at),
                    bytes: 1000,
                    mss: 1000,
                    acked: at,
                    sent: (round as u64 + 1) * 10_000,
                    sample: Some(Duration::from_millis(*ms)),
                    limited: true,
                    after_timeout: false,
                };
                if hystart.acked(&ack) == Growth::End {
                    return Some(round);
                }
            }
        }
        None
    }

    #[test]
    fn a_growing_round_trip_time_ends_slow_start_after_five_more_rounds() {
        assert_eq!(ends_in_round(&[50, 50, 60, 62, 64, 66, 68, 70, 72]), Some(7));
    }

    #[test]
    fn jitter_does_not() {
        assert_eq!(ends_in_round(&[50, 50, 60, 50, 50, 50, 50, 50, 50]), None);
        assert_eq!(ends_in_round(&[50, 53, 50, 53, 50, 53, 50, 53, 50]), None);
    }
}
