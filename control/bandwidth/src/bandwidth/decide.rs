//! What every policy should have, and whether the router has to know.

use super::Bandwidth;
use super::link::Link;
use super::policy::{Policy, RateChange};
use super::requests;
use super::share::{Assignment, Demand, assign};
use crate::notice::Notice;
use perhop_model::Name;
use perhop_units::{Instant, Rate};
use std::collections::{BTreeMap, BTreeSet};

impl Bandwidth {
    /// A link's plan is another, or a step of it has come.
    pub(super) fn plan(&mut self, now: Instant) {
        self.next_step = self.links.iter().filter_map(|link| link.next_step(now)).min();
        self.dirty = true;
    }

    /// What every policy should have now.
    pub(super) fn decide(&mut self, now: Instant) {
        // Before anything is measured, what is in force is the better guess.
        if !self.started || !self.counted || self.links.iter().any(|link| !link.is_measured()) {
            self.dirty = true;
            return;
        }
        let rates: Vec<Option<Rate>> = self.links.iter().map(|link| link.available(now)).collect();
        requests::decide(&mut self.policies, &rates, self.settings.requests.as_ref(), &mut self.notices);
        let (names, demands): (Vec<&Name>, Vec<Demand>) =
            self.policies.iter().filter_map(|(name, policy)| Some((name, policy.demand(&rates)?))).unzip();
        let promised = names.into_iter().cloned().zip(demands.iter().map(Demand::promised)).collect();
        let available: Vec<Rate> = rates.iter().map(|rate| rate.unwrap_or(Rate(u64::MAX))).collect();
        let Assignment { rates: assigned, short } = assign(&available, &demands);
        let present = self.policies.values_mut().filter(|policy| policy.found.is_some());
        for (policy, rate) in present.zip(assigned) {
            policy.due = policy.knows(&rates).then_some(rate);
            policy.wanted = policy.due;
        }
        self.wait_for_what_is_freed(now, &available, &promised);
        let links: BTreeSet<usize> = short.iter().map(|over| over.segment).collect();
        for over in short.iter().filter(|over| !self.short.contains(&over.segment)) {
            let link = self.links[over.segment].settings.name.clone();
            let (promised, available) = (over.promised, over.available);
            self.notices.push(Notice::Overcommitted { link, promised, available });
        }
        self.short = links;
    }

    /// Takes back what raises the rates of policies beyond what others have left free on their links: so much of it is
    /// given as fits, to all in the same proportion, and the rest when it is free. What is promised does not wait.
    fn wait_for_what_is_freed(&mut self, now: Instant, available: &[Rate], promised: &BTreeMap<Name, Rate>) {
        let mut used = vec![0u128; available.len()];
        let mut more = vec![0u128; available.len()];
        for policy in self.policies.values() {
            let rate = policy.found.as_ref().map_or(Rate::ZERO, |found| found.rate);
            let change = policy.change().unwrap_or(RateChange { from: rate, to: rate, used: rate });
            for link in &policy.settings.path {
                let keeps = if change.to > change.from { change.from } else { change.used };
                used[*link] += u128::from(keeps.0);
                more[*link] += u128::from(change.to.0.saturating_sub(change.from.0));
            }
        }
        self.expect_what_was_freed_before(now, available, &used);
        let free: Vec<u128> = (available.iter().zip(&self.links).zip(&used))
            .map(|((rate, link), used)| {
                u128::from(rate.0).saturating_sub(used + u128::from(link.freeing.sum().0))
            })
            .collect();
        for (name, policy) in &mut self.policies {
            let Some(RateChange { from, to, .. }) = policy.change().filter(|change| change.to > change.from)
            else {
                continue;
            };
            let wants = u128::from(to.0 - from.0);
            let fits = policy.settings.path.iter().map(|link| match more[*link] <= free[*link] {
                true => wants,
                false => wants * free[*link] / more[*link],
            });
            let fits = fits.min().unwrap_or(wants).min(wants);
            let promised = promised.get(name).copied().unwrap_or_default().min(to);
            policy.wanted = Some(Rate(from.0 + fits as u64).max(promised));
        }
    }

    /// At the first decision: what nobody has of a link that flows use may have been given up just before, by an agent that is
    /// no more. So it counts as if it had been given up now.
    fn expect_what_was_freed_before(&mut self, now: Instant, available: &[Rate], used: &[u128]) {
        if std::mem::replace(&mut self.decided, true) {
            return;
        }
        for (i, link) in self.links.iter_mut().enumerate() {
            let on_it = |policy: &&Policy| policy.flows > 0 && policy.settings.path.contains(&i);
            if self.policies.values().any(|policy| on_it(&policy)) {
                let left = u128::from(available[i].0).saturating_sub(used[i]) as u64;
                link.freeing.add(now, link.settings.notice, Rate(left));
            }
        }
    }

    /// Whether rates differ so much that the router has to know.
    pub(super) fn owes_rates(&self, now: Instant) -> bool {
        let least_change = u128::from(self.settings.least_change_ppm);
        let is_large = |rate: Rate, found: Rate| {
            let change = u128::from(rate.0.abs_diff(found.0)) * 1_000_000;
            found == Rate::ZERO || change > least_change * u128::from(found.0)
        };
        // What matters to one policy may be that others give up what to them does not.
        let matters = |policy: &Policy| {
            let (Some(due), Some(found)) = (policy.due, &policy.found) else { return false };
            policy.has_answer() || is_large(due, found.rate)
        };
        // Of a rise that is to come in parts those count that are large, and the last.
        let helps = |policy: &Policy| {
            let (Some(wanted), Some(found)) = (policy.wanted, &policy.found) else { return false };
            let last = policy.due == Some(wanted);
            policy.has_answer() || wanted != found.rate && (last || is_large(wanted, found.rate))
        };
        let overfull = |(i, link): (usize, &Link)| {
            let on = self.policies.values().filter(|policy| policy.settings.path.contains(&i));
            let given: u128 = on.filter_map(|policy| Some(u128::from(policy.found.as_ref()?.rate.0))).sum();
            link.available(now).is_some_and(|available| given > u128::from(available.0))
        };
        self.policies.values().any(matters) && self.policies.values().any(helps)
            || (self.policies.values().any(Policy::differs) && self.links.iter().enumerate().any(overfull))
    }

    /// Ports that have to get another rate now.
    pub(super) fn ports(&self, now: Instant) -> Vec<(Name, Rate)> {
        self.links.iter().filter_map(|link| link.port_to_set(now)).collect()
    }
}
