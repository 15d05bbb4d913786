//! Active queue management.

pub mod blue;
pub mod codel;
pub mod drd;
pub mod red;
mod red_state;

pub use blue::{Blue, BlueConfig, BlueState};
pub use codel::{CoDel, CoDelConfig, CoDelState, HeadVerdict};
pub use drd::{Drd, DrdConfig};
pub use red::Red;
pub use red_state::{RedConfig, RedState, RedVerdict};

use perhop_element::ElementType;

/// Registered types of this module: none, Blue, CoDel, DRD and RED are disciplines and sit inside a pump.
pub fn types() -> Vec<ElementType> {
    vec![]
}
