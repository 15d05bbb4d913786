//! Text files that users name.

use crate::error::AppError;
use crate::output::progress;
use perhop_config::{Diagnostics, MAX_FILE_BYTES};
use std::io::{self, Read};
use std::path::Path;

/// The text of a file of at most `most` bytes; no more of it is read.
///
/// # Errors
/// It cannot be read, is longer, or is not UTF-8.
pub fn read_text(path: &Path, most: usize) -> Result<String, AppError> {
    let failed = |source| AppError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let is_long = bytes.len() > most;
    match String::from_utf8(bytes) {
        // Where reading stopped, a character may be cut.
        Err(e) if !is_long || e.utf8_error().error_len().is_some() => {
            Err(AppError::NotText { path: path.to_owned(), at: e.utf8_error().valid_up_to() })
        }
        Ok(text) if !is_long => Ok(text),
        _ => {
            let why = format!("the file is longer than {most} bytes");
            Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, why)))
        }
    }
}

/// What `parse` makes of a file, of which it is given name, text and folder; what is to be said about it is printed.
///
/// # Errors
/// It cannot be read or is wrong.
pub fn read_file<T>(
    path: &Path,
    parse: impl FnOnce(&str, &str, &Path) -> (Option<T>, Diagnostics),
) -> Result<T, AppError> {
    let text = read_text(path, MAX_FILE_BYTES)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (file, diagnostics) = parse(&path.to_string_lossy(), &text, folder);
    diagnostics.sorted().iter().for_each(progress);
    file.ok_or_else(|| AppError::BadFile { path: path.to_owned(), errors: diagnostics.errors() })
}
