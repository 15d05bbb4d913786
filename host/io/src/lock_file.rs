//! Locks on files that only their owner can open, so that nobody else can hold one and keep a router from its work.
//!
//! A lock on a directory, or on a file that others may read, is free for everybody who can open it: any local user. Such
//! a lock is never waited for without an end either, and who holds it is named.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How far two looks at a lock that is held are apart: a process that was killed holds its until the kernel has given
/// back its memory and packet sockets.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Why a lock cannot be had.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process keeps it.
    #[error("{}: {} holds this lock and does not let go of it; wait for its end, or end it", path.display(), process(*holder))]
    Held {
        /// Lock file.
        path: PathBuf,
        /// Who holds it, as far as that can be seen from here.
        holder: Option<u32>,
    },
    /// Somebody else could hold it at will.
    #[error("{}: it is no regular file of this user's; remove it", path.display())]
    Foreign {
        /// Lock file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Lock file.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
}

fn process(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// A lock that is held. Dropping it removes the file and gives the lock back.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    file: File,
}

impl LockFile {
    /// Takes the lock at once, or within this time if others hold it. Its directory must be one where only this user or
    /// root can write.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn take(path: &Path, within: Duration) -> Result<Self, LockError> {
        Self::take_after(path, within, || {})
    }

    /// `opened` is called between opening and locking, where others may come in.
    fn take_after(path: &Path, within: Duration, mut opened: impl FnMut()) -> Result<Self, LockError> {
        let end = Instant::now() + within;
        loop {
            let file = open(path)?;
            opened();
            while let Err(refused) = file.try_lock() {
                if let TryLockError::Error(source) = refused {
                    return Err(LockError::Io { path: path.to_owned(), source });
                }
                if Instant::now() >= end {
                    return Err(LockError::Held { path: path.to_owned(), holder: holder(&file) });
                }
                std::thread::sleep(BETWEEN_LOOKS);
            }
            let lock = Self { path: path.to_owned(), file };
            // Between opening and locking, its holder may have removed it: then the lock protects nothing.
            if lock.is_in_place() {
                return Ok(lock);
            }
        }
    }

    /// Whether the locked file is the one that has its name, itself and not through a link. Should somebody have removed
    /// it by hand, then all that it protected may be another's by now.
    pub fn is_in_place(&self) -> bool {
        let (Ok(open), Ok(named)) = (self.file.metadata(), std::fs::symlink_metadata(&self.path)) else {
            return false;
        };
        named.is_file() && (open.dev(), open.ino()) == (named.dev(), named.ino())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // While it is held: who waits at this file finds that it is no longer the one of this name.
        if self.is_in_place() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens or makes a lock file that nobody else can open from now on.
fn open(path: &Path) -> Result<File, LockError> {
    let io = |source| LockError::Io { path: path.to_owned(), source };
    // Opening a pipe would wait for its other end.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).write(true).mode(0o600).custom_flags(flags);
    let file = match options.open(path) {
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(LockError::Foreign { path: path.to_owned() });
        }
        opened => opened.map_err(io)?,
    };
    let meta = file.metadata().map_err(io)?;
    if !meta.is_file() || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(LockError::Foreign { path: path.to_owned() });
    }
    if meta.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(io)?;
    }
    Ok(file)
}

/// The process that holds the lock of a file, as the kernel lists it (/proc/locks, proc(5)).
fn holder(file: &File) -> Option<u32> {
    let meta = file.metadata().ok()?;
    let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let wanted = format!("{:02x}:{:02x}:{}", device.0, device.1, meta.ino());
    let held = |line: &str| {
        // NUMBER: KIND ADVISORY|MANDATORY READ|WRITE PID DEVICE:INODE …; one who waits has an arrow after the number.
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (kind, pid, place) = (fields.next()?, fields.nth(2)?, fields.next()?);
        (kind == "FLOCK" && place == wanted).then(|| pid.parse().ok()).flatten()
    };
    std::fs::read_to_string("/proc/locks").ok()?.lines().find_map(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const SOON: Duration = Duration::from_millis(50);

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("perhop-lock-{}-{name}", std::process::id()));
            std::fs::create_dir(&dir).expect("new");
            Self(dir)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_lock_is_refused_in_time_with_its_holder_and_leaves_nothing() {
        let scratch = Scratch::new("held");
        let path = scratch.0.join("lock");
        let first = LockFile::take(&path, SOON).expect("free");
        let second = LockFile::take(&path, SOON).expect_err("held");
        let me = std::process::id();
        assert!(matches!(second, LockError::Held { holder: Some(pid), .. } if pid == me), "{second}");
        assert!(second.to_string().contains(&format!("process {me} holds this lock")), "{second}");
        drop(first);
        assert!(!path.exists());
        assert!(LockFile::take(&path, SOON).is_ok());
    }

    #[test]
    fn nobody_else_can_open_it() {
        let scratch = Scratch::new("mode");
        let path = scratch.0.join("lock");
        std::fs::write(&path, "").expect("new");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("mine");
        let lock = LockFile::take(&path, SOON).expect("free");
        assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
        drop(lock);
        let _lock = LockFile::take(&path, SOON).expect("free");
        assert_eq!(std::fs::metadata(&path).expect("made").mode() & 0o7777, 0o600);
    }

    #[test]
    fn links_and_pipes_are_no_locks() {
        let scratch = Scratch::new("links");
        let (path, victim) = (scratch.0.join("lock"), scratch.0.join("victim"));
        symlink(&victim, &path).expect("new");
        assert!(matches!(LockFile::take(&path, SOON), Err(LockError::Foreign { .. })));
        assert!(!victim.exists(), "nothing is made through a link");
        std::fs::remove_file(&path).expect("mine");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("new");
        assert!(LockFile::take(&path, SOON).is_err());
    }

    #[test]
    fn a_lock_that_was_removed_protects_nothing() {
        let scratch = Scratch::new("removed");
        let path = scratch.0.join("lock");
        let (mut first, mut second) = (Some(LockFile::take(&path, SOON).expect("free")), None);
        // The holder leaves and another comes while a third has opened the file of the first.
        let late = LockFile::take_after(&path, SOON, || {
            if first.take().is_some() {
                second = Some(LockFile::take(&path, SOON).expect("another file has the name"));
            }
        });
        assert!(matches!(late, Err(LockError::Held { .. })), "two have it: {late:?}");
        drop(second);
        assert!(LockFile::take(&path, SOON).is_ok());
    }
}
