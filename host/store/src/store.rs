//! The store: an address, a connection that writes and one that reads.

use crate::checkpoint::Checkpoints;
use crate::connection::{Connection, Target};
use crate::limits::Limits;
use crate::schema::{self, DOMAIN};
use crate::statements::Statements;
use crate::{Error, leader::Watch};
use std::future::Future;
use tokio::sync::{Mutex, MutexGuard};

/// What a domain keeps, in a SQLite file or on a PostgreSQL server. Its calls may be made from many tasks; writers wait
/// for each other, readers do too, and neither waits for the other. A call that is given up in the middle does no harm:
/// what it did not commit is taken back, and what it wrote is in doubt as after [`Error::Doubtful`].
#[derive(Debug)]
pub struct Store {
    pub(crate) target: Target,
    pub(crate) limits: Limits,
    pub(crate) writer: Mutex<Slot>,
    pub(crate) reader: Mutex<Slot>,
    pub(crate) watch: Mutex<Watch>,
    /// With SQLite.
    pub(crate) checkpoints: Option<Checkpoints>,
}

/// A place for a connection between calls.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    open: Option<Open>,
    /// Fence and number of a group of which it is not known whether it is written.
    pub doubt: Option<(u64, u64)>,
}

/// A connection and the statements that it knows.
#[derive(Debug)]
pub(crate) struct Open {
    pub connection: Connection,
    pub statements: Statements,
}

/// A connection that a call uses. Unless it is put back, it is closed, with all that it has begun: after an error, and
/// when the call is given up.
pub(crate) struct Lent<'a> {
    pub slot: MutexGuard<'a, Slot>,
    pub open: Open,
    /// It was used before, so it may have ended since.
    pub used: bool,
}

impl Lent<'_> {
    pub(crate) fn put_back(mut self) {
        self.slot.open = Some(self.open);
    }
}

impl Store {
    /// Opens `sqlite:PATH` (a file that is made where there is none, for this user alone) or
    /// `postgres://USER@HOST/DATABASE`, and brings its schema up to date.
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::NewerSchema`], and whatever keeps a database from answering.
    pub async fn open(address: &str, limits: Limits) -> Result<Store, Error> {
        let target = Target::create(address, &limits)?;
        let of_log = matches!(target, Target::Sqlite(..)).then(|| target.clone());
        let mut store = Store {
            target,
            limits,
            writer: Mutex::default(),
            reader: Mutex::default(),
            watch: Mutex::default(),
            checkpoints: None,
        };
        let mut connection = store.bounded(store.target.connect()).await?;
        store.bounded(schema::migrate(&mut connection, DOMAIN)).await?;
        store.writer.lock().await.open = Some(Open { connection, statements: Statements::default() });
        store.checkpoints = of_log.map(Checkpoints::of);
        Ok(store)
    }

    /// The limits that it was opened with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Waits at most as long as a call may take.
    pub(crate) async fn bounded<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let limit = self.limits.call();
        tokio::time::timeout(limit, work).await.unwrap_or(Err(Error::Slow(limit)))
    }

    /// A connection out of its place, or a new one.
    pub(crate) async fn lend<'a>(&self, slot: &'a Mutex<Slot>) -> Result<Lent<'a>, Error> {
        let mut slot = slot.lock().await;
        let (open, used) = match slot.open.take() {
            Some(open) => (open, true),
            None => (self.bounded(self.connect()).await?, false),
        };
        Ok(Lent { slot, open, used })
    }

    async fn connect(&self) -> Result<Open, Error> {
        let mut connection = self.target.connect().await?;
        schema::check(&mut connection, DOMAIN).await?;
        Ok(Open { connection, statements: Statements::default() })
    }
}
