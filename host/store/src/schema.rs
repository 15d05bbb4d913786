//! The schema and its steps, forward only.

use crate::Error;
use crate::connection::{Connection, Value};

/// Steps of the schema of a domain: the first leads from nothing to schema 1. A later one ends the term of whoever
/// leads with an older schema, by its own statements.
pub(crate) const DOMAIN: &[&str] = &[
    include_str!("../migrations/001.sql"),
    include_str!("../migrations/002.sql"),
    include_str!("../migrations/003.sql"),
];

/// Steps of the schema of a journal.
pub(crate) const JOURNAL: &[&str] = &[include_str!("../migrations/journal_001.sql")];

/// Brings a database to the last schema: all steps that it lacks in one transaction, which only one at a time can begin.
///
/// # Errors
/// [`Error::NewerSchema`] where the database is ahead.
pub(crate) async fn migrate(
    connection: &mut Connection,
    steps: &'static [&'static str],
) -> Result<(), Error> {
    connection.begin().await?;
    connection.lock_schema().await?;
    connection
        .plain("CREATE TABLE IF NOT EXISTS schema_version (one BIGINT PRIMARY KEY, version BIGINT NOT NULL)")
        .await?;
    let found = version(connection).await?;
    let known = steps.len() as u64;
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    for step in &steps[found as usize..] {
        connection.plain(step).await?;
    }
    if found < known {
        let put = "INSERT INTO schema_version VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET version = excluded.version";
        connection.execute(put, &[Value::Int(Some(known as i64))]).await?;
    }
    connection.commit().await
}

/// Refuses a database that has not the last schema: what a connection that is made anew finds.
pub(crate) async fn check(connection: &mut Connection, steps: &'static [&'static str]) -> Result<(), Error> {
    let known = steps.len() as u64;
    match version(connection).await? {
        found if found > known => Err(Error::NewerSchema { found, known }),
        found if found < known => {
            Err(Error::Corrupt { column: "schema_version.version", found: found.to_string() })
        }
        _ => Ok(()),
    }
}

async fn version(connection: &mut Connection) -> Result<u64, Error> {
    let rows = connection.rows("SELECT version FROM schema_version WHERE one = 1", &[]).await?;
    let Some(row) = rows.first() else { return Ok(0) };
    let version = row.int(0)?.unwrap_or(-1);
    u64::try_from(version)
        .map_err(|_| Error::Corrupt { column: "schema_version.version", found: version.to_string() })
}
