//! Names of routers, and the sockets and state files of those that run here.

use crate::error::AppError;
use perhop_engine::state_path;
use perhop_serve::{SocketError, check, check_file, runtime_directories, socket_path};
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
    let mut names: Vec<String> = dirs.iter().flat_map(|d| sockets_in(d)).collect();
    names.sort();
    names.dedup();
    match names.as_slice() {
        [] => Err(AppError::NoRouter),
        [one] => Ok(socket_path(one)),
        _ => Err(AppError::SeveralRouters(names)),
    }
}

/// Names of the routers whose sockets in `dir` somebody listens on.
fn sockets_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "sock"))
        .filter(|p| std::os::unix::net::UnixStream::connect(p).is_ok())
        .filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned()))
        .collect()
}
