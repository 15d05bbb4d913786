//! What keeps an end host's rate control from starting or going on.

use perhop_io::nfqueue::NfqueueError;
use std::io;
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
    /// Too many combinations of interfaces, ports and prefixes.
    #[error(
        "--interface, --port and --prefix come to {given} rules\nAt most {most}; leave the rest to a FILE's match."
    )]
    TooManyRules {
        /// How many.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// No interface has the name that was given.
    #[error("--interface {given}: there is no such interface\nThere are {}.", .known.join(", "))]
    NoInterface {
        /// What was given.
        given: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// No program that sets rules.
    #[error(
        "neither iptables-legacy nor iptables is installed\nInstall the package iptables, or set the rules yourself: --no-rules \
         prints them."
    )]
    NoTool,
    /// There is one, and it cannot read the table.
    #[error(
        "{tool} cannot read the mangle table: {said}\nRun as root; the kernel needs CONFIG_IP_NF_MANGLE or nf_tables. --no-rules \
         prints the rules for another program."
    )]
    NoTable {
        /// Program.
        tool: String,
        /// What it said.
        said: String,
    },
    /// A rule is refused.
    #[error(
        "{tool} refuses the rule `{rule}`: {said}\nThe kernel needs CONFIG_NETFILTER_XT_TARGET_NFQUEUE (module xt_NFQUEUE). \
         --no-rules prints the rules for another program."
    )]
    Rule {
        /// Program.
        tool: String,
        /// The rule.
        rule: String,
        /// What it said.
        said: String,
    },
    /// The program cannot be run.
    #[error("{tool}: {source}\nCheck that it may be executed.")]
    Tool {
        /// Program.
        tool: String,
        /// Error.
        source: io::Error,
    },
    /// The queue cannot be opened.
    #[error("{0}")]
    Queue(#[from] NfqueueError),
    /// The queue was lost.
    #[error("the packet queue is gone: {0}\nPackets pass; start it again.")]
    Lost(io::Error),
    /// The thread of the packets ended by itself.
    #[error("the packet thread died; packets pass\nThis is a fault of the program.")]
    Died,
}

impl AbrError {
    /// The exit code that goes with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoRate | Self::Rate { .. } | Self::TooManyRules { .. } | Self::NoInterface { .. } => 2,
            Self::Died => 1,
            _ => 3,
        }
    }
}
