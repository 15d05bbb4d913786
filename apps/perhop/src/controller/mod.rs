//! `perhop controller …`.

mod camara;
mod check;
mod file;
mod keeper;
mod lead;
mod peers;
mod policy;
mod radius;
mod run;

pub use file::{Cops, address_of, client_type, cops, doors};
pub use run::told;

use crate::error::{AppError, Verdict};
use clap::Subcommand;
use thiserror::Error;

/// Subcommands of `perhop controller`.
#[derive(Debug, Subcommand)]
pub enum ControllerCommand {
    /// Check a domain's files: every error with its place
    Check(check::CheckArgs),
    /// Look after a domain: what its links carry, and who has reserved how much of it
    Run(run::RunArgs),
}

impl ControllerCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Check(args) => check::run(&args),
            Self::Run(args) => run::run(&args),
        }
    }
}

/// Why a controller does not start.
#[derive(Debug, Error)]
pub enum ControllerError {
    /// The database.
    #[error("{address}: {source}{}", because(source))]
    Database {
        /// Where.
        address: String,
        /// Error.
        source: perhop_store::Error,
    },
    /// What the database has cannot be a domain's.
    #[error(
        "the rows of the database contradict each other: {0}\nRestore it from a copy, or begin with an empty one."
    )]
    Rows(#[from] perhop_broker::ledger::LoadError),
    /// Neighbouring domains are not reached.
    #[error("the file's [[peer]]: {0}")]
    Peers(String),
    /// Certificates.
    #[error("{0}\n`perhop pki` makes an authority and certificates.")]
    Tls(#[from] perhop_serve::TlsError),
    /// Where RADIUS is to come.
    #[error("[radius]: {0}")]
    Radius(#[from] perhop_serve::radius::RadiusError),
    /// The domain of the file cannot be had.
    #[error("the file's domain cannot be taken: {0}")]
    Domain(String),
}

/// What the database itself says.
fn because(error: &perhop_store::Error) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}
