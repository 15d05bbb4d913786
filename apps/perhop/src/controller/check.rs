//! `perhop controller check FILE…`.

use super::file;
use crate::error::{AppError, Verdict};
use crate::file_check;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `perhop controller check`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop controller check examples/domain/domain.toml")]
pub struct CheckArgs {
    /// Files of domains
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Checks them all and says which are good; the first error of a file becomes the command's.
///
/// # Errors
/// A file cannot be read or is wrong.
pub fn run(args: &CheckArgs) -> Result<Verdict, AppError> {
    file_check::check(&args.files, |path| {
        let read = file::read(path)?;
        let topology = &read.domain.topology;
        Ok(format!("good, {} nodes, {} links", topology.nodes.len(), topology.links.len()))
    })
}
