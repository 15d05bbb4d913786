//! Bounded queues.

pub mod fifo;
mod fifo_queue;
mod length_range;
mod thinned_log;

pub use fifo::{Fifo, FifoConfig, QueueCounters};
pub use fifo_queue::{FifoQueue, MAX_PACKETS};
pub use length_range::LengthRange;
pub use thinned_log::{ThinnedLog, Wait};

use perhop_element::ElementType;

/// Most waiting times that a queue keeps while somebody records it; beyond it every second is, then every fourth …
pub const MAX_WAITS: usize = 1 << 19;

/// Registered types of this module: none, a queue is a discipline and sits inside a pump.
pub fn types() -> Vec<ElementType> {
    vec![]
}
