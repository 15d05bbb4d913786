//! What several workers do not do together.

use crate::control::{Draft, GraphRequest};
use perhop_model::{ErrorItem, Kind, Spec};
use perhop_reason::Code;

/// Errors for what a draft asks of more than one worker and only one can do: what is measured over all recognised flows at
/// once, and another graph.
pub(in crate::router) fn check(draft: &Draft<'_>, graph: Option<&GraphRequest>) -> Vec<ErrorItem> {
    let item = |path: String, why: &str| ErrorItem::new(Code::Unsupported, path, why.to_owned());
    let admits = |spec: &Spec| matches!(spec, Spec::Detector(d) if d.admission.is_some());
    let detectors = draft.changes().iter().filter(|(_, e)| e.as_ref().is_some_and(|e| admits(&e.spec)));
    let why = "admission needs all recognised flows in one place; use workers = 1";
    let path = |name: &str| format!("{}/{name}.admission", Kind::Detector.name());
    let mut errors: Vec<ErrorItem> = detectors.map(|(key, _)| item(path(key.name.as_str()), why)).collect();
    errors.extend(graph.map(|request| {
        let why = "the graph of several workers is their own; use workers = 1 for another";
        ErrorItem { op: Some(request.op), ..item("graph".to_owned(), why) }
    }));
    errors
}
