//! The interfaces of a running router and its state file: what is changed is written down before.

use crate::error::EngineError;
use crate::prepare::{self, Device};
use crate::put_back;
use crate::state_file::{self, StateFile, StateLock};
use perhop_netlink::nft::{Duty, ForwardGuard};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink, NetlinkError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// How the interfaces were: the state file, which changes when an interface goes and another one comes in its place.
pub(crate) struct Saved {
    namespace: Namespace,
    path: PathBuf,
    state: Mutex<StateFile>,
    /// Keeps the kernel from forwarding; none where the kernel cannot have it, or any more.
    guard: Mutex<Option<ForwardGuard>>,
    guarded: bool,
}

impl Saved {
    /// Keeps from the kernel what is none of its business.
    pub(crate) fn protect(&self, duty: Duty) -> Result<(), NetlinkError> {
        let mut guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_mut().map_or(Ok(()), |guard| guard.protect(duty))
    }

    /// Makes an interface fit that is there again. One that was not seen before, though its name may have been, has
    /// switches of its own: they are written down first.
    pub(crate) fn adopt(&self, netlink: &Netlink, device: &Device) -> Result<(), EngineError> {
        let now = prepare::read(netlink, &self.namespace, std::slice::from_ref(device), self.guarded)?;
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
        prepare::change(&self.namespace, netlink, device, self.guarded)
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
        let guard = open_guard(namespace, router)?;
        let guarded = guard.is_some();
        let found = prepare::read(&netlink, namespace, devices, guarded)?;
        let others = put_back::put_back_others(directory, &path, namespace, devices, &found)?;
        let found = if others { prepare::read(&netlink, namespace, devices, guarded)? } else { found };
        let ports: Vec<u32> = found.iter().filter_map(|port| port.index).collect();
        let state = StateFile::new(router, namespace, found);
        state.write(&path)?;
        let (state, guard) = (Mutex::new(state), Mutex::new(guard));
        let saved = Saved { namespace: namespace.clone(), path, state, guard, guarded };
        let prepared = Self { saved: Arc::new(saved), active: true };
        for (i, device) in devices.iter().enumerate() {
            // One after the other, so that the one that another router has is known.
            let ports = ports[..=i].to_vec();
            prepared.saved.protect(Duty { ports, ..Duty::default() }).map_err(|error| held(device, error))?;
        }
        for device in devices {
            prepare::change(namespace, &netlink, device, guarded)?;
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
        let Saved { namespace, path, state, guard, .. } = &*self.saved;
        *guard.lock().unwrap_or_else(PoisonError::into_inner) = None;
        prepare::restore(namespace, &state.lock().unwrap_or_else(PoisonError::into_inner))?;
        std::fs::remove_file(path).map_err(|source| EngineError::StateFile { path: path.clone(), source })
    }
}

fn held(Device { port, device, .. }: &Device, error: NetlinkError) -> EngineError {
    match error.is_taken() {
        true => EngineError::DeviceHeld { port: port.clone(), device: device.clone() },
        false => error.into(),
    }
}

/// The guard of a router; none on a kernel that lacks what it is made of, which then must not forward IPv6 at all: that has
/// no switch of a port's own.
fn open_guard(namespace: &Namespace, router: &str) -> Result<Option<ForwardGuard>, EngineError> {
    let lacking = match ForwardGuard::open_in(namespace, router) {
        Ok(guard) => return Ok(Some(guard)),
        Err(error) if error.is_taken() => {
            return Err(EngineError::Guarded { name: router.to_owned() });
        }
        Err(error) if error.is_permission() => return Err(error.into()),
        Err(error) => error,
    };
    if sysctl::read(namespace, IpVersion::V6, "all", "forwarding").is_ok_and(|forwards| forwards != 0) {
        return Err(EngineError::ForwardsTwice { source: lacking });
    }
    tracing::warn!(error = %lacking, "the kernel's forwarding is switched off while the router runs");
    Ok(None)
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
