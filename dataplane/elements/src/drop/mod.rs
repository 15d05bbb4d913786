//! Active queue management.

pub mod drd;
pub mod red;
mod red_state;

pub use drd::{Drd, DrdConfig};
pub use red::Red;
pub use red_state::{RedConfig, RedState, RedVerdict};

use perhop_element::ElementType;

/// Registered types of this module: none, RED and DRD are disciplines and sit inside a pump.
pub fn types() -> Vec<ElementType> {
    vec![]
}
