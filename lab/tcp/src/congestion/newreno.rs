//! Reno's additive increase and multiplicative decrease (RFC 5681 §3.1, §3.2; byte counting RFC 3465).
//!
//! NewReno (RFC 6582) is this window with the recovery of `recovery::newreno`; with SACK the recovery is RFC 6675's.

use super::{Acked, Congestion, Reduction, Window, slow_start};

/// RFC 5681. State: bytes acknowledged since the window last grew.
#[derive(Clone, Copy, Debug)]
pub struct NewReno {
    byte_counting: bool,
    counted: u64,
}

impl NewReno {
    /// `byte_counting`: grow by bytes acknowledged (a segment a round trip whatever the receiver delays), otherwise by
    /// acknowledgments (half of that when every second segment is acknowledged).
    #[must_use]
    pub fn new(byte_counting: bool) -> Self {
        Self { byte_counting, counted: 0 }
    }
}

impl Congestion for NewReno {
    fn acked(&mut self, window: &mut Window, ack: &Acked) {
        if !ack.limited {
            return;
        }
        let mut rest = ack.bytes;
        if window.in_slow_start() {
            rest = slow_start(window, ack, self.byte_counting);
            if rest == 0 {
                return;
            }
        }
        // An acknowledgment counts for one segment where acknowledgments are counted (RFC 5681 equation 3).
        self.counted += if self.byte_counting { rest } else { rest.min(ack.mss) };
        if self.counted >= window.cwnd {
            self.counted -= window.cwnd;
            window.cwnd += ack.mss;
        }
    }

    fn reduce(&mut self, window: &mut Window, at: &Reduction) {
        window.ssthresh = (at.flight / 2).max(2 * at.mss);
        self.counted = 0;
    }

    fn timed_out(&mut self, window: &mut Window, at: &Reduction) {
        self.reduce(window, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::Instant;

    fn ack(bytes: u64) -> Acked {
        Acked {
            now: Instant(0),
            bytes,
            mss: 1000,
            acked: 0,
            sent: 0,
            sample: None,
            limited: true,
            after_timeout: false,
        }
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_a_segment_a_window() {
        let mut window = Window { cwnd: 10_000, ssthresh: 20_000 };
        let mut reno = NewReno::new(true);
        (0..5).for_each(|_| reno.acked(&mut window, &ack(2000)));
        assert_eq!(window.cwnd, 20_000);
        (0..10).for_each(|_| reno.acked(&mut window, &ack(2000)));
        assert_eq!(window.cwnd, 21_000);
        reno.acked(&mut window, &Acked { limited: false, ..ack(1 << 20) });
        assert_eq!(window.cwnd, 21_000);
    }

    #[test]
    fn counting_acknowledgments_halves_the_growth_under_delayed_ones() {
        let mut window = Window { cwnd: 20_000, ssthresh: 1 };
        let mut reno = NewReno::new(false);
        (0..20).for_each(|_| reno.acked(&mut window, &ack(2000)));
        assert_eq!(window.cwnd, 21_000);
        reno.reduce(&mut window, &Reduction { flight: 21_000, mss: 1000 });
        assert_eq!(window.ssthresh, 10_500);
        reno.timed_out(&mut window, &Reduction { flight: 1000, mss: 1000 });
        assert_eq!(window.ssthresh, 2000);
    }
}
