//! Moving what a SQLite database's log has into its file, beside who writes.
//!
//! SQLite has the writer do it, after a commit that made the log long; whoever waits for that commit waits for this too, and
//! so does everybody behind him. Here a connection of its own does it, and the writer only where that one has not kept up.

use crate::connection::{Connection, Target};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Pages of the log, 64 MiB, after which the writer moves them itself. Only then does the log begin anew while writing never pauses.
pub(crate) const LOG_PAGES: u32 = 16_384;
/// From a write until it is moved; what is written meanwhile goes along.
const PAUSE: Duration = Duration::from_millis(50);

/// Who does it, until this is dropped.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    written: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Checkpoints {
    pub(crate) fn of(target: Target) -> Checkpoints {
        let written = Arc::new(Notify::new());
        let task = tokio::spawn(run(target, Arc::clone(&written)));
        Checkpoints { written, task }
    }

    /// Something was written.
    pub(crate) fn written(&self) {
        self.written.notify_one();
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(target: Target, written: Arc<Notify>) {
    let mut open = None;
    loop {
        written.notified().await;
        tokio::time::sleep(PAUSE).await;
        // Whatever fails here fails for the writer too, who says so.
        open = checkpoint(&target, open.take()).await.ok();
    }
}

async fn checkpoint(target: &Target, open: Option<Connection>) -> Result<Connection, crate::Error> {
    let mut connection = match open {
        Some(connection) => connection,
        None => target.connect().await?,
    };
    connection.check()?;
    connection.plain("PRAGMA wal_checkpoint(PASSIVE)").await?;
    Ok(connection)
}
