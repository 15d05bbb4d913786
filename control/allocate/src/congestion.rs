//! Congestion: a queue that takes longer than its target to drain asks for what would drain it in time.
//!
//! Congested ⇔ the queue holds more than S_q = T_s · B_d / 8 bytes, and more than one packet of full size. Then the
//! regular law is suspended and B_d′ = 8 · Q · (1 + M_s) / T_s is asked for; the regular law resumes once the queue has
//! been below the threshold for the guard time. The byte form with margin 0 is the packet form of the later chapter.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", IV.3.5 and V.3.

use crate::bounds::WHOLE_PPM;
use perhop_units::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

/// Configuration of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CongestionConfig {
    /// T_s: how long the queue may take to drain, above 0.
    pub target: Duration,
    /// M_s: how much more than necessary is asked for, in parts per million.
    pub margin_ppm: u32,
    /// T_g: how long the queue must have been short before the regular law resumes; at least two measurement
    /// intervals, so that the estimate has seen the increase before it may be undone.
    pub guard: Duration,
    /// A packet of full size: one alone is no congestion, however small `target` is. Above 0.
    pub mtu: Bytes,
}

impl Default for CongestionConfig {
    /// T_s = 15 ms, M_s = 20 %, T_g = 1.6 s, 1500 B: the published simulations.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            margin_ppm: 200_000,
            guard: Duration::from_millis(1600),
            mtu: Bytes(1500),
        }
    }
}

impl CongestionConfig {
    /// The longest queue that is no congestion.
    pub fn threshold(&self, allocated: Rate) -> Bytes {
        allocated.bytes_in(self.target).max(self.mtu)
    }

    /// The rate at which `queue` and the margin drain in the target time, rounded up, saturating.
    pub fn demand(&self, queue: Bytes) -> Rate {
        let with_margin = u128::from(queue.0) * u128::from(WHOLE_PPM.saturating_add(self.margin_ppm));
        // 8 bit/B · 10⁹ ns/s / 10⁶ ppm
        let scaled = with_margin.saturating_mul(8_000).div_ceil(u128::from(self.target.0.max(1)));
        Rate(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The rate below which `queue` would be congestion; zero for a queue of at most one packet.
    pub fn floor(&self, queue: Bytes) -> Rate {
        if queue <= self.mtu { Rate::ZERO } else { Self { margin_ppm: 0, ..*self }.demand(queue) }
    }

    /// Longest transfer delay if the broker always grants within `broker`, the demand stays below the cap, and what
    /// arrives meanwhile is bounded: T_s + 2·T_bb.
    #[cfg(test)]
    pub(crate) fn delay_bound(&self, broker: Duration) -> Duration {
        self.target + broker.saturating_mul(2)
    }

    /// How often the queue should be looked at, unless it is at every arrival: min(T_s / 4, 1 ms).
    pub fn sampling(&self) -> Duration {
        Duration(self.target.0 / 4).clamp(Duration(1), Duration::from_millis(1))
    }
}

/// Whether a class is congested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CongestionState {
    /// When the queue was last seen above the threshold, while congested.
    above_at: Option<Instant>,
    /// When congestion began.
    since: Option<Instant>,
    /// Congested time of past congestions.
    past: Duration,
}

impl CongestionState {
    /// Looks at the queue; whether it is above the threshold now.
    pub fn observe(
        &mut self,
        now: Instant,
        queue: Bytes,
        allocated: Rate,
        config: &CongestionConfig,
    ) -> bool {
        let above = queue > config.threshold(allocated);
        if above {
            self.above_at = Some(now);
            self.since.get_or_insert(now);
        } else {
            self.settle(now, config);
        }
        above
    }

    /// Ends the congestion if the guard time has passed.
    pub fn settle(&mut self, now: Instant, config: &CongestionConfig) {
        if let (Some(end), Some(since)) = (self.guard_end(config), self.since)
            && now >= end
        {
            self.past = self.past + end.since(since);
            (self.above_at, self.since) = (None, None);
        }
    }

    /// Whether the regular law is suspended.
    pub fn congested(&self) -> bool {
        self.above_at.is_some()
    }

    /// When the regular law resumes if the queue stays short.
    pub fn guard_end(&self, config: &CongestionConfig) -> Option<Instant> {
        self.above_at.map(|at| at + config.guard)
    }

    /// Time spent congested, guard times included.
    pub fn time(&self, now: Instant) -> Duration {
        self.past + self.since.map_or(Duration::ZERO, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_numbers() {
        let config = CongestionConfig::default();
        // 15 ms of 1 Mbit/s are 1875 B; 120 % of 3000 B in 15 ms are 1.92 Mbit/s.
        assert_eq!(config.threshold(Rate::from_mbit(1)), Bytes(1875));
        assert_eq!(config.demand(Bytes(3000)), Rate(1_920_000));
        assert_eq!(config.delay_bound(Duration::from_millis(10)), Duration::from_millis(35));
        // A target of 100 µs at 1 Mbit/s is 12.5 B: without a floor any packet would be congestion.
        let small = CongestionConfig { target: Duration::from_micros(100), margin_ppm: 0, ..config };
        assert_eq!(small.threshold(Rate::from_mbit(1)), Bytes(1500));
        assert_eq!(small.demand(Bytes(256)), Rate(20_480_000));
        assert_eq!(small.floor(Bytes(256)), Rate::ZERO);
    }

    #[test]
    fn it_ends_a_guard_time_after_the_last_long_queue() {
        let config = CongestionConfig::default();
        let (mut state, rate, at) =
            (CongestionState::default(), Rate::from_mbit(1), |ms: u64| Instant(ms * 1_000_000));
        assert!(!state.observe(at(0), Bytes(1875), rate, &config));
        assert!(state.observe(at(1), Bytes(1876), rate, &config));
        assert!(state.observe(at(11), Bytes(5000), rate, &config));
        assert!(!state.observe(at(20), Bytes(0), rate, &config));
        state.settle(at(1610), &config);
        assert!(state.congested());
        state.settle(at(1611), &config);
        assert!(!state.congested());
        assert_eq!(state.time(at(9000)), Duration::from_millis(1610));
    }

    proptest! {
        #[test]
        fn the_demand_ends_the_congestion(queue in 1501u64..10_000_000, target_us in 100u64..1_000_000, margin_ppm in 0u32..1_000_000) {
            let config = CongestionConfig { target: Duration::from_micros(target_us), margin_ppm, ..CongestionConfig::default() };
            prop_assert!(Bytes(queue) <= config.threshold(config.demand(Bytes(queue))));
            prop_assert!(Bytes(queue) <= config.threshold(config.floor(Bytes(queue))));
            let below = Rate(config.floor(Bytes(queue)).0.saturating_sub(1));
            prop_assert!(Bytes(queue) > config.threshold(below));
        }
    }
}
