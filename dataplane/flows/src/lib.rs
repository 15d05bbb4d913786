//! Flows.
#![forbid(unsafe_code)]
pub mod classifier;
pub mod realtime;
mod table;
