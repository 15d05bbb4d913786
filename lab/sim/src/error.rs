//! Why a scenario cannot be simulated.

use thiserror::Error;

/// See the variants.
#[derive(Debug, Error)]
pub enum SimError {
    /// A router's file has errors.
    #[error("router \"{node}\":\n{diagnostics}")]
    RouterFile {
        /// The node.
        node: String,
        /// What is wrong, with positions.
        diagnostics: String,
    },
    /// A router's graph cannot be built.
    #[error("router \"{node}\": {why}")]
    Router {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// A router refused its file.
    #[error("router \"{node}\" refuses its file: {refusals}")]
    Refused {
        /// The node.
        node: String,
        /// Codes and messages.
        refusals: String,
    },
    /// A router refuses the rate that one of its links has from now on.
    #[error("router \"{node}\" refuses the rate of {rate} that its link has from {at_s} s on: {refusals}")]
    RefusedRate {
        /// The node.
        node: String,
        /// The link's new rate.
        rate: perhop_units::Rate,
        /// Simulated time.
        at_s: f64,
        /// Paths and messages.
        refusals: String,
    },
    /// A controller cannot begin.
    #[error("controller \"{node}\": {why}")]
    Controller {
        /// The node.
        node: String,
        /// Why.
        why: String,
    },
    /// A link's discipline is not an element, or its arguments do not fit.
    #[error("link \"{link}\": discipline: {why}")]
    Discipline {
        /// The link.
        link: String,
        /// Why.
        why: String,
    },
    /// A sender's parameters do not fit each other.
    #[error("traffic \"{traffic}\": {why}")]
    Traffic {
        /// The traffic.
        traffic: String,
        /// Why.
        why: String,
    },
    /// No way from one host to another.
    #[error("traffic \"{traffic}\": no link leads from \"{from}\" to \"{to}\"")]
    Unreachable {
        /// The traffic.
        traffic: String,
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
    /// Packets appeared or vanished.
    #[error("packets are not conserved at {at_s} s: {why}")]
    Conservation {
        /// Simulated time.
        at_s: f64,
        /// Where.
        why: String,
    },
    /// A capture cannot be written.
    #[error("{path}: {source}")]
    Capture {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
