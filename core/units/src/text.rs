//! Text forms of quantities: `10 Mbit/s`, `30 ms`, `1500 B`, `100 packets`, `40 %`, `EF`, `AF21`.
//!
//! Numbers may have a decimal fraction; the value must come out as a whole number of base units.

use thiserror::Error;

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not {what}: {kind}")]
pub struct ParseUnitError {
    /// What was expected, with an article: `a rate`.
    pub what: &'static str,
    /// The text as given (first 64 characters).
    pub text: String,
    /// What is wrong with it.
    pub kind: UnitErrorKind,
}

/// The ways a quantity's text can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnitErrorKind {
    /// Nothing there.
    #[error("it is empty")]
    Empty,
    /// No number at the start.
    #[error("it does not start with a number")]
    NoNumber,
    /// A number without a unit.
    #[error("it has no unit; write for example {0}")]
    NoUnit(&'static str),
    /// Not a unit of this quantity.
    #[error("its unit is not known here; use one of {0}")]
    UnknownUnit(&'static str),
    /// Not a whole number of base units.
    #[error("it is not a whole number of {0}")]
    NotWhole(&'static str),
    /// Too large.
    #[error("it is out of range; allowed is {0}")]
    OutOfRange(&'static str),
}
