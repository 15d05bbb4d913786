//! What an agent hears from the controller of its domain: how much of the router's classes is reserved, and for which packets.

use perhop_model::{FilterMatch, Name};
use perhop_units::{Dscp, Rate};
use serde::{Deserialize, Serialize};

/// One piece of news. What a domain has at a router is told whole after every connection, between [`DomainNews::Begin`] and
/// [`DomainNews::Complete`], and then as it changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum DomainNews {
    /// All of it follows: what is not told again until [`DomainNews::Complete`] is not there any more.
    Begin,
    /// All of it has been told.
    Complete,
    /// What reservations have of a class of a port; 0 = nothing.
    Share {
        /// The port by which they leave.
        port: Name,
        /// Logical class.
        class: Name,
        /// bit/s.
        bps: Rate,
    },
    /// Packets that enter the domain here have a reservation.
    Flow(DomainFlow),
    /// They have none any more.
    FlowGone {
        /// Number of the reservation.
        id: u64,
    },
    /// A lease of this router's agent has less now than it had after the question of this number: the domain has taken the rest back.
    Lease {
        /// The lease, as its holder calls it.
        name: String,
        /// Number of the question that was decided last.
        number: u64,
        /// What it has, bit/s; 0 = it is gone.
        bps: u64,
    },
    /// The controller cannot be reached: what it said last holds until the lives of reservations end.
    Away,
}

/// Numbers of reservations from this one on are of what is decided beside the router; a controller's are below. They stay when all
/// that the domain has is told anew.
pub const DECIDED_HERE: u64 = 1 << 63;

/// Packets with a reservation, where they enter the domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainFlow {
    /// Number of the reservation.
    pub id: u64,
    /// Logical class.
    pub class: Name,
    /// What they may have, bit/s; more is dropped.
    pub bps: Rate,
    /// Code point that they get; none = theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
    /// Which: one of these matches. None = they are not told from others: the share of the class is all that there is.
    pub packets: Vec<FilterMatch>,
    /// How long it lives from now unless it is told again, ms.
    pub remaining_ms: u64,
}
