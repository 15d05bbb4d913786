//! The controller's database as a domain's keeper.

use perhop_broker::record::{AuditRow, Group};
use perhop_serve::domain::{Keeper, NotKept, Writing};
use perhop_store::{Error, Store};
use std::pin::Pin;
use std::sync::Arc;

/// See the module.
pub struct InStore(pub Arc<Store>);

fn not_kept(error: &Error) -> NotKept {
    let message = format!("{error}{}", super::because(error));
    NotKept { code: error.code(), retry_after_ms: error.retry_after_ms(), message }
}

impl Keeper for InStore {
    fn write<'a>(&'a self, group: &'a Group) -> Writing<'a> {
        Box::pin(async move {
            loop {
                match self.0.write(group).await {
                    // The same group again tells whether it was written.
                    Err(Error::Doubtful { .. }) => tokio::time::sleep(DOUBT).await,
                    done => return done.map_err(|error| not_kept(&error)),
                }
            }
        })
    }

    fn audit(
        &self,
        before: Option<u64>,
        most: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuditRow>, NotKept>> + Send + '_>> {
        Box::pin(async move { self.0.audit(before, most).await.map_err(|error| not_kept(&error)) })
    }
}

/// Between two attempts to learn whether a group was written.
const DOUBT: std::time::Duration = std::time::Duration::from_millis(200);
