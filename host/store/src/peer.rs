//! What a domain has agreed with its neighbours: values by name, of whoever leads.

use crate::connection::Value;
use crate::limits::PAGE_ROWS;
use crate::rows::{Read, text};
use crate::statements::{Rows, Table, Work};
use crate::store::{Open, Store};
use crate::write::begin_leading;
use crate::{Entry, Error};
use std::collections::BTreeMap;

const PEER: Table = Table { name: "peer", columns: &["name", "json"], key: 1 };

impl Store {
    /// Writes all of the entries or none, if this fence leads. Of a name that occurs more than once the last one counts.
    ///
    /// # Errors
    /// [`Error::Fenced`]: another leads. After any other error the entries may have been written: writing them again is harmless.
    pub async fn write_peers(&self, fence: u64, entries: &[Entry]) -> Result<(), Error> {
        let mut last = BTreeMap::new();
        for entry in entries {
            last.insert(entry.name.as_str(), entry.value.as_ref().map(ToString::to_string));
        }
        loop {
            let mut lent = self.lend(&self.writer).await?;
            match self.bounded(attempt(&mut lent.open, fence, &last)).await {
                Ok(()) => {
                    lent.put_back();
                    return Ok(());
                }
                // A connection that ended since its last use says nothing about the database.
                Err(Error::Gone(_)) if lent.used => {}
                Err(because) => return Err(because),
            }
        }
    }

    /// All values, by name.
    ///
    /// # Errors
    /// Those of the database; [`Error::Corrupt`] for a value that is not JSON.
    pub async fn peers(&self) -> Result<Vec<(String, serde_json::Value)>, Error> {
        let mut lent = self.lend(&self.reader).await?;
        let mut values: Vec<(String, serde_json::Value)> = Vec::new();
        loop {
            let after = values.last().map(|(name, _)| name.clone()).unwrap_or_default();
            let sql = "SELECT name, json FROM peer WHERE name > $1 ORDER BY name LIMIT $2";
            let given = [text(&after), Value::Int(Some(PAGE_ROWS as i64))];
            let rows = self.bounded(lent.open.connection.rows(sql, &given)).await?;
            for row in &rows {
                let read = Read(row, &PEER);
                let json = read.text(1)?;
                let value = serde_json::from_str(&json)
                    .map_err(|_| Error::Corrupt { column: "peer.json", found: json })?;
                values.push((read.text(0)?, value));
            }
            if rows.len() < PAGE_ROWS {
                lent.put_back();
                return Ok(values);
            }
        }
    }
}

async fn attempt(open: &mut Open, fence: u64, entries: &BTreeMap<&str, Option<String>>) -> Result<(), Error> {
    let connection = &mut open.connection;
    begin_leading(connection, fence).await?;
    let mut put = Rows { table: &PEER, work: Work::Replace, values: Vec::new() };
    let mut forget = Rows { table: &PEER, work: Work::Remove { columns: 1 }, values: Vec::new() };
    for (name, json) in entries {
        match json {
            Some(json) => put.values.extend([text(name), Value::Text(Some(json))]),
            None => forget.values.push(text(name)),
        }
    }
    open.statements.run(connection, &forget).await?;
    open.statements.run(connection, &put).await?;
    connection.commit().await
}
