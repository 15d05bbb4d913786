//! What the admission of a router counts inside the window.

use perhop_graph::router::VirtualRouter;
use perhop_measure::AdmissionRecord;

/// Counters at both ends of the window.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionWatch {
    before: AdmissionRecord,
    after: Option<AdmissionRecord>,
}

impl AdmissionWatch {
    /// The window begins: what was counted so far does not count.
    pub(crate) fn window_begins(&mut self, router: &VirtualRouter) {
        self.before = counted(router).unwrap_or_default();
    }

    /// The window ends: what is counted from now on does not count.
    pub(crate) fn window_ends(&mut self, router: &VirtualRouter) {
        self.after = counted(router);
    }

    /// What was counted between; `None` where all recognised flows are admitted.
    pub(crate) fn record(&self, node: &str, router: &VirtualRouter) -> Option<AdmissionRecord> {
        // A run that was stopped has no end of the window.
        let after = self.after.clone().or_else(|| counted(router))?;
        let before = &self.before;
        Some(AdmissionRecord {
            node: node.to_owned(),
            offered: after.offered - before.offered,
            admitted: after.admitted - before.admitted,
            refused: after.refused - before.refused,
            dropped: after.dropped - before.dropped,
            intervals: after.intervals - before.intervals,
            intervals_over_cap: after.intervals_over_cap - before.intervals_over_cap,
        })
    }
}

/// Its counters now; `None` while everything is admitted.
fn counted(router: &VirtualRouter) -> Option<AdmissionRecord> {
    let counters = router.halves().1.flows()?.admission()?.counters;
    Some(AdmissionRecord {
        node: String::new(),
        offered: counters.flows_offered,
        admitted: counters.flows_admitted,
        refused: counters.flows_refused,
        dropped: counters.flows_dropped,
        intervals: counters.intervals,
        intervals_over_cap: counters.intervals_over_cap,
    })
}
