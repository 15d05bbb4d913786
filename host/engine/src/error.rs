//! What can go wrong with a running router.

use crate::death::ThreadDeath;
use perhop_element::PortError;
use perhop_io::LockError;
use perhop_netlink::NetlinkError;
use std::path::PathBuf;
use thiserror::Error;

/// Why an engine does not start, reload or restore.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// More rights are needed.
    #[error(
        "{attempt}: not permitted; run as root (CAP_NET_RAW, CAP_NET_ADMIN), or in a user namespace with `unshare -Urn`"
    )]
    NotPermitted {
        /// What was attempted.
        attempt: String,
    },
    /// Several workers do not do this.
    #[error("{workers} workers {why}; use workers = 1 in [router], or 2 to 16 with the default graph")]
    Workers {
        /// Workers asked for.
        workers: usize,
        /// What they do not.
        why: &'static str,
    },
    /// A port's interface does not exist.
    #[error(
        "port \"{port}\": there is no interface \"{device}\" in this network namespace; `ip link` lists them"
    )]
    NoDevice {
        /// Port.
        port: String,
        /// Interface.
        device: String,
    },
    /// Interfaces of several ports do not exist.
    #[error(
        "there are no interfaces {} in this network namespace; `ip link` lists them",
        .0.iter().map(|(port, device)| format!("\"{device}\" (port \"{port}\")")).collect::<Vec<_>>().join(", ")
    )]
    NoDevices(Vec<(String, String)>),
    /// A port's interface has nothing to forward by: frames with link addresses.
    #[error(
        "port \"{port}\": \"{device}\" {}", 
        if *loopback {
            "is this host's own loopback, by which nothing arrives from elsewhere; leave the port out"
        } else {
            "has neither Ethernet addresses nor one other end, as a tunnel to many (GRE without `remote`) or InfiniBand, and cannot be \
             a port; leave the port out: what the kernel's routes send there from the ports is the kernel's to forward, if its \
             forwarding is on"
        }
    )]
    NoLinkAddress {
        /// Port.
        port: String,
        /// Interface.
        device: String,
        /// Whether it is the loopback.
        loopback: bool,
    },
    /// A port's interface is down.
    #[error("port \"{port}\": interface \"{device}\" is down; `ip link set {device} up`")]
    DeviceDown {
        /// Port.
        port: String,
        /// Interface.
        device: String,
    },
    /// The kernel would forward packets a second time.
    #[error(
        "port \"{port}\": the kernel's own forwarding on \"{device}\" cannot be switched off ({source}), and every packet \
         would be forwarded twice; is /proc/sys writable here?"
    )]
    Forwarding {
        /// Port.
        port: String,
        /// Interface.
        device: String,
        /// The kernel's answer.
        source: NetlinkError,
    },
    /// A router of this name runs in the same network namespace, with another directory for its state.
    #[error(
        "a router named \"{name}\" runs in this network namespace, with another runtime directory; choose another name and \
         other interfaces"
    )]
    Guarded {
        /// Name.
        name: String,
    },
    /// The packet filter does something to forwarded packets, and would not see them.
    #[error(
        "what this router forwards passes by the kernel's packet filter, where rules are for it: {rules}; if nothing depends on \
         them, say so with `[kernel] bypass_netfilter = true` in the router's file; if something does, let the router be a bridge beyond them (docs/router-file.md, Beside masquerading or a firewall); `nft list ruleset`, `iptables-legacy-save` and `ip xfrm policy` show them"
    )]
    Netfilter {
        /// Chains, and what they do.
        rules: String,
    },
    /// The kernel forwards packets of the ports before the router sees them.
    #[error(
        "{flowtables}: packets of those would be forwarded twice, by the kernel past every queue; take the ports out of it (`nft list \
         flowtables`)"
    )]
    Flowtables {
        /// Which.
        flowtables: String,
    },
    /// What a port on a bridge of the kernel is to take never leaves that bridge.
    #[error(
        "{switches}: what is to be forwarded ends there before the port sees it, and so does what hosts on the bridge send each other; \
         `sysctl net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0`, or make another interface the port"
    )]
    BridgeFilter {
        /// Which, and of what bridge.
        switches: String,
    },
    /// Whether the packet filter does something to forwarded packets cannot be found out.
    #[error(
        "cannot find out whether the kernel's packet filter has rules for what is forwarded, which passes by it: {source}; if \
         nothing depends on them, say so with `[kernel] bypass_netfilter = true` in the router's file"
    )]
    NetfilterUnknown {
        /// What the kernel answered.
        source: NetlinkError,
    },
    /// Another router has a port's interface, with another directory for its state.
    #[error(
        "port \"{port}\": interface \"{device}\" belongs to another router in this network namespace, with another runtime \
         directory; both would forward every packet"
    )]
    DeviceHeld {
        /// Port.
        port: String,
        /// Interface.
        device: String,
    },
    /// The kernel would forward IPv6 a second time, and cannot be kept from it.
    #[error(
        "the kernel would forward every IPv6 packet a second time: it lacks rules to keep it from that ({source}; nf_tables with \
         fib, Linux 5.12); or switch it off: `sysctl -w net.ipv6.conf.all.forwarding=0`"
    )]
    ForwardsTwice {
        /// What the kernel said to the rules.
        source: NetlinkError,
    },
    /// A router of this name runs, or one crashed and left its state.
    #[error(
        "a router named \"{name}\" runs here (process {pid}), or its state file {path} is of one that does; choose \
         another name"
    )]
    NameInUse {
        /// Name.
        name: String,
        /// Process that holds it.
        pid: u32,
        /// State file.
        path: PathBuf,
    },
    /// Another router has a port's interface.
    #[error(
        "port \"{port}\": interface \"{device}\" belongs to the router \"{router}\", which runs here (process {pid}); \
         both would forward every packet"
    )]
    DeviceInUse {
        /// Port.
        port: String,
        /// Interface.
        device: String,
        /// Name of the other router.
        router: String,
        /// Its process.
        pid: u32,
    },
    /// The state file cannot be read or written.
    #[error(
        "{path}: {source}; what is changed on interfaces is kept there, so that it can be put back after a crash"
    )]
    StateFile {
        /// File.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another start or restoration does not end.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The state file holds something else.
    #[error("{path}: not a state file of a router: {detail}")]
    StateFormat {
        /// File.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The kernel's network configuration refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The graph is not one.
    #[error("the packet graph is wrong: {}", .0.join("; "))]
    Graph(Vec<String>),
    /// The router file's objects were refused.
    #[error("the router refused its file: {}", .0.join("; "))]
    Objects(Vec<String>),
    /// There must be at least one port, and no more than a worker serves.
    #[error("{given} ports; a router has 1 to {most}")]
    PortCount {
        /// Ports given.
        given: usize,
        /// Most.
        most: usize,
    },
    /// No capture file can be written.
    #[error("{path}: cannot capture: {source}")]
    Capture {
        /// Directory or file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Rights cannot be given up.
    #[error("rights that forwarding does not need cannot be given up: {0}")]
    Rights(std::io::Error),
    /// A thread cannot be made.
    #[error("cannot start a thread: {0}; too many processes?")]
    Thread(std::io::Error),
    /// A thread ended that should not have.
    #[error(transparent)]
    ThreadDied(#[from] ThreadDeath),
    /// The engine has stopped.
    #[error("the router has stopped")]
    Stopped,
}

impl EngineError {
    /// Whether the environment lacks something (exit code 3), as opposed to bad input (2).
    pub fn is_environment(&self) -> bool {
        !matches!(
            self,
            Self::Graph(_)
                | Self::Objects(_)
                | Self::PortCount { .. }
                | Self::ThreadDied(_)
                | Self::StateFormat { .. }
        )
    }

    /// A failure to open a port, with what to do about it.
    pub(crate) fn of_port(port: &str, device: &str, error: PortError) -> Self {
        match error {
            PortError::Down { .. } => Self::DeviceDown { port: port.into(), device: device.into() },
            PortError::Os { source, operation, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Self::NotPermitted { attempt: format!("port \"{port}\": {operation} on \"{device}\"") }
            }
            other => Self::Port(other),
        }
    }

    /// A failure of the kernel's configuration of a port.
    pub(crate) fn of_netlink(port: &str, device: &str, error: NetlinkError) -> Self {
        match error {
            NetlinkError::NoSuchInterface { .. } => {
                Self::NoDevice { port: port.into(), device: device.into() }
            }
            e if e.is_permission() => Self::NotPermitted { attempt: format!("port \"{port}\": {e}") },
            other => Self::Netlink(other),
        }
    }
}
