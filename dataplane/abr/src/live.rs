//! How many flows of each policy are live in all workers of a router.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts by number of the policy. Workers add and take away what they know of themselves; a reader may see a flow that
/// moves from one policy to another in both or in neither for an instant.
#[derive(Debug)]
pub struct LiveFlows {
    counts: Box<[AtomicU32]>,
}

impl Default for LiveFlows {
    fn default() -> Self {
        Self { counts: (0..=u16::MAX).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl LiveFlows {
    pub(crate) fn add(&self, id: u16) {
        self.counts[usize::from(id)].fetch_add(1, Ordering::Relaxed);
    }

    /// No more than was added.
    pub(crate) fn take(&self, id: u16, flows: u32) {
        self.counts[usize::from(id)].fetch_sub(flows, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn of(&self, id: u16) -> u32 {
        self.counts[usize::from(id)].load(Ordering::Relaxed)
    }
}
