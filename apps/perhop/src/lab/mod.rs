//! `perhop lab …` and `perhop demo`.

mod compare;
mod demo;
mod find;
mod jobs;
mod list;
mod mix;
mod programs;
mod progress;
mod record;
mod report;
mod results;
mod run;
mod tune;

pub use demo::{DemoArgs, run as demo};

use crate::error::{AppError, Verdict};
use clap::Subcommand;

/// Subcommands of `perhop lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run scenarios and judge what came out
    Run(run::RunArgs),
    /// List the scenarios
    List(list::ListArgs),
    /// Make the pages of results again
    Report(report::ReportArgs),
    /// Compare results figure by figure
    Compare(compare::CompareArgs),
    /// Measure detection with a mix of traffic whose kinds are known
    Mix(mix::MixArgs),
    /// Record what a network does to packets, for an emulator to play
    Record(record::RecordArgs),
    /// Find settings of bandwidth allocation in the fluid model
    Tune(tune::TuneArgs),
}

impl LabCommand {
    /// Does it.
    ///
    /// # Errors
    /// See [`AppError`].
    pub fn run(self) -> Result<Verdict, AppError> {
        match self {
            Self::Run(args) => run::run(&args),
            Self::List(args) => list::run(&args),
            Self::Report(args) => report::run(&args),
            Self::Compare(args) => compare::run(&args),
            Self::Mix(args) => mix::run(&args),
            Self::Record(args) => record::run(&args),
            Self::Tune(args) => tune::run(&args),
        }
    }
}
