//! What does not go with flows that go from one worker to another. The planner refuses the same of objects that come later.

use super::Checker;
use crate::read::Declarations;
use crate::settings::RouterSettings;
use perhop_config::Diagnostic;
use perhop_graph::router::{CONTROLLED_STAY, PARTS_STAY};

/// Where the reason is written.
const KEY: &str = "router.placement";

pub(super) fn check(c: Checker<'_>, router: &RouterSettings, declared: &Declarations) {
    if !router.adaptive {
        return;
    }
    let why = |stays: &str| format!("does not go with placement = \"adaptive\": {stays}");
    // Said once: the policies of a file are left out together or not at all.
    if let Some(policy) = declared.abr.first() {
        let d = c
            .error(policy.at, "", why(CONTROLLED_STAY))
            .hint("Use placement = \"static\", or leave all [[abr]] out.");
        push(c, d);
    }
    for sla in declared.slas.iter().filter(|sla| sla.spec.shared_pct < 100) {
        let d = c
            .error(sla.at, "shared_pct", why(PARTS_STAY))
            .hint("Use placement = \"static\", or shared_pct = 100.");
        push(c, d);
    }
}

fn push(c: Checker<'_>, diagnostic: Diagnostic) {
    c.push_with(diagnostic, c.document.root_location(), KEY, "flows are to move because of this");
}
