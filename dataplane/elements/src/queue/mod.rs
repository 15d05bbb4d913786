//! Bounded queues: no elements but disciplines, which sit inside a pump.

pub mod fifo;
mod fifo_queue;
mod length_range;
mod thinned_log;

pub use fifo::{Fifo, FifoConfig, QueueCounters};
pub use fifo_queue::{FifoQueue, MAX_PACKETS};
pub use length_range::LengthRange;
pub use thinned_log::{ThinnedLog, Wait};

/// Most waiting times that a queue keeps while somebody records it; beyond it every second is, then every fourth …
pub const MAX_WAITS: usize = 1 << 19;
