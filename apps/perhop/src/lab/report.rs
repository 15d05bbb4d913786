//! `perhop lab report DIR…`.

use super::results;
use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::Args;
use std::path::PathBuf;

/// Makes report.html again from the files of a result: result.json, about.json, machine.json and the CSV files.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: perhop lab report out/lab/*")]
pub struct ReportArgs {
    /// Directories that `perhop lab run` wrote
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
}

/// Makes them; prints the path of each page.
///
/// # Errors
/// The first directory that is not the result of a run, or cannot be written.
pub fn run(args: &ReportArgs) -> Result<Verdict, AppError> {
    let mut out = Output::new();
    for path in &args.directories {
        let page = results::write_page(path, &results::read(path)?)?;
        out.line(page.display())?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}
