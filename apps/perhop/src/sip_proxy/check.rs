//! `perhop sip-proxy check FILE…`.

use super::file;
use crate::error::{AppError, Verdict};
use crate::file_check;
use clap::Args;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Arguments of `perhop sip-proxy check`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop sip-proxy check examples/sip-proxy/sip-proxy.toml")]
pub struct CheckArgs {
    /// Files of proxies, or folders with a sip-proxy.toml
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Checks them all and says which are good; the first error of a file becomes the command's.
///
/// # Errors
/// A file cannot be read or is wrong.
pub fn run(args: &CheckArgs) -> Result<Verdict, AppError> {
    file_check::check(&args.files, |path| {
        let read = file::read(&file::in_folder(path))?;
        let edges: BTreeSet<_> = read.quality.edges.iter().map(|edge| &edge.er).collect();
        Ok(format!("good, {} listeners, {} edge routers", read.doors.len(), edges.len()))
    })
}
