//! `perhop controller check FILE…`.

use super::file;
use crate::error::{AppError, Verdict};
use crate::output::Output;
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
    let (mut out, mut failed) = (Output::new(), None);
    for path in &args.files {
        match file::read(path) {
            Ok(read) => {
                let topology = &read.domain.topology;
                let (nodes, links) = (topology.nodes.len(), topology.links.len());
                out.line(format_args!("{}: good, {nodes} nodes, {links} links", path.display()))?;
            }
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    out.flush()?;
    failed.map_or(Ok(Verdict::Done), Err)
}
