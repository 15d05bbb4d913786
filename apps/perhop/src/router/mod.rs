//! `perhop router …`.

mod check;
mod file;
mod graph;

use crate::error::{AppError, Verdict};
use clap::Subcommand;

/// Subcommands of `perhop router`.
#[derive(Debug, Subcommand)]
pub enum RouterCommand {
    /// Check router files: every error and warning with its place
    Check(check::CheckArgs),
    /// Print the packet graph that a router file comes to, or check a graph text
    Graph(graph::GraphArgs),
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
        }
    }
}
