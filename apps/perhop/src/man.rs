//! `perhop man [DIR]`.

use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::{Args, Command};
use std::path::PathBuf;

/// Arguments of `perhop man`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop man | man -l -")]
pub struct ManArgs {
    /// Writes one page a subcommand into this directory
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes those of `command`.
///
/// # Errors
/// Those of standard output and of the directory.
pub fn run(args: &ManArgs, command: Command) -> Result<Verdict, AppError> {
    match &args.dir {
        Some(dir) => {
            let failed = |source| AppError::Write { path: dir.clone(), source };
            std::fs::create_dir_all(dir).map_err(failed)?;
            clap_mangen::generate_to(command, dir).map_err(failed)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).map_err(AppError::Output)?;
            let mut out = Output::new();
            out.bytes(&page)?;
            out.flush()?;
        }
    }
    Ok(Verdict::Done)
}
