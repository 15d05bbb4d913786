//! `perhop router …`.

mod adapter;
mod apply;
mod check;
mod clients;
mod explain;
mod file;
mod file_owner;
mod graph;
mod log;
mod reload;
mod reloader;
mod reread;
mod restore;
mod run;
mod serving;

pub use log::Log;
pub use serving::{Said, Signals};

use crate::error::{AppError, Verdict};
use clap::Subcommand;

/// Subcommands of `perhop router`.
#[derive(Debug, Subcommand)]
pub enum RouterCommand {
    /// Check router files: every error and warning with its place
    Check(check::CheckArgs),
    /// Print the packet graph that a router file comes to, its objects as comments, or check a graph text
    Graph(graph::GraphArgs),
    /// Say of a described packet what would become of it, decision by decision
    Explain(explain::ExplainArgs),
    /// Forward packets as a router file says
    Run(run::RunArgs),
    /// Make a running router read its file again
    Reload(reload::ReloadArgs),
    /// Send a transaction to a running router
    Apply(apply::ApplyArgs),
    /// Put interfaces back after a router has crashed
    Restore(restore::RestoreArgs),
}

impl RouterCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Check(args) => check::run(&args),
            Self::Graph(args) => graph::run(&args),
            Self::Explain(args) => explain::run(&args),
            Self::Run(args) => run::run(&args),
            Self::Reload(args) => reload::run(&args),
            Self::Apply(args) => apply::run(&args),
            Self::Restore(args) => restore::run(&args),
        }
    }
}
