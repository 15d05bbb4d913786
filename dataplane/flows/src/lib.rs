//! Flows.
#![forbid(unsafe_code)]
pub mod classifier;
mod table;
