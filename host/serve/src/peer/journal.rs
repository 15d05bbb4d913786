//! What outlives the process: rows of the machine, as values by name.

use crate::domain::NotKept;
use perhop_broker::lease;
use perhop_broker::peer::{Row, Snapshot};
use serde::Serialize;
use serde_json::Value;
use std::pin::Pin;

/// Rows on their way.
pub type Keeping<'a> = Pin<Box<dyn Future<Output = Result<(), NotKept>> + Send + 'a>>;

/// A database that keeps rows.
pub trait Journal: Send + Sync + 'static {
    /// Writes values by name; none = forgotten. Harmless to do again.
    fn write<'a>(&'a self, rows: &'a [(String, Option<Value>)]) -> Keeping<'a>;
}

/// A row by its name; none where it is of something that is no more.
pub fn named(row: &Row) -> (String, Option<Value>) {
    let value = || serde_json::to_value(row).ok();
    match row {
        Row::Deal(deal) => (name("deal", &deal.deal), value()),
        Row::DealGone(deal) => (name("deal", deal), None),
        Row::Held(at, lease::Row::Lease(lease)) => (name("lease", &(at, &lease.lease)), value()),
        Row::Held(at, lease::Row::LeaseGone(lease)) => (name("lease", &(at, lease)), None),
        Row::Held(at, lease::Row::Flow(flow)) => (name("flow", &(at, &flow.flow)), value()),
        Row::Held(at, lease::Row::FlowGone(flow)) => (name("flow", &(at, flow)), None),
    }
}

fn name(kind: &str, key: &impl Serialize) -> String {
    format!("{kind} {}", serde_json::to_string(key).unwrap_or_default())
}

/// What values that were kept come to. One that this version cannot read is passed over: what it was for ends by its own life.
pub fn snapshot(values: impl IntoIterator<Item = Value>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for value in values {
        match serde_json::from_value(value) {
            Ok(Row::Deal(deal)) => snapshot.deals.push(deal),
            Ok(Row::Held(at, lease::Row::Lease(lease))) => {
                snapshot.held.entry(at).or_default().leases.push(lease);
            }
            Ok(Row::Held(at, lease::Row::Flow(flow))) => {
                snapshot.held.entry(at).or_default().flows.push(flow);
            }
            Ok(Row::DealGone(_) | Row::Held(..)) | Err(_) => {}
        }
    }
    snapshot
}
