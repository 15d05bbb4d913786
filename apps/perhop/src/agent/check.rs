//! `perhop agent check FILE…`.

use crate::error::{AppError, Verdict};
use crate::file_check;
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
    file_check::check(&args.files, |path| super::file::read(path).map(|_| "good".to_owned()))
}
