//! Scenarios by name: files in `scenarios/` of the current directory, and those built in.

use crate::model::Scenario;
use crate::read::Loaded;
use perhop_config::{Diagnostics, Settings, did_you_mean};
use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

mod built_in {
    include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));
}

/// Where scenarios of one's own lie.
const HERE: &str = "scenarios";
/// Folders below it that hold scenarios; others hold the files that scenarios name.
const FOLDERS: [&str; 2] = ["", "examples/"];

/// A scenario's text and where the files lie that it names.
#[derive(Clone, Debug)]
pub struct Found {
    /// What messages call it.
    pub origin: String,
    /// The file, if it is not built in.
    pub path: Option<PathBuf>,
    /// Folder of a built-in one below the scenarios.
    folder: &'static str,
    text: String,
}

/// Why a scenario is not found.
#[derive(Debug, Error)]
pub enum FindError {
    /// None has this name.
    #[error("there is no scenario \"{given}\"")]
    Unknown {
        /// Given.
        given: String,
        /// The nearest name.
        near: Option<String>,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
    /// A file is not text.
    #[error("{}: byte {at} is not UTF-8", path.display())]
    NotText {
        /// File.
        path: PathBuf,
        /// Offset of the first wrong byte.
        at: usize,
    },
}

/// Finds a scenario by its name or its file. A file in `scenarios/` of this directory comes before one built in.
///
/// # Errors
/// There is none, or its file cannot be read.
pub fn find(given: &str) -> Result<Found, FindError> {
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
    Err(FindError::Unknown { given: given.to_owned(), near })
}

/// The scenario of a name that is built in, whatever lies here.
pub fn shipped(name: &str) -> Option<Found> {
    FOLDERS.iter().find_map(|folder| {
        let name = format!("{folder}{name}.toml");
        let text = String::from_utf8(built_in(&name)?.to_vec()).ok()?;
        Some(Found { origin: format!("{HERE}/{name} (built in)"), path: None, folder, text })
    })
}

fn read_file(path: &Path) -> Result<Found, FindError> {
    let bytes = std::fs::read(path).map_err(|source| FindError::Read { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|error| FindError::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })?;
    Ok(Found { origin: path.display().to_string(), path: Some(path.to_owned()), folder: "", text })
}

fn built_in(name: &str) -> Option<&'static [u8]> {
    let at = built_in::FILES.binary_search_by(|(path, _)| (*path).cmp(name)).ok()?;
    built_in::FILES.get(at).map(|(_, bytes)| *bytes)
}

/// Names of all scenarios, here and built in.
pub fn names() -> Vec<String> {
    let of = |name: &str| name.strip_suffix(".toml").filter(|id| !id.contains('/')).map(str::to_owned);
    let mut names = BTreeSet::new();
    for folder in FOLDERS {
        names.extend(built_in::FILES.iter().filter_map(|(path, _)| of(path.strip_prefix(folder)?)));
        let here = std::fs::read_dir(Path::new(HERE).join(folder)).into_iter().flatten().flatten();
        names.extend(here.filter_map(|entry| of(entry.file_name().to_str()?)));
    }
    names.into_iter().collect()
}

impl Found {
    /// [`Scenario::read`] with the files that it names: beside its file, or built in as it is.
    pub fn read(&self, settings: &Settings) -> (Option<Loaded>, Diagnostics) {
        Scenario::read(&self.origin, &self.text, settings, &|name| companion(self, name))
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
