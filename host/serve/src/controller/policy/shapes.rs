//! Bodies of requests and answers about the policy.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perhop_model::{ErrorItem, Name};
use perhop_policy::diff::{FieldChange, field_changes, object_changes};
use perhop_policy::model::Policy;
use perhop_policy::validate::{faults, from_toml};
use perhop_reason::Code;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// A policy as somebody writes it: one of `toml` and `json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyText {
    /// How messages call the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// As TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toml: Option<String>,
    /// As JSON, in the shape that `GET /v1/policy?form=json` has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub json: Option<Value>,
}

/// A policy as it is shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PolicyShown {
    /// Its edition; 0 = there was none yet.
    pub edition: u64,
    /// The edition's row: `n`, `parent`, `author`, `at_ms`, `reason`, `state`, `confirm_by_ms`, `sha256`.
    #[schema(value_type = Option<Object>)]
    pub row: Option<Value>,
    /// As TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toml: Option<String>,
    /// As JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub policy: Option<Value>,
}

/// A policy that is proposed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CandidateBody {
    /// It.
    pub policy: PolicyText,
    /// The edition that it was made from: it must be the one in force.
    pub base: u64,
    /// Whether it is to be tried before it can be committed. Nothing can try it yet: refused with `unsupported`.
    #[serde(default)]
    pub trial: bool,
}

/// What is to become an edition: the candidate, or a policy.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitBody {
    /// The digest of the candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// A policy, with `base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyText>,
    /// The edition that the policy was made from: it must be the one in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
    /// Why.
    pub reason: String,
    /// It returns unless it is confirmed within this time: 1 s to 7 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_within_ms: Option<u64>,
}

/// What is kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfirmBody {
    /// The edition that waits for it; 0 = whichever does.
    #[serde(default)]
    pub edition: u64,
}

/// What is to be in force again.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackBody {
    /// The edition.
    pub to: u64,
    /// Why.
    pub reason: String,
}

/// An object of the policy that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyChange {
    /// `router`, `class`, `filter`, `profile`, `sla` or `subscriber`.
    pub kind: String,
    /// Name.
    #[schema(value_type = String)]
    pub name: Name,
    /// `new`, `changed` or `gone`.
    pub change: String,
    /// Of one that changed: `{path, before, after}` of each field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub fields: Vec<FieldChange>,
}

/// How many objects of a router differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouterDiff {
    /// Objects that are to be there, or otherwise than they are.
    pub put: usize,
    /// Objects that are to go.
    pub gone: usize,
}

/// What differs between two policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyDiff {
    /// The edition before.
    pub base: u64,
    /// Objects of the policy, by kind and name.
    pub changes: Vec<PolicyChange>,
    /// What that means to routers, without what sessions of subscribers have there.
    pub routers: BTreeMap<String, RouterDiff>,
}

/// What somebody has written.
pub(super) struct Written {
    pub(super) policy: Box<Policy>,
    /// Warnings.
    pub(super) messages: Vec<String>,
}

/// Reads a policy and checks it: everything that is wrong, or the policy.
pub(super) async fn read(text: PolicyText) -> Result<Written, Response> {
    let read = tokio::task::spawn_blocking(move || match text {
        PolicyText { file, toml: Some(toml), json: None } => {
            let (policy, diagnostics) = from_toml(file.as_deref().unwrap_or("policy.toml"), &toml);
            let messages = diagnostics.sorted().iter().map(ToString::to_string).collect();
            (policy.map(Box::new), messages)
        }
        PolicyText { toml: None, json: Some(json), .. } => match serde_json::from_value::<Policy>(json) {
            Ok(policy) => {
                let messages: Vec<String> = faults(&policy).iter().map(ToString::to_string).collect();
                (messages.is_empty().then(|| Box::new(policy)), messages)
            }
            Err(error) => (None, vec![error.to_string()]),
        },
        _ => (None, vec!["say one of toml and json".to_owned()]),
    });
    let (policy, messages) = read.await.map_err(|_| crate::refusal::gone())?;
    match policy {
        Some(policy) => Ok(Written { policy, messages }),
        None => Err(faulty(&messages)),
    }
}

/// The answer to a policy with faults: all of them.
fn faulty(messages: &[String]) -> Response {
    let items: Vec<ErrorItem> =
        messages.iter().map(|text| ErrorItem::new(Code::Malformed, "policy", text)).collect();
    let why = format!("the policy has {} faults; nothing is changed", messages.len());
    let refusal = json!({ "code": Code::Malformed, "message": why });
    let body = json!({ "errors": items, "messages": messages, "refusal": refusal });
    (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response()
}

/// What differs.
pub(super) async fn diff(base: u64, before: Arc<Policy>, after: Arc<Policy>) -> PolicyDiff {
    let compare = move || {
        let changes = field_changes(&before, &after).into_iter().map(|(change, fields)| {
            let kind = match (&change.spec, &fields[..]) {
                (None, _) => "gone",
                (Some(_), [FieldChange { path, before: Value::Null, .. }]) if path.is_empty() => "new",
                (Some(_), _) => "changed",
            };
            PolicyChange {
                kind: change.section.name().to_owned(),
                name: change.name,
                change: kind.to_owned(),
                fields: if kind == "changed" { fields } else { Vec::new() },
            }
        });
        let nobody = BTreeMap::new();
        let mut routers: BTreeMap<String, RouterDiff> = BTreeMap::new();
        for change in object_changes((&before, &nobody), (&after, &nobody)) {
            let router = routers.entry(change.router.to_string()).or_default();
            match change.spec {
                Some(_) => router.put += 1,
                None => router.gone += 1,
            }
        }
        PolicyDiff { base, changes: changes.collect(), routers }
    };
    let nothing = PolicyDiff { base, changes: Vec::new(), routers: BTreeMap::new() };
    tokio::task::spawn_blocking(compare).await.unwrap_or(nothing)
}
