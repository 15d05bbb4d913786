//! Emulated links: delay, jitter, loss, rate.

mod chance;
mod delay;
mod delay_line;
mod link;
mod loss;
mod opportunities;

pub use chance::{BurstLoss, JitterShape};
pub use delay::{Delay, DelayConfig};
pub use delay_line::{DelayLine, jittered};
pub use link::{Link, LinkConfig};
pub use loss::Loss;
pub use opportunities::{OPPORTUNITY_BYTES, Opportunities};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![delay::TYPE, link::TYPE, loss::TYPE]
}
