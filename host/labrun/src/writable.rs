//! Whether there is a place for results.

use perhop_io::private_file;
use std::io::{self, Write};
use std::path::Path;

/// Makes sure that a directory can be made and written, and leaves nothing there: what can only fail at the end of a run
/// that takes an hour is better known before it.
///
/// # Errors
/// Why it cannot.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists()).collect();
    let probe = path.join(".perhop-probe");
    let tried = std::fs::create_dir_all(path)
        .and_then(|()| private_file::create(&probe)?.write_all(b"probe\n"))
        .and_then(|()| std::fs::remove_file(&probe));
    if tried.is_err() {
        // Nothing is lost when there is none.
        let _ = std::fs::remove_file(&probe);
    }
    for part in missing {
        // One that somebody else uses by now stays.
        let _ = std::fs::remove_dir(part);
    }
    tried
}
