//! Ports, tees, counters, sources and sinks.

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![]
}
