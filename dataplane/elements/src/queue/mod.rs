//! Bounded queues.

pub mod fifo;
mod fifo_queue;

pub use fifo::{Fifo, FifoConfig, QueueCounters};
pub use fifo_queue::{FifoQueue, MAX_PACKETS};

use perhop_element::ElementType;

/// Registered types of this module: none, a queue is a discipline and sits inside a pump.
pub fn types() -> Vec<ElementType> {
    vec![]
}
