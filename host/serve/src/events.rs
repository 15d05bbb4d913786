//! `GET /v1/events`: the router's events as server-sent events.

use crate::limits::{Gauges, Limit};
use crate::refusal::busy;
use crate::router::api::RouterApi;
use crate::router::endpoints::ask;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use perhop_model::Event;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::watch;

/// Events fetched at once.
const PAGE: usize = 256;

/// Where readers of events learn that there are new ones. The router knows one watcher however many readers come and go.
#[derive(Clone)]
pub(crate) struct Bell(watch::Receiver<()>);

impl Bell {
    pub(crate) fn new(router: &dyn RouterApi) -> Self {
        let (ring, bell) = watch::channel(());
        // Until the server, which keeps a receiver, is gone.
        router.on_events(Box::new(move || ring.send(()).is_ok()));
        Self(bell)
    }
}

/// Answers with events after `after`, for as long as the client reads.
pub(crate) fn respond(router: Arc<dyn RouterApi>, bell: &Bell, gauges: &Gauges, after: u64) -> Response {
    let limit = Limit::EventReaders;
    let Some(permit) = gauges.take(limit, 1) else {
        return busy(limit.name(), gauges.value(limit), "too many readers of events");
    };
    let events = follow(router, bell.0.clone(), after);
    // The permit is the stream's: it is given back when the connection ends.
    let events = stream::unfold((Box::pin(events), permit), |(mut events, permit)| async move {
        let next = futures_util::StreamExt::next(&mut events).await?;
        Some((next, (events, permit)))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

fn follow(
    router: Arc<dyn RouterApi>,
    bell: watch::Receiver<()>,
    after: u64,
) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    let start = (router, bell, after, VecDeque::<Event>::new());
    stream::unfold(start, |(router, mut bell, mut after, mut waiting)| async move {
        loop {
            if let Some(event) = waiting.pop_front() {
                after = event.seq;
                let sse = SseEvent::default().id(event.seq.to_string()).json_data(&event).unwrap_or_default();
                return Some((Ok(sse), (router, bell, after, waiting)));
            }
            // Before asking: what comes while the answer is on its way is news.
            bell.mark_unchanged();
            waiting = ask(|done| router.events(after, PAGE, done)).await?.into();
            if waiting.is_empty() {
                bell.changed().await.ok()?;
            }
        }
    })
}
