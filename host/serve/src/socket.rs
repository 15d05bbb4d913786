//! Where a router's socket is, and that only one router has it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
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
    /// No place for it.
    #[error("no directory for the socket: /run/perhop is not writable and XDG_RUNTIME_DIR is not set")]
    NoDirectory,
}

/// The socket of router `name` for a client: `/run/perhop/NAME.sock` if it exists, else
/// `$XDG_RUNTIME_DIR/perhop/NAME.sock`.
pub fn socket_path(name: &str) -> PathBuf {
    let system = Path::new("/run/perhop").join(format!("{name}.sock"));
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !system.exists() => PathBuf::from(dir).join("perhop").join(format!("{name}.sock")),
        _ => system,
    }
}

/// A claimed socket path: the lock lives as long as this value.
#[derive(Debug)]
pub struct ClaimedPath {
    /// Socket.
    pub path: PathBuf,
    _lock: File,
}

/// Claims the socket of router `name` for a server: in `/run/perhop` when that can be made, else below
/// `XDG_RUNTIME_DIR`.
///
/// # Errors
/// [`SocketError::InUse`] when another router holds it.
pub fn claim(name: &str) -> Result<ClaimedPath, SocketError> {
    let mut last = SocketError::NoDirectory;
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(|d| PathBuf::from(d).join("perhop"));
    for dir in [Some(PathBuf::from("/run/perhop")), user].into_iter().flatten() {
        match claim_at(&dir.join(format!("{name}.sock"))) {
            Err(SocketError::Io { path, source }) => last = SocketError::Io { path, source },
            done => return done,
        }
    }
    Err(last)
}

/// Claims a given socket path.
///
/// # Errors
/// As [`claim`].
pub fn claim_at(path: &Path) -> Result<ClaimedPath, SocketError> {
    let io = |source| SocketError::Io { path: path.to_owned(), source };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(io)?;
    }
    let lock_path = path.with_extension("lock");
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&lock_path)
        .map_err(io)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(SocketError::InUse(path.to_owned())),
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    // We hold the lock, so a socket that is there is left over from a crash.
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io(e)),
        _ => {}
    }
    Ok(ClaimedPath { path: path.to_owned(), _lock: lock })
}

/// Lets the owner's group use a socket, nobody else.
pub(crate) fn restrict(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_claim_is_refused_until_the_first_ends() {
        let dir = std::env::temp_dir().join(format!("perhop-claim-{}", std::process::id()));
        let path = dir.join("edge.sock");
        let first = claim_at(&path).expect("free");
        assert!(matches!(claim_at(&path), Err(SocketError::InUse(p)) if p == path));
        drop(first);
        assert!(claim_at(&path).is_ok());
        std::fs::remove_dir_all(dir).expect("made above");
    }
}
