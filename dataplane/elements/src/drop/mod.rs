//! Active queue management.

pub mod red;
mod red_state;

pub use red::Red;
pub use red_state::{RedConfig, RedState, RedVerdict};

use perhop_element::ElementType;

/// Registered types of this module: none, RED is a discipline and sits inside a pump.
pub fn types() -> Vec<ElementType> {
    vec![]
}
