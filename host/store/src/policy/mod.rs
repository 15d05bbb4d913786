//! What a domain keeps of its policy: editions and their objects, what agents are to take over, and how routers stand.
//!
//! A group is one transaction that begins with the domain's row and the leader's fence, as groups of the ledger are, and is told by
//! the last number of the feed in it: whoever leads is the only one who adds to the feed.

mod read;
mod rows;

use crate::Error;
use crate::connection::{Connection, Value};
use crate::rows::{Read, int, text};
use crate::statements::{Rows, Table, Work};
use crate::store::{Open, Store};
use crate::write::{Standing, begin_leading, settled};
use perhop_policy::edition::Change;
use perhop_policy::record::{PolicyGroup, StatusRow};
use perhop_policy::session::{Change as OfSession, SessionRow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// So many times the limit of a call may a group take: an edition has a row for each object of each router.
const PATIENCE: u32 = 12;

const STATE: Table = Table { name: "domain_state", columns: &["fence", "feed_seq"], key: 0 };

impl Store {
    /// Writes a group of the policy: all of it or nothing. When this returns, it is on the disk. One that is written already is
    /// not written again.
    ///
    /// # Errors
    /// As of [`Store::write`]: after [`Error::Doubtful`] the same group again gives the answer.
    pub async fn write_policy(&self, group: &PolicyGroup) -> Result<(), Error> {
        let sessions = sessions(group)?;
        let plan = plan(group, &sessions)?;
        loop {
            let committing = AtomicBool::new(false);
            let mut lent = self.lend(&self.writer).await?;
            let work = attempt(&mut lent.open, group, &plan, &committing);
            let because = match self.patiently(work).await {
                Ok(()) => {
                    lent.put_back();
                    return Ok(());
                }
                Err(error) => error,
            };
            let used = lent.used;
            drop(lent);
            if committing.load(Ordering::Relaxed) {
                return self.settle_policy(group, because).await;
            }
            // A connection that ended since its last use says nothing about the database.
            if !(used && matches!(because, Error::Gone(_))) {
                return Err(because);
            }
        }
    }

    /// Writes how routers stand. What is not written is written with the next report of that router.
    ///
    /// # Errors
    /// [`Error::Fenced`] where another leads.
    pub async fn write_statuses(&self, fence: u64, statuses: &[StatusRow]) -> Result<(), Error> {
        let mut values = Vec::with_capacity(statuses.len() * rows::STATUS.columns.len());
        for status in statuses {
            values.extend(rows::status(status)?);
        }
        let put = Rows { table: &rows::STATUS, work: Work::Replace, values };
        let mut lent = self.lend(&self.writer).await?;
        let open = &mut lent.open;
        let work = async {
            begin_leading(&mut open.connection, fence).await?;
            open.statements.run(&mut open.connection, &put).await?;
            open.connection.commit().await
        };
        self.bounded(work).await?;
        lent.put_back();
        Ok(())
    }

    /// Finds out what became of a group whose commit gave an error.
    async fn settle_policy(&self, group: &PolicyGroup, because: Error) -> Result<(), Error> {
        let standing = async {
            let mut lent = self.lend(&self.writer).await?;
            let work = async {
                lent.open.connection.begin().await?;
                let standing = standing(&mut lent.open.connection, group).await?;
                lent.open.connection.roll_back().await?;
                Ok(standing)
            };
            let standing = self.bounded(work).await?;
            lent.put_back();
            Ok::<_, Error>(standing)
        };
        settled(standing.await, group.fence, last(group), because)
    }

    /// Waits longer than for any other call.
    async fn patiently<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let limit: Duration = self.limits().call() * PATIENCE;
        tokio::time::timeout(limit, work).await.unwrap_or(Err(Error::Slow(limit)))
    }
}

/// The number by which a group is told.
fn last(group: &PolicyGroup) -> u64 {
    group.feed.last().map_or(0, |row| row.seq)
}

async fn standing(connection: &mut Connection, group: &PolicyGroup) -> Result<Standing, Error> {
    let row = connection.state("fence, feed_seq").await?;
    let read = Read(&row, &STATE);
    let (now, fed) = (read.int(0)?, read.int(1)?);
    Ok(match () {
        () if now != group.fence => Standing::Fenced { now },
        () if fed >= last(group) => Standing::Written,
        () => Standing::Ahead,
    })
}

async fn attempt(
    open: &mut Open,
    group: &PolicyGroup,
    plan: &[Rows<'_>],
    committing: &AtomicBool,
) -> Result<(), Error> {
    let connection = &mut open.connection;
    connection.begin().await?;
    let claim = "UPDATE domain_state SET edition = $1, feed_seq = $2 \
        WHERE one = 1 AND fence = $3 AND feed_seq < $2";
    let values =
        [int("edition.n", group.edition)?, int("change_feed.seq", last(group))?, int("fence", group.fence)?];
    if connection.execute(claim, &values).await? == 0 {
        let standing = standing(connection, group).await?;
        connection.roll_back().await?;
        return standing.of_unclaimed(group.fence);
    }
    for rows in plan {
        open.statements.run(connection, rows).await?;
    }
    committing.store(true, Ordering::Relaxed);
    connection.commit().await
}

/// The sessions of a group as JSON.
fn sessions(group: &PolicyGroup) -> Result<Vec<(&SessionRow, String)>, Error> {
    let rows = group.sessions.iter().filter_map(|change| match change {
        OfSession::Session(row) => Some(&**row),
        OfSession::SessionGone(_) | OfSession::Usage(..) => None,
    });
    let unwritable = |_| Error::Corrupt { column: "session.spec", found: String::new() };
    rows.map(|row| Ok((row, serde_json::to_string(row).map_err(unwritable)?))).collect()
}

/// The rows of a group, table by table.
fn plan<'a>(group: &'a PolicyGroup, sessions: &'a [(&SessionRow, String)]) -> Result<[Rows<'a>; 6], Error> {
    let (mut editions, mut policies, mut fed): (Vec<Value<'_>>, Vec<_>, Vec<_>) = Default::default();
    let (mut here, mut gone, mut usage): (Vec<Value<'_>>, Vec<_>, Vec<_>) = Default::default();
    for (row, spec) in sessions {
        here.extend(rows::session(row, spec)?);
    }
    for change in &group.sessions {
        match change {
            OfSession::Session(_) => {}
            OfSession::SessionGone(name) => gone.push(text(name.as_str())),
            OfSession::Usage(name, of) => usage.extend(rows::usage(name.as_str(), of)?),
        }
    }
    for change in &group.changes {
        match change {
            Change::Edition(row) => editions.extend(rows::edition(row)?),
            Change::Policy { edition, change } => policies.extend(rows::policy(*edition, change)?),
        }
    }
    for row in &group.feed {
        fed.extend(rows::feed(row)?);
    }
    Ok([
        Rows { table: &rows::EDITION, work: Work::Replace, values: editions },
        Rows { table: &rows::POLICY, work: Work::Replace, values: policies },
        Rows { table: &rows::SESSION, work: Work::Remove { columns: 1 }, values: gone },
        Rows { table: &rows::SESSION, work: Work::Replace, values: here },
        Rows { table: &rows::USAGE, work: Work::Replace, values: usage },
        Rows { table: &rows::FEED, work: Work::Append, values: fed },
    ])
}
