//! What each address answers.

use super::api::{PAGE_OBJECTS, RouterApi, SHOWN_ROWS};
use super::openapi::Document;
use crate::body::{Changer, Received};
use crate::clients::Clients;
use crate::endpoints::{Endpoints, endpoints, in_range, parameters};
use crate::events::{self, Bell};
use crate::limits::{Gauges, Limits, LimitsPage};
use crate::listener::Peer;
use crate::refusal::{gone, refuse, worst};
use crate::server::{ServeError, Server};
use crate::socket::ClaimedPath;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRef, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use perhop_model::{
    Call, Claim, CountersPage, CountersQuery, Done, ErrorItem, Event, EventFilter, EventKind, Outcome, Owner,
    OwnerPattern, Reloaded, Reply, ShowPage, ShowQuery, StatePage, StateQuery, Transaction,
};
use perhop_reason::Code;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Every address of a router.
fn all() -> Endpoints<Shared> {
    endpoints!(Document: transactions, claim, state, counters, events, show, explain, reload, limits)
}

/// Events fetched at once.
const PAGE_EVENTS: usize = 256;

#[derive(Clone)]
struct Shared {
    router: Arc<dyn RouterApi>,
    bell: Bell,
    gauges: Gauges,
}

impl FromRef<Shared> for Gauges {
    fn from_ref(shared: &Shared) -> Self {
        shared.gauges.clone()
    }
}

impl Shared {
    /// The error is that the router is gone.
    async fn ask<T: Send + 'static>(&self, call: impl FnOnce(Done<T>) -> Call) -> Result<T, Response> {
        super::ask(&*self.router, call).await.ok_or_else(gone)
    }
}

impl Server {
    /// Serves a router at a claimed path, for these clients. Needs a tokio runtime. The claim stays the caller's, who may have more to do under
    /// it when the server has ended.
    ///
    /// # Errors
    /// The operating system's.
    pub fn bind(
        claimed: &ClaimedPath,
        router: Arc<dyn RouterApi>,
        limits: Limits,
        clients: &Clients,
    ) -> Result<Self, ServeError> {
        let (bell, ring) = Bell::new();
        router.call(Call::OnEvents(Box::new(ring)));
        let gauges = Gauges::new(limits);
        let shared = Shared { router, bell, gauges: gauges.clone() };
        Self::of(claimed, all().with_state(shared), gauges, clients.clone())
    }
}

#[utoipa::path(post, path = "/v1/transactions", request_body = Transaction, responses(
    (status = 200, description = "Committed or checked", body = Reply),
    (status = 403, description = "Forbidden, or another owner's object", body = Reply),
    (status = 409, description = "Stale, fenced, in use, waiting for confirmation", body = Reply),
    (status = 422, description = "Invalid, or no capacity", body = Reply),
    (status = 429, description = "Overload: try again after retry_after_ms", body = Reply),
    (status = 503, description = "Stopping", body = Reply),
))]
async fn transactions(
    State(s): State<Shared>,
    Extension(peer): Extension<Peer>,
    body: Received,
) -> Result<Response, Response> {
    peer.spend()?;
    // The charge is kept until the answer is there.
    let (transaction, _charge) = body.json::<Transaction>().await?;
    let reply = s.ask(|done| Call::Submit(peer.credentials(), Box::new(transaction), done)).await?;
    let status = match reply.outcome {
        Outcome::Rejected => worst(&reply.errors),
        Outcome::Committed | Outcome::Checked => StatusCode::OK,
    };
    Ok((status, Json(reply.as_ref())).into_response())
}

#[utoipa::path(post, path = "/v1/claim", request_body = Claim, responses(
    (status = 200, description = "Taken over"), (status = 403), (status = 409, description = "Fenced")))]
async fn claim(
    State(s): State<Shared>,
    _: Changer,
    Extension(peer): Extension<Peer>,
    body: Received,
) -> Result<Json<Value>, Response> {
    peer.spend()?;
    let (wanted, _charge) = body.json::<Claim>().await?;
    s.ask(|done| Call::Claim(peer.credentials(), wanted, done)).await?.map_err(refuse)?;
    Ok(Json(json!({})))
}

#[utoipa::path(get, path = "/v1/state", params(
    ("owner" = Option<String>, Query), ("kind" = Option<String>, Query), ("prefix" = Option<String>, Query),
    ("cursor" = Option<String>, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = StatePage), (status = 409, description = "The pinned revision is gone")))]
async fn state(
    State(s): State<Shared>,
    query: Result<Query<StateQuery>, QueryRejection>,
) -> Result<Json<StatePage>, Response> {
    let query = parameters(query)?;
    in_range(query.limit, PAGE_OBJECTS)?;
    s.ask(|done| Call::State(query, done)).await?.map(Json).map_err(refuse)
}

#[utoipa::path(get, path = "/v1/counters", params(
    ("kind" = Option<String>, Query), ("name" = Option<String>, Query), ("id" = Option<u64>, Query),
    ("owner" = Option<String>, Query)),
    responses((status = 200, body = CountersPage)))]
async fn counters(
    State(s): State<Shared>,
    query: Result<Query<CountersQuery>, QueryRejection>,
) -> Result<Json<CountersPage>, Response> {
    let query = parameters(query)?;
    s.ask(|done| Call::Counters(query, done)).await.map(Json)
}

#[utoipa::path(get, path = "/v1/show", params(("what" = String, Query), ("limit" = Option<u32>, Query)),
    responses((status = 200, body = ShowPage)))]
async fn show(
    State(s): State<Shared>,
    query: Result<Query<ShowQuery>, QueryRejection>,
) -> Result<Json<ShowPage>, Response> {
    let query = parameters(query)?;
    in_range(query.limit, SHOWN_ROWS)?;
    s.ask(|done| Call::Show(query, done)).await?.map(Json).map_err(refuse)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainBody {
    packet: String,
}

#[utoipa::path(post, path = "/v1/explain", responses((status = 200, description = "Each decision")))]
async fn explain(State(s): State<Shared>, body: Received) -> Result<Json<Value>, Response> {
    let (wanted, _charge) = body.json::<ExplainBody>().await?;
    s.ask(|done| Call::Explain(wanted.packet, done)).await?.map(Json).map_err(refuse)
}

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
async fn reload(
    State(s): State<Shared>,
    _: Changer,
    Extension(peer): Extension<Peer>,
    _body: Received,
) -> Result<Response, Response> {
    peer.spend()?;
    s.ask(Call::Reload).await.map(|reloaded| reload_response(&reloaded))
}

/// As a transaction is answered, and with what there is to say about the file.
fn reload_response(reloaded: &Reloaded) -> Response {
    let status = if reloaded.is_committed() { StatusCode::OK } else { worst(reloaded.refusals()) };
    let mut body = match &reloaded.reply {
        Some(reply) => {
            serde_json::to_value(reply.as_ref()).expect("a reply is plain data, which can be written")
        }
        None => json!({ "errors": reloaded.errors }),
    };
    body["messages"] = reloaded.messages.clone().into();
    if let Some(ms) = reloaded.retry_after_ms {
        body["retry_after_ms"] = ms.into();
    }
    (status, Json(body)).into_response()
}

#[utoipa::path(get, path = "/v1/limits", responses(
    (status = 200, description = "Every limit: its value, what is used of it, how often it was hit", body = LimitsPage)))]
async fn limits(State(s): State<Shared>) -> Json<LimitsPage> {
    let mut rows = s.gauges.rows();
    rows.extend(s.router.limits());
    Json(LimitsPage { rows })
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    after: Option<u64>,
    /// Types, with commas between.
    #[serde(rename = "type")]
    types: Option<String>,
    owner: Option<Owner>,
    /// Owners, or how they begin, with commas between.
    without: Option<String>,
}

/// The owners of a list with commas between.
#[allow(clippy::result_large_err, reason = "the error is the finished answer")]
fn patterns(list: &str) -> Result<Vec<OwnerPattern>, Response> {
    let read = |text: &str| {
        text.trim().parse().map_err(|_| {
            refuse(ErrorItem {
                value: Some(text.into()),
                allowed: Some(
                    "agent, cli, file, api:NAME, tcapi:NAME, api:START* or tcapi:START*".to_owned(),
                ),
                ..ErrorItem::new(Code::OutOfRange, "query.without", "is not an owner")
            })
        })
    };
    list.split(',').map(read).collect()
}

/// The types of a list with commas between.
#[allow(clippy::result_large_err, reason = "the error is the finished answer")]
fn types(list: &str) -> Result<Vec<&'static str>, Response> {
    let known = |name: &str| {
        EventKind::TYPES.into_iter().find(|known| *known == name.trim()).ok_or_else(|| {
            refuse(ErrorItem {
                value: Some(name.into()),
                allowed: Some(EventKind::TYPES.join(", ")),
                ..ErrorItem::new(Code::OutOfRange, "query.type", "there is no such type of events")
            })
        })
    };
    list.split(',').map(known).collect()
}

#[utoipa::path(get, path = "/v1/events", params(("after" = Option<u64>, Query), ("type" = Option<String>, Query),
    ("owner" = Option<String>, Query), ("without" = Option<String>, Query)), responses(
        (status = 200, description = "Server-sent events; the header Last-Event-ID does as `after` does. A reader that is \
            too slow for the ring gets a `gap`", body = Event, content_type = "text/event-stream"),
        (status = 503, description = "api.event_readers or api.event_readers_of_client is reached: try again after retry_after_ms")))]
async fn events(
    State(s): State<Shared>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Response> {
    let EventsQuery { after: given, types: list, owner, without } = parameters(query)?;
    let without = without.as_deref().map(patterns).transpose()?.unwrap_or_default();
    let filter = EventFilter { types: list.as_deref().map(types).transpose()?, owner, without };
    // What a client of server-sent events says by itself when it connects again.
    let last = || headers.get("last-event-id")?.to_str().ok()?.parse().ok();
    let after = given.or_else(last).unwrap_or(0);
    let place = s.gauges.reader(peer.as_reader())?;
    let bell = s.bell.clone();
    let page = move |after| {
        let (s, filter) = (s.clone(), filter.clone());
        async move {
            let page = s.ask(|done| Call::Events(after, filter, PAGE_EVENTS, done)).await.ok()?;
            Some((page.events, page.upto))
        }
    };
    Ok(events::respond(place, &bell, after, |event: &Event| event.seq, page))
}
