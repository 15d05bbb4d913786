//! Values that have names: code points (`EF`, `AF21`) and colours.

use super::{ParseUnitError, UnitErrorKind};
use crate::{Color, Dscp};
use std::fmt;
use std::str::FromStr;

pub(super) const DSCP_NAMES: &str =
    "BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or a number from 0 to 63 (0x3f)";

impl FromStr for Dscp {
    type Err = ParseUnitError;

    /// Reads a name of the IANA registry in any case, `BE`, `VA` for voice-admit, or a decimal or `0x` number.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |kind| ParseUnitError::new("a DSCP", text, kind);
        let name = text.trim();
        if name.is_empty() {
            return Err(error(UnitErrorKind::Empty));
        }
        if name.eq_ignore_ascii_case("CS0") {
            return Ok(Self::BE);
        }
        if let Some((_, dscp)) = Dscp::NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
            return Ok(*dscp);
        }
        let (digits, radix) = match name.strip_prefix("0x").or_else(|| name.strip_prefix("0X")) {
            Some(hex) => (hex, 16),
            None => (name, 10),
        };
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            return Err(error(UnitErrorKind::UnknownName(DSCP_NAMES)));
        }
        let value = u8::from_str_radix(digits, radix).ok().and_then(Self::new);
        value.ok_or_else(|| error(UnitErrorKind::OutOfRange("0 to 63")))
    }
}

impl fmt::Display for Dscp {
    /// The name, if there is one, else the decimal number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, dscp)| dscp == self) {
            Some((name, _)) => f.pad(name),
            None => f.pad(&self.get().to_string()),
        }
    }
}

impl FromStr for Color {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |kind| ParseUnitError::new("a colour", text, kind);
        match text.trim() {
            "" => Err(error(UnitErrorKind::Empty)),
            name if name.eq_ignore_ascii_case("green") => Ok(Self::Green),
            name if name.eq_ignore_ascii_case("yellow") => Ok(Self::Yellow),
            name if name.eq_ignore_ascii_case("red") => Ok(Self::Red),
            _ => Err(error(UnitErrorKind::UnknownName("green, yellow, red"))),
        }
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        })
    }
}
