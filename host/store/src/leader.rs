//! Who leads: a lease in the domain's row, and a fence that rises with every change.
//!
//! ```text
//!            campaign: lease over, or not renewed for a lease's length, or its own
//!  follower ───────────────────────────────────────────────────────────────────────► leader (fence + 1)
//!     ▲  ▲                                                                            │  │ renew
//!     │  └──────────────── another's campaign: the next write or renewal is `Fenced` ─┘  └─►(same)
//!     └─────────────────── resign ────────────────────────────────────────────────────┘
//! ```
//!
//! The lease decides when somebody else may lead, the fence alone what may be written: clocks that differ make leaders
//! change too often, and never let two of them write.

use crate::connection::{Row, Value};
use crate::limits::TERMS_KEPT;
use crate::rows::{Read, int, text};
use crate::statements::Table;
use crate::store::Store;
use crate::{Error, write};

/// Who leads or has led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its name; none = nobody yet, or it has resigned.
    pub name: Option<String>,
    /// Its fence.
    pub fence: u64,
    /// When its lease ends, ms, by its own clock.
    pub lease_until_ms: u64,
}

/// How a campaign ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Campaign {
    /// Leads from now on: writes with this fence, and renews before the lease ends.
    Won {
        /// The new fence.
        fence: u64,
    },
    /// Another leads.
    Held(Leader),
}

/// Since when, by the own clock, a lease has been seen unchanged.
#[derive(Debug, Default)]
pub(crate) struct Watch(Option<(Leader, u64)>);

impl Watch {
    /// Whether nobody has renewed a lease for `ttl_ms`, whatever the other clock says.
    fn is_dead(&mut self, leader: &Leader, now_ms: u64, ttl_ms: u64) -> bool {
        match &self.0 {
            Some((seen, since)) if seen == leader && *since <= now_ms => now_ms - since >= ttl_ms,
            _ => {
                self.0 = Some((leader.clone(), now_ms));
                false
            }
        }
    }
}

const STATE: Table = Table { name: "domain_state", columns: &["leader", "fence", "lease_until_ms"], key: 0 };

/// The columns that make a [`Leader`].
const LEADER: &str = "leader, fence, lease_until_ms";

impl Leader {
    fn of(row: &Row) -> Result<Leader, Error> {
        let read = Read(row, &STATE);
        Ok(Leader { name: row.text(0)?, fence: read.int(1)?, lease_until_ms: read.int(2)? })
    }
}

impl Store {
    /// Tries to lead as `name` until `now_ms + ttl_ms`. Wins where nobody leads, where the lease has ended or was not
    /// renewed for `ttl_ms` between two campaigns of this store, and where the leader has the same name: an earlier
    /// life of this one. Names therefore have to be of one process each.
    ///
    /// # Errors
    /// Those of the database; the campaign may have been won unseen, which the next one overtakes.
    pub async fn campaign(&self, name: &str, now_ms: u64, ttl_ms: u64) -> Result<Campaign, Error> {
        let mut watch = self.watch.lock().await;
        let mut lent = self.lend(&self.writer).await?;
        let connection = &mut lent.open.connection;
        let work = async {
            connection.begin().await?;
            let leader = Leader::of(&connection.state(LEADER).await?)?;
            let free = leader.name.as_deref().is_none_or(|leads| leads == name)
                || leader.lease_until_ms <= now_ms
                || watch.is_dead(&leader, now_ms, ttl_ms);
            if !free {
                connection.roll_back().await?;
                return Ok(Campaign::Held(leader));
            }
            let fence = leader.fence + 1;
            // What was the last group of a term is asked for as long as one of it may be in doubt.
            let end =
                "INSERT INTO term SELECT fence, leader, $1, group_number FROM domain_state WHERE one = 1";
            connection.execute(end, &[int("now_ms", now_ms)?]).await?;
            let forget = "DELETE FROM term WHERE fence < $1";
            connection.execute(forget, &[int("fence", fence.saturating_sub(TERMS_KEPT))?]).await?;
            let lead = "UPDATE domain_state SET fence = $1, leader = $2, lease_until_ms = $3, group_number = -1 WHERE one = 1";
            let until = int("lease_until_ms", now_ms.saturating_add(ttl_ms))?;
            connection.execute(lead, &[int("fence", fence)?, text(name), until]).await?;
            connection.commit().await?;
            Ok(Campaign::Won { fence })
        };
        let campaign = self.bounded(work).await?;
        lent.put_back();
        Ok(campaign)
    }

    /// Keeps leading until `now_ms + ttl_ms`.
    ///
    /// # Errors
    /// [`Error::Fenced`] where another leads.
    pub async fn renew(&self, fence: u64, now_ms: u64, ttl_ms: u64) -> Result<(), Error> {
        let until = int("lease_until_ms", now_ms.saturating_add(ttl_ms))?;
        let sql =
            "UPDATE domain_state SET lease_until_ms = $2 WHERE one = 1 AND fence = $1 AND leader IS NOT NULL";
        self.as_leader(fence, sql, &[int("fence", fence)?, until]).await
    }

    /// Stops leading, so that another need not wait. The fence writes nothing more.
    ///
    /// # Errors
    /// [`Error::Fenced`] where another leads.
    pub async fn resign(&self, fence: u64) -> Result<(), Error> {
        let sql = "UPDATE domain_state SET leader = NULL, lease_until_ms = 0 WHERE one = 1 AND fence = $1 AND leader IS NOT NULL";
        self.as_leader(fence, sql, &[int("fence", fence)?]).await
    }

    /// Who leads.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn leader(&self) -> Result<Leader, Error> {
        let mut lent = self.lend(&self.reader).await?;
        let connection = &mut lent.open.connection;
        connection.check()?;
        let sql = "SELECT leader, fence, lease_until_ms FROM domain_state WHERE one = 1";
        let row = self.bounded(connection.row(sql, &[])).await?;
        lent.put_back();
        Leader::of(&row)
    }

    /// Changes the domain's row if the fence leads.
    async fn as_leader(&self, fence: u64, sql: &'static str, values: &[Value<'_>]) -> Result<(), Error> {
        let mut lent = self.lend(&self.writer).await?;
        let connection = &mut lent.open.connection;
        let work = async {
            connection.begin().await?;
            if connection.execute(sql, values).await? == 0 {
                return Err(write::fenced(connection, fence).await);
            }
            connection.commit().await
        };
        self.bounded(work).await?;
        lent.put_back();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_nobody_renews_is_dead_whatever_its_clock_says() {
        let mut watch = Watch::default();
        let mut leader = Leader { name: Some("a".into()), fence: 3, lease_until_ms: 9_000_000 };
        assert!(!watch.is_dead(&leader, 1000, 3000));
        assert!(!watch.is_dead(&leader, 3999, 3000));
        leader.lease_until_ms += 1000;
        assert!(!watch.is_dead(&leader, 4000, 3000), "it was renewed");
        assert!(!watch.is_dead(&leader, 6999, 3000));
        assert!(watch.is_dead(&leader, 7000, 3000));
        assert!(!watch.is_dead(&leader, 500, 3000), "the own clock was set back");
    }
}
