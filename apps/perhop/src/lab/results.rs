//! Result directories on disk.

use super::error::LabCommandError;
use crate::error::AppError;
use perhop_report::directory::{DirectoryError, ResultDirectory};
use perhop_report::scenario_page;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the page in a result directory.
const PAGE: &str = "report.html";

/// Writes all files and the page; gives the page's path. The page is made from the files as they were written, so that
/// `perhop lab report` makes the same again.
pub(super) fn write(path: &Path, directory: &ResultDirectory) -> Result<PathBuf, AppError> {
    let bad = |source| LabCommandError::BadDirectory { path: path.to_owned(), source };
    std::fs::create_dir_all(path).map_err(|source| AppError::Write { path: path.to_owned(), source })?;
    let files = directory.to_files().map_err(bad)?;
    for (name, text) in &files {
        write_file(&path.join(name), text)?;
    }
    let text = |wanted: &str| files.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.clone());
    let as_written = ResultDirectory::from_files(text).map_err(bad)?;
    write_page(path, &as_written)
}

/// Writes the page of a directory; gives its path.
pub(super) fn write_page(path: &Path, directory: &ResultDirectory) -> Result<PathBuf, AppError> {
    let page = path.join(PAGE);
    write_file(&page, &scenario_page(directory))?;
    Ok(page)
}

/// Writes a file whole or not at all: what a reader of the old one sees never is half of the new one.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), AppError> {
    let failed = |source| AppError::Write { path: path.to_owned(), source };
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    std::fs::write(&fresh, text).map_err(failed)?;
    std::fs::rename(&fresh, path).map_err(failed)
}

/// Reads a directory.
pub(super) fn read(path: &Path) -> Result<ResultDirectory, AppError> {
    let failed = |source| AppError::Read { path: path.to_owned(), source };
    if !path.is_dir() {
        let missing = if path.exists() { io::ErrorKind::NotADirectory } else { io::ErrorKind::NotFound };
        return Err(failed(missing.into()));
    }
    ResultDirectory::from_files(|name| std::fs::read_to_string(path.join(name)).ok()).map_err(
        |source: DirectoryError| LabCommandError::BadDirectory { path: path.to_owned(), source }.into(),
    )
}
