//! Counters as rows.

pub(crate) use perhop_model::ShowRow as Row;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything a packet thread counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Ports, elements, pool, driver.
    pub rows: Vec<Row>,
}

impl Report {
    /// The row of a kind and name.
    pub fn find(&self, kind: &str, name: &str) -> Option<&Row> {
        self.rows.iter().find(|r| r.kind == kind && r.name == name)
    }
}

/// A queue or another gauge over time, sampled at a fixed interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Router clock of the first sample, ns.
    pub start_ns: u64,
    /// Time between samples, ns.
    pub interval_ns: u64,
    /// Series by name, `wan.backlog_bytes`: (number of the sample from 0, value), where it changed.
    pub series: BTreeMap<String, Vec<(u32, u64)>>,
    /// How long packets waited, by the queue they left (a port of a router, a link of an emulator) and in the order in
    /// which they left it: when each had come, on the router's clock, and how long it waited for the line to begin on it,
    /// ns. Of very many evenly spaced ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<String, Vec<(u64, u64)>>,
    /// Samples taken.
    pub samples: u32,
    /// Values that were not kept because the recording was full.
    pub lost: u64,
}
