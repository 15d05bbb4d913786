//! Elements that enforce profiles and contracts.

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![]
}
