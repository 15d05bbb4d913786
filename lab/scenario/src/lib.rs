//! The scenario file: a network, its traffic, what to measure and what to expect, described once for every world.
//!
//! [`model`] is what a file means; reading checks it as router files are checked: all errors at once, with position,
//! value, range and hint. Overrides (`--set`) and variants change values by their path before the reading, so that one
//! check serves all.
#![forbid(unsafe_code)]

pub mod command;
pub mod drawing;
pub mod figures;
pub mod generators;
mod index;
pub mod model;
pub mod properties;
mod read;
pub mod settings;

pub use index::IndexEntry;
pub use model::*;
pub use read::{Companions, Loaded, MAX_OPPORTUNITIES, MAX_VARIANTS};
pub use settings::{NotASetting, Settings, UNKNOWN_PATH};
