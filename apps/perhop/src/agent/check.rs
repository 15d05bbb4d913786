//! `perhop agent check FILE…`.

use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `perhop agent check`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop agent check agent.toml")]
pub struct CheckArgs {
    /// Agent files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Checks them all and says which are good; the first error of a file becomes the command's.
///
/// # Errors
/// A file cannot be read or is wrong.
pub fn run(args: &CheckArgs) -> Result<Verdict, AppError> {
    let (mut out, mut failed) = (Output::new(), None);
    for path in &args.files {
        match super::read(path) {
            Ok(_) => out.line(format_args!("{}: good", path.display()))?,
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    out.flush()?;
    failed.map_or(Ok(Verdict::Done), Err)
}
