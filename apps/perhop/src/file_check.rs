//! What the commands that check files have in common.

use crate::error::{AppError, Verdict};
use crate::output::Output;
use std::path::{Path, PathBuf};

/// Checks all files, and says of each that is good what `good` says of it. The first error of a file becomes the command's.
///
/// # Errors
/// A file cannot be read or is wrong.
pub fn check(
    files: &[PathBuf],
    mut good: impl FnMut(&Path) -> Result<String, AppError>,
) -> Result<Verdict, AppError> {
    let (mut out, mut failed) = (Output::new(), None);
    for path in files {
        match good(path) {
            Ok(good) => out.line(format_args!("{}: {good}", path.display()))?,
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    out.flush()?;
    failed.map_or(Ok(Verdict::Done), Err)
}
