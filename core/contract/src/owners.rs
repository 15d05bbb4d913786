//! Owners that the router remembers, and which of them it may forget.

use super::replay::KEPT_FOR;
use perhop_model::Owner;
use perhop_units::Instant;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
struct Remembered {
    fence: u64,
    objects: usize,
    /// Latest request that was answered for good.
    seen: Instant,
    /// Latest commit or claim.
    accepted: Option<Instant>,
    /// It keeps its answers itself.
    keeps_answers: bool,
}

/// Every owner that has something, or that was taken over or answered.
#[derive(Debug, Default)]
pub(super) struct Owners {
    by_owner: BTreeMap<Owner, Remembered>,
}

/// Whether an owner has a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has or may have one.
    Free,
    /// It may have that of this owner, which is forgotten.
    Instead(Owner),
    /// All places are those of owners that have something, or were taken over or committed a short while ago.
    None,
}

impl Owners {
    /// Highest fence accepted.
    pub(super) fn fence(&self, owner: &Owner) -> u64 {
        self.by_owner.get(owner).map_or(0, |known| known.fence)
    }

    /// A request was refused for good.
    pub(super) fn refused(&mut self, now: Instant, owner: &Owner) {
        self.by_owner.entry(owner.clone()).or_default().seen = now;
    }

    /// A request was committed or a claim accepted, with this fence.
    pub(super) fn accepted(&mut self, now: Instant, owner: &Owner, fence: u64) {
        let known = self.by_owner.entry(owner.clone()).or_default();
        known.fence = known.fence.max(fence);
        (known.seen, known.accepted) = (now, Some(now));
    }

    /// Whether an owner keeps its answers itself, from now on.
    pub(super) fn set_keeps_answers(&mut self, owner: &Owner, keeps_answers: bool) {
        self.by_owner.entry(owner.clone()).or_default().keeps_answers = keeps_answers;
    }

    /// Whether it does.
    pub(super) fn keeps_answers(&self, owner: &Owner) -> bool {
        self.by_owner.get(owner).is_some_and(|known| known.keeps_answers)
    }

    /// An object came to an owner.
    pub(super) fn gained(&mut self, owner: &Owner) {
        self.by_owner.entry(owner.clone()).or_default().objects += 1;
    }

    /// An object of an owner went.
    pub(super) fn lost(&mut self, owner: &Owner) {
        let known = self.by_owner.get_mut(owner).expect("who has objects is not forgotten");
        assert!(known.objects > 0, "{owner} loses an object that it never gained");
        known.objects -= 1;
    }

    /// A place for an owner among `limit`. The router's own and those of this machine (`file`, `cli`, `agent`) always
    /// have one. Another may take that of the one longest unheard of that has no object, is not `busy`, and committed and
    /// claimed nothing in the last ten minutes. O(owners) when all places are taken, else O(log n).
    pub(super) fn place(
        &mut self,
        now: Instant,
        owner: &Owner,
        limit: usize,
        busy: impl Fn(&Owner) -> bool,
    ) -> Place {
        if self.by_owner.len() < limit || self.by_owner.contains_key(owner) || is_local(owner) {
            return Place::Free;
        }
        let is_old = |k: &Remembered| k.accepted.is_none_or(|at| now.since(at) > KEPT_FOR);
        let forgettable = self
            .by_owner
            .iter()
            .filter(|(o, k)| k.objects == 0 && is_old(k) && !is_local(o) && !busy(o))
            .min_by_key(|(_, k)| k.seen);
        let Some((gone, _)) = forgettable else { return Place::None };
        let gone = gone.clone();
        self.by_owner.remove(&gone);
        Place::Instead(gone)
    }
}

fn is_local(owner: &Owner) -> bool {
    matches!(owner, Owner::File | Owner::Cli | Owner::Agent)
}
