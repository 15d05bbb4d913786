//! What the domain consists of, who may ask, and what was decided.

use super::Shared;
use super::caller::{Admin, LOCAL, Viewer};
use super::follow::Report;
use super::openapi::Document;
use super::refused::Refused;
use crate::body::Received;
use crate::domain::ClientKind;
use crate::endpoints::{Endpoints, in_range, parameters};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use perhop_broker::ledger::{ClassView, ClientChange, Ledger};
use perhop_broker::record::{AuditRow, ClientRow, NodeKind};
use perhop_broker::topology::DomainFile;
use perhop_reason::Code;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

pub(super) fn endpoints() -> Endpoints<Shared> {
    crate::endpoints::endpoints!(Document: nodes, links, put_topology, rate, clients, put_client, delete_client, audit)
}

/// Rows of the audit log in an answer.
const AUDIT: std::ops::RangeInclusive<usize> = 1..=10_000;

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ShownNode {
    name: String,
    #[schema(value_type = String)]
    kind: NodeKind,
    /// What its agent has told last; absent when it has told nothing for half a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Report>,
}

#[utoipa::path(get, path = "/v1/nodes", responses((status = 200, description = "Nodes, and how their agents stand")))]
async fn nodes(State(s): State<Shared>, _: Viewer) -> Result<Json<Value>, Refused> {
    let all = |ledger: &Ledger| ledger.nodes().map(|row| (row.name.clone(), row.kind)).collect::<Vec<_>>();
    let rows = s.seat.led()?.domain.look(all).await?;
    let now_ms = perhop_io::clock::wall().0 / 1_000_000;
    let of = |(name, kind): (String, NodeKind)| ShownNode { agent: s.reports.of(&name, now_ms), name, kind };
    let nodes: Vec<ShownNode> = rows.into_iter().map(of).collect();
    Ok(Json(json!({ "nodes": nodes })))
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ShownClass {
    /// What may be reserved now, bit/s.
    bps: u64,
    /// What is reserved, bit/s.
    reserved_bps: u64,
    /// What is left, bit/s.
    free_bps: u64,
    /// The link has lost rate under its reservations.
    short: bool,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ShownLink {
    id: u64,
    node: String,
    port: String,
    to: String,
    classes: BTreeMap<String, ShownClass>,
}

#[utoipa::path(get, path = "/v1/links",
    responses((status = 200, description = "Links, each direction for itself, and what is reserved of their classes")))]
async fn links(State(s): State<Shared>, _: Viewer) -> Result<Json<Value>, Refused> {
    let views = s.seat.led()?.domain.look(|ledger| ledger.links()).await?;
    let class = |view: ClassView| {
        let (bps, reserved_bps, free_bps) = (view.bps, view.reserved_bps, view.free_bps);
        (view.class.to_string(), ShownClass { bps, reserved_bps, free_bps, short: view.short })
    };
    let links = views.into_iter().map(|view| ShownLink {
        id: view.id,
        node: view.node,
        port: view.port,
        to: view.to_node,
        classes: view.classes.into_iter().map(class).collect(),
    });
    Ok(Json(json!({ "links": links.collect::<Vec<_>>() })))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TopologyBody {
    /// The text of a domain's file.
    toml: String,
}

#[utoipa::path(put, path = "/v1/topology", request_body = TopologyBody, responses(
    (status = 200, description = "The domain consists of this; `messages` holds warnings"),
    (status = 409, description = "Something that has reservations would be gone: `refusal` names it"),
    (status = 422, description = "The file is wrong: `messages` holds every error as FILE:LINE:COLUMN: text")))]
async fn put_topology(
    State(s): State<Shared>,
    Admin(caller): Admin,
    body: Received,
) -> Result<Response, Response> {
    let (body, _charge) = body.json::<TopologyBody>().await?;
    let (file, diagnostics) = DomainFile::read("topology", &body.toml);
    let messages: Vec<String> = diagnostics.sorted().iter().map(ToString::to_string).collect();
    let Some(file) = file else {
        let refused = Refused::new(Code::Malformed, format!("{} errors", diagnostics.errors()));
        let mut body = json!({ "messages": messages });
        body["refusal"] = super::refused::shown(&refused.0);
        return Err((StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response());
    };
    let done = async {
        s.seat.led()?.domain.set_topology(&caller.name, Arc::new(file.topology)).await?;
        Ok::<_, Refused>(Json(json!({ "messages": messages })).into_response())
    };
    done.await.map_err(IntoResponse::into_response)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RateBody {
    /// bit/s.
    bps: u64,
}

#[utoipa::path(put, path = "/v1/links/{id}/rate", params(("id" = u64, Path)), request_body = RateBody,
    responses((status = 204, description = "The link has this rate from now on, and never more than is declared"),
        (status = 404)))]
async fn rate(
    State(s): State<Shared>,
    Admin(caller): Admin,
    id: Result<Path<u64>, PathRejection>,
    body: Received,
) -> Result<StatusCode, Response> {
    let (body, _charge) = body.json::<RateBody>().await?;
    let done = async {
        let domain = s.seat.led()?.domain;
        let missing = || Refused::new(Code::NotFound, "there is no link with this number");
        let Ok(Path(id)) = id else { return Err(missing()) };
        if !domain.look(move |ledger| ledger.links().iter().any(|link| link.id == id)).await? {
            return Err(missing());
        }
        domain.set_rate(&caller.name, id, body.bps).await?;
        Ok::<_, Refused>(StatusCode::NO_CONTENT)
    };
    done.await.map_err(IntoResponse::into_response)
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ShownClient {
    name: String,
    kind: String,
    role: String,
    most_bps: Option<u64>,
    most_count: Option<u64>,
    per_second: Option<u64>,
    has_token: bool,
    certificate: Option<String>,
}

#[utoipa::path(get, path = "/v1/clients", responses((status = 200, description = "Who may ask")))]
async fn clients(State(s): State<Shared>, Admin(_): Admin) -> Result<Json<Value>, Refused> {
    let of = |row: &ClientRow| ShownClient {
        name: row.name.clone(),
        kind: row.kind.clone(),
        role: row.role.clone(),
        most_bps: row.most_bps,
        most_count: row.most_count,
        per_second: row.per_second,
        has_token: row.token_sha256.is_some(),
        certificate: row.cert_sha256.clone(),
    };
    let look = move |ledger: &Ledger| {
        let mut clients: Vec<ShownClient> = ledger.clients().map(of).collect();
        clients.sort_by(|one, other| one.name.cmp(&other.name));
        clients
    };
    Ok(Json(json!({ "clients": s.seat.led()?.domain.look(look).await? })))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PutClient {
    /// `viewer`, `proxy`, `agent`, `operator` or `admin`.
    role: String,
    /// By which protocol it comes: `http`, `camara`, `cops`, `tcapi`, `peer` or `agent`.
    #[serde(default = "http")]
    kind: String,
    /// SHA-256 of its token, hexadecimal.
    #[serde(default)]
    token_sha256: Option<String>,
    /// SHA-256 of its certificate, hexadecimal.
    #[serde(default)]
    cert_sha256: Option<String>,
    /// Most that it may have reserved, bit/s.
    #[serde(default)]
    most_bps: Option<u64>,
    /// Most reservations at a time.
    #[serde(default)]
    most_count: Option<u64>,
    /// Most requests a second.
    #[serde(default)]
    per_second: Option<u64>,
}

fn http() -> String {
    "http".to_owned()
}

fn named(path: Result<Path<String>, PathRejection>) -> Result<String, Refused> {
    let name = path.map(|Path(name)| name).map_err(|e| Refused::new(Code::Malformed, e.body_text()))?;
    if name == LOCAL {
        let why = format!("{LOCAL} is whoever administers this machine, and stays as it is");
        return Err(Refused::new(Code::Forbidden, why));
    }
    Ok(name)
}

#[utoipa::path(put, path = "/v1/clients/{name}", params(("name" = String, Path)), request_body = PutClient,
    responses((status = 204, description = "It may ask from now on"), (status = 422)))]
async fn put_client(
    State(s): State<Shared>,
    Admin(caller): Admin,
    name: Result<Path<String>, PathRejection>,
    body: Received,
) -> Result<StatusCode, Response> {
    let (given, _charge) = body.json::<PutClient>().await?;
    let done = async {
        for sha256 in [&given.token_sha256, &given.cert_sha256].into_iter().flatten() {
            if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                let why = "a SHA-256 has 64 hexadecimal digits";
                return Err(Refused::new(Code::OutOfRange, why));
            }
        }
        if given.kind.parse::<ClientKind>().is_err() {
            let kinds = ClientKind::ALL.map(|(name, _)| name).join(", ");
            return Err(Refused::new(Code::OutOfRange, format!("the kind of a client is one of {kinds}")));
        }
        let row = ClientRow {
            name: named(name)?,
            kind: given.kind,
            cert_sha256: given.cert_sha256.map(|text| text.to_ascii_lowercase()),
            token_sha256: given.token_sha256.map(|text| text.to_ascii_lowercase()),
            role: given.role,
            most_bps: given.most_bps,
            most_count: given.most_count,
            per_second: given.per_second,
        };
        s.seat.led()?.domain.change_client(&caller.name, ClientChange::Put(row)).await?;
        Ok::<_, Refused>(StatusCode::NO_CONTENT)
    };
    done.await.map_err(IntoResponse::into_response)
}

#[utoipa::path(delete, path = "/v1/clients/{name}", params(("name" = String, Path)), responses(
    (status = 204, description = "It may not ask any more; what it has reserved stands until its life ends"), (status = 404)))]
async fn delete_client(
    State(s): State<Shared>,
    Admin(caller): Admin,
    name: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Refused> {
    let change = ClientChange::Gone(named(name)?);
    s.seat.led()?.domain.change_client(&caller.name, change).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    before: Option<u64>,
    limit: Option<usize>,
}

#[utoipa::path(get, path = "/v1/audit", params(("before" = Option<u64>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, description = "What was decided, the latest first: who, what, when, and why not")))]
async fn audit(
    State(s): State<Shared>,
    _: Viewer,
    query: Result<Query<AuditQuery>, QueryRejection>,
) -> Result<Json<Value>, Response> {
    let query = parameters(query)?;
    in_range(query.limit, AUDIT)?;
    let done = async {
        let rows = s.seat.led()?.keeper.audit(query.before, query.limit.unwrap_or(100)).await;
        let rows = rows.map_err(|why| {
            let mut refused = Refused::new(why.code, why.message);
            refused.0.retry_after_ms = why.retry_after_ms.and_then(|ms| u32::try_from(ms).ok()).unwrap_or(0);
            refused
        })?;
        let shown = |row: AuditRow| {
            json!({
                "seq": row.seq, "at_ms": row.at_ms, "who": row.who, "what": row.what, "subject": row.subject,
                "refused": row.refused, "detail": serde_json::from_str::<Value>(&row.detail).unwrap_or_default(),
            })
        };
        Ok::<_, Refused>(Json(json!({ "audit": rows.into_iter().map(shown).collect::<Vec<_>>() })))
    };
    done.await.map_err(IntoResponse::into_response)
}
