//! Programs of scenarios: whether this machine has them, before anything runs.

use super::find::Ready;
use crate::error::LabCommandError;
use perhop_scenario::Program;
use std::collections::BTreeSet;
use std::env::split_paths;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Looks for the programs of every scenario and configuration.
///
/// # Errors
/// All that are missing, each with its place in the file.
pub(super) fn are_here(all: &[Ready]) -> Result<(), LabCommandError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut missing = Vec::new();
    let mut seen = BTreeSet::new();
    for Ready { origin, loaded, .. } in all {
        let variants = loaded.variants.iter().map(|(_, scenario)| scenario);
        for program in std::iter::once(&loaded.product).chain(variants).flat_map(|s| &s.programs) {
            let line = told(origin, program);
            if !is_here(program, &path) && seen.insert(line.clone()) {
                missing.push(line);
            }
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(LabCommandError::NoProgram { missing }) }
}

fn told(origin: &str, program: &Program) -> String {
    let place = program.at.map_or(String::new(), |at| format!(":{}:{}", at.line, at.column));
    let command = program.command.first().map_or("", String::as_str);
    format!("{origin}{place}: program \"{}\": there is no \"{command}\" on this machine", program.name)
}

/// As the system finds it: a name with a slash is a path, any other is in a directory of `path`.
fn is_here(program: &Program, path: &OsStr) -> bool {
    let Some(name) = program.command.first() else { return false };
    if name.contains('/') {
        is_executable(Path::new(name))
    } else {
        split_paths(path).any(|d| is_executable(&d.join(name)))
    }
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
