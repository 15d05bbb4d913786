//! Accepting connections: how many there may be, and how long a head may take.

use crate::limits::{Gauges, Limit, Permit};
use crate::listener::{Listener, Peer};
use crate::refusal::busy;
use crate::stream::ClientStream;
use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::time::Duration;
use tokio::task::JoinSet;

/// Connections beyond the limit that are told so at the same time; still more are closed without a word.
const REFUSED_AT_ONCE: usize = 32;
/// Time for a connection beyond the limit to send what it gets no answer to.
const REFUSAL: Duration = Duration::from_secs(1);
/// Pause after an accept that failed, for example for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves clients until dropped.
pub(crate) async fn accept(listener: &Listener, app: Router, gauges: &Gauges) -> Infallible {
    let app = TowerToHyperService::new(app);
    let mut clients = JoinSet::new();
    let mut refused = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let client = ClientStream::new(stream, gauges.clone());
                    match admit(peer, gauges) {
                        Ok(permits) => {
                            clients.spawn(serve(client, peer, app.clone(), gauges.clone(), permits));
                        }
                        Err(limit) if refused.len() < REFUSED_AT_ONCE => {
                            refused.spawn(refuse(client, limit, gauges.clone()));
                        }
                        Err(_) => {}
                    }
                }
                // A client that went away before it was accepted, or no descriptors: neither ends the service.
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = clients.join_next() => {}
            Some(_) = refused.join_next() => {}
        }
    }
}

/// A place among the connections, or the limit that says there is none.
fn admit(peer: Peer, gauges: &Gauges) -> Result<(Permit, Option<Permit>), Limit> {
    let of_others = match peer.is_own {
        true => None,
        false => Some(gauges.take(Limit::ConnectionsOfOthers, 1).ok_or(Limit::ConnectionsOfOthers)?),
    };
    let one = gauges.take(Limit::Connections, 1).ok_or(Limit::Connections)?;
    Ok((one, of_others))
}

fn http(gauges: &Gauges, head: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    let most = usize::try_from(gauges.value(Limit::HeadBytes)).unwrap_or(usize::MAX);
    http.timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(most);
    http
}

async fn serve(
    client: ClientStream,
    peer: Peer,
    app: TowerToHyperService<Router>,
    gauges: Gauges,
    _permits: (Permit, Option<Permit>),
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        app.call(request)
    });
    let http = http(&gauges, gauges.duration(Limit::HeadMs));
    let ended = http.serve_connection(TokioIo::new(client), service).await;
    // A client that is too slow or goes away in the middle concerns nobody else.
    if ended.is_err_and(|e| e.is_timeout()) {
        gauges.hit(Limit::HeadMs);
    }
}

/// Answers one request with 503.
async fn refuse(client: ClientStream, limit: Limit, gauges: Gauges) {
    let value = gauges.value(limit);
    let service = service_fn(|_: Request<Incoming>| async move {
        Ok::<Response, Infallible>(busy(limit.name(), value, "too many connections"))
    });
    let mut http = http(&gauges, REFUSAL);
    http.keep_alive(false);
    let _ = tokio::time::timeout(REFUSAL, http.serve_connection(TokioIo::new(client), service)).await;
}
