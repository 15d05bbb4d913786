//! Result directories on disk.

use crate::error::{AppError, LabCommandError};
use perhop_report::directory::{DirectoryError, ResultDirectory};
use perhop_report::scenario_page;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Name of the file that makes a directory a result.
pub(super) const RESULT: &str = "result.json";
/// Name of the page in a result directory.
const PAGE: &str = "report.html";

/// Folder in a result directory in which a result is written before it takes the place of an older one.
const FRESH: &str = ".new";

/// Writes all files and the page; gives the page's path. The page is made from the files as they were written, so that
/// `perhop lab report` makes the same again.
///
/// Everything is written beside an older result first, which stays as it is when there is no room. Then the files change
/// places, `result.json` last, and without it a directory is no result: it never holds files of two.
pub(super) fn write(path: &Path, directory: &ResultDirectory) -> Result<PathBuf, AppError> {
    let bad = |source| LabCommandError::BadDirectory { path: path.to_owned(), source };
    let mut files = directory.to_files().map_err(bad)?;
    let text = |wanted: &str| files.iter().find(|(name, _)| *name == wanted).map(|(_, text)| text.clone());
    let as_written = ResultDirectory::from_files(text).map_err(bad)?;
    files.push((PAGE, scenario_page(&as_written)));
    let (new, fresh) = (!path.exists(), path.join(FRESH));
    let written = write_beside(&fresh, &files).and_then(|()| change_places(path, &fresh, &files));
    // Nothing is lost with either: the one is empty or worthless now, the other is only removed if it is empty.
    let _ = std::fs::remove_dir_all(&fresh);
    if new && written.is_err() {
        let _ = std::fs::remove_dir(path);
    }
    written?;
    Ok(path.join(PAGE))
}

fn write_beside(fresh: &Path, files: &[(&str, String)]) -> Result<(), AppError> {
    let failed = |path: &Path, source| AppError::Write { path: path.to_owned(), source };
    // What an interrupted run left there, or a link that somebody else did; the link, not what it points to.
    let _ = std::fs::remove_dir_all(fresh);
    let parent = fresh.parent().map_or(Ok(()), std::fs::create_dir_all);
    parent.and_then(|()| std::fs::create_dir(fresh)).map_err(|source| failed(fresh, source))?;
    for (name, text) in files {
        let path = fresh.join(name);
        std::fs::write(&path, text).map_err(|source| failed(&path, source))?;
    }
    Ok(())
}

fn change_places(path: &Path, fresh: &Path, files: &[(&str, String)]) -> Result<(), AppError> {
    let result = path.join(RESULT);
    match std::fs::remove_file(&result) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(AppError::Write { path: result, source });
        }
        _ => {}
    }
    let last = |name: &&str| **name == *RESULT;
    let names = || files.iter().map(|(name, _)| *name);
    for name in names().filter(|name| !last(name)).chain(names().filter(last)) {
        let path = path.join(name);
        std::fs::rename(fresh.join(name), &path).map_err(|source| AppError::Write { path, source })?;
    }
    Ok(())
}

/// [`perhop_labrun::check_writable`] with the directory's name.
pub(super) fn check_writable(path: &Path) -> Result<(), AppError> {
    perhop_labrun::check_writable(path).map_err(|source| AppError::Write { path: path.to_owned(), source })
}

/// Writes the page of a directory; gives its path.
pub(super) fn write_page(path: &Path, directory: &ResultDirectory) -> Result<PathBuf, AppError> {
    let page = path.join(PAGE);
    write_file(&page, &scenario_page(directory))?;
    Ok(page)
}

/// Writes a file whole or not at all: what a reader of the old one sees never is half of the new one.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), AppError> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    // As above: a link that has this name is replaced, not followed.
    let _ = std::fs::remove_file(&fresh);
    let written = File::create_new(&fresh)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&fresh, path));
    written.map_err(|source| {
        // Half of a file is of no use to anybody.
        let _ = std::fs::remove_file(&fresh);
        AppError::Write { path: path.to_owned(), source }
    })
}

/// Names of the results in a directory, sorted.
pub(super) fn names(path: &Path) -> Result<Vec<String>, AppError> {
    let failed = |source| AppError::Read { path: path.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().join(RESULT).is_file() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a directory.
pub(super) fn read(path: &Path) -> Result<ResultDirectory, AppError> {
    let failed = |source| AppError::Read { path: path.to_owned(), source };
    if !path.is_dir() {
        return Err(failed(if path.exists() {
            io::Error::new(io::ErrorKind::NotADirectory, "it is no directory, as a result is")
        } else {
            io::Error::new(io::ErrorKind::NotFound, "there is no such directory")
        }));
    }
    ResultDirectory::from_files(|name| std::fs::read_to_string(path.join(name)).ok()).map_err(
        |source: DirectoryError| LabCommandError::BadDirectory { path: path.to_owned(), source }.into(),
    )
}
