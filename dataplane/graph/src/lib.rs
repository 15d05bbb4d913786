//! Graphs of elements: their text, their checks, and the router's contract applied to a running one.
#![forbid(unsafe_code)]

pub mod lang;
pub mod router;
pub mod swap;
