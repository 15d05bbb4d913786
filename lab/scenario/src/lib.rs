//! The scenario file: a network, its traffic, what to measure and what to expect, described once for every world.
//!
//! [`model`] is what a file means; reading checks it as router files are checked: all errors at once, with position,
//! value, range and hint. Overrides (`--set`) and variants change values by their path before the reading, so that one
//! check serves all. The keys are in `docs/scenario-file.md`. [`catalogue`] finds scenarios by name; those of the project
//! are built in.
//!
//! ```
//! use perhop_scenario::{Scenario, Settings, drawing};
//!
//! let text = r#"
//! id = "one-link"
//! title = "Two hosts and a link"
//! duration = "10 s"
//! [node.a]
//! kind = "host"
//! [node.b]
//! kind = "host"
//! [link.core]
//! ends = ["a", "b"]
//! rate = "4 Mbit/s"
//! "#;
//! let no_companions = |_: &str| Err("none".to_owned());
//! let mut settings = Settings::new();
//! settings.add("link.core.delay=20ms").expect("path=value");
//! let (loaded, diagnostics) = Scenario::read("one.toml", text, &settings, &no_companions);
//! let loaded = loaded.unwrap_or_else(|| panic!("{diagnostics}"));
//! assert_eq!(drawing::draw(&loaded.product), "(a)─── core 4 Mbit/s, 20 ms ───(b)\n");
//!
//! settings.set("link.cor.rate", "1 Mbit/s");
//! let (_, diagnostics) = Scenario::read("one.toml", text, &settings, &no_companions);
//! assert_eq!(
//!     diagnostics.to_string(),
//!     "--set link.cor.rate=1 Mbit/s: is not a path of this scenario;\n  did you mean \"link.core.rate\"? Allowed: \"core\".\n"
//! );
//! ```
#![forbid(unsafe_code)]

pub mod catalogue;
mod clock;
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

pub use clock::Clock;
pub use index::IndexEntry;
pub use model::*;
pub use paths::Paths;
pub use perhop_config::{NotASetting, Settings};
pub use read::{
    Companions, Loaded, MAX_OPPORTUNITIES, MAX_REPETITIONS, MAX_SEED, MAX_VARIANTS, UNKNOWN_PATH,
};
pub use router_objects::{RouterObjects, RouterObjectsError, RouterOnLinks};
