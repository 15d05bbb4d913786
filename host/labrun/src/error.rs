//! What can keep a laboratory run from giving a result.

use perhop_netlink::NetlinkError;
use perhop_sim::SimError;
use std::path::PathBuf;
use thiserror::Error;

/// Why a run gave no result.
#[derive(Debug, Error)]
pub enum LabError {
    /// Neither root nor a user namespace.
    #[error("namespaces cannot be made here; run as root, or allow unprivileged user namespaces: {source}")]
    NoNamespaces {
        /// What the kernel said.
        source: NetlinkError,
    },
    /// There are controllers in the simulator only.
    #[error("the controller \"{node}\" runs in the simulator only: leave out --mode netns")]
    Controller {
        /// Its node.
        node: String,
    },
    /// Building or reading the network failed.
    #[error("{doing}: {source}")]
    Network {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: NetlinkError,
    },
    /// A packet socket did not open.
    #[error("{doing}: {reason}")]
    Engine {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// A socket, a thread or `/proc` failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A report or a capture could not be written.
    #[error("{path}: {reason}")]
    Output {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A part of a scenario cannot be built or has failed.
    #[error("{part}: {doing}: {reason}")]
    Part {
        /// Node, link, router, traffic or program, by name.
        part: String,
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// A scenario asks for what namespaces do not do, or for what does not fit together.
    #[error("{part}: {reason}")]
    Unsuitable {
        /// Node, link, router, traffic or program, by name.
        part: String,
        /// What does not fit.
        reason: String,
    },
}

impl LabError {
    /// Exit code of a program that ends with this: 2 for bad input, 3 for what the environment lacks.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unsuitable { .. } => 2,
            _ => 3,
        }
    }
}

/// Why a scenario was not run to its end in its world.
#[derive(Debug, Error)]
pub enum JobError {
    /// The simulator refuses the scenario, or found packets missing.
    #[error("{scenario}: {source}")]
    Simulation {
        /// The scenario.
        scenario: String,
        /// Why.
        source: SimError,
    },
    /// The namespaces refuse the scenario or the machine.
    #[error("{scenario}: {source}")]
    Namespaces {
        /// The scenario.
        scenario: String,
        /// Why.
        source: LabError,
    },
    /// The person asked to stop.
    #[error("interrupted; nothing was written and nothing is left running")]
    Interrupted,
    /// A thread ended without a result.
    #[error("a thread of the simulator died\nThis is an error of Perhop; the message above says where.")]
    ThreadDied,
}

impl JobError {
    /// Exit code of a program that ends with this: as of [`LabError`], 1 for an error of Perhop, 130 when it was asked to.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Simulation { source: SimError::Conservation { .. }, .. } | Self::ThreadDied => 1,
            Self::Simulation { source: SimError::Capture { .. }, .. } => 3,
            Self::Simulation { .. } => 2,
            Self::Namespaces { source, .. } => source.exit_code(),
            Self::Interrupted => 130,
        }
    }
}

/// Makes the mapping of a netlink error with `map_err(network("…"))`.
pub(crate) fn network(doing: &'static str) -> impl FnOnce(NetlinkError) -> LabError {
    move |source| LabError::Network { doing, source }
}

/// As [`network`] for operating-system errors.
pub(crate) fn io(doing: &'static str) -> impl FnOnce(std::io::Error) -> LabError {
    move |source| LabError::Io { doing, source }
}
