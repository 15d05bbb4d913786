//! From what was recorded to what is reported: the same figures from the simulator and from real sockets.
#![forbid(unsafe_code)]

pub mod recording;

pub use recording::*;
