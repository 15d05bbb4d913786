//! `perhop agent …`.

mod announce;
mod ask;
mod check;
mod decide;
mod domain;
mod driver;
mod file;
mod finder;
mod link;
mod listen;
mod policy;
mod replay;
mod run;
mod watch;
mod words;

pub use listen::clear_dead;

use crate::error::{AppError, Verdict};
use clap::Subcommand;

/// Subcommands of `perhop agent`.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Check agent files: every error with its place, unstable settings with the nearest stable ones
    Check(check::CheckArgs),
    /// Measure the classes of a router, and give each what it needs and the broker grants; divide links between TCP flows
    Run(run::RunArgs),
    /// Tell a running agent that a link will have another rate
    Announce(announce::AnnounceArgs),
    /// Tell an agent what another was told, and print what it wants
    Replay(replay::ReplayArgs),
}

impl AgentCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Check(args) => check::run(&args),
            Self::Run(args) => run::run(&args),
            Self::Announce(args) => announce::run(&args),
            Self::Replay(args) => replay::run(&args),
        }
    }
}
