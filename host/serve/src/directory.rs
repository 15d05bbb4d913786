//! The directories of running routers: where they are, and that nobody else can put anything into them.
//!
//! A socket, its lock and the state file of a router lie in one directory. Whoever can write there could put a symbolic
//! link in their place and have a privileged router overwrite what it points to, or answer in a router's stead. So a
//! directory is used only if it is one (no link to one), belongs to this user or root, and only its owner can write to
//! it; then nothing in it can change under us.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What is wrong with a file or directory that a router would trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Flaw {
    /// A link may point anywhere.
    #[error("it is a symbolic link; remove it")]
    Symlink,
    /// Something else has the name.
    #[error("it is not a directory; remove it")]
    NotDirectory,
    /// Something else has the name.
    #[error("it is not a regular file; remove it")]
    NotFile,
    /// Its owner could change what is in it.
    #[error(
        "it belongs to user {0}; let that user or root remove it, or set XDG_RUNTIME_DIR to a directory of your own"
    )]
    Foreign(u32),
    /// Others could change what is in it.
    #[error("others may write to it (mode {0:04o}); `chmod go-w` it after looking at what is in it")]
    Shared(u32),
}

/// Why a directory cannot be used.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// It cannot be trusted.
    #[error("{}: {flaw}", path.display())]
    Unsafe {
        /// File or directory.
        path: PathBuf,
        /// What is wrong.
        flaw: Flaw,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
}

/// Where a router's files may be, best first: `/run/perhop`, `$XDG_RUNTIME_DIR/perhop`, and `perhop-UID` among the
/// temporary files. Nothing is made or checked yet.
pub fn runtime_directories() -> Vec<PathBuf> {
    let user = std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty());
    let temporary = std::env::temp_dir().join(format!("perhop-{}", own_uid()));
    let mut all = vec![PathBuf::from("/run/perhop")];
    all.extend(user.map(|d| PathBuf::from(d).join("perhop")));
    all.push(temporary);
    all
}

/// Makes a directory if there is none (`/run/perhop` readable for everybody, any other for its owner alone), and checks
/// that it can be trusted.
///
/// # Errors
/// See [`DirectoryError`].
pub fn prepare(path: &Path) -> Result<(), DirectoryError> {
    let mode = if path == Path::new("/run/perhop") { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(io_error(path, e)),
        _ => {}
    }
    check(path)
}

/// Checks that a directory can be trusted.
///
/// # Errors
/// See [`DirectoryError`].
pub fn check(path: &Path) -> Result<(), DirectoryError> {
    let meta = std::fs::symlink_metadata(path).map_err(|e| io_error(path, e))?;
    match directory_flaw(&meta, own_uid()) {
        None => Ok(()),
        Some(flaw) => Err(DirectoryError::Unsafe { path: path.to_owned(), flaw }),
    }
}

/// Checks that a file is a regular one and no link, or not there.
///
/// # Errors
/// See [`DirectoryError`].
pub fn check_file(path: &Path) -> Result<(), DirectoryError> {
    let flaw = match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io_error(path, e)),
        Ok(meta) if meta.is_file() => return Ok(()),
        Ok(meta) if meta.is_symlink() => Flaw::Symlink,
        Ok(_) => Flaw::NotFile,
    };
    Err(DirectoryError::Unsafe { path: path.to_owned(), flaw })
}

fn directory_flaw(meta: &Metadata, me: u32) -> Option<Flaw> {
    let mode = meta.permissions().mode() & 0o7777;
    if meta.is_symlink() {
        Some(Flaw::Symlink)
    } else if !meta.is_dir() {
        Some(Flaw::NotDirectory)
    } else if meta.uid() != me && meta.uid() != 0 {
        Some(Flaw::Foreign(meta.uid()))
    } else if mode & 0o022 != 0 {
        Some(Flaw::Shared(mode))
    } else {
        None
    }
}

fn io_error(path: &Path, source: io::Error) -> DirectoryError {
    DirectoryError::Io { path: path.to_owned(), source }
}

/// The effective user, whether or not /proc is there.
pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("perhop-directory-{}-{name}", std::process::id()));
            fs::create_dir(&dir).expect("new");
            Self(dir)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn flaw(result: Result<(), DirectoryError>) -> Option<Flaw> {
        match result {
            Ok(()) => None,
            Err(DirectoryError::Unsafe { flaw, .. }) => Some(flaw),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_new_directory_is_its_owners_alone() {
        let scratch = Scratch::new("new");
        let dir = scratch.0.join("perhop");
        assert_eq!(flaw(prepare(&dir)), None);
        let mode = fs::metadata(&dir).expect("made").permissions().mode() & 0o7777;
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        assert_eq!(flaw(prepare(&dir)), None, "a second time it is there");
    }

    #[test]
    fn a_link_a_file_and_what_others_can_write_to_are_refused() {
        let scratch = Scratch::new("flaws");
        let (good, link, file) = (scratch.0.join("good"), scratch.0.join("link"), scratch.0.join("file"));
        fs::create_dir(&good).expect("new");
        symlink(&good, &link).expect("new");
        fs::write(&file, "").expect("new");
        assert_eq!(flaw(prepare(&link)), Some(Flaw::Symlink));
        assert_eq!(flaw(prepare(&file)), Some(Flaw::NotDirectory));
        for mode in [0o770, 0o702, 0o1777] {
            fs::set_permissions(&good, fs::Permissions::from_mode(mode)).expect("mine");
            assert_eq!(flaw(prepare(&good)), Some(Flaw::Shared(mode)));
        }
        fs::set_permissions(&good, fs::Permissions::from_mode(0o755)).expect("mine");
        assert_eq!(flaw(prepare(&good)), None);
        // Only root can give a directory away; what is checked then is the same.
        if own_uid() == 0 && chown(&good, Some(12_345), None).is_ok() {
            assert_eq!(flaw(prepare(&good)), Some(Flaw::Foreign(12_345)));
        }
        assert_eq!(directory_flaw(&fs::metadata("/").expect("there"), 12_345), None, "root is trusted");
    }

    #[test]
    fn a_file_is_a_file_or_nothing() {
        let scratch = Scratch::new("files");
        let (file, link) = (scratch.0.join("file"), scratch.0.join("link"));
        assert_eq!(flaw(check_file(&file)), None);
        symlink(&file, &link).expect("new");
        assert_eq!(flaw(check_file(&link)), Some(Flaw::Symlink), "also one that points nowhere");
        fs::write(&file, "").expect("new");
        assert_eq!(flaw(check_file(&file)), None);
        assert_eq!(flaw(check_file(&scratch.0)), Some(Flaw::NotFile));
    }
}
