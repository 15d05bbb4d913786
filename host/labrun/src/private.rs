//! A directory that nobody else knew of, can write to, or finds afterwards.

use crate::error::LabError;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, RandomState};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Names tried before giving up: each is one of 2⁶⁴.
const TRIES: usize = 16;

/// A new directory among the temporary files, of this user alone. Removed with all that is in it when dropped.
#[derive(Debug)]
pub struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Makes one.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn new() -> Result<Self, LabError> {
        let name = || format!("perhop-demo-{:016x}", RandomState::new().hash_one(std::process::id()));
        Self::in_with(&std::env::temp_dir(), std::iter::repeat_with(name).take(TRIES))
    }

    /// Makes one with the first name that nothing has: mkdir(2) follows no link and takes nothing that is there.
    fn in_with(parent: &Path, names: impl Iterator<Item = String>) -> Result<Self, LabError> {
        let mut last = Error::from(ErrorKind::AlreadyExists);
        for path in names.map(|name| parent.join(name)) {
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
                Err(source) => return Err(LabError::Io { doing: "make a private directory", source }),
            }
        }
        Err(LabError::Io { doing: "make a private directory", source: last })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn it_is_new_of_its_user_alone_and_gone_afterwards() {
        let (a, b) = (PrivateDirectory::new().expect("made"), PrivateDirectory::new().expect("made"));
        assert_ne!(a.path(), b.path());
        assert_eq!(fs::symlink_metadata(a.path()).expect("there").mode() & 0o7777, 0o700);
        fs::write(a.path().join("state"), "x").expect("written");
        let path = a.path().to_owned();
        drop(a);
        assert!(!path.exists() && b.path().exists());
    }

    #[test]
    fn what_is_there_already_is_left_alone_and_never_used() {
        let parent = PrivateDirectory::new().expect("made");
        let at = |name: &str| parent.path().join(name);
        fs::create_dir(at("strangers")).expect("made");
        fs::write(at("file"), "").expect("written");
        symlink(at("strangers"), at("link")).expect("made");
        symlink(at("nowhere"), at("dangling")).expect("made");
        let taken = ["strangers", "file", "link", "dangling"].map(str::to_owned);
        let refused = PrivateDirectory::in_with(parent.path(), taken.clone().into_iter());
        assert_eq!(refused.expect_err("no name is free").exit_code(), 3);
        let names = taken.into_iter().chain(["free".to_owned()]);
        let made = PrivateDirectory::in_with(parent.path(), names).expect("one name is free");
        assert_eq!(made.path(), at("free"));
        drop(made);
        assert!(at("strangers").exists() && !at("nowhere").exists() && !at("free").exists());
    }
}
