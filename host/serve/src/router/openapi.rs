//! What the OpenAPI document, served at `/v1/openapi.json`, says besides the addresses.

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
        `retry_after_ms` (`api.connections`, `api.connections_of_others`, `api.connections_of_address`, `api.event_readers`, `api.event_readers_of_client` or `api.bodies_bytes` is \
        reached, or the router is stopping). A connection is closed when a head takes longer than `api.head_ms` or when \
        its client reads nothing for `api.write_ms`. A client that may only read \
        is refused with 403 before its body is read where it would change something, and beyond 64 KiB of a transaction \
        that it may check. GET /v1/limits shows the values, what is used and how often each \
        limit was hit. Any content type of a body is taken for JSON."
    ),
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
pub(super) struct Document;
