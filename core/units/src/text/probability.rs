//! Probabilities as text: `0.5 %`, `0.005`.

use super::{ParseUnitError, SplitError, UnitErrorKind, split, with_fraction};
use crate::Probability;
use std::fmt;
use std::str::FromStr;

pub(super) const PROBABILITY_RANGE: &str = "0, or 2.4e-10 to 1 (100 %)";
const PROBABILITY_NAMES: &str = "%, or no unit for a number from 0 to 1";

impl FromStr for Probability {
    type Err = ParseUnitError;

    /// Reads `0.5 %` or `0.005`, rounded to the nearest multiple of 2⁻³². Only 1 is certain: what rounds to 1 becomes
    /// the largest value below it; what is not 0 but rounds to 0 is out of range.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |kind| ParseUnitError::new("a probability", text, kind);
        let out_of_range = || error(UnitErrorKind::OutOfRange(PROBABILITY_RANGE));
        let (number, unit) = split(text).map_err(|why| match why {
            SplitError::Empty => error(UnitErrorKind::Empty),
            SplitError::NoNumber => error(UnitErrorKind::NoNumber),
            SplitError::Negative => error(UnitErrorKind::Negative),
            SplitError::TooLarge | SplitError::TooFine => out_of_range(),
        })?;
        let shift = match unit {
            "" => 0,
            "%" => 2,
            _ => return Err(error(UnitErrorKind::UnknownUnit(PROBABILITY_NAMES))),
        };
        let one = 10u128.checked_pow(number.decimals + shift).ok_or_else(out_of_range)?;
        if number.digits >= one {
            return if number.digits == one { Ok(Self::ONE) } else { Err(out_of_range()) };
        }
        // Digits beyond the twentieth decimal are far below half of 2⁻³² and would overflow the product.
        let excess = 10u128.pow((number.decimals + shift).saturating_sub(20));
        let scaled = (number.digits / excess) << 33;
        let raw = (scaled / (one / excess)).div_ceil(2).min(u128::from(u32::MAX - 1)) as u32;
        if raw == 0 && number.digits != 0 { Err(out_of_range()) } else { Ok(Self(raw)) }
    }
}

impl fmt::Display for Probability {
    /// The shortest percentage that reads back as this value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ONE {
            return f.pad("100 %");
        }
        // 10⁻¹⁰ is finer than half of 2⁻³², so eight decimals of a percentage always do.
        let percent = |places: u32| {
            let hundred = 100 * 10u128.pow(places);
            let rounded = (u128::from(self.0) * hundred + (1 << 31)) >> 32;
            let step = 10u128.pow(places);
            format!("{} %", with_fraction((rounded / step) as u64, rounded % step, places))
        };
        let text = (0..8).map(percent).find(|text| text.parse() == Ok(*self));
        f.pad(&text.unwrap_or_else(|| percent(8)))
    }
}
