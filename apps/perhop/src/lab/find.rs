//! Where scenarios are found and how they are read: files on disk, and those built into the binary.

use super::error::LabCommandError;
use crate::error::AppError;
use crate::output::progress;
use perhop_config::did_you_mean;
use perhop_scenario::{Loaded, Scenario, Settings};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

mod built_in {
    include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));
}

/// Where scenarios of one's own lie.
const HERE: &str = "scenarios";
/// Folders below it that hold scenarios; others hold the files that scenarios name.
const FOLDERS: [&str; 2] = ["", "examples/"];

/// A scenario's text and where the files lie that it names.
pub(super) struct Found {
    /// What messages call it.
    pub(super) origin: String,
    /// The file, if it is not built in.
    pub(super) path: Option<PathBuf>,
    /// Folder of a built-in one below the scenarios.
    folder: &'static str,
    text: String,
}

/// A scenario that is ready to run.
pub(super) struct Ready {
    /// What messages call its file.
    pub(super) origin: String,
    pub(super) loaded: Loaded,
    /// What the user set.
    pub(super) settings: Settings,
}

/// Finds a scenario by its name or its file. A file in `scenarios/` of this directory comes before one built in.
pub(super) fn find(given: &str) -> Result<Found, AppError> {
    let file = Path::new(given);
    if given.ends_with(".toml") || given.contains('/') {
        return read_file(file);
    }
    for folder in FOLDERS {
        let here = Path::new(HERE).join(format!("{folder}{given}.toml"));
        if here.is_file() {
            return read_file(&here);
        }
    }
    if let Some(found) = shipped(given) {
        return Ok(found);
    }
    let known = names();
    let near = did_you_mean(given, known.iter().map(String::as_str)).map(str::to_owned);
    Err(LabCommandError::Unknown { given: given.to_owned(), near }.into())
}

/// The scenario of a name that is built in, whatever lies here.
pub(super) fn shipped(name: &str) -> Option<Found> {
    FOLDERS.iter().find_map(|folder| {
        let name = format!("{folder}{name}.toml");
        let text = String::from_utf8(built_in(&name)?.to_vec()).ok()?;
        Some(Found { origin: format!("{HERE}/{name} (built in)"), path: None, folder, text })
    })
}

fn read_file(path: &Path) -> Result<Found, AppError> {
    let bytes = std::fs::read(path).map_err(|source| AppError::Read { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes)
        .map_err(|error| AppError::NotText { path: path.to_owned(), at: error.utf8_error().valid_up_to() })?;
    Ok(Found { origin: path.display().to_string(), path: Some(path.to_owned()), folder: "", text })
}

fn built_in(name: &str) -> Option<&'static [u8]> {
    let at = built_in::FILES.binary_search_by(|(path, _)| (*path).cmp(name)).ok()?;
    built_in::FILES.get(at).map(|(_, bytes)| *bytes)
}

/// Names of all scenarios, here and built in.
pub(super) fn names() -> Vec<String> {
    let of = |name: &str| name.strip_suffix(".toml").filter(|id| !id.contains('/')).map(str::to_owned);
    let mut names = BTreeSet::new();
    for folder in FOLDERS {
        names.extend(built_in::FILES.iter().filter_map(|(path, _)| of(path.strip_prefix(folder)?)));
        let here = std::fs::read_dir(Path::new(HERE).join(folder)).into_iter().flatten().flatten();
        names.extend(here.filter_map(|entry| of(entry.file_name().to_str()?)));
    }
    names.into_iter().collect()
}

/// Reads it, shows what is wrong or doubtful, and gives what is ready to run.
///
/// # Errors
/// A setting is none, or the scenario has errors.
pub(super) fn read(found: &Found, set: &[String]) -> Result<Ready, AppError> {
    let mut settings = Settings::new();
    for setting in set {
        settings.add(setting).map_err(LabCommandError::BadSetting)?;
    }
    let companions = |name: &str| companion(found, name);
    let (loaded, diagnostics) = Scenario::read(&found.origin, &found.text, &settings, &companions);
    if !diagnostics.is_empty() {
        progress(diagnostics.to_string().trim_end());
    }
    match loaded {
        Some(loaded) => Ok(Ready { origin: found.origin.clone(), loaded, settings }),
        None => Err(LabCommandError::BadScenario {
            origin: found.origin.clone(),
            errors: diagnostics.errors().max(1),
        }
        .into()),
    }
}

/// The bytes of a file that a scenario names, relative to it.
fn companion(found: &Found, name: &str) -> Result<Vec<u8>, String> {
    match &found.path {
        Some(path) => {
            let base = path.parent().unwrap_or(Path::new(""));
            std::fs::read(base.join(name)).map_err(|error| error.to_string())
        }
        None => {
            let name = format!("{}{name}", found.folder);
            let plain =
                plain(&name).ok_or("a built-in scenario has only files of the scenarios' directory")?;
            built_in(&plain).map(<[u8]>::to_vec).ok_or_else(|| "it is not built in".to_owned())
        }
    }
}

/// A relative path without detours; `None` if it leaves its directory.
fn plain(name: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for component in Path::new(name).components() {
        match component {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file below `scenarios/`, by its path there.
    fn files(directory: &Path, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                all.extend(files(&entry.path(), &format!("{name}/")));
            } else {
                all.push((name, std::fs::read(entry.path()).expect("a file of the project")));
            }
        }
        all.sort();
        all
    }

    #[test]
    fn what_is_built_in_is_what_lies_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let built_in: Vec<(String, Vec<u8>)> =
            built_in::FILES.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
        assert_eq!(built_in, files(&root, ""));
    }

    #[test]
    fn companions_of_built_in_scenarios_stay_below_their_directory() {
        assert_eq!(plain("./routers/../edge.toml").as_deref(), Some("edge.toml"));
        assert_eq!((plain("../edge.toml"), plain("/etc/passwd")), (None, None));
    }
}
