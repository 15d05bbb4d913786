//! The OpenAPI document, served at `/v1/openapi.json`.

use crate::api::{ShowPage, ShowRow};
use perhop_model::{Claim, CountersPage, ErrorItem, Event, Reply, StatePage, Transaction};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(title = "Perhop router", description = "Everything that changes a router is a transaction."),
    paths(transactions, claim, state, counters, events, show, explain, reload),
    components(schemas(
        Transaction,
        Reply,
        Claim,
        StatePage,
        CountersPage,
        ErrorItem,
        Event,
        ShowPage,
        ShowRow
    ))
)]
struct Document;

/// The document.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

#[utoipa::path(post, path = "/v1/transactions", request_body = Transaction, responses(
    (status = 200, description = "Committed or checked", body = Reply),
    (status = 403, description = "Forbidden, or another owner's object", body = Reply),
    (status = 409, description = "Stale, fenced, in use, waiting for confirmation", body = Reply),
    (status = 422, description = "Invalid, or no capacity", body = Reply),
    (status = 429, description = "Overload: try again after retry_after_ms", body = Reply),
    (status = 503, description = "Stopping", body = Reply),
))]
#[allow(dead_code, reason = "carries documentation only")]
fn transactions() {}

#[utoipa::path(post, path = "/v1/claim", request_body = Claim, responses(
    (status = 200, description = "Taken over"), (status = 403), (status = 409, description = "Fenced")))]
#[allow(dead_code, reason = "carries documentation only")]
fn claim() {}

#[utoipa::path(get, path = "/v1/state", params(
    ("owner" = Option<String>, Query), ("kind" = Option<String>, Query), ("prefix" = Option<String>, Query),
    ("cursor" = Option<String>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = StatePage), (status = 409, description = "The pinned revision is gone")))]
#[allow(dead_code, reason = "carries documentation only")]
fn state() {}

#[utoipa::path(get, path = "/v1/counters", params(
    ("kind" = Option<String>, Query), ("name" = Option<String>, Query), ("id" = Option<u64>, Query)),
    responses((status = 200, body = CountersPage)))]
#[allow(dead_code, reason = "carries documentation only")]
fn counters() {}

#[utoipa::path(get, path = "/v1/events", params(("after" = Option<u64>, Query)),
    responses((status = 200, description = "Server-sent events", body = Event, content_type = "text/event-stream")))]
#[allow(dead_code, reason = "carries documentation only")]
fn events() {}

#[utoipa::path(get, path = "/v1/show", params(("what" = String, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = ShowPage)))]
#[allow(dead_code, reason = "carries documentation only")]
fn show() {}

#[utoipa::path(post, path = "/v1/explain", responses((status = 200, description = "Each decision")))]
#[allow(dead_code, reason = "carries documentation only")]
fn explain() {}

#[utoipa::path(post, path = "/v1/reload", responses(
    (status = 200, description = "The router does what its file says; `messages` holds warnings about the file",
        body = Reply),
    (status = 403, description = "Forbidden, or another owner's object", body = Reply),
    (status = 409, description = "Stale, in use, waiting for confirmation", body = Reply),
    (status = 422, description = "The file is no router file, or the router refuses it. `messages` holds every error as \
        FILE:LINE:COLUMN: text; without a reply there are `errors` and `messages` alone", body = Reply),
    (status = 429, description = "Too many reloads are waiting: try again after retry_after_ms", body = Reply),
    (status = 503, description = "Stopping", body = Reply),
))]
#[allow(dead_code, reason = "carries documentation only")]
fn reload() {}
