//! `perhop completions SHELL`.

use crate::cli::Cli;
use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Arguments of `perhop completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop completions bash > /etc/bash_completion.d/perhop")]
pub struct CompletionsArgs {
    /// Whose
    shell: Shell,
}

/// Prints them.
///
/// # Errors
/// Those of standard output.
pub fn run(args: &CompletionsArgs) -> Result<Verdict, AppError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "perhop", &mut script);
    let mut out = Output::new();
    out.bytes(&script)?;
    out.flush()?;
    Ok(Verdict::Done)
}
