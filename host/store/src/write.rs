//! Groups of changes, each one transaction.

use crate::checkpoint::Checkpoints;
use crate::connection::{Connection, Value};
use crate::rows::{self, int};
use crate::statements::{Rows, Table, Work};
use crate::store::{Open, Store};
use crate::{Error, rows::Read};
use perhop_broker::record::{Change, Group};
use std::sync::atomic::{AtomicBool, Ordering};

/// Fence and group of the domain's row.
const STATE: Table = Table { name: "domain_state", columns: &["fence", "group_number"], key: 0 };

impl Store {
    /// Writes a group: all of it or nothing. When this returns, the group is on the disk. A group that is written
    /// already is not written again.
    ///
    /// Costs one transaction, whose statements take up to 256 rows each. The audit log is appended to;
    /// every other row replaces that of its key. What is removed is removed first, links last.
    ///
    /// # Errors
    /// After any error but [`Error::Doubtful`] nothing of the group is written, and it never will be unless it is written again.
    /// [`Error::Fenced`]: another leads. [`Error::Doubtful`]: write the same group again to find out, as after
    /// a call that was given up; later ones are not written before.
    pub async fn write(&self, group: &Group) -> Result<(), Error> {
        let plan = Plan::of(group)?;
        let in_doubt = self.writer.lock().await.doubt == Some((group.fence, group.number));
        match self.write_or_settle(group, &plan).await {
            // What keeps it from being written now says nothing about the last time.
            Err(because) if in_doubt && !is_definite(&because) => {
                Err(Error::Doubtful { number: group.number, because: Some(Box::new(because)) })
            }
            known => known,
        }
    }

    async fn write_or_settle(&self, group: &Group, plan: &Plan<'_>) -> Result<(), Error> {
        let committing = AtomicBool::new(false);
        loop {
            let mut lent = self.lend(&self.writer).await?;
            let before = lent.slot.doubt;
            if let Some((fence, number)) = before
                && fence == group.fence
                && number < group.number
            {
                // Written now, this one would hide whether that one was.
                lent.put_back();
                return Err(Error::Doubtful { number, because: None });
            }
            // Who gives this call up does not know either.
            lent.slot.doubt = Some((group.fence, group.number));
            let outcome = self.bounded(attempt(&mut lent.open, group, plan, &committing)).await;
            let because = match outcome {
                Ok(()) => {
                    lent.slot.doubt = None;
                    lent.put_back();
                    self.checkpoints.iter().for_each(Checkpoints::written);
                    return Ok(());
                }
                Err(error) => error,
            };
            if committing.load(Ordering::Relaxed) {
                drop(lent);
                return self.settle(group, because).await;
            }
            lent.slot.doubt = before.filter(|_| !is_definite(&because));
            // A connection that ended since its last use says nothing about the database.
            if !(lent.used && matches!(because, Error::Gone(_))) {
                return Err(because);
            }
        }
    }

    /// Finds out what became of a group whose commit gave an error.
    async fn settle(&self, group: &Group, because: Error) -> Result<(), Error> {
        let standing = async {
            let mut lent = self.lend(&self.writer).await?;
            let work = async {
                lent.open.connection.begin().await?;
                let standing = standing(&mut lent.open.connection, group).await?;
                lent.open.connection.roll_back().await?;
                Ok(standing)
            };
            let standing = self.bounded(work).await?;
            lent.slot.doubt = None;
            lent.put_back();
            Ok::<_, Error>(standing)
        };
        settled(standing.await, group.fence, group.number, because)
    }
}

/// Whether an error comes from a database that has looked where the group stands.
fn is_definite(error: &Error) -> bool {
    matches!(error, Error::Fenced { .. } | Error::Contradiction(_) | Error::Doubtful { .. })
}

/// Where a group stands.
pub(crate) enum Standing {
    /// It is written.
    Written,
    /// It is not, and its leader leads.
    Ahead,
    /// It is not, and never will be; or another leads, which knows by itself what is written.
    Fenced { now: u64 },
}

impl Standing {
    /// What becomes of a group whose fence and number changed nothing.
    pub(crate) fn of_unclaimed(self, fence: u64) -> Result<(), Error> {
        match self {
            Standing::Written => Ok(()),
            Standing::Fenced { now } => Err(Error::Fenced { mine: fence, now }),
            // The domain's row is gone.
            Standing::Ahead => Err(Error::Corrupt { column: "domain_state.one", found: String::new() }),
        }
    }
}

/// What became of a group whose commit gave an error, by where it stands.
pub(crate) fn settled(
    standing: Result<Standing, Error>,
    fence: u64,
    number: u64,
    because: Error,
) -> Result<(), Error> {
    match standing {
        Ok(Standing::Written) => Ok(()),
        Ok(Standing::Ahead) => Err(because),
        Ok(Standing::Fenced { now }) => Err(Error::Fenced { mine: fence, now }),
        Err(_) => Err(Error::Doubtful { number, because: Some(Box::new(because)) }),
    }
}

/// Reads in a transaction where a group stands, behind every other one that may still be on its way: all of them hold
/// the domain's row.
async fn standing(connection: &mut Connection, group: &Group) -> Result<Standing, Error> {
    let row = connection.state("fence, group_number").await?;
    let now = Read(&row, &STATE).int(0)?;
    let mut last = row.int(1)?;
    if now != group.fence {
        let ended = "SELECT group_number FROM term WHERE fence = $1";
        let rows = connection.rows(ended, &[int("fence", group.fence)?]).await?;
        last = rows.first().map(|row| row.int(0)).transpose()?.flatten();
    }
    Ok(match last {
        Some(last) if u64::try_from(last).is_ok_and(|last| last >= group.number) => Standing::Written,
        _ if now == group.fence => Standing::Ahead,
        _ => Standing::Fenced { now },
    })
}

/// Writes a group once. `committing` is set from the moment on when it may be written.
async fn attempt(
    open: &mut Open,
    group: &Group,
    plan: &Plan<'_>,
    committing: &AtomicBool,
) -> Result<(), Error> {
    let connection = &mut open.connection;
    connection.begin().await?;
    let claim = "UPDATE domain_state SET group_number = $1, \
        audit_seq = CASE WHEN audit_seq < $2 THEN $2 ELSE audit_seq END, \
        last_reservation = CASE WHEN last_reservation < $3 THEN $3 ELSE last_reservation END \
        WHERE one = 1 AND fence = $4 AND group_number < $1";
    if connection.execute(claim, &plan.claim).await? == 0 {
        let standing = standing(connection, group).await?;
        connection.roll_back().await?;
        return standing.of_unclaimed(group.fence);
    }
    for rows in &plan.rows {
        open.statements.run(connection, rows).await?;
    }
    committing.store(true, Ordering::Relaxed);
    connection.commit().await
}

/// The rows of a group, table by table.
struct Plan<'a> {
    claim: [Value<'a>; 4],
    rows: Vec<Rows<'a>>,
}

impl<'a> Plan<'a> {
    /// # Errors
    /// [`Error::OutOfRange`].
    fn of(group: &'a Group) -> Result<Plan<'a>, Error> {
        let (mut audit, mut reservation) = (0, 0);
        let mut rows = Vec::new();
        for change in &group.changes {
            match change {
                Change::Audit(row) => audit = audit.max(row.seq),
                Change::Reservation(row) => reservation = reservation.max(row.id),
                _ => {}
            }
            plan(change, &mut rows)?;
        }
        rows.sort_by_key(|rows| rank(rows));
        let claim = [
            int("group.number", group.number)?,
            int("audit.seq", audit)?,
            int("reservation.id", reservation)?,
            int("fence", group.fence)?,
        ];
        Ok(Plan { claim, rows })
    }
}

/// Removals go first, so that what they free can be taken in the same group; a link goes last, with all that it has.
fn rank(rows: &Rows<'_>) -> u8 {
    let of_link = rows.table.name == rows::LINK.name
        || rows.table.name == rows::CAPACITY.name && rows.work == Work::Remove { columns: 1 };
    match rows.work {
        Work::Remove { .. } if of_link => 2,
        Work::Remove { .. } => 0,
        Work::Append | Work::Replace => 1,
    }
}

/// Puts what a change says to the rows of its tables.
fn plan<'a>(change: &'a Change, to: &mut Vec<Rows<'a>>) -> Result<(), Error> {
    const ONE: Work = Work::Remove { columns: 1 };
    match change {
        Change::Node(row) => add(to, &rows::NODE, Work::Replace, &rows::node(row)?),
        Change::NodeGone(name) => add(to, &rows::NODE, ONE, &[rows::text(name)]),
        Change::Link(row) => add(to, &rows::LINK, Work::Replace, &rows::link(row)?),
        Change::LinkGone(id) => {
            add(to, &rows::CAPACITY, ONE, &[int("link.id", *id)?]);
            add(to, &rows::LINK, ONE, &[int("link.id", *id)?]);
        }
        Change::Capacity(row) => add(to, &rows::CAPACITY, Work::Replace, &rows::capacity(row)?),
        Change::CapacityGone(link, class) => {
            let key = [int("capacity.link", *link)?, rows::text(class)];
            add(to, &rows::CAPACITY, Work::Remove { columns: 2 }, &key);
        }
        Change::Path(row) => {
            add(to, &rows::PATH_LINK, ONE, &[int("path.id", row.id)?]);
            add(to, &rows::PATH, Work::Replace, &rows::path(row)?);
            for (position, link) in row.links.iter().enumerate() {
                let place = [
                    int("path.id", row.id)?,
                    Value::Int(Some(position as i64)),
                    int("path_link.link", *link)?,
                ];
                add(to, &rows::PATH_LINK, Work::Append, &place);
            }
        }
        Change::PathGone(id) => {
            add(to, &rows::PATH_LINK, ONE, &[int("path.id", *id)?]);
            add(to, &rows::PATH, ONE, &[int("path.id", *id)?]);
        }
        Change::Client(row) => add(to, &rows::CLIENT, Work::Replace, &rows::client(row)?),
        Change::ClientGone(name) => add(to, &rows::CLIENT, ONE, &[rows::text(name)]),
        Change::Reservation(row) => add(to, &rows::RESERVATION, Work::Replace, &rows::reservation(row)?),
        Change::ReservationGone(id) => {
            add(to, &rows::RESERVATION, ONE, &[int("reservation.id", *id)?]);
        }
        Change::Audit(row) => add(to, &rows::AUDIT, Work::Append, &rows::audit(row)?),
    }
    Ok(())
}

fn add<'a>(to: &mut Vec<Rows<'a>>, table: &'static Table, work: Work, values: &[Value<'a>]) {
    match to.iter_mut().find(|rows| rows.table.name == table.name && rows.work == work) {
        Some(rows) => rows.values.extend_from_slice(values),
        None => to.push(Rows { table, work, values: values.to_vec() }),
    }
}

/// Begins a transaction of the leader of a fence, which holds the domain's row.
pub(crate) async fn begin_leading(connection: &mut Connection, fence: u64) -> Result<(), Error> {
    connection.begin().await?;
    let lead = "UPDATE domain_state SET one = 1 WHERE one = 1 AND fence = $1";
    if connection.execute(lead, &[int("fence", fence)?]).await? == 0 {
        let because = fenced(connection, fence).await;
        connection.roll_back().await?;
        return Err(because);
    }
    Ok(())
}

/// Why a fence changed nothing.
pub(crate) async fn fenced(connection: &mut Connection, mine: u64) -> Error {
    let row = match connection.state("fence, group_number").await {
        Ok(row) => row,
        Err(error) => return error,
    };
    match Read(&row, &STATE).int(0) {
        Ok(now) => Error::Fenced { mine, now },
        Err(error) => error,
    }
}
