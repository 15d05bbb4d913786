//! Emulated links: delay, jitter, loss, rate.

mod delay;
mod delay_line;
mod loss;

pub use delay::{Delay, DelayConfig};
pub use delay_line::{DelayLine, jittered};
pub use loss::Loss;

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![delay::TYPE, loss::TYPE]
}
