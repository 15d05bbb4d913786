//! What several workers do not do together.

use super::Checker;
use crate::routerfile::read::Declarations;

/// What is reckoned over all flows at once has one worker.
pub(super) fn check(checker: Checker<'_>, declared: &Declarations, workers: usize) {
    let Some(detector) = declared.detector.as_ref().filter(|d| workers > 1 && d.spec.admission.is_some())
    else {
        return;
    };
    let why = format!("needs all recognised flows in one place, and {workers} workers have them apart");
    let hint = "Leave it out, or use workers = 1 in [router].";
    checker.push(checker.error(detector.at, "admission.cap", why).hint(hint));
}
