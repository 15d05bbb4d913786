//! `perhop completions SHELL`.

use crate::error::{AppError, Verdict};
use crate::output::Output;
use clap::{Args, Command};
use clap_complete::Shell;

/// Arguments of `perhop completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example: perhop completions bash > /etc/bash_completion.d/perhop")]
pub struct CompletionsArgs {
    /// Whose
    shell: Shell,
}

/// Prints those of `command`.
///
/// # Errors
/// Those of standard output.
pub fn run(args: &CompletionsArgs, mut command: Command) -> Result<Verdict, AppError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "perhop", &mut script);
    let mut out = Output::new();
    out.bytes(&script)?;
    out.flush()?;
    Ok(Verdict::Done)
}
