//! What can go wrong with a database, and what it means to who asked.

use perhop_reason::Code;
use std::time::Duration;

/// Why a database did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one of a database.
    #[error("`{0}` is no address of a database: `sqlite:PATH` and `postgres://…` are")]
    Address(String),
    /// The database cannot be reached, or its file cannot be read or written.
    #[error("the database is gone")]
    Gone(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No room is left.
    #[error("the database is full")]
    Full(#[source] sqlx::Error),
    /// Somebody else holds a lock for too long.
    #[error("the database is locked by somebody else")]
    Locked(#[source] sqlx::Error),
    /// A later version of this program has been here.
    #[error("the database has schema {found}, this program knows {known} and below: use the later program")]
    NewerSchema {
        /// Schema of the database.
        found: u64,
        /// The last schema that this program knows.
        known: u64,
    },
    /// Another controller leads, with a higher fence. Nothing was written.
    #[error("fence {mine} is over: fence {now} leads")]
    Fenced {
        /// The fence that was used.
        mine: u64,
        /// The fence that leads.
        now: u64,
    },
    /// No answer in time. Nothing was written.
    #[error("the database did not answer within {} ms", .0.as_millis())]
    Slow(Duration),
    /// It is not known whether a group was committed, as the database could not be asked afterwards. Writing the same
    /// group again gives the answer, and does not write it twice; until then no later one is written.
    #[error("whether group {number} is written is not known")]
    Doubtful {
        /// The group's number.
        number: u64,
        /// What went wrong; none = it was in doubt already, and this is a later group.
        #[source]
        because: Option<Box<Error>>,
    },
    /// The database refuses a group that would break what holds of its rows: a link oversold, a key twice. Nothing was written.
    #[error("the database refuses rows that contradict what it holds")]
    Contradiction(#[source] sqlx::Error),
    /// A number that no column holds. Nothing was written.
    #[error("{column}: {value} is above the largest number that is kept, 2⁶³ − 1")]
    OutOfRange {
        /// The column.
        column: &'static str,
        /// The number.
        value: u64,
    },
    /// A row that this program cannot have written, or a file that is no database.
    #[error("the database is damaged: {column}: `{found}`")]
    Corrupt {
        /// The column, or `file`.
        column: &'static str,
        /// What is there.
        found: String,
    },
    /// Rows after the asked number are no longer kept.
    #[error("the feed begins with {oldest}")]
    Trimmed {
        /// The first number that is kept.
        oldest: u64,
    },
    /// Anything else that the database says.
    #[error("the database failed")]
    Other(#[source] sqlx::Error),
}

impl Error {
    /// The reason code of a request that is refused for this.
    pub fn code(&self) -> Code {
        match self {
            Error::Address(_) => Code::Malformed,
            Error::Fenced { .. } => Code::Fenced,
            Error::OutOfRange { .. } => Code::OutOfRange,
            Error::Trimmed { .. } => Code::StaleRevision,
            Error::Gone(_)
            | Error::Full(_)
            | Error::Locked(_)
            | Error::NewerSchema { .. }
            | Error::Slow(_)
            | Error::Doubtful { .. }
            | Error::Contradiction(_)
            | Error::Corrupt { .. }
            | Error::Other(_) => Code::BackendFailed,
        }
    }

    /// When trying again may help, ms; none = not by itself.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Error::Locked(_) => Some(200),
            Error::Gone(_) | Error::Slow(_) | Error::Doubtful { .. } | Error::Other(_) => Some(1000),
            Error::Full(_) => Some(5000),
            Error::Address(_)
            | Error::NewerSchema { .. }
            | Error::Fenced { .. }
            | Error::Contradiction(_)
            | Error::OutOfRange { .. }
            | Error::Corrupt { .. }
            | Error::Trimmed { .. } => None,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Gone(Box::new(error))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Error {
        let Some(database) = error.as_database_error() else {
            return match error {
                sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound => {
                    Error::Corrupt { column: "row", found: error.to_string() }
                }
                _ => Error::Gone(Box::new(error)),
            };
        };
        let code = database.code().unwrap_or_default().into_owned();
        if database.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
            of_sqlite(code.parse().unwrap_or(1), error)
        } else {
            of_postgres(&code, error)
        }
    }
}

/// By the extended result code of <https://www.sqlite.org/rescode.html>, whose low byte is the result code.
fn of_sqlite(code: u32, error: sqlx::Error) -> Error {
    /// The file of shared memory beside a database cannot grow: the disk is full.
    const IOERR_SHMSIZE: u32 = 10 | 19 << 8;
    match (code, code & 0xff) {
        (_, 5 | 6) => Error::Locked(error),
        (IOERR_SHMSIZE, _) | (_, 13) => Error::Full(error),
        (_, 8 | 10 | 14) => Error::Gone(Box::new(error)),
        (_, 11 | 26) => Error::Corrupt { column: "file", found: error.to_string() },
        (_, 19) => Error::Contradiction(error),
        _ => Error::Other(error),
    }
}

/// By the SQLSTATE of appendix A of PostgreSQL's manual.
fn of_postgres(state: &str, error: sqlx::Error) -> Error {
    match state {
        "53100" => Error::Full(error),
        "55P03" | "40P01" | "40001" | "57014" | "25P03" => Error::Locked(error),
        "XX001" | "XX002" | "42P01" | "42703" => {
            Error::Corrupt { column: "schema", found: error.to_string() }
        }
        // Being shut down or started, a server that only reads, no connection left, or not let in.
        "57P01" | "57P02" | "57P03" | "25006" | "53300" => Error::Gone(Box::new(error)),
        _ if state.starts_with("08") || state.starts_with("28") || state.starts_with("3D") => {
            Error::Gone(Box::new(error))
        }
        _ if state.starts_with("23") || state.starts_with("22") => Error::Contradiction(error),
        _ => Error::Other(error),
    }
}
