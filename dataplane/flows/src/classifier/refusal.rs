//! Why rules are refused.

use super::book::RuleBook;
use super::rule::{Masked, Rule};
use super::space::{Limit, MAX_CHAIN, MAX_TABLES};
use perhop_packet::FilterId;
use std::sync::Arc;
use thiserror::Error;

/// Why a set of rules was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// One prefix is IPv4, the other IPv6: no packet can match.
    #[error("rule {name}: source and destination prefix are of different address families")]
    FamilyMismatch {
        /// The rule.
        name: Arc<str>,
    },
    /// A range whose last port is below its first.
    #[error("rule {name}: port range {first}-{last} is empty")]
    EmptyRange {
        /// The rule.
        name: Arc<str>,
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
    /// A masked value with bits outside its mask, or a code point mask of more than six bits.
    #[error("rule {name}: {field} value {value:#04x} has bits outside its mask {mask:#04x}")]
    BitsOutsideMask {
        /// The rule.
        name: Arc<str>,
        /// Field.
        field: &'static str,
        /// Value.
        value: u8,
        /// Mask.
        mask: u8,
    },
    /// An id that is in use already, or reserved.
    #[error("rule {name}: id {id} is in use or reserved", id = .id.0)]
    Duplicate {
        /// The rule.
        name: Arc<str>,
        /// Its id.
        id: FilterId,
    },
    /// A rule to be removed that is not there.
    #[error("no rule has id {id}", id = .id.0)]
    Unknown {
        /// The id.
        id: FilterId,
    },
    /// More than [`MAX_TABLES`] groups.
    #[error(
        "rule {name}: it would need one more than the limit of {MAX_TABLES} different combinations of masks"
    )]
    TooManyTables {
        /// The rule.
        name: Arc<str>,
    },
    /// More than [`MAX_CHAIN`] rules under one masked value.
    #[error("rule {name}: more than {MAX_CHAIN} rules overlap in everything but their port ranges")]
    ChainTooLong {
        /// The rule.
        name: Arc<str>,
    },
    /// More rules than [`RuleBook::MAX_RULES`].
    #[error("rule {name}: the limit of {limit} rules is reached", limit = RuleBook::MAX_RULES)]
    TooManyRules {
        /// The rule.
        name: Arc<str>,
    },
}

impl RuleError {
    /// The limit that `rule` would break.
    pub(super) fn of(limit: Limit, rule: &Rule) -> Self {
        let name = Arc::clone(&rule.name);
        match limit {
            Limit::Tables => Self::TooManyTables { name },
            Limit::Chain => Self::ChainTooLong { name },
        }
    }
}

/// Whether the fields of `rule` are sound.
pub(super) fn check(rule: &Rule) -> Result<(), RuleError> {
    let name = || Arc::clone(&rule.name);
    let m = &rule.matches;
    if let (Some(src), Some(dst)) = (m.src, m.dst)
        && src.addr().is_ipv4() != dst.addr().is_ipv4()
    {
        return Err(RuleError::FamilyMismatch { name: name() });
    }
    for range in [m.src_ports, m.dst_ports].into_iter().flatten() {
        if range.first > range.last {
            return Err(RuleError::EmptyRange { name: name(), first: range.first, last: range.last });
        }
    }
    for (field, masked, widest) in [("dscp", m.dscp, 0x3f), ("tcp_flags", m.tcp_flags, 0xff)] {
        if let Some(Masked { value, mask }) = masked
            && (value & !mask != 0 || mask & !widest != 0)
        {
            return Err(RuleError::BitsOutsideMask { name: name(), field, value, mask });
        }
    }
    Ok(())
}
