//! Markers.

mod dscp_marker;

pub use dscp_marker::{DscpByColor, DscpMarker, mark};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![dscp_marker::TYPE]
}
