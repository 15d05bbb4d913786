//! Fast recovery without SACK (RFC 6582): the window is inflated by what has left the network.

/// Bytes by which the congestion window counts as larger during fast recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inflation(pub(crate) u64);

impl Inflation {
    /// Entering: three segments have left the network (§3.2 step 2).
    pub(crate) fn enter(mss: u64) -> Self {
        Self(3 * mss)
    }

    /// A further duplicate acknowledgment: another segment has left (RFC 5681 §3.2 step 4).
    pub(crate) fn duplicate(&mut self, mss: u64) {
        self.0 = self.0.saturating_add(mss);
    }

    /// A partial acknowledgment: deflate by what it acknowledges, add back one segment (§3.2 step 3).
    pub(crate) fn partial(&mut self, acked: u64, mss: u64) {
        self.0 = self.0.saturating_sub(acked);
        if acked >= mss {
            self.0 += mss;
        }
    }
}

/// The window after a full acknowledgment: no burst (§3.2 step 3, option 1).
pub(crate) fn deflated(ssthresh: u64, flight: u64, mss: u64) -> u64 {
    ssthresh.min(flight.max(mss) + mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_swells_and_shrinks_with_what_leaves_the_network() {
        let mut inflation = Inflation::enter(1000);
        inflation.duplicate(1000);
        inflation.partial(2000, 1000);
        assert_eq!(inflation, Inflation(3000));
        inflation.partial(5000, 1000);
        assert_eq!(inflation, Inflation(1000));
        inflation.partial(500, 1000);
        assert_eq!(inflation, Inflation(500));
        assert_eq!((deflated(9000, 0, 1000), deflated(9000, 20_000, 1000)), (2000, 9000));
    }
}
