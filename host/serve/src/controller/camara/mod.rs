//! CAMARA's Quality-on-Demand and QoS profiles.
//!
//! A session is a reservation on the path between the node of the device and that of the application server. All of it is
//! kept with the reservation, so sessions outlive the controller; what is over is remembered in memory for a while
//! (`ended`). Which addresses are behind which node, and what a profile is, the controller's file says
//! (`CamaraSettings`). Source: the documents `quality-on-demand` and `qos-profiles` of the CAMARA project with its
//! Commonalities 0.8.

mod asker;
mod correlator;
mod ended;
mod id;
mod kept;
mod notices;
mod place;
mod problem;
mod profiles;
mod sessions;
mod settings;
mod shapes;
mod sink;
mod time;

pub use settings::{
    CamaraSettings, Consumer, MAX_NETWORKS, MAX_PROFILES, Network, ProfileStatus, QosProfile, Scope, Sinks,
};

use super::Shared;
use crate::domain::{Caller, News};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode, Uri};
use ended::Memory;
use id::{SessionId, WITHOUT};
use kept::{Ended, Kept, StatusInfo, seconds};
use notices::Notices;
use perhop_broker::ledger::{Refusal, Told};
use perhop_broker::quota::TokenBucket;
use perhop_io::clock;
use perhop_reason::Code;
use problem::Problem;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// Versions in the addresses: the one that is published, and the one that the documents here have. Both are the same.
pub const VERSIONS: [&str; 2] = ["v1", "vwip"];

fn now_ms() -> u64 {
    clock::wall().0 / 1_000_000
}

/// What a controller knows of CAMARA's interfaces: one for a process, also while another instance leads.
#[derive(Clone)]
pub struct Camara(Arc<Inner>);

struct Inner {
    settings: RwLock<Arc<CamaraSettings>>,
    ended: Mutex<Memory>,
    /// What clients with a rate have left of it.
    budgets: Mutex<HashMap<Arc<str>, TokenBucket>>,
    /// Last number of a session that never had a reservation.
    last: Mutex<u64>,
    notices: Notices,
}

impl Camara {
    /// With what a file says; what cannot be delivered is told to `say`.
    pub fn new(settings: CamaraSettings, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let notices = Notices::new(&settings.sinks, say);
        Self(Arc::new(Inner {
            settings: RwLock::new(Arc::new(settings)),
            ended: Mutex::default(),
            budgets: Mutex::default(),
            last: Mutex::new(0),
            notices,
        }))
    }

    /// The file says this now.
    pub fn set(&self, settings: CamaraSettings) {
        self.notices().set(&settings.sinks);
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Hears what becomes of sessions until there is no more to hear. News that were missed are lost: sessions whose end
    /// they tell are simply gone.
    pub async fn follow(self, mut news: Receiver<Arc<News>>) {
        loop {
            match news.recv().await {
                Ok(news) => self.hear(&news),
                Err(RecvError::Lagged(missed)) => {
                    self.notices().complain(&format!("{missed} news of reservations were missed"));
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn hear(&self, news: &News) {
        let News::Told(Told::Gone { id, twin, owner, code, flow, created_ms }) = news else { return };
        if twin.is_some_and(|twin| twin < *id) {
            return;
        }
        let Some(kept) = Kept::of(flow) else { return };
        let now_ms = now_ms();
        let (why, refusal) = match code {
            Code::Timeout => (StatusInfo::DurationExpired, None),
            code => {
                let why = match code {
                    Code::NoCapacity => "a link on the path has lost rate",
                    Code::Preempted => "something more important needs it",
                    _ => "an operator has released it",
                };
                (StatusInfo::NetworkTerminated, Some(Refusal::new(*code, why)))
            }
        };
        let id = SessionId::new(*id, kept.nonce);
        self.notices().tell(&kept, id, Some(why), now_ms);
        let (owner, key) = (Arc::clone(owner), sessions::key_of_flow(flow, &kept));
        let duration_s = seconds(now_ms.saturating_sub(*created_ms));
        let ended = Ended { id, owner, key, kept, duration_s, ended_ms: now_ms, why, refusal };
        self.ended().put(now_ms, ended);
    }
}

impl Camara {
    fn notices(&self) -> &Notices {
        &self.0.notices
    }

    fn settings(&self) -> Arc<CamaraSettings> {
        Arc::clone(&self.0.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn ended(&self) -> MutexGuard<'_, Memory> {
        self.0.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Random bits that nobody can guess.
    fn random(&self) -> Result<u64, Problem> {
        let mut bytes = [0; 8];
        let source = rustls::crypto::ring::default_provider().secure_random;
        let none = |_| {
            let why = "the system has no random numbers";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", why)
        };
        source.fill(&mut bytes).map_err(none)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Counts a request of a client that has a rate; if it is one too many, in how many ms there is room.
    fn take(&self, caller: &Caller) -> Result<(), u32> {
        let Some(per_second) = caller.per_second else { return Ok(()) };
        let mut budgets = self.0.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.entry(Arc::clone(&caller.name)).or_default().take(clock::wall(), per_second)
    }

    /// Remembers a session that the network could not provide.
    fn never_was(&self, owner: Arc<str>, key: String, kept: Kept, wanted_s: u32, refusal: Refusal) -> Ended {
        let number = {
            let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
            // Of the clock, so that no other run of the program has the same.
            *last = (*last + 1).max(clock::wall().0 & (WITHOUT - 1));
            *last
        };
        let (id, now_ms) = (SessionId::new(WITHOUT | number, kept.nonce), now_ms());
        let (why, refusal, duration_s) = (StatusInfo::NetworkTerminated, Some(refusal), wanted_s.into());
        let ended = Ended { id, owner, key, kept, duration_s, ended_ms: now_ms, why, refusal };
        self.ended().put(now_ms, ended.clone());
        ended
    }
}

/// The interfaces, in all versions.
pub(super) fn routes(shared: &Shared) -> Router {
    let api = |routes: fn() -> Router<Shared>| {
        let all =
            VERSIONS.iter().fold(Router::new(), |all, version| all.nest(&format!("/{version}"), routes()));
        all.fallback(no_such_address)
            .method_not_allowed_fallback(no_such_method)
            .layer(axum::middleware::from_fn(correlator::echo))
            .layer(DefaultBodyLimit::disable())
            .with_state(shared.clone())
    };
    Router::new()
        .nest("/quality-on-demand", api(sessions::routes))
        .nest("/qos-profiles", api(profiles::routes))
}

async fn no_such_address(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at {}", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> Problem {
    let why = format!("{method} is not for {}", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", why)
}
