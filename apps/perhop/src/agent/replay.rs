//! `perhop agent replay RECORD FILE`.

use super::driver::{LiveAgent, MACHINE};
use crate::error::{AppError, Verdict};
use crate::output::Output as Stdout;
use clap::Args;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Arguments of `perhop agent replay`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop agent replay agent.record agent.toml\n\n\
                        With the file of the run that was recorded it prints what the agent wanted then.")]
pub struct ReplayArgs {
    /// What an agent was told, by `perhop agent run --record`
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// The agent's file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Tells an agent what another was told, in the time of the record, and prints what it wants, one JSON object a line.
///
/// # Errors
/// A file cannot be read or is wrong.
pub fn run(args: &ReplayArgs) -> Result<Verdict, AppError> {
    let file = super::file::read(&args.file)?.agent;
    let record =
        File::open(&args.record).map_err(|source| AppError::Read { path: args.record.clone(), source })?;
    let (mut out, mut printed) = (Stdout::new(), Ok(()));
    let make = |now, setup| LiveAgent::new(&file, &setup, now);
    let replayed = perhop_drive::replay(BufReader::new(record), MACHINE, make, |now, wanted| {
        if printed.is_ok() {
            printed = out.json(&serde_json::json!({ "now": now, "output": wanted }));
        }
    });
    replayed.map_err(|source| AppError::BadRecord { path: args.record.clone(), source })?;
    printed?;
    out.flush()?;
    Ok(Verdict::Done)
}
