//! From what was recorded to what is reported: the same figures from the simulator and from real sockets.
#![forbid(unsafe_code)]

pub mod admissions;
mod agent_recorder;
pub mod agents;
pub mod bins;
pub mod details;
pub mod drain;
pub mod experiment;
pub mod groups;
pub mod judge;
pub mod links;
pub mod recognition;
pub mod recording;
mod reserved;
mod sections;
mod segments;
mod selection;
pub mod stream;
mod transport;
mod warnings;

pub use agent_recorder::AgentRecorder;
pub use bins::Bins;
pub use drain::{DRAIN_LIMIT, set_aside};
pub use experiment::{Configuration, Experiment};
pub use recording::*;
pub use sections::Sections;
pub use segments::{MOST_SEGMENTS, ReadLog, SegmentLog, SegmentRecord};

#[cfg(test)]
mod details_tests;
#[cfg(test)]
mod tests;
