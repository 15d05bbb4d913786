//! The scenario file: a network, its traffic, what to measure and what to expect, described once for every world.
//!
//! [`model`] is what a file means; reading checks it as router files are checked: all errors at once, with position,
//! value, range and hint. Overrides (`--set`) and variants change values by their path before the reading, so that one
//! check serves all.
#![forbid(unsafe_code)]

pub mod generators;
pub mod model;

pub use model::*;
