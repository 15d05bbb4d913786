//! Views of and representations for the headers Perhop reads and writes. One header per file.

pub mod layout;

pub use layout::{Layout, Malformed, dissect};
