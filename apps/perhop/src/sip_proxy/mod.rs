//! `perhop sip-proxy …`.

mod calls;
mod check;
mod file;
mod places;
mod records;
mod run;
mod secret;

use crate::error::{AppError, Verdict};
use clap::Subcommand;

/// Subcommands of `perhop sip-proxy`.
#[derive(Debug, Subcommand)]
pub enum SipProxyCommand {
    /// Check files of proxies: every error with its place
    Check(check::CheckArgs),
    /// Pass calls on, and reserve bandwidth for them
    Run(run::RunArgs),
}

impl SipProxyCommand {
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
