//! Errors that say which part of the scenario they are about.

use crate::error::LabError;
use perhop_engine::EngineError;
use perhop_netlink::NetlinkError;
use perhop_scenario::{Link, Node};

/// A node's part of the machine failed.
pub(super) fn at_node<'a>(node: &'a Node, doing: &'static str) -> impl FnOnce(NetlinkError) -> LabError + 'a {
    move |error| LabError::Part { part: format!("node \"{}\"", node.name), doing, reason: error.to_string() }
}

/// A link's part of the machine failed.
pub(super) fn at_link<'a>(link: &'a Link, doing: &'static str) -> impl FnOnce(NetlinkError) -> LabError + 'a {
    move |error| LabError::Part { part: format!("link \"{}\"", link.name), doing, reason: error.to_string() }
}

/// A router or an emulated link did not start or died; what it was told may be wrong.
pub(super) fn of_engine(part: String, doing: &'static str) -> impl FnOnce(EngineError) -> LabError {
    move |error| match error {
        EngineError::Graph(reasons) | EngineError::Objects(reasons) => unsuitable(part, reasons.join("; ")),
        error => LabError::Part { part, doing, reason: error.to_string() },
    }
}

/// The scenario asks for what namespaces cannot do.
pub(super) fn unsuitable(part: String, reason: impl ToString) -> LabError {
    LabError::Unsuitable { part, reason: reason.to_string() }
}
