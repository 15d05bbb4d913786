//! What is read of a policy: what a new leader needs, an edition's policy, and what came for a router.

use super::STATE;
use super::rows::{
    EDITION, FEED, POLICY, SESSION, STATUS, USAGE, read_edition, read_feed, read_policy, read_session,
    read_status,
};
use crate::Error;
use crate::limits::PAGE_ROWS;
use crate::read::page;
use crate::rows::{Read, int, text};
use crate::statements::Table;
use crate::store::{Lent, Store};
use perhop_policy::diff::{Rows, assemble};
use perhop_policy::edition::{EditionState, MAX_HISTORY, sha256_of};
use perhop_policy::model::Policy;
use perhop_policy::record::{FeedRow, PolicyKept};
use perhop_policy::session::Usage;

impl Store {
    /// All that a new leader needs of the policy, as of one moment.
    ///
    /// # Errors
    /// Those of the database; [`Error::Corrupt`] for rows that make no sense, or a policy that is not what its digest says.
    pub async fn load_policy(&self) -> Result<PolicyKept, Error> {
        let mut lent = self.lend(&self.reader).await?;
        self.bounded(lent.open.connection.begin_reading()).await?;
        let row = self
            .bounded(lent.open.connection.row("SELECT fence, feed_seq FROM domain_state WHERE one = 1", &[]))
            .await?;
        let mut kept = PolicyKept { feed_seq: Read(&row, &STATE).int(1)?, ..PolicyKept::default() };
        let mut before = int("edition.n", i64::MAX as u64)?;
        loop {
            let connection = &mut lent.open.connection;
            let left = (MAX_HISTORY - kept.editions.len()).min(PAGE_ROWS);
            let rows = self.bounded(page(connection, &EDITION, "n < $1", "n DESC", &[before], left)).await?;
            for row in &rows {
                kept.editions.push(read_edition(&Read(row, &EDITION))?);
            }
            match kept.editions.last() {
                Some(last) if rows.len() == PAGE_ROWS && kept.editions.len() < MAX_HISTORY => {
                    before = int("edition.n", last.n)?;
                }
                _ => break,
            }
        }
        kept.editions.reverse();
        if let Some(last) = kept.editions.last() {
            kept.in_force = self.assembled(&mut lent, last.n, &last.sha256).await?;
            if last.state == EditionState::ToConfirm {
                let parent = kept.editions.iter().rev().find(|row| row.n == last.parent);
                kept.fallback = match parent {
                    Some(parent) => Some(self.assembled(&mut lent, parent.n, &parent.sha256).await?),
                    None => Some(Policy::default()),
                };
            }
        }
        self.all_by(&mut lent, &STATUS, |read| {
            kept.statuses.push(read_status(read)?);
            read.text(0)
        })
        .await?;
        self.all_by(&mut lent, &SESSION, |read| {
            kept.sessions.push(read_session(read)?);
            read.text(0)
        })
        .await?;
        self.all_by(&mut lent, &USAGE, |read| {
            let name = read.text(0)?;
            let subscriber = serde_json::from_value(name.clone().into());
            let subscriber = subscriber.map_err(|_| read.corrupt(0, &name))?;
            kept.usage.push((subscriber, Usage { since_ms: read.int(1)?, octets: read.int(2)? }));
            Ok(name)
        })
        .await?;
        self.bounded(lent.open.connection.roll_back()).await?;
        lent.put_back();
        Ok(kept)
    }

    /// The policy of an edition; none = there is no such edition.
    ///
    /// # Errors
    /// As of [`Store::load_policy`].
    pub async fn policy_of(&self, edition: u64) -> Result<Option<Policy>, Error> {
        let mut lent = self.lend(&self.reader).await?;
        let connection = &mut lent.open.connection;
        self.bounded(connection.begin_reading()).await?;
        let number = [int("edition.n", edition)?];
        let rows = self.bounded(page(connection, &EDITION, "n = $1", "n", &number, 1)).await?;
        let row = rows.first().map(|row| read_edition(&Read(row, &EDITION))).transpose()?;
        let policy = match row {
            Some(row) => Some(self.assembled(&mut lent, row.n, &row.sha256).await?),
            None => None,
        };
        self.bounded(lent.open.connection.roll_back()).await?;
        lent.put_back();
        Ok(policy)
    }

    /// What the feed has for a router, or for all, behind `after` and up to `upto`, in order.
    ///
    /// # Errors
    /// [`Error::Trimmed`] where rows behind `after` are no longer kept.
    pub async fn feed_of(&self, router: &str, after: u64, upto: u64) -> Result<Vec<FeedRow>, Error> {
        let mut lent = self.lend(&self.reader).await?;
        let connection = &mut lent.open.connection;
        self.bounded(connection.begin_reading()).await?;
        let first = self.bounded(page(connection, &FEED, "1 = 1", "seq", &[], 1)).await?;
        let first = first.first().map(|row| Read(row, &FEED).int(0)).transpose()?;
        if upto > after && first.is_none_or(|first| first > after + 1) {
            self.bounded(connection.roll_back()).await?;
            lent.put_back();
            return Err(Error::Trimmed { oldest: first.unwrap_or(upto + 1) });
        }
        let mut feed: Vec<FeedRow> = Vec::new();
        let mut behind = after;
        loop {
            let values = [int("change_feed.seq", behind)?, int("change_feed.seq", upto)?, text(router)];
            let condition = "seq > $1 AND seq <= $2 AND (router = $3 OR router = '*')";
            let rows = self.bounded(page(connection, &FEED, condition, "seq", &values, PAGE_ROWS)).await?;
            for row in &rows {
                feed.push(read_feed(&Read(row, &FEED))?);
            }
            behind = feed.last().map_or(after, |last| last.seq);
            if rows.len() < PAGE_ROWS {
                break;
            }
        }
        self.bounded(lent.open.connection.roll_back()).await?;
        lent.put_back();
        Ok(feed)
    }

    /// All rows of a table by their key, which `read` gives.
    async fn all_by(
        &self,
        lent: &mut Lent<'_>,
        table: &'static Table,
        mut read: impl FnMut(&Read<'_>) -> Result<String, Error>,
    ) -> Result<(), Error> {
        let behind = format!("{} > $1", table.columns[0]);
        let mut after: Option<String> = None;
        loop {
            let (condition, values) = match &after {
                Some(after) => (behind.as_str(), vec![text(after)]),
                None => ("1 = 1", Vec::new()),
            };
            let work =
                page(&mut lent.open.connection, table, condition, table.columns[0], &values, PAGE_ROWS);
            let rows = self.bounded(work).await?;
            for row in &rows {
                after = Some(read(&Read(row, table))?);
            }
            if rows.len() < PAGE_ROWS {
                return Ok(());
            }
        }
    }

    /// The policy of an edition, put together of the last row of each object up to it.
    async fn assembled(&self, lent: &mut Lent<'_>, edition: u64, sha256: &str) -> Result<Policy, Error> {
        const UP_TO: &str = "edition = (SELECT MAX(other.edition) FROM policy other WHERE other.kind = policy.kind \
            AND other.name = policy.name AND other.edition <= $1)";
        let behind = format!("{UP_TO} AND (kind, name) > ($2, $3)");
        let mut objects = Rows::new();
        let mut last: Option<(String, String)> = None;
        loop {
            let number = int("edition.n", edition)?;
            let (condition, values) = match &last {
                Some((kind, name)) => (behind.as_str(), vec![number, text(kind), text(name)]),
                None => (UP_TO, vec![number]),
            };
            let connection = &mut lent.open.connection;
            let rows =
                self.bounded(page(connection, &POLICY, condition, "kind, name", &values, PAGE_ROWS)).await?;
            for row in &rows {
                let (key, spec) = read_policy(&Read(row, &POLICY))?;
                last = Some((key.0.name().to_owned(), key.1.to_string()));
                if let Some(spec) = spec {
                    objects.insert(key, spec);
                }
            }
            if rows.len() < PAGE_ROWS {
                break;
            }
        }
        let corrupt = |found: String| Error::Corrupt { column: "policy.spec", found };
        let policy = assemble(&objects).map_err(|error| corrupt(error.to_string()))?;
        match sha256_of(&policy) {
            found if found == sha256 => Ok(policy),
            found => Err(Error::Corrupt { column: "edition.sha256", found }),
        }
    }
}
