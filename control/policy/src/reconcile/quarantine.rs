//! Objects that the router refuses: each waits by itself before it is tried again.

use perhop_model::{ErrorItem, Key};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// Until it is tried again for the first time; twice as long each time.
const FIRST: Duration = Duration::from_secs(1);
/// Between two tries at most.
const LONGEST: Duration = Duration::from_secs(300);

/// An object that the router refuses.
#[derive(Clone, Debug, PartialEq)]
pub struct Quarantined {
    /// Which.
    pub key: Key,
    /// Why.
    pub error: ErrorItem,
    /// When it is tried again.
    pub until: Instant,
    /// How often it was refused.
    pub times: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Quarantine(BTreeMap<Key, Quarantined>);

impl Quarantine {
    pub(super) fn has(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn is_due(&self, key: &Key, now: Instant) -> bool {
        self.0.get(key).is_some_and(|held| held.until <= now)
    }

    /// When the first is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(|held| held.until).min()
    }

    /// Puts one in; it is returned if it was not in.
    pub(super) fn hold(&mut self, now: Instant, key: Key, error: ErrorItem) -> Option<Quarantined> {
        let times = self.0.get(&key).map_or(0, |held| held.times) + 1;
        let pause = FIRST.saturating_mul(1 << (times - 1).min(20)).min(LONGEST);
        let held = Quarantined { key: key.clone(), error, until: now + pause, times };
        self.0.insert(key, held.clone());
        Some(held).filter(|held| held.times == 1)
    }

    /// All are tried again at once.
    pub(super) fn wake(&mut self, now: Instant) {
        self.0.values_mut().for_each(|held| held.until = held.until.min(now));
    }

    pub(super) fn release(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Only these stay.
    pub(super) fn keep(&mut self, keys: &BTreeSet<Key>) {
        self.0.retain(|key, _| keys.contains(key));
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Quarantined> + '_ {
        self.0.values().cloned()
    }
}

/// Whether a refusal says nothing of what was asked: it passes by itself.
pub(super) fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::Overload
            | Code::ShuttingDown
            | Code::BackendFailed
            | Code::PendingConfirm
            | Code::StaleRevision
            | Code::StaleVersion
    )
}
