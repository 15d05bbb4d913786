//! Events as server-sent events, for as long as a client reads.

use crate::limits::ReaderPlace;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use std::collections::VecDeque;
use tokio::sync::watch;

/// Where readers of events learn that there are new ones. Who makes them knows one watcher however many readers come and
/// go.
#[derive(Clone)]
pub(crate) struct Bell(watch::Receiver<()>);

impl Bell {
    /// A bell, and what rings it: to be called after new events, until it returns `false`.
    pub(crate) fn new() -> (Self, impl FnMut() -> bool + Send) {
        let (ring, bell) = watch::channel(());
        // Until the server, which keeps a receiver, is gone.
        (Self(bell), move || ring.send(()).is_ok())
    }
}

/// Answers with the events after number `after`: `page` gives those that there are for this reader after a number, and the
/// number up to which there are no others; `None` when there will be no more.
pub(crate) fn respond<E, F>(
    place: ReaderPlace,
    bell: &Bell,
    after: u64,
    number: fn(&E) -> u64,
    page: impl Fn(u64) -> F + Send + 'static,
) -> Response
where
    E: Serialize + Send + 'static,
    F: Future<Output = Option<(Vec<E>, u64)>> + Send,
{
    // The place is the stream's: it is given back when the connection ends.
    let start = (place, bell.0.clone(), after, VecDeque::<E>::new(), page);
    let events = stream::unfold(start, move |(place, mut bell, mut after, mut waiting, page)| async move {
        loop {
            if let Some(event) = waiting.pop_front() {
                // One that cannot be told ends the stream: its reader is not to go on as if it had been.
                let told = SseEvent::default().id(number(&event).to_string()).json_data(&event);
                return Some((told, (place, bell, after, waiting, page)));
            }
            // Before asking: what comes while the answer is on its way is news.
            bell.mark_unchanged();
            let upto;
            (waiting, upto) = page(after).await.map(|(events, upto)| (VecDeque::from(events), upto))?;
            let is_all = waiting.is_empty() && upto <= after;
            after = upto;
            if is_all {
                bell.changed().await.ok()?;
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
