//! Running other programs: for their answer, or as a step whose output is shown and counted.

use crate::summary::Counts;
use crate::{Result, XtaskError};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `program` and returns what it wrote to standard output.
///
/// # Errors
/// When it cannot be started or exits with a failure.
pub fn output(program: &str, arguments: &[&str], directory: &Path) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
        .map_err(|source| XtaskError::Start { program: program.to_owned(), source })?;
    if !output.status.success() {
        return Err(XtaskError::Tool {
            command: format!("{program} {}", arguments.join(" ")),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The cargo that runs us, else the one on PATH.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Whether cargo has this subcommand here.
pub fn has_subcommand(name: &str) -> bool {
    let quiet = |command: &mut Command| {
        command.args([name, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    quiet(&mut Command::new(cargo())).is_ok_and(|status| status.success())
}

/// Runs cargo as a step: its output goes to ours, line by line, and test summaries are added to `counts`.
/// True when it succeeded.
///
/// # Errors
/// When it cannot be started or its output cannot be read.
pub fn cargo_step(
    arguments: &[String],
    environment: &[(&str, &str)],
    directory: &Path,
    counts: &mut Counts,
) -> Result<bool> {
    let program = cargo();
    let start_error = |source| XtaskError::Start { program: program.clone(), source };
    let mut child = Command::new(&program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(directory)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(start_error)?;
    let stdout = child.stdout.take().expect("standard output was piped above");
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(start_error)?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        counts.add_line(&line);
    }
    Ok(child.wait().map_err(start_error)?.success())
}
