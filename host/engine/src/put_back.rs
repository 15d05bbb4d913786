//! Putting interfaces back as state files say: what a crashed router has changed.

use crate::error::EngineError;
use crate::prepare::{self, Device};
use crate::state_file::{SavedPort, StateFile, StateLock};
use perhop_netlink::Namespace;
use std::fs;
use std::path::Path;

/// What [`restore`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Name of the router.
    pub router: String,
    /// Interfaces put back, by the names that they have now.
    pub devices: Vec<String>,
    /// Interfaces that are gone, and what was changed of them too, by the names that they had.
    pub gone: Vec<String>,
    /// Whether the network namespace is gone, and its interfaces with it.
    pub namespace_gone: bool,
}

/// Puts back what a crashed router had changed, and removes its state file. Finds the router's network namespace among
/// the caller's, the named ones and those of processes. After another start of the machine there is nothing to put back.
///
/// # Errors
/// [`EngineError::NameInUse`] when the router lives; [`EngineError::StateFile`], [`EngineError::StateFormat`]; the
/// kernel's refusal, in which case the file stays.
pub fn restore(path: &Path) -> Result<Restored, EngineError> {
    // Told before the directory would be made for the lock.
    StateFile::read(path)?;
    let _lock = path.parent().map(StateLock::of).transpose()?;
    restore_locked(path, None)
}

/// [`restore`], with the directory's lock held; `known` is a namespace that the caller holds, which may be one that
/// nobody can find.
pub(crate) fn restore_locked(path: &Path, known: Option<&Namespace>) -> Result<Restored, EngineError> {
    let state = StateFile::read(path)?;
    if state.is_live() {
        return Err(EngineError::NameInUse { name: state.router, pid: state.pid, path: path.to_owned() });
    }
    let known = known.filter(|n| n.to_string() == state.namespace).cloned();
    let namespace = known.or_else(|| find_namespace(&state.namespace)).filter(|_| state.is_of_this_boot());
    let (devices, gone) = match &namespace {
        Some(namespace) => prepare::restore(namespace, &state)?,
        None => (Vec::new(), state.ports.iter().map(|p| p.device.clone()).collect()),
    };
    fs::remove_file(path).map_err(|source| EngineError::StateFile { path: path.to_owned(), source })?;
    // Of a router that died while it wrote.
    let _ = fs::remove_file(path.with_extension("new"));
    Ok(Restored { router: state.router, devices, gone, namespace_gone: namespace.is_none() })
}

/// Looks for interfaces that `found` describes in state files of other routers: one that runs has a prior claim; what one
/// that crashed has changed is put back, which is told by `true`.
pub(crate) fn put_back_others(
    directory: &Path,
    own: &Path,
    namespace: &Namespace,
    devices: &[Device],
    found: &[SavedPort],
) -> Result<bool, EngineError> {
    let mut any = false;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_other = path != own && path.to_string_lossy().ends_with(".state.json");
        let Some(state) = is_other.then(|| StateFile::read(&path).ok()).flatten() else { continue };
        let Some(i) = state.shares(namespace, found) else { continue };
        if state.is_live() {
            let Device { port, device, .. } = devices[i].clone();
            return Err(EngineError::DeviceInUse { port, device, router: state.router, pid: state.pid });
        }
        restore_locked(&path, Some(namespace))?;
        any = true;
    }
    Ok(any)
}

fn find_namespace(wanted: &str) -> Option<Namespace> {
    let is_it = |n: &Namespace| n.to_string() == wanted;
    if let Some(found) = Namespace::current().ok().filter(is_it) {
        return Some(found);
    }
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut named = names.filter_map(|e| Namespace::open_named(e.file_name().to_str()?).ok());
    if let Some(found) = named.find(is_it) {
        return Some(found);
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|e| Namespace::of_process(e.file_name().to_str()?.parse().ok()?).ok()).find(is_it)
}
