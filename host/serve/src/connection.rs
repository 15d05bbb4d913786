//! Accepting connections: how many there may be, and how long a head may take.

use crate::clients::Standing;
use crate::limits::{Gauges, Limit, Permit};
use crate::listener::{Listener, Visitor};
use crate::refusal::busy;
use crate::share::{Share, Shares};
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
use std::net::IpAddr;
use std::time::Duration;
use tokio::task::JoinSet;

/// Connections beyond the limit that are told so at the same time; still more are closed without a word.
const REFUSED_AT_ONCE: usize = 32;
/// Time for a connection beyond the limit to send what it gets no answer to.
const REFUSAL: Duration = Duration::from_secs(1);
/// Pause after an accept that failed, for example for want of descriptors.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// Serves clients until dropped.
pub(crate) async fn accept(listener: &Listener, app: Router, gauges: &Gauges) -> Infallible {
    let app = TowerToHyperService::new(app);
    let addresses = Shares::default();
    let mut clients = JoinSet::new();
    let mut refused = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, visitor)) => {
                    let client = ClientStream::new(stream, gauges.clone());
                    match admit(&visitor, gauges, &addresses) {
                        Ok(place) => {
                            clients.spawn(serve(client, visitor, app.clone(), gauges.clone(), place));
                        }
                        Err(why) if refused.len() < REFUSED_AT_ONCE => {
                            refused.spawn(refuse(client, why, gauges.clone()));
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

/// Why a connection is refused.
enum Refusal {
    /// There are too many.
    Full(Limit),
    /// Nobody known is at the other end.
    Unknown(Visitor),
}

/// A place among the connections, or why there is none. Who is not known takes none of those that others may have.
fn admit(visitor: &Visitor, gauges: &Gauges, addresses: &Shares<IpAddr>) -> Result<Place, Refusal> {
    let take = |limit| gauges.take(limit, 1).ok_or(Refusal::Full(limit));
    let of_others = match visitor.standing() {
        Standing::Own => None,
        Standing::Unknown => return Err(Refusal::Unknown(visitor.clone())),
        Standing::Ruled(_) | Standing::Guest => Some(take(Limit::ConnectionsOfOthers)?),
    };
    let of_address = visitor.address().map(|from| {
        addresses.take(from, gauges.value(Limit::ConnectionsOfAddress)).ok_or_else(|| {
            gauges.hit(Limit::ConnectionsOfAddress);
            Refusal::Full(Limit::ConnectionsOfAddress)
        })
    });
    Ok(Place { _one: take(Limit::Connections)?, _of_others: of_others, _of_address: of_address.transpose()? })
}

/// A place among the connections, until it is dropped.
struct Place {
    _one: Permit,
    _of_others: Option<Permit>,
    _of_address: Option<Share<IpAddr>>,
}

fn http(gauges: &Gauges, head: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    let most = usize::try_from(gauges.value(Limit::HeadBytes)).unwrap_or(usize::MAX);
    http.timer(TokioTimer::new()).header_read_timeout(head).max_buf_size(most);
    http
}

async fn serve(
    client: ClientStream,
    visitor: Visitor,
    app: TowerToHyperService<Router>,
    gauges: Gauges,
    _place: Place,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        let answered = visitor.sign(&mut request).map(|()| app.call(request));
        async move {
            match answered {
                Ok(answer) => answer.await,
                Err(refusal) => Ok(refusal),
            }
        }
    });
    let http = http(&gauges, gauges.duration(Limit::HeadMs));
    let ended = http.serve_connection(TokioIo::new(client), service).await;
    // A client that is too slow or goes away in the middle concerns nobody else.
    if ended.is_err_and(|e| e.is_timeout()) {
        gauges.hit(Limit::HeadMs);
    }
}

/// Answers one request with why.
async fn refuse(client: ClientStream, why: Refusal, gauges: Gauges) {
    let answer = || match &why {
        Refusal::Full(limit) => busy(limit.name(), gauges.value(*limit), "too many connections"),
        Refusal::Unknown(visitor) => visitor.unknown(),
    };
    let service = service_fn(|_: Request<Incoming>| std::future::ready(Ok::<Response, Infallible>(answer())));
    let mut http = http(&gauges, REFUSAL);
    http.keep_alive(false);
    let _ = tokio::time::timeout(REFUSAL, http.serve_connection(TokioIo::new(client), service)).await;
}
