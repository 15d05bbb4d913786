//! The scenario file: a network, its traffic, what to measure and what to expect, described once for every world.
//!
//! [`model`] is what a file means; reading checks it as router files are checked: all errors at once, with position,
//! value, range and hint. Overrides (`--set`) and variants change values by their path before the reading, so that one
//! check serves all.
#![forbid(unsafe_code)]

pub mod command;
mod discipline;
pub mod drawing;
pub mod figures;
pub mod generators;
mod index;
pub mod model;
mod paths;
pub mod properties;
mod read;
mod router_objects;
pub mod settings;

pub use index::IndexEntry;
pub use model::*;
pub use paths::Paths;
pub use read::{Companions, Loaded, MAX_OPPORTUNITIES, MAX_VARIANTS};
pub use router_objects::{RouterObjects, RouterObjectsError};
pub use settings::{NotASetting, Settings, UNKNOWN_PATH};
