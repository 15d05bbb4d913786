//! An agent's journal: values by name in a SQLite file, which survive whatever ends the agent.

use crate::Error;
use crate::connection::{Connection, Target, Value};
use crate::limits::Limits;
use crate::rows::{Read, int, text};
use crate::schema::{self, JOURNAL};
use crate::statements::{Rows, Statements, Table, Work};
use std::collections::BTreeMap;
use std::path::Path;

const TABLE: Table = Table { name: "journal", columns: &["name", "seq", "json"], key: 1 };

/// One change of values that are kept by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name: `lease/voice`, `edition`.
    pub name: String,
    /// The value from now on; none = forgotten.
    pub value: Option<serde_json::Value>,
}

/// A value that a journal has.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The name.
    pub name: String,
    /// Number of the write that put it.
    pub seq: u64,
    /// The value.
    pub value: serde_json::Value,
}

/// Values by name, in a file of one program's own. What was written is on the disk; a write that fails leaves what was there.
#[derive(Debug)]
pub struct Journal {
    target: Target,
    limits: Limits,
    connection: Option<Connection>,
}

impl Journal {
    /// Opens a file, or makes it for this user alone.
    ///
    /// # Errors
    /// [`Error::NewerSchema`], and whatever keeps a file from being read.
    pub async fn open(path: &Path, limits: Limits) -> Result<Journal, Error> {
        let target = Target::file(path, &limits)?;
        let mut journal = Journal { target, limits, connection: None };
        let mut connection = bounded(&journal.limits, journal.target.connect()).await?;
        bounded(&journal.limits, schema::migrate(&mut connection, JOURNAL)).await?;
        journal.connection = Some(connection);
        Ok(journal)
    }

    /// Writes all of the entries or none. Of a name that occurs more than once the last one counts. Gives the number of the
    /// write, ascending.
    ///
    /// # Errors
    /// Nothing was written, except perhaps after [`Error::Doubtful`]: writing the same entries again is harmless.
    pub async fn write(&mut self, entries: &[Entry]) -> Result<u64, Error> {
        let mut last = BTreeMap::new();
        for entry in entries {
            last.insert(entry.name.as_str(), entry.value.as_ref().map(ToString::to_string));
        }
        let mut connection = self.connect().await?;
        let mut committing = None;
        let because = match bounded(&self.limits, attempt(&mut connection, &last, &mut committing)).await {
            Ok(seq) => {
                self.connection = Some(connection);
                return Ok(seq);
            }
            Err(error) => error,
        };
        drop(connection);
        match committing {
            Some(seq) => self.settle(seq, because).await,
            None => Err(because),
        }
    }

    /// Finds out what became of a write whose commit gave an error: nobody else writes here.
    async fn settle(&mut self, number: u64, because: Error) -> Result<u64, Error> {
        let last = async {
            let mut connection = self.connect().await?;
            let work = async {
                // Behind what may still be on its way; nothing is written, as a full disk has to answer too.
                connection.begin().await?;
                let row = connection.row("SELECT one, seq FROM journal_state", &[]).await?;
                connection.roll_back().await?;
                Ok(row)
            };
            let row = bounded(&self.limits, work).await?;
            self.connection = Some(connection);
            Read(&row, &TABLE).int(1)
        };
        match last.await {
            Ok(last) if last >= number => Ok(number),
            Ok(_) => Err(because),
            Err(_) => Err(Error::Doubtful { number, because: Some(Box::new(because)) }),
        }
    }

    /// All values, by name, and the number of the last write.
    ///
    /// # Errors
    /// Those of the file; [`Error::Corrupt`] for a value that is not JSON.
    pub async fn load(&mut self) -> Result<(u64, Vec<Kept>), Error> {
        let mut connection = self.connect().await?;
        let work = async {
            connection.begin_reading().await?;
            let row = connection.row("SELECT one, seq FROM journal_state", &[]).await?;
            let seq = Read(&row, &TABLE).int(1)?;
            let rows = connection.rows("SELECT name, seq, json FROM journal ORDER BY name", &[]).await?;
            connection.roll_back().await?;
            Ok((seq, rows))
        };
        let (seq, rows) = bounded(&self.limits, work).await?;
        self.connection = Some(connection);
        let kept = rows.iter().map(|row| {
            let read = Read(row, &TABLE);
            let json = read.text(2)?;
            let value = serde_json::from_str(&json)
                .map_err(|_| Error::Corrupt { column: "journal.json", found: json })?;
            Ok(Kept { name: read.text(0)?, seq: read.int(1)?, value })
        });
        Ok((seq, kept.collect::<Result<_, Error>>()?))
    }

    async fn connect(&mut self) -> Result<Connection, Error> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let work = async {
            let mut connection = self.target.connect().await?;
            schema::check(&mut connection, JOURNAL).await?;
            Ok(connection)
        };
        bounded(&self.limits, work).await
    }
}

async fn bounded<T>(limits: &Limits, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let limit = limits.call();
    tokio::time::timeout(limit, work).await.unwrap_or(Err(Error::Slow(limit)))
}

async fn attempt(
    connection: &mut Connection,
    entries: &BTreeMap<&str, Option<String>>,
    committing: &mut Option<u64>,
) -> Result<u64, Error> {
    connection.begin().await?;
    let row = connection.row("UPDATE journal_state SET seq = seq + 1 RETURNING one, seq", &[]).await?;
    let seq = Read(&row, &TABLE).int(1)?;
    let mut put = Rows { table: &TABLE, work: Work::Replace, values: Vec::new() };
    let mut forget = Rows { table: &TABLE, work: Work::Remove { columns: 1 }, values: Vec::new() };
    for (name, json) in entries {
        match json {
            Some(json) => put.values.extend([text(name), int("journal.seq", seq)?, Value::Text(Some(json))]),
            None => forget.values.push(text(name)),
        }
    }
    let mut statements = Statements::default();
    statements.run(connection, &forget).await?;
    statements.run(connection, &put).await?;
    *committing = Some(seq);
    connection.commit().await?;
    Ok(seq)
}
