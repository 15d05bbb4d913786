//! The OpenAPI document, served at `/v1/openapi.json`.

use crate::limits::LimitsPage;
use perhop_model::{
    AbrPolicySpec, AllocationSpec, Claim, ClassSpec, CountersPage, DetectorSpec, ErrorItem, Event,
    FilterSpec, PortSpec, ProfileSpec, Reply, RouteSpec, ShowPage, ShowRow, SlaSpec, StatePage, Transaction,
};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Perhop router",
        description = "Everything that changes a router is a transaction.\n\n\
        The `spec` of an object has the schema of its kind: port PortSpec, class ClassSpec, profile ProfileSpec, filter \
        FilterSpec, sla SlaSpec, route RouteSpec, detector DetectorSpec, allocation AllocationSpec, \
        abr_policy AbrPolicySpec. Quantities are integers in base units: bit/s, bytes, ns.\n\n\
        A refusal has a body with `errors`, each `{op, path, code, message, value?, allowed?, limit?, free?}`, whatever \
        its status. Besides the statuses of each operation, any request may be answered with 400 (not HTTP/1.1), 404 (no \
        such address), 405 (no such method), 408 (the body took longer than `api.body_ms`), 413 (a body above \
        `api.body_bytes`, or one that would come to more than `api.bodies_bytes`), 431 (a head above `api.head_bytes`), 422 (unreadable parameters or body), and 503 with \
        `retry_after_ms` (`api.connections`, `api.connections_of_others`, `api.event_readers` or `api.bodies_bytes` is \
        reached, or the router is stopping). A connection is closed when a head takes longer than `api.head_ms` or when \
        its client reads nothing for `api.write_ms`. A client that may only read \
        is refused with 403 before its body is read where it would change something, and beyond 64 KiB of a transaction \
        that it may check. GET /v1/limits shows the values, what is used and how often each \
        limit was hit. Any content type of a body is taken for JSON."
    ),
    paths(transactions, claim, state, counters, events, show, explain, reload, limits),
    components(schemas(
        Transaction,
        Reply,
        Claim,
        StatePage,
        CountersPage,
        ErrorItem,
        Event,
        ShowPage,
        ShowRow,
        LimitsPage,
        PortSpec,
        ClassSpec,
        ProfileSpec,
        FilterSpec,
        SlaSpec,
        RouteSpec,
        DetectorSpec,
        AllocationSpec,
        AbrPolicySpec
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
    responses(
        (status = 200, description = "Server-sent events; the header Last-Event-ID does as `after` does. A reader that is \
            too slow for the ring gets a `gap`", body = Event, content_type = "text/event-stream"),
        (status = 503, description = "api.event_readers is reached: try again after retry_after_ms")))]
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

#[utoipa::path(get, path = "/v1/limits", responses(
    (status = 200, description = "Every limit: its value, what is used of it, how often it was hit", body = LimitsPage)))]
#[allow(dead_code, reason = "carries documentation only")]
fn limits() {}
