//! Why the kernel cannot shape an interface.

use perhop_netlink::NetlinkError;
use perhop_units::Rate;
use std::io;
use thiserror::Error;

/// Why the kernel's traffic control cannot be had for an interface.
#[derive(Debug, Error)]
pub enum ShaperError {
    /// Somebody else has set the interface up.
    #[error(
        "interface {interface} has a queueing discipline of somebody else's at its root, {kind} {handle}, which stays as it is; remove \
         it with `tc qdisc del dev {interface} root`, or take another interface"
    )]
    Foreign {
        /// Interface.
        interface: String,
        /// Kind.
        kind: String,
        /// Its name.
        handle: String,
    },
    /// The kernel was built without something.
    #[error("this kernel has no {what} ({option}): {source}")]
    Lacks {
        /// What.
        what: &'static str,
        /// How it is called where kernels are configured.
        option: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A class, or a name, that cannot be.
    #[error("{what}: {why}")]
    Class {
        /// Which.
        what: String,
        /// Why not.
        why: String,
    },
    /// Guarantees of all classes together.
    #[error(
        "the guarantees of all classes come to {sum}, and the interface has {rate}; leave something for what has no class"
    )]
    TooMuch {
        /// Sum.
        sum: Rate,
        /// Of the interface.
        rate: Rate,
    },
    /// The kernel.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// No thread.
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}
