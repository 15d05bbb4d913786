//! What keeps an end host's rate control from starting or going on.

use perhop_engine::HostAbrError;
use perhop_netlink::NetlinkError;
use perhop_netlink::firewall::FirewallError;
use thiserror::Error;

/// Why it does not work. The text says what, then what to do about it.
#[derive(Debug, Error)]
pub enum AbrError {
    /// Nothing says how fast flows may be.
    #[error("no rate is given\nName a FILE with policies, or give --rate, --link or both.")]
    NoRate,
    /// A rate out of range.
    #[error("--{option} {given}: out of range\n1 kbit/s to 1 Tbit/s.")]
    Rate {
        /// Option.
        option: &'static str,
        /// What was given.
        given: perhop_units::Rate,
    },
    /// No interface has the name that was given.
    #[error("--interface {given}: there is no such interface\nThere are {}.", .known.join(", "))]
    NoInterface {
        /// What was given.
        given: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// The kernel does not say what interfaces there are.
    #[error("{0}")]
    Interfaces(#[from] NetlinkError),
    /// Rules are not in force.
    #[error("{}{}", .0, other_way(.0))]
    Firewall(#[from] FirewallError),
    /// The packet thread does not start or go on.
    #[error("{0}")]
    Host(#[from] HostAbrError),
}

impl AbrError {
    /// The exit code that goes with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoRate | Self::Rate { .. } | Self::NoInterface { .. } => 2,
            Self::Firewall(FirewallError::TooManyRules { .. }) => 2,
            Self::Host(HostAbrError::Died) => 1,
            _ => 3,
        }
    }
}

/// What this program's options can do about it.
fn other_way(error: &FirewallError) -> &'static str {
    match error {
        FirewallError::TooManyRules { .. } => " Leave the rest to a FILE's match.",
        FirewallError::NoTool => " --no-rules prints them.",
        FirewallError::NoTable { .. } | FirewallError::Rule { .. } => {
            " --no-rules prints the rules for another program."
        }
        _ => "",
    }
}
