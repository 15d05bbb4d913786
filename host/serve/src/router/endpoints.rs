//! The server: what each address answers.

use crate::body::{Changer, Received, code_of};
use crate::connection::{Peer, accept};
use crate::events::{self, Bell};
use crate::limits::{Gauges, Limits, LimitsPage};
use crate::refusal::{gone, refuse, respond, worst};
use crate::router::api::{Done, Reloaded, RouterApi};
use crate::socket::{ClaimedPath, SocketError, restrict};
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, FromRef, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use perhop_model::{Claim, ErrorItem, Outcome, Reply, ShowQuery, StateQuery, Transaction};
use perhop_reason::Code;
use serde::Deserialize;
use std::future::Future;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::oneshot;

/// Objects of a page of the state.
pub const PAGE_OBJECTS: RangeInclusive<usize> = 1..=10_000;
/// Rows of what is shown.
pub const SHOWN_ROWS: RangeInclusive<usize> = 1..=1_000_000;

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Serving failed.
    #[error("serving the router's socket: {0}")]
    Io(#[from] std::io::Error),
}

/// Serves one router on a Unix socket.
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    app: Router,
    gauges: Gauges,
}

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

impl Server {
    /// Binds a claimed path. Needs a tokio runtime. The claim stays the caller's, who may have more to do under it when the
    /// server has ended.
    ///
    /// # Errors
    /// The operating system's.
    pub fn bind(
        claimed: &ClaimedPath,
        router: Arc<dyn RouterApi>,
        limits: Limits,
    ) -> Result<Self, ServeError> {
        let listener = UnixListener::bind(&claimed.path)?;
        restrict(&claimed.path)?;
        let gauges = Gauges::new(limits);
        let shared = Shared { bell: Bell::new(router.as_ref()), router, gauges: gauges.clone() };
        let app = Router::new()
            .route("/v1/transactions", post(transactions))
            .route("/v1/claim", post(claim))
            .route("/v1/state", get(state))
            .route("/v1/counters", get(counters))
            .route("/v1/events", get(events))
            .route("/v1/show", get(show))
            .route("/v1/explain", post(explain))
            .route("/v1/reload", post(reload))
            .route("/v1/limits", get(limits_page))
            .route("/v1/openapi.json", get(|| async { Json(crate::router::openapi::document()) }))
            .fallback(no_such_address)
            .method_not_allowed_fallback(no_such_method)
            // Bodies are bounded where they are received.
            .layer(DefaultBodyLimit::disable())
            .with_state(shared);
        Ok(Self { path: claimed.path.clone(), listener, app, gauges })
    }

    /// Serves until `stop` resolves, then removes the socket.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        // Event streams never end by themselves, so the stop does not wait for open connections.
        tokio::select! {
            never = accept(&self.listener, self.app, &self.gauges) => match never {},
            () = stop => {}
        }
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}

/// Asks by callback, answers by future. `None`: the router is gone.
pub(crate) async fn ask<T: Send + 'static>(f: impl FnOnce(Done<T>)) -> Option<T> {
    let (tx, rx) = oneshot::channel();
    f(Box::new(move |answer| {
        // Nobody waits any more when the client has gone away.
        let _ = tx.send(answer);
    }));
    rx.await.ok()
}

async fn no_such_address(uri: Uri) -> Response {
    let why = "there is nothing at this address; /v1/openapi.json lists what there is";
    respond(StatusCode::NOT_FOUND, ErrorItem::new(Code::NotFound, uri.path(), why))
}

async fn no_such_method(method: Method, uri: Uri) -> Response {
    let why = format!("{method} is not for this address; /v1/openapi.json says what is");
    respond(StatusCode::METHOD_NOT_ALLOWED, ErrorItem::new(Code::Unsupported, uri.path(), why))
}

/// The parameters of an address, or why they are none.
#[allow(clippy::result_large_err, reason = "the error is the finished answer")]
fn parameters<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Response> {
    query.map(|Query(q)| q).map_err(|e| {
        let text = e.body_text();
        refuse(ErrorItem::new(code_of(&text), "query", text))
    })
}

/// Refuses a number of rows outside of its range.
#[allow(clippy::result_large_err, reason = "the error is the finished answer")]
fn in_range(limit: Option<usize>, range: RangeInclusive<usize>) -> Result<(), Response> {
    match limit.filter(|l| !range.contains(l)) {
        None => Ok(()),
        Some(given) => Err(refuse(ErrorItem {
            value: Some(given.into()),
            allowed: Some(format!("{} to {}", range.start(), range.end())),
            ..ErrorItem::new(Code::OutOfRange, "query.limit", "no such number of rows can be had")
        })),
    }
}

async fn transactions(
    State(s): State<Shared>,
    Extension(peer): Extension<Peer>,
    body: Received,
) -> Result<Response, Response> {
    // The charge is kept until the answer is there.
    let (transaction, _charge) = body.json::<Transaction>().await?;
    let reply: Option<Arc<Reply>> = ask(|done| s.router.submit(peer.credentials(), transaction, done)).await;
    let Some(reply) = reply else { return Err(gone()) };
    let status = match reply.outcome {
        Outcome::Rejected => worst(&reply.errors),
        Outcome::Committed | Outcome::Checked => StatusCode::OK,
    };
    Ok((status, Json(reply.as_ref())).into_response())
}

async fn claim(
    State(s): State<Shared>,
    _: Changer,
    Extension(peer): Extension<Peer>,
    body: Received,
) -> Result<Response, Response> {
    let (wanted, _charge) = body.json::<Claim>().await?;
    match ask(|done| s.router.claim(peer.credentials(), wanted, done)).await {
        Some(Ok(())) => Ok(Json(serde_json::json!({})).into_response()),
        Some(Err(item)) => Err(refuse(item)),
        None => Err(gone()),
    }
}

async fn state(
    State(s): State<Shared>,
    query: Result<Query<StateQuery>, QueryRejection>,
) -> Result<Response, Response> {
    let query = parameters(query)?;
    in_range(query.limit, PAGE_OBJECTS)?;
    match ask(|done| s.router.state(query, done)).await {
        Some(Ok(page)) => Ok(Json(page).into_response()),
        Some(Err(item)) => Err(refuse(item)),
        None => Err(gone()),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountersQuery {
    kind: Option<String>,
    name: Option<String>,
    id: Option<u64>,
}

async fn counters(
    State(s): State<Shared>,
    query: Result<Query<CountersQuery>, QueryRejection>,
) -> Result<Response, Response> {
    let q = parameters(query)?;
    let Some(mut page) = ask(|done| s.router.counters(done)).await else { return Err(gone()) };
    page.rows.retain(|r| {
        q.kind.as_ref().is_none_or(|k| *k == r.kind)
            && q.name.as_ref().is_none_or(|n| *n == r.name)
            && q.id.is_none_or(|i| i == r.id)
    });
    Ok(Json(page).into_response())
}

async fn show(
    State(s): State<Shared>,
    query: Result<Query<ShowQuery>, QueryRejection>,
) -> Result<Response, Response> {
    let query = parameters(query)?;
    in_range(query.limit, SHOWN_ROWS)?;
    match ask(|done| s.router.show(query, done)).await {
        Some(Ok(page)) => Ok(Json(page).into_response()),
        Some(Err(item)) => Err(refuse(item)),
        None => Err(gone()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainBody {
    packet: String,
}

async fn explain(State(s): State<Shared>, body: Received) -> Result<Response, Response> {
    let (wanted, _charge) = body.json::<ExplainBody>().await?;
    match ask(|done| s.router.explain(wanted.packet, done)).await {
        Some(Ok(value)) => Ok(Json(value).into_response()),
        Some(Err(item)) => Err(refuse(item)),
        None => Err(gone()),
    }
}

async fn reload(State(s): State<Shared>, _: Changer, _body: Received) -> Result<Response, Response> {
    match ask(|done| s.router.reload(done)).await {
        Some(reloaded) => Ok(reload_response(&reloaded)),
        None => Err(gone()),
    }
}

/// As a transaction is answered, and with what there is to say about the file.
fn reload_response(reloaded: &Reloaded) -> Response {
    let status = if reloaded.is_committed() { StatusCode::OK } else { worst(reloaded.refusals()) };
    let mut body = match &reloaded.reply {
        // A reply is plain data; serialising it cannot fail.
        Some(reply) => serde_json::to_value(reply.as_ref()).unwrap_or_default(),
        None => serde_json::json!({ "errors": reloaded.errors }),
    };
    body["messages"] = reloaded.messages.clone().into();
    if let Some(ms) = reloaded.retry_after_ms {
        body["retry_after_ms"] = ms.into();
    }
    (status, Json(body)).into_response()
}

async fn limits_page(State(s): State<Shared>) -> Json<LimitsPage> {
    let mut rows = s.gauges.rows();
    rows.extend(s.router.limits());
    Json(LimitsPage { rows })
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    after: Option<u64>,
}

async fn events(
    State(s): State<Shared>,
    headers: HeaderMap,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Response> {
    let given = parameters(query)?.after;
    // What a client of server-sent events says by itself when it connects again.
    let last = || headers.get("last-event-id")?.to_str().ok()?.parse().ok();
    let after = given.or_else(last).unwrap_or(0);
    Ok(events::respond(s.router, &s.bell, &s.gauges, after))
}
