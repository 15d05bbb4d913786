//! What keeps rules from being set.

/// Why a rule is not in force. The text says what, then what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FirewallError {
    /// Too many combinations of interfaces, ports and prefixes.
    #[error("interfaces, ports and prefixes come to {given} rules\nAt most {most}.")]
    TooManyRules {
        /// How many.
        given: usize,
        /// How many there may be.
        most: usize,
    },
    /// No program that sets rules.
    #[error(
        "neither iptables-legacy nor iptables is installed\nInstall the package iptables, or set the rules yourself."
    )]
    NoTool,
    /// There is one, and it cannot read the table.
    #[error(
        "{tool} cannot read the mangle table: {said}\nRun as root; the kernel needs CONFIG_IP_NF_MANGLE or nf_tables."
    )]
    NoTable {
        /// Program.
        tool: String,
        /// What it said.
        said: String,
    },
    /// A rule is refused.
    #[error(
        "{tool} refuses the rule `{rule}`: {said}\nThe kernel needs CONFIG_NETFILTER_XT_TARGET_NFQUEUE (module xt_NFQUEUE)."
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
        source: std::io::Error,
    },
}
