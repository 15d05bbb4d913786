//! What others change in the router, as it tells: the agent looks again when it concerns it, and not because somebody else has
//! reserved something for a flow.

use super::link::Reads;
use perhop_model::{Event, EventKind};
use perhop_serve::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A router says at least so often that it is there.
const SILENCE: Duration = Duration::from_secs(40);
/// A stream that has ended is begun again after this time.
const PAUSE: Duration = Duration::from_millis(500);

/// Follows a router's events until it is dropped.
pub(super) struct Watch {
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// The last revision that concerns the agent.
    revision: AtomicU64,
    /// There is a stream: what is not told has not happened.
    follows: AtomicBool,
    /// Something was not told.
    has_gap: AtomicBool,
    /// Fence of this instance: its own transactions begin with it, and are known to it.
    fence: AtomicU64,
    news: Notify,
}

impl Watch {
    /// Begins with what happens from now on. Needs a tokio runtime.
    pub(super) fn new(client: Client, reads: Reads) -> Self {
        let seen = Arc::<Seen>::default();
        let task = tokio::spawn(follow(client, reads, Arc::clone(&seen)));
        Self { seen, task }
    }

    /// The last revision that concerns the agent; `None` where it is not known.
    pub(super) fn revision(&self) -> Option<u64> {
        let follows = self.seen.follows.load(Ordering::Acquire);
        let has_gap = self.seen.has_gap.swap(false, Ordering::AcqRel);
        (follows && !has_gap).then(|| self.seen.revision.load(Ordering::Acquire))
    }

    /// Who this instance is.
    pub(super) fn has_fence(&self, fence: u64) {
        self.seen.fence.store(fence, Ordering::Release);
    }

    /// Resolves when there is another.
    pub(super) async fn news(&self) {
        self.seen.news.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: Client, reads: Reads, seen: Arc<Seen>) {
    let own = reads.owner();
    // What clients of the traffic-control API reserve is no business of the agent's; the policy has its own objects alone.
    let which = if reads.policy { format!("owner={own}") } else { "without=tcapi:*".to_owned() };
    let uri = format!("/v1/events?after=0&type=committed,expired,reverted&{which}");
    loop {
        if let Ok(mut events) = client.follow(&uri, Some(SILENCE)).await {
            while let Ok(Some(line)) = events.next().await {
                let Ok(event) = serde_json::from_str::<Event>(&line) else { break };
                let is_news = match event.kind {
                    // Transactions of an instance are numbered behind its fence.
                    EventKind::Committed { owner, txn_id, .. }
                        if owner == own
                            && txn_id.0[..8] == seen.fence.load(Ordering::Acquire).to_be_bytes() =>
                    {
                        false
                    }
                    EventKind::Committed { revision, .. }
                    | EventKind::Reverted { revision, .. }
                    | EventKind::Expired { revision, .. } => {
                        seen.revision.fetch_max(revision, Ordering::AcqRel) < revision
                    }
                    EventKind::Gap { .. } => !seen.has_gap.swap(true, Ordering::AcqRel),
                    _ => false,
                };
                seen.follows.store(true, Ordering::Release);
                if is_news {
                    seen.news.notify_one();
                }
            }
        }
        seen.follows.store(false, Ordering::Release);
        tokio::time::sleep(PAUSE).await;
    }
}
