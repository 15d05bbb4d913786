//! What several workers do not do together.

use crate::control::GraphRequest;
use perhop_model::ErrorItem;
use perhop_reason::Code;

/// Another graph: that of several workers has the elements that connect them.
pub(in crate::router) fn check(graph: &GraphRequest) -> ErrorItem {
    let why = "the graph of several workers is their own; use workers = 1 for another";
    ErrorItem { op: Some(graph.op), ..ErrorItem::new(Code::Unsupported, "graph", why) }
}
