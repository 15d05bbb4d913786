//! Where a router's socket is, and that only one router has it.

use crate::directory::{self, DirectoryError, Flaw, runtime_directories};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Why a socket cannot be had.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another router has it.
    #[error("{}: another router with this name is running; stop it or choose another name", .0.display())]
    InUse(PathBuf),
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
    /// Its directory cannot be used.
    #[error("the router's files cannot be kept safely: {0}")]
    Directory(#[from] DirectoryError),
}

/// The socket of router `name` for a client: where there is one in the [`runtime_directories`] that can be trusted, else
/// `/run/perhop/NAME.sock`.
pub fn socket_path(name: &str) -> PathBuf {
    let file = format!("{name}.sock");
    let trusted = runtime_directories().into_iter().filter(|d| directory::check(d).is_ok());
    let mut there = trusted.map(|d| d.join(&file)).filter(|p| p.exists());
    there.next().unwrap_or_else(|| Path::new("/run/perhop").join(&file))
}

/// A claimed socket path: the claim lives as long as this value, and leaves neither socket nor lock behind.
#[derive(Debug)]
pub struct ClaimedPath {
    /// Socket.
    pub path: PathBuf,
    lock: File,
}

impl ClaimedPath {
    /// The directory of the socket, for the router's other files.
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

impl Drop for ClaimedPath {
    fn drop(&mut self) {
        let lock = lock_path(&self.path);
        // Should somebody have removed our lock by hand, then socket and lock may be of another router by now.
        if is_at(&self.lock, &lock) {
            let _ = std::fs::remove_file(&self.path);
            // Last and while it is held: who waits at this file finds that it is no longer the one of this name.
            let _ = std::fs::remove_file(&lock);
        }
    }
}

/// Claims the socket of router `name` for a server, in the first of the [`runtime_directories`] that can be written.
///
/// # Errors
/// [`SocketError::InUse`] when another router holds it and a second later still does; [`SocketError::Directory`] when others could tamper with the
/// directory or when none can be written.
pub fn claim(name: &str) -> Result<ClaimedPath, SocketError> {
    let mut first = None;
    for dir in runtime_directories() {
        match claim_at(&dir.join(format!("{name}.sock"))) {
            Err(error) if is_elsewhere(&error) => first = first.or(Some(error)),
            done => return done,
        }
    }
    Err(first.unwrap_or_else(|| SocketError::InUse(PathBuf::from(name))))
}

/// Whether a directory is merely not for this user, so that another one is to be tried.
fn is_elsewhere(error: &SocketError) -> bool {
    match error {
        SocketError::InUse(_) => false,
        SocketError::Directory(DirectoryError::Unsafe { flaw, .. }) => matches!(flaw, Flaw::Foreign(_)),
        SocketError::Io { source, .. } | SocketError::Directory(DirectoryError::Io { source, .. }) => {
            matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound
            )
        }
    }
}

/// Claims a given socket path; its directory is made if there is none.
///
/// # Errors
/// As [`claim`].
pub fn claim_at(path: &Path) -> Result<ClaimedPath, SocketError> {
    if let Some(dir) = path.parent() {
        directory::prepare(dir)?;
    }
    let lock = take_lock(path, || {})?;
    // We hold the lock, so a socket that is there is left over from a crash. A link is removed, not followed.
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(SocketError::Io { path: path.to_owned(), source })
        }
        _ => Ok(ClaimedPath { path: path.to_owned(), lock }),
    }
}

/// Locks taken in vain because their file was removed meanwhile, before the name counts as in use.
const ATTEMPTS: usize = 16;

/// Looks at a lock that is held, and how far they are apart: a router that was killed holds its until the kernel has given
/// back its memory and packet sockets.
const LOOKS: usize = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Takes the lock, at once or while it looks; `false` when another kept it all the time, a second.
fn lock_within_looks(lock: &File) -> io::Result<bool> {
    for look in 0..=LOOKS {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(source)) => return Err(source),
            Err(TryLockError::WouldBlock) if look < LOOKS => std::thread::sleep(BETWEEN_LOOKS),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    Ok(false)
}

/// `opened` is called between opening and locking, where others may come in.
fn take_lock(path: &Path, mut opened: impl FnMut()) -> Result<File, SocketError> {
    let lock_path = lock_path(path);
    let io = |source| SocketError::Io { path: lock_path.clone(), source };
    for _ in 0..ATTEMPTS {
        directory::check_file(&lock_path)?;
        let mut options = OpenOptions::new();
        let lock =
            options.create(true).truncate(false).write(true).mode(0o600).open(&lock_path).map_err(io)?;
        opened();
        if !lock_within_looks(&lock).map_err(io)? {
            return Err(SocketError::InUse(path.to_owned()));
        }
        // Between opening and locking, its holder may have removed it: then the lock protects nothing.
        if is_at(&lock, &lock_path) {
            return Ok(lock);
        }
    }
    Err(SocketError::InUse(path.to_owned()))
}

fn lock_path(socket: &Path) -> PathBuf {
    socket.with_extension("lock")
}

/// Whether an open file is the one that has this name, itself and not through a link.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::symlink_metadata(path)) else { return false };
    named.is_file() && (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// Lets the owner's group use a socket, nobody else.
pub(crate) fn restrict(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("perhop-claim-{}-{name}", std::process::id())))
        }

        fn names(&self) -> Vec<std::ffi::OsString> {
            std::fs::read_dir(&self.0).expect("there").map(|e| e.expect("readable").file_name()).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_second_claim_is_refused_until_the_first_ends() {
        let scratch = Scratch::new("second");
        let path = scratch.0.join("edge.sock");
        let first = claim_at(&path).expect("free");
        assert!(matches!(claim_at(&path), Err(SocketError::InUse(p)) if p == path));
        drop(first);
        assert!(claim_at(&path).is_ok());
    }

    #[test]
    fn one_that_is_about_to_end_is_waited_for() {
        let scratch = Scratch::new("ends");
        let path = scratch.0.join("edge.sock");
        let first = claim_at(&path).expect("free");
        std::thread::scope(|s| {
            s.spawn(|| {
                std::thread::sleep(2 * BETWEEN_LOOKS);
                drop(first);
            });
            assert!(claim_at(&path).is_ok());
        });
    }

    #[test]
    fn a_claim_leaves_nothing_behind() {
        let scratch = Scratch::new("nothing");
        let path = scratch.0.join("edge.v2.sock");
        let claimed = claim_at(&path).expect("free");
        std::fs::write(&path, "in place of a socket").expect("mine");
        assert_eq!(scratch.names().len(), 2);
        drop(claimed);
        assert_eq!(scratch.names(), Vec::<std::ffi::OsString>::new());
    }

    #[test]
    fn a_lock_that_was_removed_protects_nothing() {
        let scratch = Scratch::new("removed");
        let path = scratch.0.join("edge.sock");
        let first = claim_at(&path).expect("free");
        let (mut first, mut second) = (Some(first), None);
        // The holder leaves and another comes while a third has opened the file of the first.
        let late = take_lock(&path, || {
            if first.take().is_some() {
                second = Some(claim_at(&path).expect("another file has the name"));
            }
        });
        assert!(matches!(late, Err(SocketError::InUse(_))), "two have it: {late:?}");
        drop(second);
        assert!(take_lock(&path, || {}).is_ok());
    }

    #[test]
    fn of_many_that_come_and_go_one_at_a_time_has_it() {
        let scratch = Scratch::new("many");
        let path = scratch.0.join("edge.sock");
        let (held, had) = (AtomicBool::new(false), AtomicUsize::new(0));
        let come_and_go = || {
            for _ in 0..2_000 {
                match claim_at(&path) {
                    Ok(claimed) => {
                        assert!(!held.swap(true, Ordering::SeqCst), "two have it");
                        had.fetch_add(1, Ordering::SeqCst);
                        held.store(false, Ordering::SeqCst);
                        drop(claimed);
                    }
                    Err(SocketError::InUse(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        };
        std::thread::scope(|s| (0..4).for_each(|_| drop(s.spawn(come_and_go))));
        assert!(had.load(Ordering::SeqCst) > 0);
    }

    #[test]
    fn links_are_not_followed() {
        let scratch = Scratch::new("links");
        directory::prepare(&scratch.0).expect("new");
        let (path, victim) = (scratch.0.join("edge.sock"), scratch.0.join("victim"));
        std::fs::write(&victim, "precious").expect("new");
        std::os::unix::fs::symlink(&victim, lock_path(&path)).expect("new");
        let refused = claim_at(&path).map(|c| c.path.clone());
        assert!(
            matches!(
                refused,
                Err(SocketError::Directory(DirectoryError::Unsafe { flaw: Flaw::Symlink, .. }))
            ),
            "{refused:?}"
        );
        std::fs::remove_file(lock_path(&path)).expect("mine");
        std::os::unix::fs::symlink(&victim, &path).expect("new");
        let claimed = claim_at(&path).expect("a socket's link is only removed");
        assert!(std::fs::symlink_metadata(&path).is_err());
        drop(claimed);
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "precious");
    }
}
