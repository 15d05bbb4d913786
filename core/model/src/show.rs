//! What a router shows: the rows that `perhop show` prints.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What to show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowQuery {
    /// `ports`, `classes`, `flows`, `profiles`, `slas`, `calls`, `filters`, `elements`, `driver` or `all`; `costs`,
    /// `histograms` or `delays` of a router that takes its own measure.
    pub what: String,
    /// Rows at the most, default 1,000.
    #[serde(default)]
    pub limit: Option<usize>,
}

impl ShowQuery {
    /// At most `limit` rows of `what`.
    pub fn new(what: &str, limit: usize) -> Self {
        Self { what: what.to_owned(), limit: Some(limit) }
    }
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ShowRow {
    /// Kind of object.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Id, 0 for what has none.
    pub id: u64,
    /// Owner, empty for what has none.
    pub owner: String,
    /// Text facts (class, verdict, state).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Counters and gauges.
    pub counters: BTreeMap<String, u64>,
    /// Which of `counters` go up and down, or may; all others only go on, and begin anew with an epoch.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gauges: BTreeSet<String>,
}

impl ShowRow {
    /// A row without facts and counters.
    pub fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned(), ..Self::default() }
    }

    /// Numbers that are no gauges.
    pub fn only_counters(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.counters.iter().filter(|(name, _)| !self.gauges.contains(*name))
    }

    /// A counter; 0 when the row has none of this name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
    }
}

/// The answer to [`ShowQuery`]: design's `show --json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ShowPage {
    /// Epoch.
    pub epoch: u64,
    /// Revision.
    pub revision: u64,
    /// Router clock.
    pub at_ns: u64,
    /// Rows, at most as many as were asked for.
    pub rows: Vec<ShowRow>,
    /// How many rows there are: those above and those left out.
    #[serde(default)]
    pub total: usize,
    /// Whether there are more than `total`, which were not counted: connections beyond the limit, or beyond 20,000.
    #[serde(default)]
    pub more: bool,
    /// Of ports: what is left to the kernel beside the router, and what of the kernel's tables the router cannot follow,
    /// a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
