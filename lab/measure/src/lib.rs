//! From what was recorded to what is reported: the same figures from the simulator and from real sockets.
#![forbid(unsafe_code)]

pub mod details;
pub mod experiment;
pub mod groups;
pub mod judge;
pub mod links;
pub mod recording;

pub use experiment::{Configuration, Experiment};
pub use recording::*;

#[cfg(test)]
mod details_tests;
#[cfg(test)]
mod tests;
