//! Root rights over an own network, for a user who has none.
//!
//! In a new user namespace the first process has all capabilities over what
//! that namespace owns, among them new network namespaces (user_namespaces(7)).

use std::{fs, io};

use rustix::thread::{CapabilitySet, UnshareFlags, capabilities, unshare_unsafe};

use crate::connection::Netlink;
use crate::error::NetlinkError;

/// Moves this process into a new user namespace, as root there, and into a new
/// network namespace owned by it, with `lo` up. Everything in this crate works
/// afterwards; the machine's own interfaces are out of sight.
///
/// # Errors
/// [`NetlinkError::ThreadsRunning`] when the process has more than one thread
/// (unshare(2) refuses then), [`NetlinkError::UserNamespaceForbidden`] when
/// the machine forbids it; its text says how to allow it.
pub fn enter_user_namespace() -> Result<(), NetlinkError> {
    let threads = fs::read_dir("/proc/self/task")
        .map_err(|e| NetlinkError::io("count threads", "/proc/self/task", e))?
        .count();
    if threads > 1 {
        return Err(NetlinkError::ThreadsRunning { threads });
    }
    // Read before: inside, both are the overflow id until they are mapped.
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: the process has one thread, so no other thread sees half a
    // change; neither flag touches the file descriptor table or memory.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }
        .map_err(|e| forbidden("unshare", e.into()))?;
    // An unprivileged process may map its group only after giving up setgroups.
    write("setgroups", "deny")?;
    write("uid_map", &format!("0 {} 1", user.as_raw()))?;
    write("gid_map", &format!("0 {} 1", group.as_raw()))?;
    Netlink::open()?.set_up("lo")
}

fn write(file: &'static str, content: &str) -> Result<(), NetlinkError> {
    fs::write(format!("/proc/self/{file}"), content).map_err(|e| forbidden(file, e))
}

fn forbidden(step: &'static str, source: io::Error) -> NetlinkError {
    NetlinkError::UserNamespaceForbidden { step, source }
}

/// Whether the calling thread may make namespaces and interfaces: it has
/// CAP_NET_ADMIN and CAP_SYS_ADMIN in effect, as root or in a user namespace.
pub fn is_privileged_for_net() -> bool {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}
