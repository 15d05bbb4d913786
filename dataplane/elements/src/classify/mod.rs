//! Elements that choose by what a packet says of itself.

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![]
}
