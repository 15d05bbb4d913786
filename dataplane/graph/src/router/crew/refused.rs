//! What several workers do not do together.

use crate::control::{Draft, GraphRequest};
use perhop_model::{ErrorItem, Kind, Spec};
use perhop_reason::Code;

/// Errors for what a draft asks of more than one worker and only one can do: what is reckoned over all flows at once, and
/// another graph.
pub(in crate::router) fn check(draft: &Draft<'_>, graph: Option<&GraphRequest>) -> Vec<ErrorItem> {
    let unsupported = |path: String, what: &str| {
        let why = "is reckoned over all flows at once, and each worker knows its own; use workers = 1";
        ErrorItem::new(Code::Unsupported, path, format!("{what} {why}"))
    };
    let mut errors = Vec::new();
    for (key, entry) in draft.changes() {
        match entry.as_ref().map(|e| &*e.spec) {
            Some(Spec::AbrPolicy(_)) => {
                errors.push(unsupported(
                    format!("{}/{}", Kind::AbrPolicy.name(), key.name),
                    "what a flow gets",
                ));
            }
            Some(Spec::Detector(d)) if d.admission.is_some() => {
                errors.push(unsupported(format!("{}/{}", Kind::Detector.name(), key.name), "admission"));
            }
            _ => {}
        }
    }
    errors.extend(graph.map(|request| {
        let why = "the graph of several workers is their own; use workers = 1 for another".to_owned();
        ErrorItem { op: Some(request.op), ..ErrorItem::new(Code::Unsupported, "graph", why) }
    }));
    errors
}
