//! Everything that is bounded, with its bound.

use std::time::Duration;

/// Rows that are read or removed in one statement.
pub(crate) const PAGE_ROWS: usize = 10_000;

/// Terms of former leaders that are kept: so many changes of leader may pass before a doubtful group can no longer be settled.
pub(crate) const TERMS_KEPT: u64 = 10_000;

/// What a store waits for and keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest that one call waits for the database, and as long again where it has to find out whether a transaction
    /// was committed. A read of a whole domain has it for each page. Default 5 s, at least 10 ms.
    pub call: Duration,
    /// Rows of the feed that are kept. An agent that is further behind begins anew. Default 100,000.
    pub feed_rows: u64,
    /// Rows of the audit log that are kept. Default 1,000,000.
    pub audit_rows: u64,
    /// How long a row of the audit log is kept. Default 90 days.
    pub audit_age: Duration,
    /// Most pages of a SQLite file, none = as many as the disk has. Default none.
    pub sqlite_pages: Option<u32>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            call: Duration::from_secs(5),
            feed_rows: 100_000,
            audit_rows: 1_000_000,
            audit_age: Duration::from_secs(90 * 24 * 3600),
            sqlite_pages: None,
        }
    }
}

impl Limits {
    /// The limit of a call.
    pub(crate) fn call(&self) -> Duration {
        self.call.max(Duration::from_millis(10))
    }

    /// Longest wait for a lock: less than for the call, so that the error can say which it was.
    pub(crate) fn lock(&self) -> Duration {
        self.call() * 4 / 5
    }
}
