//! Replies to transactions.

use crate::TxnId;
use perhop_reason::Code;
use serde::{Deserialize, Serialize};

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// In force in every worker.
    Committed,
    /// Would have been committed.
    Checked,
    /// Nothing was changed; see the errors.
    Rejected,
}

/// What one operation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are plain")]
pub enum OpOutcome {
    Created,
    Updated,
    Deleted,
    Unchanged,
}

/// Result of one operation, at the same index as the operation. `id` and `version` are 0 where one operation
/// concerns several objects or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpResult {
    /// What it did.
    pub outcome: OpOutcome,
    /// The object's id.
    pub id: u64,
    /// The object's version after the change.
    pub version: u64,
}

/// One reason for a rejection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorItem {
    /// Index of the operation; absent when the transaction as a whole is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<usize>,
    /// Where, e.g. `class/wan/voice.queue.limit`.
    pub path: String,
    /// Why.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub code: Code,
    /// In words.
    pub message: String,
    /// The value given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub value: Option<serde_json::Value>,
    /// What is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// The limit that was hit, in its base unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// What is still free of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
}

impl ErrorItem {
    /// A reason at a path, of the transaction as a whole: no operation, value or limit is named.
    pub fn new(code: Code, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            op: None,
            path: path.into(),
            code,
            message: message.into(),
            value: None,
            allowed: None,
            limit: None,
            free: None,
        }
    }
}

/// Answer to a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Reply {
    /// Changes with every start of the router.
    pub epoch: u64,
    /// Revision after the transaction.
    pub revision: u64,
    /// Data-plane generation that every worker has reached.
    pub generation: u64,
    /// The transaction.
    pub txn_id: TxnId,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether this is the answer to an earlier identical request.
    pub replayed: bool,
    /// When the request was taken, router clock.
    pub received_ns: u64,
    /// When every worker had switched, router clock; 0 unless committed.
    pub committed_ns: u64,
    /// One an operation; empty when rejected.
    pub ops: Vec<OpResult>,
    /// All errors; empty unless rejected.
    pub errors: Vec<ErrorItem>,
    /// With [`Code::Overload`]: when to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}
