//! What the policy wants of each router, as a stream that never ends, and how routers stand to it. An agent sees its own alone.

use super::{Shared, policies};
use crate::body::Received;
use crate::controller::caller::{Known, Viewer};
use crate::controller::follow::{BEAT, node};
use crate::controller::openapi::Document;
use crate::controller::refused::Refused;
use crate::domain::Role;
use crate::endpoints::{Endpoints, parameters};
use crate::limits::Limit;
use crate::policy::{PolicyFollower, RouterReport};
use crate::refusal::busy;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use perhop_policy::feed::{FeedNews, Mark};
use perhop_reason::Code;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn endpoints() -> Endpoints<Shared> {
    crate::endpoints::endpoints!(Document: routers, wanted, report)
}

#[utoipa::path(get, path = "/v1/policy/routers", responses((status = 200,
    description = "How each router stands to the edition in force: `edition`, `seq`, and `routers`, rows of the shape `Standing`")))]
async fn routers(State(s): State<Shared>, _: Viewer) -> Result<Json<Value>, Refused> {
    let policies = policies(&s)?;
    let mark = policies.in_force().await?.mark;
    let routers = policies.standings().await?;
    Ok(Json(json!({ "edition": mark.edition, "seq": mark.seq, "routers": routers })))
}

/// What an agent has already.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HaveQuery {
    seq: u64,
    edition: u64,
    sha256: String,
}

#[utoipa::path(get, path = "/v1/policy/routers/{router}/wanted", params(("router" = String, Path),
    ("seq" = Option<u64>, Query), ("edition" = Option<u64>, Query), ("sha256" = Option<String>, Query)), responses(
    (status = 200, description = "Server-sent events: what this router is to have, in pieces between `begin` and `end`. \
        With what was at the last `end` it is what changed behind that, `after` in `begin`, as long as it is known; otherwise all \
        of it. Nothing before there is an edition", content_type = "text/event-stream"),
    (status = 403), (status = 503)))]
async fn wanted(
    State(s): State<Shared>,
    Known(caller): Known,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<HaveQuery>, QueryRejection>,
) -> Result<Response, Response> {
    let HaveQuery { seq, edition, sha256 } = parameters(query)?;
    let limit = Limit::EventReaders;
    let Some(permit) = s.gauges.take(limit, 1) else {
        return Err(busy(limit.name(), s.gauges.value(limit), "too many readers of events"));
    };
    let begin = async {
        let router = node(path, &caller)?;
        let domain = s.seat.led()?.domain;
        let follower = policies(&s)?.follow(&router, Mark { seq, edition, sha256 }).await?;
        Ok::<_, Refused>((follower, domain))
    };
    let (follower, domain) = begin.await.map_err(IntoResponse::into_response)?;
    let begun = (permit, follower, domain, caller);
    let events = stream::unfold(begun, |(permit, mut follower, domain, caller)| async move {
        let news = next(&mut follower, || domain.knows(&caller.name) || caller.role != Role::Agent).await?;
        Some((Event::default().json_data(&news), (permit, follower, domain, caller)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(BEAT)).into_response())
}

/// The next piece, to somebody who may still have it.
async fn next(follower: &mut PolicyFollower, may: impl Fn() -> bool) -> Option<FeedNews> {
    follower.next().await.filter(|_| may())
}

#[utoipa::path(post, path = "/v1/policy/routers/{router}/report", params(("router" = String, Path)),
    request_body = RouterReport, responses((status = 204), (status = 403)))]
async fn report(
    State(s): State<Shared>,
    Known(caller): Known,
    path: Result<Path<String>, PathRejection>,
    body: Received,
) -> Result<StatusCode, Response> {
    let (report, _charge) = body.json::<RouterReport>().await?;
    let done = async {
        let router = node(path, &caller)?;
        if caller.role == Role::Viewer {
            return Err(Refused::new(Code::Forbidden, "a viewer tells nothing"));
        }
        policies(&s)?.report(router, report).await?;
        Ok::<_, Refused>(StatusCode::NO_CONTENT)
    };
    done.await.map_err(IntoResponse::into_response)
}
