//! The policy of a domain that is led here, and the database as its keeper.

use super::keeper::{DOUBT, InStore, not_kept};
use perhop_model::Name;
use perhop_policy::model::Policy;
use perhop_policy::record::{FeedRow, PolicyGroup, StatusRow};
use perhop_policy::session::Zone;
use perhop_serve::domain::NotKept;
use perhop_serve::policy::{Policies, PolicyKeeper, Promise};
use perhop_store::{Error, Store};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

impl PolicyKeeper for InStore {
    fn write(&self, group: PolicyGroup) -> Promise<'_, ()> {
        Box::pin(async move {
            loop {
                match self.0.write_policy(&group).await {
                    // The same group again tells whether it was written.
                    Err(Error::Doubtful { .. }) => tokio::time::sleep(DOUBT).await,
                    written => return written.map_err(|error| not_kept(&error)),
                }
            }
        })
    }

    fn load(&self, edition: u64) -> Promise<'_, Option<Policy>> {
        Box::pin(async move { self.0.policy_of(edition).await.map_err(|error| not_kept(&error)) })
    }

    fn feed(&self, router: &Name, after: u64, upto: u64) -> Promise<'_, Option<Vec<FeedRow>>> {
        let router = router.clone();
        Box::pin(async move {
            match self.0.feed_of(router.as_str(), after, upto).await {
                Err(Error::Trimmed { .. }) => Ok(None),
                read => read.map(Some).map_err(|error| not_kept(&error)),
            }
        })
    }

    fn statuses(&self, fence: u64, rows: Vec<StatusRow>) -> Promise<'_, ()> {
        Box::pin(async move { self.0.write_statuses(fence, &rows).await.map_err(|error| not_kept(&error)) })
    }
}

/// The task of a policy.
pub struct LedPolicy {
    /// Its handle.
    pub policies: Policies,
    running: JoinHandle<bool>,
    /// Once it is over: whether this instance led until then.
    led: Option<bool>,
    end: oneshot::Sender<()>,
}

impl LedPolicy {
    /// Begins with what the database has, until `stop` or [`LedPolicy::end`].
    ///
    /// # Errors
    /// The database's.
    pub async fn begin(
        store: &Arc<Store>,
        fence: u64,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let kept = store.load_policy().await?;
        if let Some(row) = kept.editions.last() {
            info!(edition = row.n, routers = kept.in_force.routers.len(), "policy");
        }
        let say = |why: &NotKept| warn!("the policy is not in the database: {}", why.message);
        let (policies, task) =
            Policies::load(fence, kept, Zone(0), Arc::new(InStore(Arc::clone(store))), say);
        let (end, ended) = oneshot::channel::<()>();
        let stopped = async move {
            tokio::select! { _ = stop.wait_for(|stop| *stop) => {}, _ = ended => {} }
        };
        Ok(Self { policies, running: tokio::spawn(task.run(stopped)), led: None, end })
    }

    /// Resolves when another instance leads.
    pub async fn lost(&mut self) {
        if self.led.is_none() {
            self.led = Some((&mut self.running).await.unwrap_or(false));
        }
        if self.led == Some(true) {
            std::future::pending::<()>().await;
        }
    }

    /// Ends it; what it has begun to write is written.
    pub async fn end(self) {
        drop(self.end);
        if self.led.is_none() {
            let _ = self.running.await;
        }
    }
}
