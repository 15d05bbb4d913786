//! `/v1/policy/…`: the policy in force and those before it, what somebody wants instead, and how routers stand to it.

mod edit;
mod routers;
mod sessions;
mod shapes;

pub use sessions::SessionBody;
pub(super) use shapes::{CandidateBody, ConfirmBody};
pub use shapes::{CommitBody, PolicyChange, PolicyDiff, PolicyShown, PolicyText, RollbackBody, RouterDiff};

use super::Shared;
use super::caller::Viewer;
use super::openapi::Document;
use super::refused::Refused;
use crate::domain::NotKept;
use crate::endpoints::{Endpoints, in_range, parameters};
use crate::policy::{NotDone, Policies};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use perhop_broker::ledger::Refusal;
use perhop_policy::edition::{EditionRow, MAX_HISTORY};
use perhop_policy::model::{Policy, to_toml};
use perhop_reason::Code;
use serde::Deserialize;
use serde_json::{Value, json};
use shapes::diff;
use std::sync::Arc;

pub(super) fn endpoints() -> Endpoints<Shared> {
    let read = crate::endpoints::endpoints!(Document: in_force, history, edition, between);
    read.and(edit::endpoints()).and(routers::endpoints()).and(sessions::endpoints())
}

impl From<NotDone> for Refused {
    fn from(why: NotDone) -> Self {
        let retry_after_ms = match &why {
            NotDone::Elsewhere => 1_000,
            NotDone::NotKept(NotKept { retry_after_ms, .. }) => {
                retry_after_ms.and_then(|ms| u32::try_from(ms).ok()).unwrap_or(0)
            }
            _ => 0,
        };
        Self(Refusal { retry_after_ms, ..Refusal::new(why.code(), why.to_string()) })
    }
}

fn policies(s: &Shared) -> Result<Policies, Refused> {
    Ok(s.seat.led()?.policies()?.clone())
}

/// In which form a policy is wanted.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    #[default]
    Toml,
    Json,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FormQuery {
    #[serde(default)]
    form: Form,
}

/// A policy as it is shown. A long one takes a while to be written down.
async fn shown(number: u64, row: Option<EditionRow>, policy: Arc<Policy>, form: Form) -> Json<Value> {
    let text = move || match form {
        Form::Toml => json!({ "edition": number, "row": row, "toml": to_toml(&policy) }),
        Form::Json => json!({ "edition": number, "row": row, "policy": *policy }),
    };
    Json(tokio::task::spawn_blocking(text).await.unwrap_or_default())
}

#[utoipa::path(get, path = "/v1/policy", params(("form" = Option<String>, Query)), responses((status = 200,
    description = "The policy in force, as `toml` or, with `form=json`, as `policy`; `edition` is 0 before there was one", body = PolicyShown)))]
async fn in_force(
    State(s): State<Shared>,
    _: Viewer,
    query: Result<Query<FormQuery>, QueryRejection>,
) -> Result<Json<Value>, Response> {
    let query = parameters(query)?;
    let done = async { Ok::<_, Refused>(policies(&s)?.in_force().await?) };
    let in_force = done.await.map_err(IntoResponse::into_response)?;
    Ok(shown(in_force.mark.edition, in_force.row, in_force.policy, query.form).await)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    before: Option<u64>,
    limit: Option<usize>,
}

#[utoipa::path(get, path = "/v1/policy/editions", params(("before" = Option<u64>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, description = "Editions, the last first: who made them, when and why")))]
async fn history(
    State(s): State<Shared>,
    _: Viewer,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<Value>, Response> {
    let query = parameters(query)?;
    in_range(query.limit, 1..=MAX_HISTORY)?;
    let done = async {
        let rows = policies(&s)?.history(query.before, query.limit.unwrap_or(100)).await?;
        Ok::<_, Refused>(Json(json!({ "editions": rows })))
    };
    done.await.map_err(IntoResponse::into_response)
}

#[utoipa::path(get, path = "/v1/policy/editions/{n}", params(("n" = u64, Path), ("form" = Option<String>, Query)),
    responses((status = 200, description = "The policy of an edition", body = PolicyShown), (status = 404)))]
async fn edition(
    State(s): State<Shared>,
    _: Viewer,
    number: Result<Path<u64>, PathRejection>,
    query: Result<Query<FormQuery>, QueryRejection>,
) -> Result<Json<Value>, Response> {
    let query = parameters(query)?;
    let done = async {
        let Path(number) = number.map_err(|e| Refused::new(Code::Malformed, e.body_text()))?;
        let policies = policies(&s)?;
        let policy = policies.policy_of(number).await?;
        let row = policies.history(Some(number.saturating_add(1)), 1).await?.pop();
        Ok::<_, Refused>((number, row.filter(|row| row.n == number), policy))
    };
    let (number, row, policy) = done.await.map_err(IntoResponse::into_response)?;
    Ok(shown(number, row, policy, query.form).await)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BetweenQuery {
    from: u64,
    to: u64,
}

#[utoipa::path(get, path = "/v1/policy/diff", params(("from" = u64, Query), ("to" = u64, Query)), responses(
    (status = 200, description = "What differs between two editions", body = PolicyDiff), (status = 404)))]
async fn between(
    State(s): State<Shared>,
    _: Viewer,
    query: Result<Query<BetweenQuery>, QueryRejection>,
) -> Result<Json<PolicyDiff>, Response> {
    let query = parameters(query)?;
    let done = async {
        let policies = policies(&s)?;
        let (from, to) = (of(&policies, query.from).await?, of(&policies, query.to).await?);
        Ok::<_, Refused>(Json(diff(query.from, from, to).await))
    };
    done.await.map_err(IntoResponse::into_response)
}

/// The policy of an edition, of which 0 is the one that there was none before.
async fn of(policies: &Policies, edition: u64) -> Result<Arc<Policy>, NotDone> {
    match edition {
        0 => Ok(Arc::default()),
        edition => policies.policy_of(edition).await,
    }
}
