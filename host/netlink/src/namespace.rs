//! Network namespaces held by file descriptor.
//!
//! A namespace lives as long as a thread is in it, a file descriptor or a
//! bind mount refers to it (network_namespaces(7)). Held by descriptor, it
//! leaves nothing behind when the process dies, however it dies.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::connection::Netlink;
use crate::error::NetlinkError;

/// The calling thread's own namespace: the process-wide `/proc/self/ns/net`
/// would be the main thread's.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";
/// Where `ip netns add` keeps named namespaces.
const NAMED_NAMESPACES: &str = "/run/netns";

/// A network namespace. Clones share one descriptor; the namespace disappears,
/// with the interfaces made in it, when the last clone is dropped and no
/// thread is in it.
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
    /// Device and inode of the namespace file: its identity.
    id: (u64, u64),
}

impl Namespace {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn current() -> Result<Self, NetlinkError> {
        Self::open_path(Path::new(OWN_NAMESPACE), "open the namespace of this thread")
    }

    /// Makes a new, anonymous namespace with `lo` up.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`] with EPERM without CAP_SYS_ADMIN, ENOSPC when
    /// the limit `user.max_net_namespaces` is reached.
    pub fn create() -> Result<Self, NetlinkError> {
        on_new_thread("perhop-netns", || {
            // SAFETY: only the network namespace of this fresh thread changes;
            // NEWNET shares no file descriptor table and no memory.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|e| NetlinkError::os("create a network namespace", "", e))?;
            let namespace = Self::current()?;
            Netlink::open()?.set_up("lo")?;
            Ok(namespace)
        })?
    }

    /// Opens a namespace that `ip netns add NAME` made.
    ///
    /// # Errors
    /// [`NetlinkError::BadNamespaceName`]; ENOENT when there is none.
    pub fn open_named(name: &str) -> Result<Self, NetlinkError> {
        if name.is_empty() || name.len() > 255 || name.contains('/') || matches!(name, "." | "..") {
            return Err(NetlinkError::BadNamespaceName { name: name.into() });
        }
        Self::open_path(&Path::new(NAMED_NAMESPACES).join(name), "open network namespace")
    }

    /// The namespace that process `pid` is in.
    ///
    /// # Errors
    /// ENOENT when there is no such process, EACCES when it belongs to
    /// somebody else.
    pub fn of_process(pid: u32) -> Result<Self, NetlinkError> {
        Self::open_path(Path::new(&format!("/proc/{pid}/ns/net")), "open the network namespace of a process")
    }

    fn open_path(path: &Path, operation: &'static str) -> Result<Self, NetlinkError> {
        let fail = |e: io::Error| NetlinkError::io(operation, path.display().to_string(), e);
        let file = File::open(path).map_err(fail)?;
        let stat = rustix::fs::fstat(&file).map_err(|e| fail(e.into()))?;
        Ok(Self { fd: Arc::new(file.into()), id: (stat.st_dev, stat.st_ino) })
    }

    /// The descriptor, for a netlink attribute or for handing to a child.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether the calling thread is in this namespace.
    pub fn is_current(&self) -> bool {
        Self::current().is_ok_and(|now| now == *self)
    }

    /// Moves the calling thread into the namespace, for the rest of its life
    /// or until it moves again. Does nothing if it is there already, so that a
    /// process with CAP_NET_ADMIN alone can work in its own namespace.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN over both user namespaces (setns(2)).
    pub fn enter_thread(&self) -> Result<(), NetlinkError> {
        if self.is_current() {
            return Ok(());
        }
        move_into_link_name_space(self.fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| NetlinkError::os("enter network namespace", self.to_string(), e))
    }

    /// Runs `work` on a fresh thread inside the namespace and waits for it.
    /// The calling thread stays where it is. A panic of `work` goes on here.
    ///
    /// # Errors
    /// Those of [`Namespace::enter_thread`]; EAGAIN when no thread can be made.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetlinkError> {
        on_new_thread("perhop-ns-run", || {
            self.enter_thread()?;
            Ok(work())
        })?
    }

    /// Starts a named thread that lives in the namespace and keeps it alive.
    ///
    /// # Errors
    /// As [`Namespace::run`].
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<T>, NetlinkError> {
        // A thread begins in the namespace of the thread that makes it, so a
        // failure to enter shows before the new thread exists.
        self.run(|| thread::Builder::new().name(name.to_owned()).spawn(work))?
            .map_err(|e| NetlinkError::io("start a thread", name, e))
    }
}

impl Netlink {
    /// Connects in `namespace`; the calling thread stays where it is.
    ///
    /// # Errors
    /// Those of [`Namespace::run`] and [`Netlink::open`].
    pub fn open_in(namespace: &Namespace) -> Result<Self, NetlinkError> {
        namespace.run(Self::open)?
    }
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Namespace {}

impl std::fmt::Display for Namespace {
    /// As the kernel names it in `/proc/PID/ns`: `net:[4026531840]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "net:[{}]", self.id.1)
    }
}

/// Runs `work` on a fresh thread and waits for it; its panic goes on here.
fn on_new_thread<T: Send>(name: &'static str, work: impl FnOnce() -> T + Send) -> Result<T, NetlinkError> {
    thread::scope(|scope| {
        let handle = thread::Builder::new()
            .name(name.into())
            .spawn_scoped(scope, work)
            .map_err(|e| NetlinkError::io("start a thread", name, e))?;
        handle.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}
