//! What time does: unconfirmed commits are taken back, soft state ends.

use super::commit::Next;
use super::objects::Entry;
use super::store::Draft;
use super::{Cause, Control, EXPIRY_RETRY, Planner, validate};
use perhop_model::{ErrorItem, Key, Owner};
use perhop_units::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl<P: Planner> Control<P> {
    /// When [`super::Input::Tick`] has something to do: the next expiry or unconfirmed deadline. `None` while a change
    /// is on its way: its [`super::Input::Applied`] comes first. O(unconfirmed commits).
    pub fn next_wakeup(&self) -> Option<Instant> {
        if self.in_flight.is_some() {
            return None;
        }
        let expiry = match (self.soft.next(), self.expiry_retry) {
            (Some(at), Some(retry)) => Some(at.max(retry)),
            (at, _) => at,
        };
        let confirm = self.pending.iter().map(|p| p.deadline).min();
        [expiry, confirm].into_iter().flatten().min()
    }

    /// Takes back one commit whose confirmation did not come. `true` if a change is on its way.
    pub(super) fn revert_due(&mut self, now: Instant) -> bool {
        let Some(at) = self.pending.iter().position(|p| p.deadline <= now) else { return false };
        let p = self.pending.remove(at);
        let version = self.revision + 1;
        let mut changes = BTreeMap::new();
        for (key, before) in p.undo {
            let entry = before.map(|e| {
                let mut entry = Entry { version, ..(*e).clone() };
                if !self.objects.contains_key(&key) {
                    // The id belongs to what was removed, which may still drain.
                    entry.id = self.next_id;
                    self.next_id += 1;
                }
                Arc::new(entry)
            });
            changes.insert(key, entry);
        }
        let cause = Cause::Reverted { owner: p.owner, txn_id: p.txn_id };
        self.install(now, Next { changes, drains: BTreeMap::new(), graph: p.undo_graph }, cause);
        true
    }

    /// Removes soft state whose time is over. What something else still refers to stays until it does not.
    pub(super) fn expire_due(&mut self, now: Instant) -> bool {
        if self.expiry_retry.is_some_and(|at| now < at) {
            return false;
        }
        self.expiry_retry = None;
        let (mut keys, lapsed) = self.soft.ended(now);
        // Objects that cannot go yet are left out until the rest is a valid change.
        while !keys.is_empty() {
            let before = keys.len();
            let errors = self.expiry_errors(&keys);
            if errors.is_empty() {
                let changes = keys.iter().map(|key| (key.clone(), None)).collect();
                let next = Next { changes, drains: BTreeMap::new(), graph: None };
                let owners: BTreeSet<&Owner> =
                    keys.iter().filter_map(|key| Some(&self.objects.get(key)?.owner)).collect();
                let owners = owners.into_iter().cloned().collect();
                self.install(now, next, Cause::Expired { keys, lapsed, owners });
                return true;
            }
            self.expiry_retry = Some(now + EXPIRY_RETRY);
            let blocked: BTreeSet<usize> = errors.iter().filter_map(|e| e.op).collect();
            if blocked.is_empty() {
                // Nobody is blamed: those go that can go alone, or one of them if they cannot go together.
                keys.retain(|key| self.expiry_errors(std::slice::from_ref(key)).is_empty());
                if keys.len() == before {
                    keys.truncate(usize::from(before > 1));
                }
                continue;
            }
            let mut index = 0..;
            keys.retain(|_| index.next().is_some_and(|i| !blocked.contains(&i)));
            assert!(keys.len() < before, "whom an error blames is one of them, so this comes to an end");
        }
        false
    }

    /// Why these objects cannot end together now.
    fn expiry_errors(&self, keys: &[Key]) -> Vec<ErrorItem> {
        let ops: BTreeMap<Key, usize> = keys.iter().cloned().enumerate().map(|(i, k)| (k, i)).collect();
        let mut draft = Draft::indexed(&self.objects, &self.index);
        keys.iter().for_each(|key| draft.set(key.clone(), None));
        let mut errors = validate::validate(&draft, &ops, &self.limits);
        if errors.is_empty() {
            errors = self.planner.check(&draft, None);
        }
        if errors.is_empty() {
            errors = self.broken_by_reverts(&draft, &ops, &[]).map_or(Vec::new(), |(_, errors)| errors);
        }
        errors
    }

    /// Pending commits (but for `confirmed`) may be taken back at any time, any of them: what makes `draft` invalid
    /// without them, and the index of one that is to blame.
    pub(super) fn broken_by_reverts(
        &self,
        draft: &Draft<'_>,
        ops: &BTreeMap<Key, usize>,
        confirmed: &[usize],
    ) -> Option<(usize, Vec<ErrorItem>)> {
        let open: Vec<usize> = (0..self.pending.len()).filter(|at| !confirmed.contains(at)).collect();
        if open.is_empty() {
            return None;
        }
        let after = draft.materialise();
        for subset in 1_usize..1 << open.len() {
            let chosen =
                || open.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1).map(|(_, at)| *at);
            let mut reverted = Draft::new(&after);
            let mut graph = None;
            for p in chosen().map(|at| &self.pending[at]) {
                p.undo.iter().for_each(|(key, entry)| reverted.set(key.clone(), entry.clone()));
                graph = p.undo_graph.as_ref().or(graph);
            }
            let mut errors = validate::validate(&reverted, ops, &self.limits);
            if errors.is_empty() {
                errors = self.planner.check(&reverted, graph);
            }
            if !errors.is_empty() {
                return chosen().next().map(|at| (at, errors));
            }
        }
        None
    }
}
