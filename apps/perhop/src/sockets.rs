//! Names of routers, and the sockets and state files of those that run here.

use crate::error::AppError;
use perhop_engine::state_path;
use perhop_serve::{SocketError, check, check_file, runtime_directories, socket_path};
use std::io;
use std::path::{Path, PathBuf};

/// Whether a text can be a router's name: it becomes the name of a file.
///
/// # Errors
/// Why not.
pub fn check_name(name: &str) -> Result<&str, AppError> {
    let bad = |why| Err(AppError::BadName { name: name.chars().take(80).collect(), why });
    if perhop_model::Name::new(name).is_err() {
        return bad("1 to 128 characters of A-Z a-z 0-9 . _ : - are allowed");
    }
    if name.contains('/') || name.starts_with('.') {
        return bad("it names a file, so it has no / and does not begin with a dot");
    }
    Ok(name)
}

/// Checks that the state file of a router, old and new, is none that leads elsewhere.
///
/// # Errors
/// It is a link or something else that is no file.
pub fn check_state_file(directory: &Path, name: &str) -> Result<(), AppError> {
    let path = state_path(directory, name);
    for path in [path.with_extension("new"), path] {
        check_file(&path).map_err(SocketError::from)?;
    }
    Ok(())
}

/// The socket of the router called `name`, or of the only one there is.
///
/// # Errors
/// No such router, or several to choose from.
pub fn find_socket(name: Option<&str>) -> Result<PathBuf, AppError> {
    match name {
        Some(name) => Ok(socket_path(check_name(name)?)),
        None => only_socket(),
    }
}

/// The socket of the only router that runs here.
fn only_socket() -> Result<PathBuf, AppError> {
    let mut dirs = runtime_directories();
    dirs.retain(|d| check(d).is_ok());
    let sockets: Vec<(String, bool)> = dirs.iter().flat_map(|d| sockets_in(d)).collect();
    let named = |open: bool| {
        let mut names: Vec<String> = sockets.iter().filter(|s| s.1 == open).map(|s| s.0.clone()).collect();
        names.sort();
        names.dedup();
        names
    };
    let (names, closed) = (named(true), named(false));
    match names.as_slice() {
        [] if closed.is_empty() => Err(AppError::NoRouter),
        [] => Err(AppError::NotForThisUser(closed)),
        [one] => Ok(socket_path(one)),
        _ => Err(AppError::SeveralRouters(names)),
    }
}

/// Names of the routers whose sockets in `dir` somebody listens on, or, with `false`, that this user may not open.
fn sockets_in(dir: &Path) -> Vec<(String, bool)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let listens = |p: &Path| match std::os::unix::net::UnixStream::connect(p) {
        Ok(_) => Some(true),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Some(false),
        Err(_) => None,
    };
    entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "sock"))
        .filter_map(|p| Some((p.file_stem()?.to_str()?.to_owned(), listens(&p)?)))
        .collect()
}
