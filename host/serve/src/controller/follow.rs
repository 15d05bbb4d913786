//! Agents: what their routers are to have, as a stream that never ends, and how it stands there.

use super::Shared;
use super::caller::Known;
use super::openapi::Document;
use super::refused::Refused;
use crate::body::Received;
use crate::domain::{Caller, Domain, News, Role};
use crate::endpoints::Endpoints;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use perhop_agent::DomainNews;
use perhop_io::clock;
use perhop_reason::Code;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use utoipa::ToSchema;

pub(super) fn endpoints() -> Endpoints<Shared> {
    crate::endpoints::endpoints!(Document: wanted, report)
}

/// An agent that hears nothing for three of these has lost its controller.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// An agent tells how its router stands every ten seconds at least. One that has not for so long is not heard any more: what it
/// said last may not be so.
const UNHEARD: Duration = Duration::from_secs(30);
/// What an agent may tell of refusals at once.
const MOST_REFUSED: usize = 100;

/// How a router stands to what the domain wants of it, as its agent tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Flows that it is to have.
    pub flows: usize,
    /// Flows and shares of classes that it does not have yet as they are to be.
    pub owed: usize,
    /// The router has all that it is to have.
    pub settled: bool,
    /// What it refuses, in words; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// When, ms since 1970 UTC; the controller's own clock.
    #[serde(default)]
    pub at_ms: u64,
}

/// The last report of each node.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<BTreeMap<String, Report>>);

impl Reports {
    /// What was told of a node, unless that was too long ago.
    pub(super) fn of(&self, node: &str, now_ms: u64) -> Option<Report> {
        let report = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(node).cloned();
        report.filter(|report| now_ms.saturating_sub(report.at_ms) <= UNHEARD.as_millis() as u64)
    }

    fn take(&self, node: String, report: Report) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node, report);
    }
}

/// The node of an address, if the caller may know of it: an agent is named as its node.
pub(super) fn node(path: Result<Path<String>, PathRejection>, caller: &Caller) -> Result<String, Refused> {
    let node = path.map(|Path(node)| node).map_err(|e| Refused::new(Code::Malformed, e.body_text()))?;
    let may = match caller.role {
        Role::Agent => *caller.name == *node,
        Role::Proxy => false,
        Role::Viewer | Role::Operator | Role::Admin => true,
    };
    match may {
        true => Ok(node),
        false => {
            let why = format!("client {} does not look after node {node}", caller.name);
            Err(Refused::new(Code::Forbidden, why))
        }
    }
}

/// What is still to be told of a node, and what comes then.
struct Follower {
    domain: Domain,
    node: String,
    /// Who listens: as long as it may.
    caller: Arc<str>,
    waiting: VecDeque<DomainNews>,
    news: broadcast::Receiver<Arc<News>>,
}

impl Follower {
    /// All of it first.
    async fn begin(domain: Domain, node: String, caller: Arc<str>) -> Result<Self, Refused> {
        let (whole, news) = domain.follow(&node).await?;
        if !whole.exists {
            return Err(Refused::new(Code::NotFound, format!("the domain has no node {node}")));
        }
        let ends = |news| std::iter::once(news);
        let all = ends(DomainNews::Begin).chain(whole.news).chain(ends(DomainNews::Complete));
        Ok(Self { domain, node, caller, waiting: all.collect(), news })
    }

    /// The next piece; `None` when there will be no more.
    async fn next(mut self) -> Option<(DomainNews, Self)> {
        loop {
            if let Some(news) = self.waiting.pop_front() {
                return Some((news, self));
            }
            match self.news.recv().await {
                Ok(news) => match &*news {
                    News::Node { node, news } if **node == *self.node => {
                        return Some((news.clone(), self));
                    }
                    News::Anew => self = Self::begin(self.domain, self.node, self.caller).await.ok()?,
                    News::Clients if !self.domain.knows(&self.caller) => return None,
                    News::Node { .. } | News::Told(_) | News::Clients => {}
                },
                Err(RecvError::Lagged(_)) => {
                    self = Self::begin(self.domain, self.node, self.caller).await.ok()?
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[utoipa::path(get, path = "/v1/nodes/{node}/wanted", params(("node" = String, Path)), responses(
    (status = 200, description = "Server-sent events: what the router of this node is to have, whole between `begin` and \
        `complete`, and then as it changes", content_type = "text/event-stream"),
    (status = 403), (status = 404), (status = 503)))]
async fn wanted(
    State(s): State<Shared>,
    Known(caller): Known,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, Response> {
    let client = (caller.role != Role::Admin).then(|| caller.name.to_string());
    let place = s.gauges.reader(client)?;
    let begin = async {
        let node = node(path, &caller)?;
        Follower::begin(s.seat.led()?.domain, node, caller.name).await
    };
    let follower = begin.await.map_err(IntoResponse::into_response)?;
    let events = stream::unfold((place, follower), |(place, follower)| async move {
        let (news, follower) = follower.next().await?;
        Some((Event::default().json_data(&news), (place, follower)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(BEAT)).into_response())
}

#[utoipa::path(post, path = "/v1/nodes/{node}/report", params(("node" = String, Path)), request_body = Report,
    responses((status = 204), (status = 403), (status = 404)))]
async fn report(
    State(s): State<Shared>,
    Known(caller): Known,
    path: Result<Path<String>, PathRejection>,
    body: Received,
) -> Result<StatusCode, Response> {
    let (mut report, _charge) = body.json::<Report>().await?;
    let done = async {
        let node = node(path, &caller)?;
        if caller.role == Role::Viewer {
            return Err(Refused::new(Code::Forbidden, "a viewer tells nothing"));
        }
        let wanted = node.clone();
        let exists = s.seat.led()?.domain.look(move |ledger| ledger.node(&wanted).is_some()).await?;
        if !exists {
            return Err(Refused::new(Code::NotFound, format!("the domain has no node {node}")));
        }
        report.refused.truncate(MOST_REFUSED);
        report.at_ms = clock::wall().0 / 1_000_000;
        s.reports.take(node, report);
        Ok::<_, Refused>(StatusCode::NO_CONTENT)
    };
    done.await.map_err(IntoResponse::into_response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_has_gone_silent_is_not_heard() {
        let reports = Reports::default();
        let report = Report { flows: 1, owed: 0, settled: true, refused: Vec::new(), at_ms: 50_000 };
        reports.take("west".to_owned(), report.clone());
        assert_eq!(reports.of("west", 80_000), Some(report.clone()));
        assert_eq!(reports.of("west", 80_001), None);
        assert_eq!(reports.of("west", 49_000), Some(report), "a clock that was set back says nothing of it");
        assert_eq!(reports.of("east", 50_000), None);
    }
}
