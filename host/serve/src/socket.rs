//! Where a router's socket is, and that only one router has it.

use crate::clients::Clients;
use crate::directory::{self, DirectoryError, Flaw, runtime_directories};
use perhop_io::{LockError, LockFile};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Why a socket cannot be had.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another router or controller has it.
    #[error(
        "{}: another one with this name is running{}; stop it or choose another name",
        path.display(),
        holder.map(|pid| format!(" (process {pid} holds its lock)")).unwrap_or_default()
    )]
    InUse {
        /// Socket.
        path: PathBuf,
        /// The process that has it, as far as that can be seen from here.
        holder: Option<u32>,
    },
    /// Its lock cannot be had.
    #[error("its files cannot be kept safely: {0}")]
    Lock(LockError),
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Error.
        source: io::Error,
    },
    /// Its directory cannot be used.
    #[error("its files cannot be kept safely: {0}")]
    Directory(#[from] DirectoryError),
}

/// The socket of router `name` for a client: where there is one in the [`runtime_directories`] that can be trusted, else
/// `/run/perhop/NAME.sock`.
pub fn socket_path(name: &str) -> PathBuf {
    path_of(&format!("{name}.sock"))
}

fn path_of(file: &str) -> PathBuf {
    let trusted = runtime_directories().into_iter().filter(|d| directory::check(d).is_ok());
    let mut there = trusted.map(|d| d.join(file)).filter(|p| p.exists());
    there.next().unwrap_or_else(|| Path::new("/run/perhop").join(file))
}

/// How long the lock of a router that is about to end, or was killed, is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// A claimed socket path: the claim lives as long as this value, and leaves neither socket nor lock behind.
#[derive(Debug)]
pub struct ClaimedPath {
    /// Socket.
    pub path: PathBuf,
    lock: LockFile,
}

impl ClaimedPath {
    /// The directory of the socket, for the router's other files.
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

impl Drop for ClaimedPath {
    fn drop(&mut self) {
        // Should somebody have removed our lock by hand, then the socket may be of another router by now. The lock goes
        // after it.
        if self.lock.is_in_place() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Claims the socket of router `name` for a server, in the first of the [`runtime_directories`] that can be written.
///
/// # Errors
/// [`SocketError::InUse`] when another router holds it and a second later still does; [`SocketError::Directory`] when others could tamper with the
/// directory or when none can be written.
pub fn claim(name: &str) -> Result<ClaimedPath, SocketError> {
    claim_file(&format!("{name}.sock"))
}

/// Claims the socket of the controller of domain `name`, as [`claim`] does that of a router.
///
/// # Errors
/// As there.
pub fn claim_controller(name: &str) -> Result<ClaimedPath, SocketError> {
    claim_file(&format!("{name}.controller"))
}

/// The socket of the controller of domain `name` for a client, as [`socket_path`] is that of a router.
pub fn controller_path(name: &str) -> PathBuf {
    path_of(&format!("{name}.controller"))
}

/// The socket of what is decided beside a router, whose own socket is `router`.
pub fn decisions_path(router: &Path) -> PathBuf {
    router.with_extension("decisions")
}

fn claim_file(file: &str) -> Result<ClaimedPath, SocketError> {
    let mut first = None;
    for dir in runtime_directories() {
        match claim_at(&dir.join(file)) {
            Err(error) if is_elsewhere(&error) => first = first.or(Some(error)),
            done => return done,
        }
    }
    Err(first.unwrap_or_else(|| SocketError::InUse { path: PathBuf::from(file), holder: None }))
}

/// Whether a directory is merely not for this user, so that another one is to be tried.
fn is_elsewhere(error: &SocketError) -> bool {
    match error {
        SocketError::InUse { .. } | SocketError::Lock(LockError::Held { .. } | LockError::Foreign { .. }) => {
            false
        }
        SocketError::Directory(DirectoryError::Unsafe { flaw, .. }) => matches!(flaw, Flaw::Foreign(_)),
        SocketError::Io { source, .. }
        | SocketError::Lock(LockError::Io { source, .. })
        | SocketError::Directory(DirectoryError::Io { source, .. }) => {
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
    let lock = take_lock(path)?;
    // We hold the lock, so a socket that is there is left over from a crash. A link is removed, not followed.
    remove_left(path).map_err(|source| SocketError::Io { path: path.to_owned(), source })?;
    Ok(ClaimedPath { path: path.to_owned(), lock })
}

/// Removes a socket, be it there or not.
pub(crate) fn remove_left(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn take_lock(path: &Path) -> Result<LockFile, SocketError> {
    // What is no router's has a lock of its own name.
    let lock_path = match path.extension() {
        Some(other) if other != "sock" => path.with_extension(format!("{}.lock", other.to_string_lossy())),
        _ => path.with_extension("lock"),
    };
    directory::check_file(&lock_path)?;
    LockFile::take(&lock_path, LOCK_PATIENCE).map_err(|error| match error {
        LockError::Held { holder, .. } => SocketError::InUse { path: path.to_owned(), holder },
        other => SocketError::Lock(other),
    })
}

/// Lets the owner's group use a socket, and nobody else unless clients are named: then whoever connects is known by name
/// or turned away.
///
/// # Errors
/// The operating system's.
pub fn open_to(path: &Path, clients: &Clients) -> io::Result<()> {
    let mode = if clients.are_named() { 0o666 } else { 0o660 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
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
        let me = Some(std::process::id());
        assert!(
            matches!(claim_at(&path), Err(SocketError::InUse { path: p, holder }) if p == path && holder == me)
        );
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
                std::thread::sleep(LOCK_PATIENCE / 10);
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
                    Err(SocketError::InUse { .. }) => {}
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
        std::os::unix::fs::symlink(&victim, path.with_extension("lock")).expect("new");
        let refused = claim_at(&path).map(|c| c.path.clone());
        assert!(
            matches!(
                refused,
                Err(SocketError::Directory(DirectoryError::Unsafe { flaw: Flaw::Symlink, .. }))
            ),
            "{refused:?}"
        );
        std::fs::remove_file(path.with_extension("lock")).expect("mine");
        std::os::unix::fs::symlink(&victim, &path).expect("new");
        let claimed = claim_at(&path).expect("a socket's link is only removed");
        assert!(std::fs::symlink_metadata(&path).is_err());
        drop(claimed);
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "precious");
    }
}
