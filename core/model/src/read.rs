//! Reading a router back.

use crate::{Kind, ObjectState, Owner};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What to read: `GET /v1/state?owner&kind&prefix&cursor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateQuery {
    /// Only this owner's objects.
    #[serde(default)]
    pub owner: Option<Owner>,
    /// Only this kind.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// Only names that start so.
    #[serde(default)]
    pub prefix: Option<String>,
    /// Where the previous page ended.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Objects a page, 1 … 10,000; default 1,000.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Digest of everything an owner has: sha256 over the canonical JSON of its objects in (kind, name) order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OwnerDigest {
    /// Objects.
    pub objects: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

/// One page of the router's state; all pages of a read are of one revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StatePage {
    /// Epoch.
    pub epoch: u64,
    /// Revision the pages are pinned to.
    pub revision: u64,
    /// In (kind, name) order.
    pub objects: Vec<ObjectState>,
    /// For the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// By owner.
    pub digests: BTreeMap<String, OwnerDigest>,
}

/// What to count: `GET /v1/counters?kind&name&id`. Nothing else is looked at, as far as kinds can be told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountersQuery {
    /// Only rows of this kind.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only rows of this name.
    #[serde(default)]
    pub name: Option<String>,
    /// Only the object with this id.
    #[serde(default)]
    pub id: Option<u64>,
    /// Only what this owner has.
    #[serde(default)]
    pub owner: Option<Owner>,
}

impl CountersQuery {
    /// All rows of a kind.
    pub fn of_kind(kind: &str) -> Self {
        Self { kind: Some(kind.to_owned()), ..Self::default() }
    }

    /// Whether rows of this kind are asked for.
    pub fn has_kind(&self, kind: &str) -> bool {
        self.kind.as_ref().is_none_or(|k| k == kind)
    }

    /// Whether this name is.
    pub fn has_name(&self, name: &str) -> bool {
        self.name.as_ref().is_none_or(|n| n == name)
    }

    /// Whether this row is.
    pub fn has(&self, row: &CountersRow) -> bool {
        self.has_kind(&row.kind)
            && self.has_name(&row.name)
            && self.id.is_none_or(|id| id == row.id)
            && self.owner.as_ref().is_none_or(|owner| owner.to_string() == row.owner)
    }
}

/// Counters of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CountersRow {
    /// Kind of object, or `element`, `flow`, `pool`, `driver`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// The object's id; 0 for what has none.
    pub id: u64,
    /// Owner, empty for what has none.
    #[serde(default)]
    pub owner: String,
    /// Monotonic per id.
    pub counters: BTreeMap<String, u64>,
}

/// `GET /v1/counters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CountersPage {
    /// Epoch.
    pub epoch: u64,
    /// Revision.
    pub revision: u64,
    /// Router clock.
    pub at_ns: u64,
    /// Rows.
    pub rows: Vec<CountersRow>,
}
