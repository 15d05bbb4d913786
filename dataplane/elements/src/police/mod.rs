//! Policers, and the conditioner that applies profiles, contracts and class limits.

mod condition;
pub mod conditioner;
mod live;
mod policer;
mod shared;
mod spec;
mod table;

pub use condition::ConditionCounters;
pub use conditioner::Conditioner;
pub use policer::{Exceed, Policer};
pub use spec::{
    Action, Excess, FlowLimit, MeterSpec, OutOfProfile, ProfileSpec, RealtimeSpec, SlaSpec, SlaTraffic,
};
pub use table::{ConditionerChange, IdTooLarge, MAX_FLOWS, MAX_IDS};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![conditioner::TYPE, policer::TYPE]
}
