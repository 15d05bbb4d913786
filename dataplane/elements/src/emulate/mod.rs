//! Emulated links and networks: delay, jitter, loss, rate.

mod chance;
mod delay;
mod delay_line;
mod effects;
mod emulator;
mod link;
mod loss;
mod opportunities;
mod record;

pub use chance::{BurstLoss, JitterShape};
pub use delay::{Delay, DelayConfig};
pub use delay_line::{DelayLine, jittered};
pub use effects::{Delays, Distribution, Effects, Recorded};
pub use emulator::Emulator;
pub use link::{Link, LinkConfig};
pub use loss::Loss;
pub use opportunities::{OPPORTUNITY_BYTES, Opportunities};
pub use record::{Conditions, RecordError, Sighting, Sightings, identity};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![delay::TYPE, emulator::TYPE, link::TYPE, loss::TYPE]
}
