//! A connection to either engine: the one place that knows which it is.

use crate::Error;
use crate::checkpoint::LOG_PAGES;
use crate::limits::Limits;
use serde_json::Value as Json;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgRow};
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{Arguments, AssertSqlSafe, ConnectOptions, Row as _, SqlSafeStr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A value for a statement. An absent one has a type too, as PostgreSQL asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
}

/// How an engine wants the place of a value written, by its number from 1.
pub(crate) type Place = fn(usize) -> String;

/// Where a database is.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Sqlite(PathBuf, Box<SqliteConnectOptions>),
    Postgres(Box<PgConnectOptions>),
}

impl Target {
    /// Reads an address and makes the file of a SQLite database that does not exist yet. Its mode is 0600: there are
    /// hashes of tokens in it.
    pub(crate) fn create(address: &str, limits: &Limits) -> Result<Target, Error> {
        if let Some(path) = address.strip_prefix("sqlite:") {
            let mut target = Target::file(Path::new(path.strip_prefix("//").unwrap_or(path)), limits)?;
            if let Target::Sqlite(_, options) = &mut target {
                **options = options.as_ref().clone().pragma("wal_autocheckpoint", LOG_PAGES.to_string());
            }
            return Ok(target);
        }
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return Err(Error::Address(address.to_owned()));
        }
        let options =
            PgConnectOptions::from_str(address).map_err(|_| Error::Address("postgres://…".to_owned()))?;
        let ms = |d: std::time::Duration| d.as_millis().to_string();
        // A server that a client has left in the middle of a transaction gives the domain's row free again.
        let options = options.application_name("perhop").disable_statement_logging().options([
            ("synchronous_commit", "on".to_owned()),
            ("lock_timeout", ms(limits.lock())),
            ("statement_timeout", ms(limits.call())),
            ("idle_in_transaction_session_timeout", ms(limits.call())),
        ]);
        Ok(Target::Postgres(Box::new(options)))
    }

    /// A SQLite database in a file.
    pub(crate) fn file(path: &Path, limits: &Limits) -> Result<Target, Error> {
        if path.as_os_str().is_empty() {
            return Err(Error::Address("sqlite:".to_owned()));
        }
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        let mut options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(limits.lock())
            .pragma("cache_size", "-65536")
            .disable_statement_logging();
        if let Some(pages) = limits.sqlite_pages {
            options = options.pragma("max_page_count", pages.to_string());
        }
        Ok(Target::Sqlite(path.to_owned(), Box::new(options)))
    }

    /// Connects, and makes nothing.
    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        match self {
            Target::Sqlite(path, options) => {
                let file = identity(path)?;
                Ok(Connection::Sqlite { connection: options.connect().await?, path: path.clone(), file })
            }
            Target::Postgres(options) => Ok(Connection::Postgres(options.connect().await?)),
        }
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> Result<(u64, u64), Error> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A connection. Dropping it closes it, and takes back what it has begun.
#[derive(Debug)]
pub(crate) enum Connection {
    Sqlite { connection: SqliteConnection, path: PathBuf, file: (u64, u64) },
    Postgres(PgConnection),
}

impl Connection {
    /// Whether it still leads to its database. A file that was removed or replaced would take everything, and nobody
    /// would find it again.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Connection::Sqlite { path, file, .. } if identity(path)? != *file => {
                Err(std::io::Error::from(std::io::ErrorKind::NotFound).into())
            }
            Connection::Sqlite { .. } | Connection::Postgres(_) => Ok(()),
        }
    }

    /// The way to write places in long statements.
    pub(crate) fn place(&self) -> Place {
        match self {
            // A place with a number has a name for SQLite, which looks for it from the first one on.
            Connection::Sqlite { .. } => |_| "?".to_owned(),
            Connection::Postgres(_) => |n| format!("${n}"),
        }
    }

    /// Begins a transaction that will write.
    pub(crate) async fn begin(&mut self) -> Result<(), Error> {
        self.check()?;
        match self {
            // At once, or two writers that have both read would each wait for the other.
            Connection::Sqlite { .. } => self.plain("BEGIN IMMEDIATE").await,
            Connection::Postgres(_) => self.plain("BEGIN").await,
        }
    }

    /// Begins a transaction that reads one state of the database.
    pub(crate) async fn begin_reading(&mut self) -> Result<(), Error> {
        self.check()?;
        match self {
            Connection::Sqlite { .. } => self.plain("BEGIN").await,
            Connection::Postgres(_) => self.plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await,
        }
    }

    /// The domain's row, which nobody else can change until this transaction, which will write, ends. Nothing is
    /// written for it, as a full database has to answer too.
    pub(crate) async fn state(&mut self, columns: &str) -> Result<Row, Error> {
        let lock = match self {
            // Its transaction has the whole file.
            Connection::Sqlite { .. } => "",
            Connection::Postgres(_) => " FOR UPDATE",
        };
        let sql = format!("SELECT {columns} FROM domain_state WHERE one = 1{lock}");
        self.row(AssertSqlSafe(sql), &[]).await
    }

    /// Makes a transaction last. After an error it is not known whether it does.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        self.plain("COMMIT").await
    }

    /// Gives a transaction up.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Error> {
        self.plain("ROLLBACK").await
    }

    /// Keeps all other writers out until the transaction ends, also where there is no row yet to lock.
    pub(crate) async fn lock_schema(&mut self) -> Result<(), Error> {
        match self {
            Connection::Sqlite { .. } => Ok(()),
            // Any number will do that every version of this program takes.
            Connection::Postgres(_) => self.plain("SELECT pg_advisory_xact_lock(5064531)").await,
        }
    }

    /// Statements without values.
    pub(crate) async fn plain(&mut self, sql: &'static str) -> Result<(), Error> {
        match self {
            Connection::Sqlite { connection, .. } => {
                sqlx::raw_sql(sql).execute(connection).await?;
            }
            Connection::Postgres(connection) => {
                sqlx::raw_sql(sql).execute(connection).await?;
            }
        }
        Ok(())
    }

    /// Runs a statement; says how many rows it changed.
    pub(crate) async fn execute(&mut self, sql: impl SqlSafeStr, values: &[Value<'_>]) -> Result<u64, Error> {
        Ok(match self {
            Connection::Sqlite { connection, .. } => {
                sqlx::query_with(sql, sqlite_arguments(values)?).execute(connection).await?.rows_affected()
            }
            Connection::Postgres(connection) => {
                sqlx::query_with(sql, postgres_arguments(values)?).execute(connection).await?.rows_affected()
            }
        })
    }

    /// Runs a statement that gives rows.
    pub(crate) async fn rows(
        &mut self,
        sql: impl SqlSafeStr,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        Ok(match self {
            Connection::Sqlite { connection, .. } => {
                let query = sqlx::query_with(sql, sqlite_arguments(values)?);
                query.fetch_all(connection).await?.into_iter().map(Row::Sqlite).collect()
            }
            Connection::Postgres(connection) => {
                let query = sqlx::query_with(sql, postgres_arguments(values)?);
                query.fetch_all(connection).await?.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    /// Some columns of many rows: `SELECT columns` and `rest`. Each row comes as one value, as a value of its own for
    /// each column costs several times as much.
    pub(crate) async fn many(
        &mut self,
        columns: &str,
        rest: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        let array = match self {
            Connection::Sqlite { .. } => format!("json_array({columns})"),
            Connection::Postgres(_) => format!("json_build_array({columns})::text"),
        };
        let rows = self.rows(AssertSqlSafe(format!("SELECT {array} {rest}")), values).await?;
        let array = |row: Row| {
            let text = row.text(0)?.unwrap_or_default();
            serde_json::from_str(&text)
                .map(Row::Array)
                .map_err(|_| Error::Corrupt { column: "row", found: text })
        };
        rows.into_iter().map(array).collect()
    }

    /// Runs a statement that gives one row.
    pub(crate) async fn row(&mut self, sql: impl SqlSafeStr, values: &[Value<'_>]) -> Result<Row, Error> {
        self.rows(sql, values).await?.pop().ok_or_else(|| sqlx::Error::RowNotFound.into())
    }
}

fn sqlite_arguments(values: &[Value<'_>]) -> Result<SqliteArguments, Error> {
    let mut arguments = SqliteArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        match *value {
            Value::Int(n) => Arguments::add(&mut arguments, n),
            Value::Text(text) => Arguments::add(&mut arguments, text),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

fn postgres_arguments(values: &[Value<'_>]) -> Result<PgArguments, Error> {
    let mut arguments = PgArguments::default();
    arguments.reserve(values.len(), 16 * values.len());
    for value in values {
        match *value {
            Value::Int(n) => Arguments::add(&mut arguments, n),
            Value::Text(text) => Arguments::add(&mut arguments, text),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// A row of either engine.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    /// One that came as an array of JSON: see [`Connection::many`].
    Array(Vec<Json>),
}

impl Row {
    /// A number that may be absent.
    pub(crate) fn int(&self, column: usize) -> Result<Option<i64>, Error> {
        Ok(match self {
            Row::Sqlite(row) => row.try_get(column)?,
            Row::Postgres(row) => row.try_get(column)?,
            Row::Array(values) => given(values, column, Json::as_i64)?,
        })
    }

    /// Text that may be absent.
    pub(crate) fn text(&self, column: usize) -> Result<Option<String>, Error> {
        Ok(match self {
            Row::Sqlite(row) => row.try_get(column)?,
            Row::Postgres(row) => row.try_get(column)?,
            Row::Array(values) => given(values, column, |value| value.as_str().map(str::to_owned))?,
        })
    }
}

/// What a value of an array is, if it is anything.
fn given<T>(values: &[Json], column: usize, of: impl Fn(&Json) -> Option<T>) -> Result<Option<T>, Error> {
    let value = values.get(column).unwrap_or(&Json::Null);
    match of(value) {
        None if !value.is_null() => Err(Error::Corrupt { column: "row", found: value.to_string() }),
        given => Ok(given),
    }
}
