//! Why an interface gets no AF_XDP port.

use std::io;
use thiserror::Error;

/// What went wrong when an AF_XDP port was opened. Each sentence says what helps.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum XdpError {
    /// There is no such interface in the calling thread's network namespace.
    #[error("there is no interface \"{interface}\" in this network namespace; `ip link` lists them")]
    NoInterface {
        /// Name.
        interface: String,
    },
    /// More rights are needed.
    #[error(
        "{attempt}: not permitted; run as root outside of user namespaces (CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW)"
    )]
    NotPermitted {
        /// What was attempted.
        attempt: &'static str,
    },
    /// The kernel was built without.
    #[error("this kernel has no AF_XDP sockets; it needs CONFIG_XDP_SOCKETS and to be Linux 5.9 or newer")]
    NotInKernel,
    /// There is room for one program on an interface.
    #[error(
        "\"{interface}\" has an XDP program already; `bpftool net` shows whose it is, `ip link set dev {interface} xdp off` \
         takes it away"
    )]
    ProgramInPlace {
        /// Name.
        interface: String,
    },
    /// There is room for one socket on a queue.
    #[error("queue {queue} of \"{interface}\" has another AF_XDP socket; end the program that opened it")]
    QueueInUse {
        /// Name.
        interface: String,
        /// Number of the queue.
        queue: u32,
    },
    /// Every queue needs a socket.
    #[error(
        "\"{interface}\" has {queues} receive queues, more than {most}; `ethtool -L {interface} combined {most}`"
    )]
    TooManyQueues {
        /// Name.
        interface: String,
        /// Queues.
        queues: u32,
        /// Most.
        most: u32,
    },
    /// Buffers must stay in memory, and a user may lock only so much.
    #[error(
        "{mebibytes} MiB of packet buffers cannot be locked in memory; raise `ulimit -l` (LimitMEMLOCK= of a service), or \
         give CAP_IPC_LOCK"
    )]
    LockedMemory {
        /// What was to be locked.
        mebibytes: usize,
    },
    /// The driver cannot run the program.
    #[error(
        "the driver \"{driver}\" of \"{interface}\" runs no XDP program as it is set up ({source}); an MTU of at most 1500 and \
         fewer queues may help, or the generic mode"
    )]
    NotInDriver {
        /// Name of the interface.
        interface: String,
        /// Name of the driver.
        driver: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("{operation}: {source}")]
    Os {
        /// What was attempted.
        operation: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
}

impl XdpError {
    /// A system call that failed.
    pub(super) fn of(operation: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { attempt: operation },
            Some(libc::EAFNOSUPPORT) => Self::NotInKernel,
            _ => Self::Os { operation, source },
        }
    }

    /// The last system call failed.
    pub(super) fn last(operation: &'static str) -> Self {
        Self::of(operation, io::Error::last_os_error())
    }
}
