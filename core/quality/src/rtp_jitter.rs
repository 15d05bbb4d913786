//! Interarrival jitter of a live RTP stream, in constant memory.
//!
//! Source: RFC 3550 Appendix A.8.

use perhop_units::Instant;

/// The integer form of A.8, J += (|D| − J)/16, kept sixteen-fold so that the division loses nothing. In ns: arrivals on a
/// nanosecond clock, media time from the RTP time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitterNs {
    clock_rate_hz: u32,
    last: Option<(u64, u32)>,
    scaled: u64,
}

impl JitterNs {
    /// An estimator for a stream of this RTP clock rate; a rate of 0 counts as 1.
    pub fn new(clock_rate_hz: u32) -> Self {
        Self { clock_rate_hz: clock_rate_hz.max(1), last: None, scaled: 0 }
    }

    /// Feeds a packet. Time stamps that differ by half their range or more count as running backwards.
    pub fn update(&mut self, arrival: Instant, rtp_timestamp: u32) {
        if let Some((arrived, stamp)) = self.last.replace((arrival.as_nanos(), rtp_timestamp)) {
            let media_ticks = i128::from(rtp_timestamp.wrapping_sub(stamp) as i32);
            let media_ns = media_ticks * 1_000_000_000 / i128::from(self.clock_rate_hz);
            let difference = i128::from(arrival.as_nanos()) - i128::from(arrived) - media_ns;
            // Held far below the overflow of the sixteen-fold sum; such a gap is days long.
            let d = u64::try_from(difference.unsigned_abs()).unwrap_or(u64::MAX).min(u64::MAX >> 8);
            self.scaled = self.scaled + d - ((self.scaled + 8) >> 4);
        }
    }

    /// The estimate in ns.
    pub fn nanos(&self) -> u64 {
        self.scaled >> 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals 160, 200, 120, 160 ns apart with stamps 160 ns apart: |D| is 0, 40, 40, 0. By hand from A.8:
    /// 0; 40; 40 + 40 − 3 = 77; 77 − (85 >> 4 = 5) = 72 sixteenths.
    #[test]
    fn jitter_follows_the_appendix_by_hand() {
        let mut jitter = JitterNs::new(1_000_000_000);
        let scaled: Vec<u64> = [(0, 0), (160, 160), (360, 320), (480, 480), (640, 640)]
            .into_iter()
            .map(|(arrival, stamp)| {
                jitter.update(Instant(arrival), stamp);
                jitter.scaled
            })
            .collect();
        assert_eq!(scaled, [0, 0, 40, 77, 72]);
        assert_eq!(jitter.nanos(), 4);
    }

    #[test]
    fn time_stamps_wrap_without_a_step() {
        let mut ns = JitterNs::new(8000);
        for i in 0..10u32 {
            ns.update(Instant(u64::from(i) * 20_000_000), (u32::MAX - 300).wrapping_add(i * 160));
        }
        assert_eq!(ns.nanos(), 0);
    }

    #[test]
    fn constant_deviation_converges_to_itself() {
        let mut jitter = JitterNs::new(8000);
        for i in 0..400u64 {
            // Every second packet 2 ms late: |D| is always 2 ms.
            jitter.update(Instant(i * 20_000_000 + (i % 2) * 2_000_000), (i * 160) as u32);
        }
        assert!((1_999_000..=2_000_000).contains(&jitter.nanos()), "{}", jitter.nanos());
    }
}
