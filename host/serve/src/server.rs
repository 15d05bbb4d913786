//! The server.

use crate::api::{Reloaded, RouterApi, ShowQuery};
use crate::directory::own_uid;
use crate::socket::{ClaimedPath, SocketError, restrict};
use axum::body::Bytes;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use futures_util::{Stream, stream};
use perhop_model::{Claim, Credentials, ErrorItem, Outcome, Owner, Reply, Role, StateQuery, Transaction};
use perhop_reason::Code;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::{UnixListener, unix::UCred};
use tokio::sync::{Notify, oneshot};

/// Largest request body in bytes: 100,000 operations fit.
const BODY_LIMIT: usize = 64 << 20;
/// Events fetched at once.
const EVENT_PAGE: usize = 256;

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
}

#[derive(Clone)]
struct Shared {
    router: Arc<dyn RouterApi>,
}

/// Who is at the other end.
#[derive(Clone, Debug)]
struct Peer(Option<UCred>);

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(stream.io().peer_cred().ok())
    }
}

impl Peer {
    /// The router's own user and root may do everything; others who can open the socket may read.
    fn credentials(&self) -> Credentials {
        let mine = self.0.as_ref().is_some_and(|c| c.uid() == 0 || c.uid() == own_uid());
        let role = if mine { Role::Admin } else { Role::Read };
        Credentials { role, owner: None }
    }
}

impl Server {
    /// Binds a claimed path. Needs a tokio runtime. The claim stays the caller's, who may have more to do under it when the
    /// server has ended.
    ///
    /// # Errors
    /// The operating system's.
    pub fn bind(claimed: &ClaimedPath, router: Arc<dyn RouterApi>) -> Result<Self, ServeError> {
        let listener = UnixListener::bind(&claimed.path)?;
        restrict(&claimed.path)?;
        let app = Router::new()
            .route("/v1/transactions", post(transactions))
            .route("/v1/claim", post(claim))
            .route("/v1/state", get(state))
            .route("/v1/counters", get(counters))
            .route("/v1/events", get(events))
            .route("/v1/show", get(show))
            .route("/v1/explain", post(explain))
            .route("/v1/reload", post(reload))
            .route("/v1/openapi.json", get(|| async { Json(crate::openapi::document()) }))
            .layer(DefaultBodyLimit::max(BODY_LIMIT))
            .with_state(Shared { router });
        Ok(Self { path: claimed.path.clone(), listener, app })
    }

    /// Serves until `stop` resolves, then removes the socket.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), ServeError> {
        let service = self.app.into_make_service_with_connect_info::<Peer>();
        // Event streams never end by themselves, so the stop does not wait for open connections.
        tokio::select! {
            done = std::future::IntoFuture::into_future(axum::serve(self.listener, service)) => done?,
            () = stop => {}
        }
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}

/// Asks by callback, answers by future. `None`: the router is gone.
async fn ask<T: Send + 'static>(f: impl FnOnce(crate::api::Done<T>)) -> Option<T> {
    let (tx, rx) = oneshot::channel();
    f(Box::new(move |answer| {
        // Nobody waits any more when the client has gone away.
        let _ = tx.send(answer);
    }));
    rx.await.ok()
}

/// HTTP status of a reason.
fn status(code: Code) -> StatusCode {
    match code {
        Code::Forbidden | Code::NotOwner => StatusCode::FORBIDDEN,
        Code::Fenced
        | Code::InUse
        | Code::StaleVersion
        | Code::StaleRevision
        | Code::TxnIdReused
        | Code::Exists
        | Code::PendingConfirm => StatusCode::CONFLICT,
        Code::Overload => StatusCode::TOO_MANY_REQUESTS,
        Code::ShuttingDown | Code::BackendFailed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

/// Status of a rejection with several reasons: the gravest of them.
fn worst(errors: &[ErrorItem]) -> StatusCode {
    let order = [
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::FORBIDDEN,
        StatusCode::UNPROCESSABLE_ENTITY,
        StatusCode::CONFLICT,
    ];
    let found: Vec<StatusCode> = errors.iter().map(|e| status(e.code)).collect();
    order.into_iter().find(|s| found.contains(s)).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY)
}

fn refusal(code: Code, path: &str, message: String) -> Response {
    let item = ErrorItem {
        op: None,
        path: path.to_owned(),
        code,
        message,
        value: None,
        allowed: None,
        limit: None,
        free: None,
    };
    error_response(item)
}

fn error_response(item: ErrorItem) -> Response {
    (status(item.code), Json(serde_json::json!({ "errors": [item] }))).into_response()
}

fn gone() -> Response {
    refusal(Code::ShuttingDown, "", "the router is stopping".to_owned())
}

/// Reads a JSON body; the error says where it is wrong.
#[allow(clippy::result_large_err, reason = "the error is the finished answer")]
fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Response> {
    serde_json::from_slice(bytes).map_err(|e| {
        let text = e.to_string();
        let code = if text.starts_with("unknown field") {
            Code::UnknownField
        } else if text.contains("unknown variant") && text.contains("abr_policy") {
            Code::UnknownKind
        } else {
            Code::Malformed
        };
        refusal(code, "", text)
    })
}

async fn transactions(
    State(s): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    bytes: Bytes,
) -> Response {
    let transaction: Transaction = match body(&bytes) {
        Ok(t) => t,
        Err(response) => return response,
    };
    let reply: Option<Arc<Reply>> = ask(|done| s.router.submit(peer.credentials(), transaction, done)).await;
    let Some(reply) = reply else { return gone() };
    let status = match reply.outcome {
        Outcome::Rejected => worst(&reply.errors),
        Outcome::Committed | Outcome::Checked => StatusCode::OK,
    };
    (status, Json(reply.as_ref())).into_response()
}

async fn claim(State(s): State<Shared>, ConnectInfo(peer): ConnectInfo<Peer>, bytes: Bytes) -> Response {
    let wanted: Claim = match body(&bytes) {
        Ok(c) => c,
        Err(response) => return response,
    };
    match ask(|done| s.router.claim(peer.credentials(), wanted, done)).await {
        Some(Ok(())) => Json(serde_json::json!({})).into_response(),
        Some(Err(item)) => error_response(item),
        None => gone(),
    }
}

async fn state(
    State(s): State<Shared>,
    query: Result<Query<StateQuery>, axum::extract::rejection::QueryRejection>,
) -> Response {
    let query = match query {
        Ok(Query(q)) => q,
        Err(e) => return refusal(Code::Malformed, "", e.body_text()),
    };
    match ask(|done| s.router.state(query, done)).await {
        Some(Ok(page)) => Json(page).into_response(),
        Some(Err(item)) => error_response(item),
        None => gone(),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountersQuery {
    kind: Option<String>,
    name: Option<String>,
    id: Option<u64>,
}

async fn counters(State(s): State<Shared>, Query(q): Query<CountersQuery>) -> Response {
    let Some(mut page) = ask(|done| s.router.counters(done)).await else { return gone() };
    page.rows.retain(|r| {
        q.kind.as_ref().is_none_or(|k| *k == r.kind)
            && q.name.as_ref().is_none_or(|n| *n == r.name)
            && q.id.is_none_or(|i| i == r.id)
    });
    Json(page).into_response()
}

async fn show(State(s): State<Shared>, Query(q): Query<ShowQuery>) -> Response {
    match ask(|done| s.router.show(q, done)).await {
        Some(Ok(page)) => Json(page).into_response(),
        Some(Err(item)) => error_response(item),
        None => gone(),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainBody {
    packet: String,
}

async fn explain(State(s): State<Shared>, bytes: Bytes) -> Response {
    let wanted: ExplainBody = match body(&bytes) {
        Ok(b) => b,
        Err(response) => return response,
    };
    match ask(|done| s.router.explain(wanted.packet, done)).await {
        Some(Ok(value)) => Json(value).into_response(),
        Some(Err(item)) => error_response(item),
        None => gone(),
    }
}

async fn reload(State(s): State<Shared>, ConnectInfo(peer): ConnectInfo<Peer>) -> Response {
    if peer.credentials().role != Role::Admin {
        return refusal(Code::Forbidden, "", format!("reloading changes what {} owns", Owner::File));
    }
    match ask(|done| s.router.reload(done)).await {
        Some(reloaded) => reload_response(&reloaded),
        None => gone(),
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    #[serde(default)]
    after: u64,
}

async fn events(
    State(s): State<Shared>,
    Query(q): Query<EventsQuery>,
) -> Sse<impl Stream<Item = Result<SseEvent, Infallible>>> {
    let notify = Arc::new(Notify::new());
    let watcher = Arc::downgrade(&notify);
    s.router.on_events(Box::new(move || match watcher.upgrade() {
        Some(notify) => {
            notify.notify_one();
            true
        }
        None => false,
    }));
    let start = (s.router, notify, q.after, VecDeque::new());
    let stream = stream::unfold(start, |(router, notify, mut after, mut waiting)| async move {
        loop {
            if let Some(event) = waiting.pop_front() {
                let event: perhop_model::Event = event;
                after = event.seq;
                let sse = SseEvent::default().id(event.seq.to_string()).json_data(&event).unwrap_or_default();
                return Some((Ok(sse), (router, notify, after, waiting)));
            }
            waiting = ask(|done| router.events(after, EVENT_PAGE, done)).await?.into();
            if waiting.is_empty() {
                notify.notified().await;
            }
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
