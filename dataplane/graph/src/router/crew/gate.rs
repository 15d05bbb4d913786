//! Where the workers of a router meet to switch to another generation together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The steps of a change, which all workers take one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All that no packet notices is done.
    Staged,
    /// It hands no packet to another worker any more.
    Halted,
    /// It has sorted everything that was handed to it to be sorted. Only where buckets go; else it is taken with the one before.
    Sorted,
    /// It has taken everything that was handed to it.
    Emptied,
    /// The connections that go from it are ready. Only where buckets go; else it is taken with the next.
    Packed,
    /// It sorts packets by the new generation.
    Flipped,
}

impl Step {
    const COUNT: usize = 6;
}

/// Counts how many workers have taken each step of each change. All workers get the same changes in the same order, so a
/// count says for which change it stands.
#[derive(Debug)]
pub(super) struct Gate {
    workers: u64,
    taken: [AtomicU64; Step::COUNT],
}

impl Gate {
    pub(super) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { workers: workers as u64, taken: Default::default() })
    }

    /// A worker takes a step. What it did before is seen by those who find the step taken by all.
    pub(super) fn take(&self, step: Step) {
        self.taken[step as usize].fetch_add(1, Ordering::AcqRel);
    }

    /// Whether all have taken `step` of change number `change`, the first being 1.
    pub(super) fn is_open(&self, step: Step, change: u64) -> bool {
        let taken = self.taken[step as usize].load(Ordering::Acquire);
        debug_assert!(taken <= self.workers * change, "nobody goes on before all have ended this change");
        taken >= self.workers * change
    }
}
