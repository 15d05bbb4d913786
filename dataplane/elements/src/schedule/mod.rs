//! Schedulers, the class tree, and the pump that drives them.

pub mod bands;
pub mod class_tree;
pub mod drr;
pub mod egress;
pub mod priority;
pub mod pump;
pub mod transmitter;

pub use bands::Bands;
pub use class_tree::{
    Bound, ClassCounters, ClassTree, ClassView, LeafKind, LeafParams, NodeIndex, NodeParams, NodeSpec,
    TreeChange, TreeEdit, TreeError, TreeErrorKind, TreeLink,
};
pub use drr::Drr;
pub use egress::{Egress, EgressChange, EgressConfig, LeafMap};
pub use priority::Priority;
pub use pump::{Emit, Pump};
pub use transmitter::{Transmitter, TransmitterConfig};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![drr::TYPE, egress::TYPE, priority::TYPE]
}
