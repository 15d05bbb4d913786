//! Graphs of elements: their text, their checks, and the transaction contract applied to a running one.
#![forbid(unsafe_code)]

pub mod control;
pub mod lang;
pub mod router;
pub mod routerfile;
pub mod swap;
