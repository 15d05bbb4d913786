//! What is read of a domain: all of it, the audit log.

use crate::Error;
use crate::connection::{Connection, Row, Value};
use crate::limits::PAGE_ROWS;
use crate::rows::{self, Read, int, text};
use crate::statements::Table;
use crate::store::{Lent, Store};
use perhop_broker::record::{AuditRow, Snapshot};

const STATE: Table = Table { name: "domain_state", columns: &["audit_seq", "last_reservation"], key: 0 };

impl Store {
    /// All that a new leader needs, as of one moment, in pages: a million reservations take some seconds.
    ///
    /// # Errors
    /// Those of the database; [`Error::Corrupt`] for a row that makes no sense.
    pub async fn load(&self) -> Result<Snapshot, Error> {
        let mut lent = self.lend(&self.reader).await?;
        self.bounded(lent.open.connection.begin_reading()).await?;
        let mut snapshot = Snapshot::default();
        let sql = "SELECT audit_seq, last_reservation FROM domain_state WHERE one = 1";
        let row = self.bounded(lent.open.connection.row(sql, &[])).await?;
        let state = Read(&row, &STATE);
        snapshot.audit_seq = state.int(0)?;
        snapshot.last_reservation = state.int(1)?;

        self.all_named(&mut lent, &rows::NODE, &mut snapshot.nodes, |r| r.node(), |n| &n.name).await?;
        self.all_numbered(&mut lent, &rows::LINK, &mut snapshot.links, |r| r.link(), |l| l.id).await?;
        self.capacities(&mut lent, &mut snapshot).await?;
        self.all_numbered(&mut lent, &rows::PATH, &mut snapshot.paths, |r| r.path(), |p| p.id).await?;
        self.links_of_paths(&mut lent, &mut snapshot).await?;
        self.all_named(&mut lent, &rows::CLIENT, &mut snapshot.clients, |r| r.client(), |c| &c.name).await?;
        let reservations = &mut snapshot.reservations;
        self.all_numbered(&mut lent, &rows::RESERVATION, reservations, |r| r.reservation(), |r| r.id).await?;

        self.bounded(lent.open.connection.roll_back()).await?;
        lent.put_back();
        // The order of text is that of a server's language, not ours.
        snapshot.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.clients.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.capacities.sort_by(|a, b| (a.link, &a.class).cmp(&(b.link, &b.class)));
        Ok(snapshot)
    }

    /// Rows of the audit log, the last ones first: up to `limit`, at most 10,000, with numbers below `before`, none =
    /// the last ones of all.
    ///
    /// # Errors
    /// Those of the database; [`Error::Corrupt`] for a row that makes no sense.
    pub async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditRow>, Error> {
        let mut lent = self.lend(&self.reader).await?;
        let connection = &mut lent.open.connection;
        connection.check()?;
        let before = [int("audit.seq", before.unwrap_or(i64::MAX as u64))?];
        let work = page(connection, &rows::AUDIT, "seq < $1", "seq DESC", &before, limit.min(PAGE_ROWS));
        let read = self.bounded(work).await?;
        lent.put_back();
        read.iter().map(|row| Read(row, &rows::AUDIT).audit()).collect()
    }

    /// All rows of a table whose key is a number.
    async fn all_numbered<T>(
        &self,
        lent: &mut Lent<'_>,
        table: &'static Table,
        to: &mut Vec<T>,
        read: fn(&Read<'_>) -> Result<T, Error>,
        key: fn(&T) -> u64,
    ) -> Result<(), Error> {
        let (condition, order) = (format!("{} > $1", table.columns[0]), table.columns[0]);
        loop {
            let after = match to.last() {
                Some(last) => int(order, key(last))?,
                None => Value::Int(Some(i64::MIN)),
            };
            let connection = &mut lent.open.connection;
            let rows = self.bounded(page(connection, table, &condition, order, &[after], PAGE_ROWS)).await?;
            for row in &rows {
                to.push(read(&Read(row, table))?);
            }
            if rows.len() < PAGE_ROWS {
                return Ok(());
            }
        }
    }

    /// All rows of a table whose key is a name.
    async fn all_named<T>(
        &self,
        lent: &mut Lent<'_>,
        table: &'static Table,
        to: &mut Vec<T>,
        read: fn(&Read<'_>) -> Result<T, Error>,
        key: fn(&T) -> &String,
    ) -> Result<(), Error> {
        loop {
            let after = to.last().map(|last| key(last).clone());
            // The first page has no name to begin behind, as the empty one is a name too.
            let (condition, values) = match &after {
                Some(after) => ("name > $1", vec![text(after)]),
                None => ("1 = 1", Vec::new()),
            };
            let connection = &mut lent.open.connection;
            let rows = self.bounded(page(connection, table, condition, "name", &values, PAGE_ROWS)).await?;
            for row in &rows {
                to.push(read(&Read(row, table))?);
            }
            if rows.len() < PAGE_ROWS {
                return Ok(());
            }
        }
    }

    async fn capacities(&self, lent: &mut Lent<'_>, snapshot: &mut Snapshot) -> Result<(), Error> {
        let (table, to) = (&rows::CAPACITY, &mut snapshot.capacities);
        loop {
            let after = to.last().map(|last| (last.link, last.class.clone()));
            let values = match &after {
                Some((link, class)) => [int("capacity.link", *link)?, text(class)],
                None => [Value::Int(Some(i64::MIN)), text("")],
            };
            let work = page(
                &mut lent.open.connection,
                table,
                "(link, class) > ($1, $2)",
                "link, class",
                &values,
                PAGE_ROWS,
            );
            let rows = self.bounded(work).await?;
            for row in &rows {
                to.push(Read(row, table).capacity()?);
            }
            if rows.len() < PAGE_ROWS {
                return Ok(());
            }
        }
    }

    /// Fills in the links of the paths that were read.
    async fn links_of_paths(&self, lent: &mut Lent<'_>, snapshot: &mut Snapshot) -> Result<(), Error> {
        let table = &rows::PATH_LINK;
        let mut after = (i64::MIN as i128, -1);
        loop {
            let values = [Value::Int(Some(after.0 as i64)), Value::Int(Some(after.1))];
            let work = page(
                &mut lent.open.connection,
                table,
                "(path, position) > ($1, $2)",
                "path, position",
                &values,
                PAGE_ROWS,
            );
            let rows = self.bounded(work).await?;
            for row in &rows {
                let read = Read(row, table);
                let (path, position, link) = (read.int(0)?, read.int(1)?, read.int(2)?);
                let place = snapshot.paths.binary_search_by_key(&path, |path| path.id);
                let links = place.ok().map(|at| &mut snapshot.paths[at].links);
                match links {
                    Some(links) if links.len() as u64 == position => links.push(link),
                    _ => {
                        let found = format!("{position} of path {path}");
                        return Err(Error::Corrupt { column: "path_link.position", found });
                    }
                }
                after = (path.into(), position as i64);
            }
            if rows.len() < PAGE_ROWS {
                return Ok(());
            }
        }
    }
}

/// Some rows of a table.
pub(crate) async fn page(
    connection: &mut Connection,
    table: &Table,
    condition: &str,
    order: &str,
    values: &[Value<'_>],
    limit: usize,
) -> Result<Vec<Row>, Error> {
    let rest = format!("FROM {} WHERE {condition} ORDER BY {order} LIMIT {limit}", table.name);
    connection.many(&table.columns.join(", "), &rest, values).await
}
