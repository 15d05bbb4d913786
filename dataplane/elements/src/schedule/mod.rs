//! Schedulers, the class tree, and the pump that drives them.

pub mod class_tree;
pub mod egress;
pub mod pump;
pub mod transmitter;

pub use class_tree::{
    Bound, ClassCounters, ClassTree, ClassView, LeafKind, LeafParams, NodeIndex, NodeParams, NodeSpec,
    TreeChange, TreeEdit, TreeError, TreeErrorKind, TreeLink,
};
pub use egress::{Egress, EgressChange, EgressConfig, LeafMap};
pub use pump::{Emit, Pump};
pub use transmitter::{Transmitter, TransmitterConfig};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![egress::TYPE]
}
