//! Shapers.

mod shaper;

pub use shaper::shaper;

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![shaper::TYPE]
}
