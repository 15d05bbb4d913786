//! Forgetting what is old, a little at a time.

use crate::Error;
use crate::limits::PAGE_ROWS;
use crate::rows::int;
use crate::store::Store;
use crate::write::begin_leading;

/// What was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Rows of the feed.
    pub feed: u64,
    /// Rows of the audit log.
    pub audit: u64,
}

impl Store {
    /// Removes what [`crate::Limits`] do not keep of the feed and of the audit log, the oldest first: at most 10,000
    /// numbers of each in a call, so that writers do not wait long. Call it again until nothing is removed.
    ///
    /// # Errors
    /// [`Error::Fenced`] where another leads.
    pub async fn compact(&self, fence: u64, now_ms: u64) -> Result<Compacted, Error> {
        let limits = &self.limits;
        let old_ms = now_ms.saturating_sub(limits.audit_age.as_millis() as u64);
        let step = int("page", PAGE_ROWS as u64)?;
        let feed_rows = int("feed_rows", limits.feed_rows)?;
        let audit_rows = int("audit_rows", limits.audit_rows)?;
        let old = int("at_ms", old_ms)?;
        let mut lent = self.lend(&self.writer).await?;
        let connection = &mut lent.open.connection;
        let work = async {
            begin_leading(connection, fence).await?;
            let feed = "DELETE FROM change_feed WHERE seq < (SELECT MIN(seq) FROM change_feed) + $1 \
                AND seq <= (SELECT feed_seq FROM domain_state WHERE one = 1) - $2";
            let feed = connection.execute(feed, &[step, feed_rows]).await?;
            let audit = "DELETE FROM audit WHERE seq < (SELECT MIN(seq) FROM audit) + $1 \
                AND (seq <= (SELECT audit_seq FROM domain_state WHERE one = 1) - $2 OR at_ms < $3)";
            let audit = connection.execute(audit, &[step, audit_rows, old]).await?;
            connection.commit().await?;
            Ok(Compacted { feed, audit })
        };
        let compacted = self.bounded(work).await?;
        lent.put_back();
        Ok(compacted)
    }
}
