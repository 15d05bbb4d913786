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
//! Source: TOML 1.1 (<https://toml.io/en/v1.1.0>), whose grammar the `toml` crate implements.
#![forbid(unsafe_code)]

mod diagnostic;
mod document;
mod nesting;
mod reader;
mod recover;
mod source;
mod suggest;
mod syntax;
mod text;
mod tree;

pub use diagnostic::{Diagnostic, Diagnostics, FieldValue, MAX_DIAGNOSTICS, Severity};
pub use document::{Document, MAX_FILE_BYTES, shown};
pub use reader::TableReader;
pub use source::{Location, Position, Spanned};
pub use suggest::did_you_mean;
pub use text::{FromText, TextError, negative_of};
