//! The controller's database as a domain's keeper.

use perhop_broker::record::{AuditRow, Change, Group};
use perhop_serve::domain::{Keeper, NotKept, Writing};
use perhop_serve::peer::{Journal, Keeping};
use perhop_store::{Entry, Error, Store};
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use tracing::info;

/// See the module.
pub struct InStore(pub Arc<Store>);

pub(super) fn not_kept(error: &Error) -> NotKept {
    let message = format!("{error}{}", super::because(error));
    NotKept { code: error.code(), retry_after_ms: error.retry_after_ms(), message }
}

/// Says what was refused. Rows of the audit log are bounded a client and second already, and the next one says how many are missing.
fn log_refusals(group: &Group) {
    for change in &group.changes {
        if let Change::Audit(row) = change
            && let Some(code) = row.refused
        {
            let detail: Value = serde_json::from_str(&row.detail).unwrap_or_default();
            let text = |key: &str| detail[key].as_str();
            let number = |key: &str| detail[key].as_u64();
            info!(
                client = row.who,
                what = row.what,
                code = %code,
                link = text("link"),
                domain = text("domain"),
                class = text("class"),
                asked_bps = number("asked").filter(|bps| *bps > 0),
                free_bps = number("free"),
                unlogged = number("unlogged"),
                "refused: {}",
                text("message").unwrap_or_default()
            );
        }
    }
}

impl Keeper for InStore {
    fn write<'a>(&'a self, group: &'a Group) -> Writing<'a> {
        Box::pin(async move {
            loop {
                match self.0.write(group).await {
                    // The same group again tells whether it was written.
                    Err(Error::Doubtful { .. }) => tokio::time::sleep(DOUBT).await,
                    Ok(()) => {
                        log_refusals(group);
                        return Ok(());
                    }
                    Err(error) => return Err(not_kept(&error)),
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

/// The same database as the memory of what is agreed with neighbours, for the leader with this fence.
pub struct PeersInStore {
    pub store: Arc<Store>,
    pub fence: u64,
}

impl Journal for PeersInStore {
    fn write<'a>(&'a self, rows: &'a [(String, Option<Value>)]) -> Keeping<'a> {
        Box::pin(async move {
            let entry =
                |(name, value): &(String, Option<Value>)| Entry { name: name.clone(), value: value.clone() };
            let entries: Vec<Entry> = rows.iter().map(entry).collect();
            self.store.write_peers(self.fence, &entries).await.map_err(|error| not_kept(&error))
        })
    }
}

/// Between two attempts to learn whether a group was written.
pub(super) const DOUBT: std::time::Duration = std::time::Duration::from_millis(200);
