//! Threshold allocation: multiply when the load leaves a band below the allocation.
//!
//! Above `upper` of what is allocated the allocation is multiplied by `increase`, below `lower` by `decrease`. With a
//! load that is slow against the updates it does not oscillate if `upper > max(increase, 1/decrease) · lower`.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", IV.3.

use crate::bounds::{Bounds, WHOLE_PPM};
use perhop_units::Rate;
use serde::{Deserialize, Serialize};

/// Configuration of threshold allocation; all in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThresholdConfig {
    /// i: factor of an increase, above one whole. 1.1 is 1 100 000.
    pub increase_ppm: u32,
    /// d: factor of a decrease, above 0 and below one whole.
    pub decrease_ppm: u32,
    /// l_min: below this share of the allocation the class gets less.
    pub lower_ppm: u32,
    /// l_max: above this share of the allocation the class gets more. Below one whole, because carried load never
    /// exceeds the allocation.
    pub upper_ppm: u32,
}

impl Default for ThresholdConfig {
    /// i = 1.1, d = 0.9, 70 % and 90 %: the published simulations.
    fn default() -> Self {
        Self { increase_ppm: 1_100_000, decrease_ppm: 900_000, lower_ppm: 700_000, upper_ppm: 900_000 }
    }
}

impl ThresholdConfig {
    /// What the class should have if it uses `used` of `allocated`; `None` to leave it. Load equal to a threshold
    /// changes nothing.
    pub fn decide(&self, used: Rate, allocated: Rate, bounds: &Bounds) -> Option<Rate> {
        let load = u128::from(used.0) * u128::from(WHOLE_PPM);
        let factor = if load > u128::from(allocated.0) * u128::from(self.upper_ppm) {
            self.increase_ppm
        } else if load < u128::from(allocated.0) * u128::from(self.lower_ppm) {
            self.decrease_ppm
        } else {
            return None;
        };
        bounds.change(allocated, scaled(allocated, factor))
    }

    /// Whether the thresholds are so far apart that no step leads from one beyond the other: l_max > i·l_min and
    /// l_max > l_min / d. Exact.
    pub fn inside_wedge(&self) -> bool {
        let [i, d, lower, upper] =
            [self.increase_ppm, self.decrease_ppm, self.lower_ppm, self.upper_ppm].map(u128::from);
        let whole = u128::from(WHOLE_PPM);
        upper * whole > i * lower && upper * d > lower * whole
    }

    /// The largest `lower_ppm` inside the wedge of the other values; 0 if there is none.
    pub fn greatest_lower_ppm(&self) -> u32 {
        let [i, d, upper] = [self.increase_ppm, self.decrease_ppm, self.upper_ppm].map(u64::from);
        let whole = u64::from(WHOLE_PPM);
        // lower < upper·whole / i and lower < upper·d / whole, both strictly.
        let by_increase = (upper * whole).div_ceil(i.max(1)).saturating_sub(1);
        let by_decrease = (upper * d).div_ceil(whole).saturating_sub(1);
        u32::try_from(by_increase.min(by_decrease)).unwrap_or(u32::MAX)
    }

    /// The smallest `upper_ppm` inside the wedge of the other values, `None` if it would reach one whole.
    pub fn least_upper_ppm(&self) -> Option<u32> {
        let [i, d, lower] = [self.increase_ppm, self.decrease_ppm, self.lower_ppm].map(u64::from);
        let whole = u64::from(WHOLE_PPM);
        let least = (i * lower / whole).max((lower * whole).checked_div(d)?) + 1;
        (least < whole).then_some(least as u32)
    }
}

/// `rate` times a factor in parts per million, rounded up, saturating: an increase is at least 1 bit/s.
fn scaled(rate: Rate, factor_ppm: u32) -> Rate {
    let product = (u128::from(rate.0) * u128::from(factor_ppm)).div_ceil(u128::from(WHOLE_PPM));
    Rate(u64::try_from(product).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds::new(Rate(1_000), Rate(10_000_000));

    /// Allocations under constant offered load until nothing changes, at most 500.
    fn settle(config: &ThresholdConfig, load: Rate, start: Rate, bounds: &Bounds, carried: bool) -> Vec<u64> {
        let mut allocated = start;
        let mut path = vec![allocated.0];
        for _ in 0..500 {
            let used = if carried { load.min(allocated) } else { load };
            let Some(next) = config.decide(used, allocated, bounds) else { break };
            allocated = next;
            path.push(next.0);
        }
        path
    }

    /// How often the direction of a path changes.
    fn turns(path: &[u64]) -> usize {
        let ups: Vec<bool> = path.windows(2).map(|pair| pair[1] > pair[0]).collect();
        ups.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    #[test]
    fn load_equal_to_a_threshold_changes_nothing() {
        let config = ThresholdConfig::default();
        let at = |used| config.decide(Rate(used), Rate(1_000_000), &BOUNDS);
        assert_eq!(at(900_000), None);
        assert_eq!(at(900_001), Some(Rate(1_100_000)));
        assert_eq!(at(700_000), None);
        assert_eq!(at(699_999), Some(Rate(900_000)));
    }

    #[test]
    fn bounds_and_grid_hold() {
        let config = ThresholdConfig::default();
        let bounds = Bounds { least: Rate(64_000), most: Rate(1_000_000), granularity: Rate(64_000) };
        assert_eq!(config.decide(Rate(950_000), Rate(990_000), &bounds), Some(Rate(1_000_000)));
        assert_eq!(config.decide(Rate(1_000_000), Rate(1_000_000), &bounds), None);
        assert_eq!(config.decide(Rate(0), Rate(64_000), &bounds), None);
        // 0.9 · 640 = 576 = 9 steps; 0.9 · 128 = 115.2 rounds up to where it was.
        assert_eq!(config.decide(Rate(0), Rate(640_000), &bounds), Some(Rate(576_000)));
        assert_eq!(config.decide(Rate(0), Rate(128_000), &bounds), None);
    }

    /// The published test bed: i = 1.2, d = 0.8, k = 1.25 < 0.9 / 0.7.
    #[test]
    fn published_settings_lie_inside_the_wedge() {
        let bed =
            ThresholdConfig { increase_ppm: 1_200_000, decrease_ppm: 800_000, ..ThresholdConfig::default() };
        assert!(bed.inside_wedge());
        assert_eq!(bed.greatest_lower_ppm(), 719_999);
        assert_eq!(bed.least_upper_ppm(), Some(875_001));
        assert!(!ThresholdConfig { lower_ppm: 720_000, ..bed }.inside_wedge());
        let bursty = ThresholdConfig { lower_ppm: 600_000, upper_ppm: 800_000, ..ThresholdConfig::default() };
        assert!(bursty.inside_wedge());
    }

    #[test]
    fn outside_the_wedge_it_oscillates_for_ever() {
        let config = ThresholdConfig {
            increase_ppm: 1_250_000,
            decrease_ppm: 800_000,
            lower_ppm: 850_000,
            upper_ppm: 900_000,
        };
        assert!(!config.inside_wedge());
        let path = settle(&config, Rate(950_000), Rate(1_000_000), &BOUNDS, false);
        assert!(turns(&path) > 100, "{} turns", turns(&path));
    }

    fn any_config() -> impl Strategy<Value = ThresholdConfig> {
        (1_000_001u32..2_000_000, 500_000u32..1_000_000, 1u32..1_000_000, 1u32..1_000_000).prop_map(
            |(increase_ppm, decrease_ppm, lower_ppm, upper_ppm)| ThresholdConfig {
                increase_ppm,
                decrease_ppm,
                lower_ppm,
                upper_ppm,
            },
        )
    }

    proptest! {
        #[test]
        fn inside_the_wedge_it_settles_with_at_most_one_turn(
            config in any_config(), load in 1_000u64..10_000_000, start in 1_000u64..10_000_000,
            granularity in 1u64..200_000, carried: bool
        ) {
            let lower_ppm = config.lower_ppm.min(config.greatest_lower_ppm());
            prop_assume!(lower_ppm > 0);
            let config = ThresholdConfig { lower_ppm, ..config };
            prop_assert!(config.inside_wedge());
            let bounds = Bounds { granularity: Rate(granularity), ..BOUNDS };
            // A factor close to one takes many steps; the law is about turning, not about speed.
            let path = settle(&config, Rate(load), Rate(start), &bounds, carried);
            // Without a grid no step ever turns; rounding an increase up may make one decrease worthwhile.
            prop_assert!(turns(&path) <= usize::from(granularity > 1), "{path:?}");
        }

        #[test]
        fn the_nearest_thresholds_are_the_last_admissible_ones(config in any_config()) {
            let lower = config.greatest_lower_ppm();
            let inside = |lower_ppm| ThresholdConfig { lower_ppm, ..config }.inside_wedge();
            prop_assert!(lower == 0 || inside(lower));
            prop_assert!(!inside(lower + 1));
            if let Some(upper) = config.least_upper_ppm() {
                let at = |upper_ppm| ThresholdConfig { upper_ppm, ..config }.inside_wedge();
                prop_assert!(at(upper) && !at(upper - 1));
            }
        }
    }
}
