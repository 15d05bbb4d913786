//! Limits that were hit: counted, and told to readers of events once a second at most for each.

use super::Events;
use perhop_model::EventKind;
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;

/// At most one event in this time for one limit.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Hits {
    total: u64,
    untold: u64,
    limit: u64,
    told: Option<Instant>,
}

/// Hits by the limit's name.
#[derive(Debug, Default)]
pub(super) struct LimitHits {
    by_name: BTreeMap<&'static str, Hits>,
}

impl LimitHits {
    /// The limit `name` of `limit` was hit; told by [`LimitHits::tell`].
    pub(super) fn hit(&mut self, name: &'static str, limit: usize) {
        let hits = self.by_name.entry(name).or_default();
        hits.total += 1;
        hits.untold += 1;
        hits.limit = limit as u64;
    }

    /// Tells what has been untold for long enough.
    pub(super) fn tell(&mut self, now: Instant, events: &mut Events) {
        for (name, hits) in &mut self.by_name {
            if hits.untold == 0 || hits.told.is_some_and(|at| now.since(at) < EVERY) {
                continue;
            }
            let kind =
                EventKind::LimitHit { limit: (*name).to_owned(), value: hits.limit, hits: hits.untold };
            events.push(now, kind);
            (hits.untold, hits.told) = (0, Some(now));
        }
    }

    /// Hits so far by name.
    pub(super) fn totals(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.by_name.iter().map(|(name, hits)| (*name, hits.total))
    }
}
