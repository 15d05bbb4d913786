//! Between which values an allocation moves, and on which grid.

use perhop_units::Rate;
use serde::{Deserialize, Serialize};

/// The range and the grid of a class's allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bounds {
    /// Never less, above 0: a factor cannot raise an allocation of nothing.
    pub least: Rate,
    /// Never more: the class's cap or the rate of the link.
    pub most: Rate,
    /// Allocations are whole multiples of this, 1 bit/s or more. Increases and decreases are rounded **up**: a rounded
    /// decrease never puts the load above the upper threshold, so rounding cannot start an oscillation.
    pub granularity: Rate,
}

impl Bounds {
    /// From `least` to `most` in steps of 1 bit/s.
    pub const fn new(least: Rate, most: Rate) -> Self {
        Self { least, most, granularity: Rate(1) }
    }

    /// `wanted` rounded up to the grid and brought into the range.
    pub fn fit(&self, wanted: Rate) -> Rate {
        let step = self.granularity.0.max(1);
        Rate(wanted.0.div_ceil(step).saturating_mul(step).min(self.most.0).max(self.least.0))
    }

    /// The change from `allocated` to `wanted` if it survives rounding and range in its direction.
    pub(crate) fn change(&self, allocated: Rate, wanted: Rate) -> Option<Rate> {
        let fitted = self.fit(wanted);
        (fitted.cmp(&allocated) == wanted.cmp(&allocated) && fitted != allocated).then_some(fitted)
    }
}

/// `part` of a million parts of `whole`, rounded down.
pub(crate) fn share(whole: Rate, part_ppm: u32) -> Rate {
    perhop_units::Share::Ppm(part_ppm).of(whole)
}

/// One whole in parts per million.
pub(crate) const WHOLE_PPM: u32 = 1_000_000;
