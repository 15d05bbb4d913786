//! Reading users' TOML files so that one look at the messages is enough to mend the whole file.
//!
//! A file is parsed with recovery ([`Document::parse`]), then walked with a [`TableReader`], which knows the keys
//! that a table may have, their types and ranges. Everything wrong is collected in [`Diagnostics`], sorted by
//! position, each with file, line, column, key, the value given, what is allowed and a hint. After an error the
//! walk goes on, and what only follows from an error already reported is not reported again.
//!
//! Values keep their [`Location`] ([`Spanned`]), so that checks which need the whole file (references, sums) can
//! report at the right place with [`Document::error`] and [`Document::warning`]: subject, key and value are filled
//! in from the place in the file.
//!
//! ```
//! use perhop_config::Document;
//!
//! let (document, diagnostics) = Document::parse("edge.toml", "[[class]]\nname = \"voice\"\nwieght = 0\n");
//! let mut root = document.root(&diagnostics);
//! for (name, mut class) in root.named_tables("class") {
//!     assert_eq!(name.value, "voice");
//!     let _ = class.integer("weight", 1..=1000);
//!     class.finish();
//! }
//! root.finish();
//! assert_eq!(
//!     diagnostics.to_string(),
//!     "edge.toml:3:1: class \"voice\": wieght is not a known key;\n  did you mean \"weight\"? Known keys: name, weight.\n"
//! );
//! ```
//!
//! A kind of file with objects by name, variants and values that users set by path (`--set link.core.rate=4Mbit/s`) says
//! so in a [`Form`]. Its document is read with [`Document::parse_form`]; [`Document::configured`] gives the file with the
//! settings, and each variant. A walk reads all of them alike, and messages name who gave a value: a place in the file, a
//! variant, or the setting itself.
//!
//! Source: TOML 1.1 (<https://toml.io/en/v1.1.0>), whose grammar the `toml` crate implements.
#![forbid(unsafe_code)]

mod diagnostic;
mod document;
mod form;
mod nesting;
mod overrides;
pub mod packet;
mod reader;
mod recover;
mod settings;
mod source;
mod suggest;
mod syntax;
mod text;
mod tree;

pub use diagnostic::{Diagnostic, Diagnostics, FieldValue, MAX_DIAGNOSTICS, Severity};
pub use document::{Document, MAX_FILE_BYTES, shown};
pub use form::{FileKeys, Form};
pub use reader::{KnownKeys, TableReader};
pub use settings::{NotASetting, Settings};
pub use source::{Location, Position, Spanned, position_in};
pub use suggest::{did_you_mean, quoted_list};
pub use text::{FromText, TextError, negative_of};
