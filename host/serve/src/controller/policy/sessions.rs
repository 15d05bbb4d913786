//! `/v1/policy/sessions`: where subscribers are.

use super::{Shared, policies};
use crate::body::Received;
use crate::controller::caller::{Operator, Viewer};
use crate::controller::openapi::Document;
use crate::controller::refused::Refused;
use crate::endpoints::{Endpoints, in_range, parameters};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ipnet::IpNet;
use perhop_model::Name;
use perhop_policy::compile::Rates;
use perhop_policy::session::{Arrival, Grant, Which};
use perhop_reason::Code;
use perhop_units::{Duration, Rate};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

pub(super) fn endpoints() -> Endpoints<Shared> {
    crate::endpoints::endpoints!(Document: sessions, login, logout)
}

/// Sessions in an answer.
const PAGE: std::ops::RangeInclusive<usize> = 1..=10_000;

/// Where a subscriber is, and what it has there. What is absent is as its contract says.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionBody {
    /// The router.
    pub router: String,
    /// Its port.
    pub port: String,
    /// Addresses, besides those of the subscriber.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub prefixes: Vec<IpNet>,
    /// A name of the session; otherwise the subscriber's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// A contract in the place of the subscriber's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sla: Option<String>,
    /// What it may send, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_bps: Option<u64>,
    /// What it may receive, bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_bps: Option<u64>,
    /// It ends after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_timeout_ms: Option<u64>,
    /// It ends after so long a silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
}

/// A name, or why it is none.
fn name(what: &str, text: &str) -> Result<Name, Refused> {
    Name::new(text).map_err(|error| Refused::new(Code::Malformed, format!("{what}: {error}")))
}

fn subscriber(path: Result<Path<String>, PathRejection>) -> Result<Name, Refused> {
    let Path(text) = path.map_err(|e| Refused::new(Code::Malformed, e.body_text()))?;
    name("subscriber", &text)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionsQuery {
    after: Option<String>,
    subscriber: Option<String>,
    router: Option<String>,
    limit: Option<usize>,
}

#[utoipa::path(get, path = "/v1/policy/sessions",
    params(("after" = Option<String>, Query), ("subscriber" = Option<String>, Query), ("router" = Option<String>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, description = "Sessions by subscriber, behind `after`, or that of one; `next` is there when there may be more")))]
async fn sessions(
    State(s): State<Shared>,
    _: Viewer,
    query: Result<Query<SessionsQuery>, QueryRejection>,
) -> Result<Json<Value>, Response> {
    let SessionsQuery { after, subscriber, router, limit } = parameters(query)?;
    in_range(limit, PAGE)?;
    let limit = limit.unwrap_or(1_000);
    let done = async {
        let policies = policies(&s)?;
        Ok::<_, Refused>(match subscriber {
            Some(one) => policies.session(name("subscriber", &one)?).await?.into_iter().collect(),
            None => policies.sessions(after, router, limit).await?,
        })
    };
    let rows: Vec<_> = done.await.map_err(IntoResponse::into_response)?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.subscriber.clone());
    Ok(Json(json!({ "sessions": rows, "next": next })))
}

#[utoipa::path(put, path = "/v1/policy/sessions/{subscriber}", params(("subscriber" = String, Path)),
    request_body = SessionBody, responses(
    (status = 200, description = "It is there, and that is in the database: `moves` says how often it has moved. What it has at an \
        old place goes when the new router has reported"),
    (status = 404, description = "The policy has no such subscriber"), (status = 422)))]
async fn login(
    State(s): State<Shared>,
    Operator(caller): Operator,
    path: Result<Path<String>, PathRejection>,
    body: Received,
) -> Result<Json<Value>, Response> {
    let (body, _charge) = body.json::<SessionBody>().await?;
    let done = async {
        let subscriber = subscriber(path)?;
        let sla = body.sla.as_deref().map(|sla| name("sla", sla)).transpose()?;
        let grant = Grant {
            sla,
            rates: Rates { up: body.up_bps.map(Rate), down: body.down_bps.map(Rate) },
            session_timeout: body.session_timeout_ms.map(Duration::from_millis),
            idle_timeout: body.idle_timeout_ms.map(Duration::from_millis),
        };
        let arrival = Arrival {
            id: body.id.unwrap_or_else(|| subscriber.to_string()),
            subscriber,
            router: name("router", &body.router)?,
            port: name("port", &body.port)?,
            prefixes: body.prefixes,
            source: format!("http:{}", caller.name),
            grant,
            age: Duration::ZERO,
        };
        let moves = policies(&s)?.came(arrival).await?;
        Ok::<_, Refused>(Json(json!({ "moves": moves })))
    };
    done.await.map_err(IntoResponse::into_response)
}

#[utoipa::path(delete, path = "/v1/policy/sessions/{subscriber}", params(("subscriber" = String, Path)), responses(
    (status = 204, description = "It has no session any more, and that is in the database"), (status = 404)))]
async fn logout(
    State(s): State<Shared>,
    _: Operator,
    path: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Refused> {
    let name = subscriber(path)?;
    let policies = policies(&s)?;
    if policies.session(name.clone()).await?.is_none() {
        return Err(Refused::new(Code::NotFound, format!("subscriber {name} has no session")));
    }
    policies.left(Which::Subscriber { name, moves: None }, None).await?;
    Ok(StatusCode::NO_CONTENT)
}
