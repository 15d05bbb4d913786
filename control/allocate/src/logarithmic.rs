//! Logarithmic allocation: gentle increases, steep decreases.
//!
//! ΔB = K · ln(B_m / (s · B_d)) with s = 1 − margin, applied if |ΔB| > ΔB_min. Its fixed point is B_d = B_m / s: the
//! class is used to the share s. Readings where the published form does not work: the margin is 1 − s and not a factor
//! of 10 %; decreases are tested by their size (as printed, none could pass); and because the iteration is stable only
//! for K < 2·B_m / s, a step that would cross the fixed point ends on it. `faithful` leaves that last rule out.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", IV.4.

use crate::bounds::{Bounds, WHOLE_PPM};
use perhop_units::Rate;
use serde::{Deserialize, Serialize};

/// Load below this is taken as this, so that its logarithm exists.
pub const LEAST_LOAD: Rate = Rate(1_000);

/// Configuration of logarithmic allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogarithmicConfig {
    /// K: change of the allocation for a load that is e times too large, above 0.
    pub gain: Rate,
    /// Share of the allocation that stays free, above 0 and below one whole, in parts per million.
    pub margin_ppm: u32,
    /// ΔB_min: computed changes up to this size are not worth a request.
    pub least_change: Rate,
    /// Lets a step cross the fixed point, as published. Unstable for loads below s·K/2.
    pub faithful: bool,
}

impl Default for LogarithmicConfig {
    /// K = 600 kbit/s, 10 %, 50 kbit/s: the published standard values.
    fn default() -> Self {
        Self {
            gain: Rate::from_kbit(600),
            margin_ppm: 100_000,
            least_change: Rate::from_kbit(50),
            faithful: false,
        }
    }
}

impl LogarithmicConfig {
    /// What the class should have if it uses `used` of `allocated`; `None` to leave it.
    pub fn decide(&self, used: Rate, allocated: Rate, bounds: &Bounds) -> Option<Rate> {
        let change = self.change(used, allocated);
        if change.abs() <= self.least_change.0 as f64 {
            return None;
        }
        let moved = libm::ceil(allocated.0 as f64 + change);
        // The conversion saturates: below zero is zero, beyond the type its largest value.
        let mut wanted = Rate(moved as u64);
        if !self.faithful {
            let target = self.target(used);
            wanted = if change > 0.0 { wanted.min(target) } else { wanted.max(target) };
        }
        bounds.change(allocated, wanted)
    }

    /// ΔB in bit/s, before every limit.
    pub fn change(&self, used: Rate, allocated: Rate) -> f64 {
        let load = used.max(LEAST_LOAD).0 as f64;
        self.gain.0 as f64 * libm::log(load / (allocated.0.max(1) as f64 * self.share()))
    }

    /// The fixed point B_m / s, rounded up so that the margin is kept.
    pub fn target(&self, used: Rate) -> Rate {
        let load = u128::from(used.max(LEAST_LOAD).0) * u128::from(WHOLE_PPM);
        let share = u128::from(WHOLE_PPM.saturating_sub(self.margin_ppm).max(1));
        Rate(u64::try_from(load.div_ceil(share)).unwrap_or(u64::MAX))
    }

    /// The largest increase of one step while the meter sees carried load only: K · ln(1/s), bit/s.
    pub fn greatest_carried_increase(&self) -> f64 {
        -(self.gain.0 as f64) * libm::log(self.share())
    }

    /// s, the share that the fixed point uses.
    fn share(&self) -> f64 {
        f64::from(WHOLE_PPM.saturating_sub(self.margin_ppm)) / f64::from(WHOLE_PPM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINK: u64 = 10_000_000;
    const BOUNDS: Bounds = Bounds::new(Rate(1_000), Rate(LINK));

    fn near(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value} is not {expected} ± {tolerance}");
    }

    /// Vectors for a logarithm good enough at K = 600 kbit/s: an error of 10⁻⁴ is 0.06 kbit/s.
    #[test]
    fn the_logarithm_meets_its_vectors() {
        for (x, millionths) in [
            (0.1, -2_302_585),
            (0.5, -693_147),
            (0.9, -105_361),
            (1.0, 0),
            (1.0 / 0.9, 105_361),
            (1.1, 95_310),
            (2.0, 693_147),
            (10.0, 2_302_585),
        ] {
            near(libm::log(x), f64::from(millionths) / 1e6, 1e-6);
        }
    }

    /// 0.828 … 0.978 and 63.2 kbit/s a step for the standard values.
    #[test]
    fn dead_zone_and_largest_increase_are_the_published_ones() {
        let config = LogarithmicConfig::default();
        // Between s·e^(−ΔB_min/K) and s·e^(ΔB_min/K) nothing is asked for.
        let width = config.least_change.0 as f64 / config.gain.0 as f64;
        near(config.share() * libm::exp(-width), 0.828, 5e-4);
        near(config.share() * libm::exp(width), 0.978, 5e-4);
        near(config.greatest_carried_increase(), 63_216.0, 1.0);
        let allocated = Rate(1_000_000);
        let at = |used| config.decide(Rate(used), allocated, &BOUNDS);
        assert_eq!(at(829_000), None);
        assert!(at(827_000).is_some_and(|next| next < allocated));
        assert_eq!(at(977_000), None);
        assert!(at(979_000).is_some_and(|next| next > allocated));
    }

    #[test]
    fn decreases_are_steeper_than_increases() {
        let config = LogarithmicConfig::default();
        let up = config.change(Rate(1_100_000), Rate(1_000_000));
        let down = config.change(Rate(700_000), Rate(1_000_000));
        // The load is 200 kbit/s off the target share on both sides.
        near(up, 120_402.0, 1.0);
        near(down, -150_789.0, 1.0);
    }

    #[test]
    fn silence_shrinks_to_the_least_and_does_not_fail() {
        let config = LogarithmicConfig::default();
        let mut allocated = Rate(LINK);
        for _ in 0..200 {
            allocated = config.decide(Rate::ZERO, allocated, &BOUNDS).unwrap_or(allocated);
        }
        assert!(
            config.change(Rate::ZERO, allocated).abs() <= 50_000.0 || allocated == BOUNDS.least,
            "{allocated:?}"
        );
    }

    #[test]
    fn the_faithful_form_oscillates_where_the_analysis_says() {
        let faithful =
            LogarithmicConfig { faithful: true, least_change: Rate(1_000), ..LogarithmicConfig::default() };
        // K = 600 kbit/s is stable for loads above 270 kbit/s only.
        for (load, stable) in [(200_000, false), (400_000, true)] {
            let mut allocated = Rate(500_000);
            let mut moved = 0;
            for _ in 0..200 {
                if let Some(next) = faithful.decide(Rate(load), allocated, &BOUNDS) {
                    allocated = next;
                    moved += 1;
                }
            }
            assert_eq!(moved < 200, stable, "load {load}: {moved} changes");
        }
    }

    proptest! {
        /// Every load from 1 kbit/s to the link's rate, K up to ten times the load, both kinds of metering.
        #[test]
        fn it_converges_into_the_dead_zone_without_crossing_the_target(
            magnitude in 0.0f64..4.0, gain_factor in 0.01f64..10.0, least_share in 0.01f64..0.99,
            margin_ppm in 20_000u32..500_000, start in 1_000u64..=LINK, carried: bool
        ) {
            let load = Rate(libm::round(1_000.0 * libm::pow(10.0, magnitude)) as u64);
            let gain = Rate(libm::ceil(load.0 as f64 * gain_factor) as u64);
            let mut config = LogarithmicConfig { gain, margin_ppm, least_change: Rate(0), faithful: false };
            config.least_change = Rate((config.greatest_carried_increase() * least_share) as u64);
            let mut allocated = Rate(start);
            let used = |allocated: Rate| if carried { load.min(allocated) } else { load };
            let target = BOUNDS.fit(config.target(load));
            let mut side = None;
            // A step is at least the least change, or ends on a target, which grows with carried load by 1/s.
            let doublings = libm::log(LINK as f64 / 1_000.0) / -libm::log(config.share());
            let most_steps = LINK / config.least_change.0.max(1) + doublings as u64 + 3;
            for _ in 0..most_steps.min(20_000) {
                let Some(next) = config.decide(used(allocated), allocated, &BOUNDS) else { break };
                let up = next > allocated;
                prop_assert!(side.is_none_or(|before| before == up), "turned at {next:?}");
                prop_assert!(if up { next <= target } else { next >= target }, "{next:?} beyond {target:?}");
                side = Some(up);
                allocated = next;
            }
            prop_assume!(most_steps <= 20_000);
            let rest = config.change(load, allocated).abs();
            prop_assert!(
                rest <= config.least_change.0 as f64 || allocated == target,
                "stopped {rest} bit/s off at {allocated:?}, target {target:?}"
            );
        }
    }
}
