//! What a domain keeps with a lease: whose it is, and which question about it was decided last.

use super::Flow;
use perhop_broker::record::{ReservationKind, ReservationRow};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseNote {
    /// The node whose agent holds it.
    pub node: String,
    /// How that agent calls it.
    pub name: String,
    /// Number of the question that was decided last.
    pub number: u64,
}

impl LeaseNote {
    /// The key of idempotency of its reservation.
    pub fn key(node: &str, name: &str) -> String {
        format!("{node}/{name}")
    }

    /// As it is kept.
    pub fn text(&self) -> String {
        Flow { of_interface: json!({ "lease": self }), ..Flow::default() }.text()
    }

    /// What is kept with a reservation; none = it is no lease.
    pub fn of(row: &ReservationRow) -> Option<Self> {
        if row.kind != ReservationKind::Lease {
            return None;
        }
        serde_json::from_value(Flow::of(row).of_interface.get("lease")?.clone()).ok()
    }
}
