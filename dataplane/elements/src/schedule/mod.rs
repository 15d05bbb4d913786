//! Schedulers, the class tree, and the pump that drives them.

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![]
}
