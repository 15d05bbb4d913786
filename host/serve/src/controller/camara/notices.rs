//! Notifications of sessions: CloudEvents on their way to sinks.
//!
//! Nobody waits for them. There is room for so many at a time; one is tried again with growing pauses, for a minute at most. What
//! cannot be brought is told to the log, and the session's state can still be asked for.

use super::id::SessionId;
use super::kept::{Kept, StatusInfo};
use super::problem::Problem;
use super::settings::Sinks;
use super::sink::Target;
use super::time::rfc3339;
use axum::body::Bytes;
use axum::http::StatusCode;
use perhop_drive::Backoff;
use perhop_units::Duration;
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration as Time;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// The kind of all events that there are.
const TYPE: &str = "org.camaraproject.quality-on-demand.v1.qos-status-changed";
/// Notifications on their way.
const MOST: usize = 4_096;
/// Connections to sinks at a time.
const MOST_TRIES: usize = 64;
/// A try takes no longer.
const TRY: Time = Time::from_secs(5);
/// After so long nothing is tried again.
const PATIENCE: Time = Time::from_secs(60);
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(16);
/// Where Debian and others have the authorities of the Internet.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What a notification needs, as the file says it.
struct Ways {
    sinks: Sinks,
    tls: Option<TlsConnector>,
}

/// See the module.
pub(super) struct Notices {
    ways: RwLock<Arc<Ways>>,
    room: Arc<Semaphore>,
    tries: Arc<Semaphore>,
    number: AtomicU64,
    say: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Notices {
    pub(super) fn new(sinks: &Sinks, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let ways = Ways { sinks: sinks.clone(), tls: None };
        let notices = Self {
            ways: RwLock::new(Arc::new(ways)),
            room: Arc::new(Semaphore::new(MOST)),
            tries: Arc::new(Semaphore::new(MOST_TRIES)),
            number: AtomicU64::new(0),
            say: Arc::new(say),
        };
        notices.set(sinks);
        notices
    }

    pub(super) fn set(&self, sinks: &Sinks) {
        let file = sinks.authority.as_deref().unwrap_or(Path::new(SYSTEM_AUTHORITIES));
        let tls = match crate::tls::connector(None, file) {
            Ok(tls) => Some(tls),
            // Only who names a file expects one.
            Err(why) => {
                if sinks.authority.is_some() {
                    self.complain(&format!("no notification can go by https: {why}"));
                }
                None
            }
        };
        let ways = Arc::new(Ways { sinks: sinks.clone(), tls });
        *self.ways.write().unwrap_or_else(PoisonError::into_inner) = ways;
    }

    pub(super) fn complain(&self, what: &str) {
        (self.say)(what);
    }

    /// Sees that a sink can be one.
    pub(super) fn check(&self, sink: &str, sinks: &Sinks) -> Result<(), Problem> {
        let wrong = |why| Problem::new(StatusCode::BAD_REQUEST, "INVALID_SINK", format!("sink: {why}"));
        Target::of(sink, sinks).map(drop).map_err(wrong)
    }

    /// Tells a session's sink, if it has one, that the session is over, or without a reason that it is in force. Needs a tokio runtime.
    pub(super) fn tell(&self, kept: &Kept, id: SessionId, over: Option<StatusInfo>, at_ms: u64) {
        let Some(sink) = &kept.sink else { return };
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return self
                .complain(&format!("too many notifications wait: {sink} hears nothing of {}", id.text()));
        };
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let session = id.text();
        let mut data = json!({ "sessionId": session, "qosStatus": "AVAILABLE" });
        if let Some(why) = over {
            data["qosStatus"] = "UNAVAILABLE".into();
            data["statusInfo"] = why.name().into();
        }
        let event = json!({
            "id": format!("{session}/{at_ms}/{number}"),
            "source": format!("/quality-on-demand/{}/sessions/{session}", super::VERSIONS[0]),
            "specversion": "1.0",
            "type": TYPE,
            "time": rfc3339(at_ms),
            "datacontenttype": "application/json",
            "data": data,
        });
        let ways = Arc::clone(&self.ways.read().unwrap_or_else(PoisonError::into_inner));
        let (sink, token, tries) = (sink.clone(), kept.token.clone(), Arc::clone(&self.tries));
        let say = Arc::clone(&self.say);
        // What differs from one to the next is what pauses are drawn from.
        let seed = id.nonce ^ number;
        tokio::spawn(async move {
            let event = Bytes::from(event.to_string());
            let brought =
                tokio::time::timeout(PATIENCE, bring(&sink, &ways, token, event, &tries, seed)).await;
            let why = match brought {
                Ok(Ok(())) => None,
                Ok(Err(why)) => Some(why),
                Err(_) => Some(format!("not within {} s", PATIENCE.as_secs())),
            };
            if let Some(why) = why {
                say(&format!("a notification of session {session} did not get to {sink}: {why}"));
            }
            drop(room);
        });
    }
}

/// Tries until it is taken, or will never be.
async fn bring(
    sink: &str,
    ways: &Ways,
    token: Option<String>,
    event: Bytes,
    tries: &Semaphore,
    seed: u64,
) -> Result<(), String> {
    let target = Target::of(sink, &ways.sinks).map_err(|why| why.to_string())?;
    let mut state = seed;
    let mut pauses = Backoff::new(LEAST_PAUSE, MOST_PAUSE, move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state
    });
    loop {
        let turn = tries.acquire().await.map_err(|why| why.to_string())?;
        let once = target.bring(&ways.sinks, ways.tls.as_ref(), token.as_deref(), event.clone());
        let status = tokio::time::timeout(TRY, once).await;
        drop(turn);
        match status {
            Ok(Ok(200..=299)) => return Ok(()),
            // It is busy, or in trouble: later.
            Ok(Ok(408 | 425 | 429 | 500..)) | Err(_) => {}
            Ok(Ok(status)) => return Err(format!("it is refused with status {status}")),
            Ok(Err(super::sink::SinkError::Io(_) | super::sink::SinkError::Http(_))) => {}
            Ok(Err(why)) => return Err(why.to_string()),
        }
        tokio::time::sleep(pauses.pause().to_std()).await;
    }
}
