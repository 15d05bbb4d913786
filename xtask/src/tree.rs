//! The files of the project: what git tracks, and what it would track.

use crate::{Result, XtaskError, runner};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A checked-out project.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    files: BTreeSet<String>,
}

impl Tree {
    /// The project this program was built from: files tracked, plus untracked ones that are not ignored.
    ///
    /// # Errors
    /// When git cannot be asked.
    pub fn open() -> Result<Tree> {
        let root = root();
        let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
        let listing = runner::output("git", &arguments, &root)?;
        let files = listing
            .split('\0')
            .filter(|path| !path.is_empty() && root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        Ok(Tree { root, files })
    }

    /// A tree that exists only as a list of names.
    #[cfg(test)]
    pub fn of(files: &[&str]) -> Tree {
        Tree { root: PathBuf::new(), files: files.iter().map(|&file| file.to_owned()).collect() }
    }

    /// Every file, relative to the root, in order.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Whether `path` (relative to the root, no trailing slash) is a file or a directory that holds one.
    pub fn contains(&self, path: &str) -> bool {
        if path.is_empty() || self.files.contains(path) {
            return true;
        }
        let inside = format!("{path}/");
        self.files.range(inside.clone()..).next().is_some_and(|file| file.starts_with(&inside))
    }

    /// Text of a file; `None` for what is not UTF-8 (seed corpora).
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let path = self.root.join(path);
        let bytes = std::fs::read(&path).map_err(|source| XtaskError::Read { path, source })?;
        Ok(String::from_utf8(bytes).ok())
    }
}

/// Root directory of the project: the parent of this crate's.
pub fn root() -> PathBuf {
    let crate_dir =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&crate_dir).parent().expect("this crate lives one level below the root").to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_known_by_what_it_holds() {
        let tree = Tree::of(&["README.md", "core/units/src/lib.rs", "core-notes.md"]);
        assert!(tree.contains("README.md"));
        assert!(tree.contains("core"));
        assert!(tree.contains("core/units/src"));
        assert!(tree.contains(""));
        assert!(!tree.contains("core/unit"));
        assert!(!tree.contains("lab"));
    }
}
