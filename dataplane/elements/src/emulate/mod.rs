//! Emulated links: delay, jitter, loss, rate.

mod delay;
mod delay_line;
mod link;
mod loss;

pub use delay::{Delay, DelayConfig};
pub use delay_line::{DelayLine, jittered};
pub use link::{Link, LinkConfig};
pub use loss::Loss;

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![delay::TYPE, link::TYPE, loss::TYPE]
}
