//! Rows that editions are kept in. Names are those of the database's tables and columns; numbers fit in an `i64`.

use crate::diff::RowChange;
use crate::model::Policy;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What became of an edition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditionState {
    /// In force, unless another came after it.
    Confirmed,
    /// In force until it is confirmed or late.
    ToConfirm,
    /// It was not confirmed.
    Reverted,
}

/// An edition: table `edition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditionRow {
    /// Number, from 1, ascending.
    pub n: u64,
    /// The edition that was in force before; 0 = none.
    pub parent: u64,
    /// Who made it.
    pub author: String,
    /// When, ms since 1970.
    pub at_ms: u64,
    /// Why.
    pub reason: String,
    /// What became of it.
    pub state: EditionState,
    /// When it returns unless it is confirmed, ms since 1970.
    pub confirm_by_ms: Option<u64>,
    /// SHA-256 of its policy as [`Policy::to_json`] has it, lower-case hexadecimal.
    pub sha256: String,
}

/// One change of what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An edition is as this: table `edition`.
    Edition(EditionRow),
    /// From this edition on an object is so, or gone: table `policy`. Earlier rows of it stay; the policy of an edition is, of
    /// each object, the row with the highest edition up to it.
    Policy {
        /// The edition.
        edition: u64,
        /// The object.
        change: RowChange,
    },
}

/// Changes that are written together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its number: ascending, of the process.
    pub number: u64,
    /// The changes. A key occurs once.
    pub changes: Vec<Change>,
}

/// The digest of a policy.
pub fn sha256_of(policy: &Policy) -> String {
    let digest = Sha256::digest(policy.to_json().as_bytes());
    digest.iter().fold(String::with_capacity(64), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}
