//! Policers, and the conditioner that applies profiles, contracts and class limits.

mod condition;
pub mod conditioner;
mod policer;

pub use condition::{
    Action, ConditionCounters, ConditionerChange, Excess, IdTooLarge, MAX_IDS, MeterSpec, OutOfProfile,
    ProfileSpec, RealtimeSpec, SlaSpec, SlaTraffic,
};
pub use conditioner::Conditioner;
pub use policer::{Exceed, Policer};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![conditioner::TYPE, policer::TYPE]
}
