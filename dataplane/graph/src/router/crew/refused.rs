//! What several workers do not do together.

use perhop_contract::{Draft, GraphRequest};
use perhop_model::{ErrorItem, Spec};
use perhop_reason::Code;

/// Another graph: that of several workers has the elements that connect them.
pub(in crate::router) fn check(graph: &GraphRequest) -> ErrorItem {
    let why = "the graph of several workers is their own; use workers = 1 for another";
    ErrorItem { op: Some(graph.op), ..ErrorItem::new(Code::Unsupported, "graph", why) }
}

/// Why a TCP rate control policy does not go with adaptive placement.
pub const CONTROLLED_STAY: &str =
    "what the TCP rate control knows of a connection does not go to another worker";
/// Why a contract does not that flows have parts of.
pub const PARTS_STAY: &str = "a flow's part of a contract does not go to another worker";

/// With adaptive placement: objects that keep something of each flow which does not go to another worker with it.
pub(in crate::router) fn check_objects(draft: &Draft<'_>) -> Vec<ErrorItem> {
    let mut errors = Vec::new();
    for (key, entry) in draft.changes().iter().filter_map(|(key, entry)| Some((key, entry.as_ref()?))) {
        let (field, why) = match &*entry.spec {
            Spec::AbrPolicy(_) => ("", CONTROLLED_STAY),
            Spec::Sla(sla) if sla.shared_pct < 100 => (".shared_pct", PARTS_STAY),
            _ => continue,
        };
        let path = format!("{}/{}{field}", key.kind, key.name);
        let message = format!("{why}; use placement = \"static\" in [router]");
        errors.push(ErrorItem::new(Code::Unsupported, path, message));
    }
    errors
}
