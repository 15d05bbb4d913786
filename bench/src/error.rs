//! Why a measurement cannot be made.

use perhop_element::PortError;
use perhop_io::af_xdp::XdpError;
use perhop_netlink::NetlinkError;
use std::io;
use thiserror::Error;

/// Why a measurement cannot be made.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The options do not fit together.
    #[error("{0}")]
    Options(String),
    /// The router under test refuses its configuration.
    #[error("the router under test cannot be set up: {0}")]
    Router(String),
    /// The environment lacks something.
    #[error("{what}: {why}")]
    Environment {
        /// What was tried.
        what: String,
        /// Why it failed, and the remedy.
        why: String,
    },
    /// A processor is not there or not allowed.
    #[error("running on processor {cpu}: {source}")]
    Processor {
        /// Its number.
        cpu: usize,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Namespaces, or what is in them, cannot be had.
    #[error("setting up namespaces: {0}; run as root or in `unshare -Urn`")]
    Namespaces(#[from] NetlinkError),
    /// A packet socket cannot be had, or fails.
    #[error("a packet socket: {0}")]
    PacketSocket(#[from] PortError),
    /// AF_XDP cannot be had.
    #[error("AF_XDP: {0}")]
    AfXdp(#[from] XdpError),
    /// The measurement contradicts itself.
    #[error("the measurement is wrong: {0}")]
    Wrong(String),
    /// Standard output cannot be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

impl BenchError {
    /// The exit code that goes with it: 1 failed, 2 bad options, 3 the environment lacks something.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Options(_) => 2,
            Self::Environment { .. }
            | Self::Processor { .. }
            | Self::Namespaces(_)
            | Self::PacketSocket(_)
            | Self::AfXdp(_) => 3,
            Self::Router(_) | Self::Wrong(_) | Self::Output(_) => 1,
        }
    }
}
