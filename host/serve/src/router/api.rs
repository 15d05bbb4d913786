//! What a server asks of a router.

use crate::limits::LimitRow;
use perhop_model::{Call, Done};
use std::ops::RangeInclusive;
use tokio::sync::oneshot;

/// Objects of a page of the state.
pub const PAGE_OBJECTS: RangeInclusive<usize> = 1..=10_000;
/// Rows of what is shown.
pub const SHOWN_ROWS: RangeInclusive<usize> = 1..=1_000_000;

/// A running router.
pub trait RouterApi: Send + Sync + 'static {
    /// Asks it something. Returns at once; the answer comes by callback.
    fn call(&self, call: Call);

    /// The router's own limits, for `GET /v1/limits`.
    fn limits(&self) -> Vec<LimitRow> {
        Vec::new()
    }
}

/// Asks by callback, answers by future: `None` when the router is gone.
pub(crate) async fn ask<T: Send + 'static>(
    router: &dyn RouterApi,
    call: impl FnOnce(Done<T>) -> Call,
) -> Option<T> {
    let (tx, rx) = oneshot::channel();
    router.call(call(Box::new(move |answer| {
        // Nobody waits any more when the client has gone away.
        let _ = tx.send(answer);
    })));
    rx.await.ok()
}
