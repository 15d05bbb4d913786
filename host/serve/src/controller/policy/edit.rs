//! Changing the policy: checked whole, committed, confirmed, rolled back.

use super::shapes::{self, CandidateBody, CommitBody, ConfirmBody, PolicyDiff, PolicyText, RollbackBody};
use super::{Shared, policies};
use crate::body::Received;
use crate::controller::caller::{Operator, Viewer};
use crate::controller::openapi::Document;
use crate::controller::refused::Refused;
use crate::endpoints::Endpoints;
use crate::policy::{Commit, Of};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perhop_reason::Code;
use perhop_units::Duration;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn endpoints() -> Endpoints<Shared> {
    crate::endpoints::endpoints!(Document: diff, propose, withdraw, commit, confirm, roll_back)
}

#[utoipa::path(post, path = "/v1/policy/diff", request_body = PolicyText, responses(
    (status = 200, description = "What would differ from the policy in force; nothing is changed", body = PolicyDiff),
    (status = 422, description = "`messages` holds every fault, with its place and what to do")))]
async fn diff(State(s): State<Shared>, _: Viewer, body: Received) -> Result<Json<PolicyDiff>, Response> {
    let (text, _charge) = body.json::<PolicyText>().await?;
    let written = shapes::read(text).await?;
    let done = async { Ok::<_, Refused>(policies(&s)?.in_force().await?) };
    let in_force = done.await.map_err(IntoResponse::into_response)?;
    Ok(Json(shapes::diff(in_force.mark.edition, in_force.policy, Arc::from(written.policy)).await))
}

#[utoipa::path(put, path = "/v1/policy/candidate", request_body = CandidateBody, responses(
    (status = 200, description = "It can be committed, by its `sha256`; `messages` holds warnings. Nothing was tried"),
    (status = 409, description = "Another edition than `base` is in force, or waits to be confirmed"),
    (status = 422, description = "`messages` holds every fault, with its place and what to do")))]
async fn propose(
    State(s): State<Shared>,
    Operator(caller): Operator,
    body: Received,
) -> Result<Json<Value>, Response> {
    let (body, _charge) = body.json::<CandidateBody>().await?;
    let written = shapes::read(body.policy).await?;
    let done = async {
        let policies = policies(&s)?;
        let sha256 = policies.propose(&caller.name, written.policy, body.base, body.trial).await?;
        Ok::<_, Refused>(sha256)
    };
    let sha256 = done.await.map_err(IntoResponse::into_response)?;
    Ok(Json(json!({
        "sha256": sha256, "base": body.base, "tried": false, "messages": written.messages,
    })))
}

#[utoipa::path(delete, path = "/v1/policy/candidate", responses(
    (status = 204, description = "There is no candidate any more"), (status = 404)))]
async fn withdraw(State(s): State<Shared>, Operator(caller): Operator) -> Result<StatusCode, Refused> {
    policies(&s)?.withdraw(&caller.name).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(post, path = "/v1/policy/editions", request_body = CommitBody, responses(
    (status = 201, description = "It is in force and in the database: `edition` is its number. Nothing was tried"),
    (status = 409, description = "Another edition than `base` is in force, the candidate is another, or an edition waits to be confirmed"),
    (status = 422, description = "`messages` holds every fault, with its place and what to do")))]
async fn commit(
    State(s): State<Shared>,
    Operator(caller): Operator,
    body: Received,
) -> Result<Response, Response> {
    let (body, _charge) = body.json::<CommitBody>().await?;
    let (of, messages) = match (body.candidate, body.policy, body.base) {
        (Some(sha256), None, None) => (Of::Candidate(sha256), Vec::new()),
        (None, Some(text), Some(base)) => {
            let written = shapes::read(text).await?;
            (Of::Policy { policy: written.policy, base }, written.messages)
        }
        _ => {
            let why = "say `candidate`, or `policy` with the edition that it was made from as `base`";
            return Err(Refused::new(Code::Malformed, why).into_response());
        }
    };
    let commit = Commit {
        by: caller.name.to_string(),
        reason: body.reason,
        confirm_within: body.confirm_within_ms.map(Duration::from_millis),
        of,
    };
    let done = async { Ok::<_, Refused>(policies(&s)?.commit(commit).await?) };
    let edition = done.await.map_err(IntoResponse::into_response)?;
    let body = json!({ "edition": edition, "tried": false, "messages": messages });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

#[utoipa::path(post, path = "/v1/policy/confirm", request_body = ConfirmBody, responses(
    (status = 200, description = "The edition in force stays"),
    (status = 404, description = "Nothing waits to be confirmed"), (status = 409, description = "Another edition does")))]
async fn confirm(
    State(s): State<Shared>,
    Operator(caller): Operator,
    body: Received,
) -> Result<Json<Value>, Response> {
    let (body, _charge) = body.json::<ConfirmBody>().await?;
    let done = async {
        let edition = policies(&s)?.confirm(&caller.name, body.edition).await?;
        Ok::<_, Refused>(Json(json!({ "edition": edition })))
    };
    done.await.map_err(IntoResponse::into_response)
}

#[utoipa::path(post, path = "/v1/policy/rollback", request_body = RollbackBody, responses(
    (status = 201, description = "The policy of that edition is in force again, as the edition `edition`"),
    (status = 404, description = "There is no such edition before the one in force"),
    (status = 409, description = "An edition waits to be confirmed, and another than the one before it is wanted")))]
async fn roll_back(
    State(s): State<Shared>,
    Operator(caller): Operator,
    body: Received,
) -> Result<Response, Response> {
    let (body, _charge) = body.json::<RollbackBody>().await?;
    let done = async {
        let edition = policies(&s)?.roll_back(&caller.name, body.to, body.reason).await?;
        Ok::<_, Refused>((StatusCode::CREATED, Json(json!({ "edition": edition }))).into_response())
    };
    done.await.map_err(IntoResponse::into_response)
}
