//! The interfaces of a running router and its state file: what is changed is written down before.

use crate::error::EngineError;
use crate::prepare::{self, Device};
use crate::put_back;
use crate::state_file::{self, StateFile, StateLock};
use perhop_netlink::{Namespace, Netlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How the interfaces were: the state file, which changes when an interface goes and another one comes in its place.
pub(crate) struct Saved {
    namespace: Namespace,
    path: PathBuf,
    state: Mutex<StateFile>,
}

impl Saved {
    /// Makes an interface fit that is there again. One that was not seen before, though its name may have been, has
    /// switches of its own: they are written down first.
    pub(crate) fn adopt(&self, netlink: &Netlink, device: &Device) -> Result<(), EngineError> {
        let now = prepare::read(netlink, &self.namespace, std::slice::from_ref(device))?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now.iter().any(|n| !state.ports.iter().any(|p| p.index == n.index)) {
            let there = netlink.links()?;
            let mut next = state.clone();
            next.ports.retain(|p| there.iter().any(|l| Some(l.index) == p.index));
            next.ports.extend(now);
            // Only what is written counts: another try writes again.
            next.write(&self.path)?;
            *state = next;
        }
        drop(state);
        prepare::change(&self.namespace, netlink, device)
    }
}

/// Interfaces that are changed, until dropped or put back.
pub(crate) struct Prepared {
    saved: Arc<Saved>,
    active: bool,
}

impl Prepared {
    /// Saves how the interfaces are, then changes them. What a router that crashed has left changed is put back before.
    pub(crate) fn new(
        router: &str,
        directory: &Path,
        namespace: &Namespace,
        devices: &[Device],
    ) -> Result<Self, EngineError> {
        // One start at a time: two of them would each take the other's changes for how it was.
        let _lock = StateLock::of(directory)?;
        let path = state_file::state_path(directory, router);
        if path.exists() {
            // Of a router that runs: refused. Of one that crashed: its interfaces are put back first.
            put_back::restore_locked(&path, Some(namespace))?;
        }
        let netlink = Netlink::open_in(namespace)?;
        let found = prepare::read(&netlink, namespace, devices)?;
        let others = put_back::put_back_others(directory, &path, namespace, devices, &found)?;
        let found = if others { prepare::read(&netlink, namespace, devices)? } else { found };
        let state = StateFile::new(router, namespace, found);
        state.write(&path)?;
        let saved = Saved { namespace: namespace.clone(), path, state: Mutex::new(state) };
        let prepared = Self { saved: Arc::new(saved), active: true };
        for device in devices {
            prepare::change(namespace, &netlink, device)?;
        }
        Ok(prepared)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.saved.path
    }

    pub(crate) fn saved(&self) -> Arc<Saved> {
        Arc::clone(&self.saved)
    }

    pub(crate) fn put_back(&mut self) -> Result<(), EngineError> {
        self.active = false;
        let Saved { namespace, path, state } = &*self.saved;
        prepare::restore(namespace, &state.lock().unwrap_or_else(PoisonError::into_inner))?;
        std::fs::remove_file(path).map_err(|source| EngineError::StateFile { path: path.clone(), source })
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.active
            && let Err(error) = self.put_back()
        {
            tracing::error!(%error, "interfaces are not as they were");
        }
    }
}
