//! Classifiers that need no flow table.

mod dscp;
mod ip;
mod plain;
mod rule;

pub use dscp::{DscpClassifier, DscpTable};
pub use ip::IpClassifier;
pub use rule::{Rule, RuleError};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![dscp::TYPE, ip::TYPE]
}
