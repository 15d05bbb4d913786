//! Views of and representations for the headers Perhop reads and writes. One header per file.

pub mod checksum;
pub mod ethertype;
pub mod layout;
pub mod protocol;

pub use layout::{Fragment, Layout, Malformed, TtlExpired, dissect};
