//! Round-trip time and retransmission timeout (RFC 6298; Karn's algorithm §3; back-off §5.5).
//!
//! One segment at a time is timed in ns, so that samples are exact; a sample from a segment that was sent twice is
//! never taken. When the timed segment was lost, the echoed time-stamp gives the sample, in its coarser unit.

use crate::config::RtoLimits;
use perhop_units::{Duration, Instant};

/// Clock granularity G of RFC 6298 §2.3: the unit of time-stamps.
const GRANULARITY: Duration = Duration::from_millis(1);

/// The estimator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    limits: RtoLimits,
    smoothed: Option<Duration>,
    variation: Duration,
    /// The timeout without back-off.
    base: Duration,
    backoff: u8,
    /// Number behind the timed segment, and when it left.
    timed: Option<(u64, Instant)>,
    latest: Option<Duration>,
}

impl RoundTrip {
    pub(crate) fn new(limits: RtoLimits) -> Self {
        Self {
            limits,
            smoothed: None,
            variation: Duration::ZERO,
            base: limits.initial,
            backoff: 0,
            timed: None,
            latest: None,
        }
    }

    /// SRTT, once there was a sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// RTTVAR.
    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }

    /// The last sample.
    pub(crate) fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// The timeout with back-off.
    pub(crate) fn timeout(&self) -> Duration {
        let factor = 1u64 << self.backoff.min(32);
        self.base.saturating_mul(factor).min(self.limits.max)
    }

    /// Doubles the timeout.
    pub(crate) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Starts to time a segment that ends before `end`, unless one is timed already.
    pub(crate) fn sent(&mut self, end: u64, now: Instant) {
        if self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// Something was sent again: an acknowledgment of what is timed would be ambiguous.
    pub(crate) fn retransmitted(&mut self) {
        self.timed = None;
    }

    /// Everything below `ack` has arrived; `echo` is the age of the time-stamp echoed, in ms. Returns the sample.
    pub(crate) fn acked(&mut self, ack: u64, now: Instant, echo: Option<u32>) -> Option<Duration> {
        let sample = match self.timed {
            Some((end, at)) if ack >= end => {
                self.timed = None;
                Some(now.since(at))
            }
            Some(_) => None,
            // An age beyond the space's half is an echo from the future: nonsense.
            None => echo.filter(|age| *age < 1 << 31).map(|age| Duration::from_millis(u64::from(age.max(1)))),
        };
        if let Some(sample) = sample {
            self.sample(sample);
        }
        sample
    }

    /// RFC 6298 §2.2 and §2.3.
    fn sample(&mut self, sample: Duration) {
        let r = sample.as_nanos();
        let smoothed = match self.smoothed {
            None => {
                self.variation = Duration(r / 2);
                r
            }
            Some(smoothed) => {
                let s = smoothed.as_nanos();
                self.variation = Duration(self.variation.as_nanos() / 4 * 3 + s.abs_diff(r) / 4);
                s - s / 8 + r / 8
            }
        };
        self.smoothed = Some(Duration(smoothed));
        self.latest = Some(sample);
        let margin = self.variation.saturating_mul(4).max(GRANULARITY);
        self.base = (Duration(smoothed) + margin).max(self.limits.min).min(self.limits.max);
        self.backoff = 0;
    }

    /// A SYN was lost: the timeout is at least 3 s when data starts (RFC 6298 §5.7).
    pub(crate) fn after_lost_syn(&mut self) {
        self.backoff = 0;
        if self.smoothed.is_none() {
            self.base = self.base.max(Duration::from_secs(3)).min(self.limits.max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> RtoLimits {
        RtoLimits {
            initial: Duration::from_secs(1),
            min: Duration::from_millis(200),
            max: Duration::from_secs(60),
        }
    }

    #[test]
    fn the_first_samples_follow_rfc_6298() {
        let mut rtt = RoundTrip::new(limits());
        assert_eq!(rtt.timeout(), Duration::from_secs(1));
        rtt.sent(10, Instant(0));
        assert_eq!(rtt.acked(10, Instant(100_000_000), None), Some(Duration::from_millis(100)));
        // RTO = SRTT + 4 · R/2 = 300 ms.
        assert_eq!(rtt.timeout(), Duration::from_millis(300));
        rtt.sent(20, Instant(100_000_000));
        rtt.acked(20, Instant(280_000_000), None);
        // RTTVAR = ¾·50 + ¼·80 = 57.5 ms, SRTT = 110 ms.
        assert_eq!(rtt.variation(), Duration::from_micros(57_500));
        assert_eq!(rtt.smoothed(), Some(Duration::from_millis(110)));
        assert_eq!(rtt.timeout(), Duration::from_millis(340));
    }

    #[test]
    fn a_segment_sent_twice_gives_no_sample_and_back_off_stays_until_one() {
        let mut rtt = RoundTrip::new(limits());
        rtt.sent(10, Instant(0));
        rtt.back_off();
        rtt.retransmitted();
        assert_eq!(rtt.acked(10, Instant(5_000_000_000), None), None);
        assert_eq!(rtt.timeout(), Duration::from_secs(2));
        assert_eq!(rtt.acked(20, Instant(5_000_000_000), Some(40)), Some(Duration::from_millis(40)));
        assert_eq!(rtt.timeout(), Duration::from_millis(200));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(), Duration::from_secs(60));
    }
}
