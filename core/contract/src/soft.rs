//! Soft state in the order in which it ends: each object at its own time, and all of an owner's at once when the owner's
//! lease ends.

use perhop_model::{Key, Owner};
use perhop_units::Instant;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
struct OfOwner {
    /// When each object ends by itself, ns of the router's clock.
    objects: BTreeSet<(u64, Key)>,
    /// When all do.
    lease: Option<Instant>,
}

impl OfOwner {
    /// When the first object ends.
    fn due(&self) -> Option<u64> {
        let (first, _) = self.objects.first()?;
        Some(self.lease.map_or(*first, |lease| lease.as_nanos().min(*first)))
    }
}

/// See the module. Everything is O(log n) but for what ends.
#[derive(Debug, Default)]
pub(super) struct Soft {
    owners: BTreeMap<Owner, OfOwner>,
    /// Owners by when their first object ends.
    due: BTreeSet<(u64, Owner)>,
}

impl Soft {
    /// When the next object ends.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| Instant(*at))
    }

    /// An object ends at `at`, ns of the router's clock, unless it is renewed.
    pub(super) fn insert(&mut self, owner: &Owner, at: u64, key: Key) {
        self.change(owner, |of| of.objects.insert((at, key)));
    }

    /// It does not any more.
    pub(super) fn remove(&mut self, owner: &Owner, at: u64, key: Key) {
        let was_there = self.change(owner, |of| of.objects.remove(&(at, key)));
        assert!(was_there, "soft state has its place in the order of expiry");
    }

    /// The owner has a lease until then, or none any more.
    pub(super) fn lease(&mut self, owner: &Owner, until: Option<Instant>) {
        self.change(owner, |of| of.lease = until);
    }

    /// Whether the owner had a lease which has ended.
    pub(super) fn has_lapsed(&self, now: Instant, owner: &Owner) -> bool {
        self.until(owner).is_some_and(|until| until <= now)
    }

    /// Whether the owner has a lease.
    pub(super) fn is_leased(&self, now: Instant, owner: &Owner) -> bool {
        self.until(owner).is_some_and(|until| now < until)
    }

    fn until(&self, owner: &Owner) -> Option<Instant> {
        self.owners.get(owner)?.lease
    }

    /// Objects whose time is over, in the order of their keys, and owners whose lease has taken some of them along.
    pub(super) fn ended(&self, now: Instant) -> (Vec<Key>, Vec<Owner>) {
        let (mut keys, mut lapsed) = (Vec::new(), Vec::new());
        let is_over = |at: &u64| *at <= now.as_nanos();
        for (_, owner) in self.due.iter().take_while(|(at, _)| is_over(at)) {
            let has_lapsed = self.has_lapsed(now, owner);
            let objects = &self.owners[owner].objects;
            let ended = objects.iter().take_while(|(at, _)| has_lapsed || is_over(at));
            keys.extend(ended.map(|(_, key)| key.clone()));
            lapsed.extend(has_lapsed.then(|| owner.clone()));
        }
        keys.sort();
        lapsed.sort();
        (keys, lapsed)
    }

    /// Keeps the order of owners.
    fn change<T>(&mut self, owner: &Owner, work: impl FnOnce(&mut OfOwner) -> T) -> T {
        let of = self.owners.entry(owner.clone()).or_default();
        let before = of.due();
        let done = work(of);
        let after = of.due();
        if of.objects.is_empty() && of.lease.is_none() {
            self.owners.remove(owner);
        }
        if before != after {
            if let Some(at) = before {
                assert!(self.due.remove(&(at, owner.clone())), "who has soft state has a place in the order");
            }
            self.due.extend(after.map(|at| (at, owner.clone())));
        }
        done
    }
}
