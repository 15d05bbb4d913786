//! Proportional rate reduction with the slow-start reduction bound (RFC 6937).
//!
//! The window shrinks to `ssthresh` over one round trip, in step with what is delivered, instead of falling silent for
//! half of it.

/// State of one recovery, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    /// RecoverFS: in flight when recovery began.
    flight: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    /// Recovery begins with `flight` bytes outstanding.
    pub(crate) fn enter(flight: u64) -> Self {
        Self { flight: flight.max(1), delivered: 0, out: 0 }
    }

    /// `bytes` were sent.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// An acknowledgment delivered `delivered` bytes and `pipe` are left: how many may be sent (§3.1).
    pub(crate) fn acked(&mut self, delivered: u64, pipe: u64, ssthresh: u64, mss: u64) -> u64 {
        self.delivered += delivered;
        if pipe > ssthresh {
            let due = u128::from(self.delivered) * u128::from(ssthresh);
            // Both factors are below 2⁶⁰ and the quotient below their larger one.
            (due.div_ceil(u128::from(self.flight)) as u64).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + mss;
            limit.min(ssthresh - pipe)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_reaches_ssthresh_when_a_flight_was_delivered() {
        // 20 segments out, one lost and 19 to be delivered, ssthresh 10: every other acknowledgment sends one.
        let mut prr = Prr::enter(20);
        let (mut pipe, mut sent) = (19, 0);
        for _ in 0..19 {
            pipe -= 1;
            let may = prr.acked(1, pipe, 10, 1);
            prr.sent(may);
            pipe += may;
            sent += may;
        }
        assert_eq!((sent, pipe), (10, 10));
    }

    #[test]
    fn after_heavy_loss_the_window_regrows_by_slow_start() {
        let mut prr = Prr::enter(20);
        // 15 of 20 lost: the pipe is far below ssthresh; two for each one delivered.
        assert_eq!(prr.acked(1, 4, 10, 1), 2);
        prr.sent(2);
        assert_eq!(prr.acked(1, 5, 10, 1), 2);
        assert_eq!(prr.acked(1, 10, 10, 1), 0);
    }
}
