//! What the router is to have for each class, and what leases may do when it has.

use super::held::{Lease, RETRY};
use super::leases::{Leases, Timer};
use super::{Output, Refusal};
use perhop_units::Instant;

impl Leases {
    /// A lease is to hold this, and the router to have as much for it.
    pub(super) fn aim(&mut self, no: u64, bps: u64) {
        let Some(lease) = self.leases.get_mut(&no) else { return };
        let Some(index) = self.class_names.get(&lease.id.class).copied() else { return };
        if lease.target == bps {
            return;
        }
        let class = &mut self.classes[index];
        class.sum = class.sum - lease.target + bps;
        (lease.target, lease.usable) = (bps, lease.usable.min(bps));
        if let Some(since) = lease.since.replace(u64::MAX) {
            class.pending.remove(&(since, no));
        }
        class.changed.insert(no);
        self.dirty_classes.insert(index);
    }

    /// A lease that is gone waits for nothing.
    pub(super) fn forget_target(&mut self, no: u64, lease: &Lease) {
        let Some(index) = self.class_names.get(&lease.id.class).copied() else { return };
        let class = &mut self.classes[index];
        class.changed.remove(&no);
        if let Some(since) = lease.since {
            class.pending.remove(&(since, no));
        }
    }

    /// Tells the router what has changed. Where it has that already, the leases may go on.
    pub(super) fn tell_router(&mut self) {
        for index in std::mem::take(&mut self.dirty_classes) {
            let class = &mut self.classes[index];
            if std::mem::take(&mut class.again) || class.sum != class.wanted {
                class.number += 1;
                class.wanted = class.sum;
                let (name, number, bps) = (class.name.clone(), class.number, class.sum);
                self.outputs.push_back(Output::Want { class: name, number, bps });
            }
            let has = class.committed == class.number;
            for no in std::mem::take(&mut class.changed) {
                let Some(lease) = self.leases.get_mut(&no) else { continue };
                lease.since = (!has).then_some(class.number);
                if has {
                    self.dirty.insert(no);
                } else {
                    class.pending.insert((class.number, no));
                }
            }
        }
    }

    /// The router has what it was to have for a class by this number, which all changes before it are part of.
    pub(super) fn router_has(&mut self, name: &str, number: u64) {
        let Some(index) = self.class_names.get(name).copied() else { return };
        let class = &mut self.classes[index];
        if number <= class.committed || number > class.number {
            return;
        }
        class.committed = number;
        let later = class.pending.split_off(&(number + 1, 0));
        for (_, no) in std::mem::replace(&mut class.pending, later) {
            if let Some(lease) = self.leases.get_mut(&no) {
                lease.since = None;
                self.dirty.insert(no);
            }
        }
    }

    /// It cannot have it: those that were to have more have what they had. If there are none, it is to have less, and asked again.
    pub(super) fn router_refused(&mut self, now: Instant, name: &str, number: u64, refusal: &Refusal) {
        let Some(index) = self.class_names.get(name).copied() else { return };
        let class = &mut self.classes[index];
        if number <= class.committed || number > class.number {
            return;
        }
        let pending = class.pending.range(..(number + 1, 0)).map(|(_, no)| *no);
        let raised = |no: &u64| self.leases.get(no).is_some_and(|lease| lease.usable < lease.target);
        let raised: Vec<u64> = pending.filter(raised).collect();
        if raised.is_empty() && number == class.number && class.retry_at.is_none() {
            let at = now + RETRY;
            Self::arm(&mut self.timers, Timer::Class(index), &mut class.retry_at, Some(at));
        }
        class.again |= !raised.is_empty();
        for no in raised {
            let usable = self.leases[&no].usable;
            self.aim(no, usable);
            self.deny_all(now, no, refusal);
        }
    }

    pub(super) fn class_is_due(&mut self, index: usize) {
        let class = &mut self.classes[index];
        class.retry_at = None;
        if class.committed < class.number {
            class.again = true;
            self.dirty_classes.insert(index);
        }
    }
}
