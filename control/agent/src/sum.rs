//! From what parts want to one transaction, and from its answer back to them: the only maker of transactions.
//!
//! Forced wishes go first, and never with others. Of an allocation there is one operation, however many parts wish it: a
//! class gets the larger of what the parts hold for it, where a wish stands for what its part holds. What one gives back
//! others may still hold: then it is theirs alone. Where the router has such a sum, each part sees there what it
//! holds itself, so that it does not take what others hold for its own, or for a change by a stranger.
//!
//! Of any other object two wishes cannot be made one: the later part's is left for the next transaction, which is its alone.
//!
//! Parts that were refused together go one at a time until each had its turn: the mistake of one holds up no other.

use crate::part::{Part, Parts};
use perhop_model::{AllocationSpec, ErrorItem, Given, Kind, Name, Object, ObjectState, Op, Owner, Put, Spec};
use perhop_units::{Duration, Instant};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// An operation of the transaction, and the wish that it is of.
#[derive(Clone, Copy, Debug)]
struct Sent {
    op: usize,
    part: usize,
    /// Its number in the wish of the part.
    wished: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    sent: Vec<Sent>,
    /// Parts whose next wish goes without those of others: one of several that were refused together may be at fault.
    alone: BTreeSet<usize>,
}

impl Sum {
    /// Whether a transaction is on its way.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.sent.is_empty()
    }

    /// There will be no answer.
    pub(crate) fn forget(&mut self) {
        self.sent.clear();
    }

    /// The next transaction, and whether it is forced; `None` if no part has a wish.
    pub(crate) fn wish<P: Parts>(&mut self, parts: &mut P, now: Instant) -> Option<(Vec<Op>, bool)> {
        debug_assert!(!self.is_under_way(), "one transaction at a time");
        [true, false].into_iter().find_map(|force| {
            let ops = self.next(parts, now, force);
            (!ops.is_empty()).then_some((ops, force))
        })
    }

    /// Those that go alone come first, so that none waits for ever for the others.
    fn next<P: Parts>(&mut self, parts: &mut P, now: Instant, force: bool) -> Vec<Op> {
        let alone = self.alone.clone();
        for part in &alone {
            let ops = self.collect(parts, now, force, |number| number == *part);
            if !ops.is_empty() {
                self.alone.remove(part);
                return ops;
            }
        }
        self.collect(parts, now, force, |number| !alone.contains(&number))
    }

    /// The wishes of those of the parts that are `asked`.
    fn collect<P: Parts>(
        &mut self,
        parts: &mut P,
        now: Instant,
        force: bool,
        asked: impl Fn(usize) -> bool,
    ) -> Vec<Op> {
        let mut ops = Vec::new();
        // Allocations by class: the operation, and the parts whose wish it is.
        let mut allocations: BTreeMap<Name, (usize, Vec<usize>)> = BTreeMap::new();
        // Other objects, by the wishes so far.
        let mut taken = BTreeSet::new();
        let asked =
            |(number, part): &(usize, &mut dyn Part<P::Notice>)| asked(*number) && part.is_forced() == force;
        for (part, wishes) in parts.each_mut().enumerate().filter(asked) {
            let wish = wishes.wants(now);
            if wish.iter().filter_map(named).any(|object| taken.contains(&object)) {
                self.alone.insert(part);
                wishes.refused(now, Duration::ZERO, &[]);
                continue;
            }
            taken.extend(wish.iter().filter(|op| allocated(op).is_none()).filter_map(named));
            for (wished, op) in wish.into_iter().enumerate() {
                let at = match allocated(&op) {
                    None => ops.len(),
                    Some((class, spec)) => {
                        let (at, by) = allocations.entry(class.clone()).or_insert((ops.len(), Vec::new()));
                        by.push(part);
                        if let (Some(before), Some(spec)) = (ops.get_mut(*at), spec) {
                            raise(before, class, spec);
                        }
                        *at
                    }
                };
                if at == ops.len() {
                    ops.push(op);
                }
                self.sent.push(Sent { op: at, part, wished });
            }
        }
        for (class, (at, by)) in &allocations {
            for (_, other) in parts.each().enumerate().filter(|(part, _)| !by.contains(part)) {
                if let Some(held) = other.allocation(class) {
                    raise(&mut ops[*at], class, held);
                }
            }
        }
        ops
    }

    /// The transaction is in force.
    pub(crate) fn committed<P: Parts>(&mut self, parts: &mut P, now: Instant) {
        let sent = std::mem::take(&mut self.sent);
        for (_, part) in asked(parts, &sent) {
            part.committed(now);
        }
    }

    /// The transaction was refused as a whole: all whose wish was in it hear so, and what is said of their own operations or
    /// of none.
    pub(crate) fn refused<P: Parts>(
        &mut self,
        parts: &mut P,
        now: Instant,
        pause: Duration,
        errors: &[ErrorItem],
    ) {
        let sent = std::mem::take(&mut self.sent);
        let numbers: BTreeSet<usize> = sent.iter().map(|sent| sent.part).collect();
        if numbers.len() > 1 {
            self.alone.extend(numbers);
        }
        for (number, part) in asked(parts, &sent) {
            let own = sent.iter().filter(|sent| sent.part == number);
            let wished: BTreeMap<usize, usize> = own.map(|sent| (sent.op, sent.wished)).collect();
            let own = |error: &ErrorItem| match error.op {
                None => Some(error.clone()),
                Some(op) => wished.get(&op).map(|op| ErrorItem { op: Some(*op), ..error.clone() }),
            };
            part.refused(now, pause, &errors.iter().filter_map(own).collect::<Vec<_>>());
        }
    }
}

/// Tells all parts what the router has: of an allocation that is the sum of what the parts hold, each is shown its own.
pub(crate) fn show<P: Parts>(parts: &mut P, now: Instant, objects: &[ObjectState]) {
    // What a part holds may change as it sees them: the sum is of what they held before.
    let seen: Vec<_> = (0..parts.each().count()).map(|part| seen(parts, part, objects)).collect();
    for (part, objects) in parts.each_mut().zip(seen) {
        part.objects(now, &objects);
    }
}

/// The objects as one part sees them: copied only if it shares an allocation with others.
fn seen<'a, P: Parts>(parts: &P, part: usize, objects: &'a [ObjectState]) -> Cow<'a, [ObjectState]> {
    let own = |object: &ObjectState| own_of_sum(parts, part, object);
    if objects.iter().all(|object| own(object).is_none()) {
        return Cow::Borrowed(objects);
    }
    let seen = |object: &ObjectState| match own(object) {
        None => Some(object.clone()),
        Some(held) => held.map(|held| ObjectState { spec: Spec::Allocation(held), ..object.clone() }),
    };
    Cow::Owned(objects.iter().filter_map(seen).collect())
}

/// What a part holds, perhaps nothing, of an allocation that others hold too and that is the sum; `None` for any other
/// object.
fn own_of_sum<P: Parts>(parts: &P, part: usize, object: &ObjectState) -> Option<Option<AllocationSpec>> {
    let Spec::Allocation(found) = &object.spec else { return None };
    let held = |(number, part): (usize, &dyn Part<P::Notice>)| {
        Some((number, part.allocation(&object.name)?.clone()))
    };
    let held: BTreeMap<usize, AllocationSpec> = parts.each().enumerate().filter_map(held).collect();
    let is_shared = object.owner == Owner::Agent && held.keys().any(|number| *number != part);
    let mut all = held.values();
    let mut sum = all.next().filter(|_| is_shared)?.clone();
    all.for_each(|other| cover(&mut sum, other));
    (sum == *found).then(|| held.get(&part).cloned())
}

/// The parts whose wish was sent.
fn asked<'a, P: Parts>(
    parts: &'a mut P,
    sent: &'a [Sent],
) -> impl Iterator<Item = (usize, &'a mut dyn Part<P::Notice>)> {
    parts.each_mut().enumerate().filter(|(number, _)| sent.iter().any(|s| s.part == *number))
}

/// The object that an operation names.
fn named(op: &Op) -> Option<(Kind, Name)> {
    match op {
        Op::Put(Put { given: Given::Object(object), .. }) => Some((object.spec.kind(), object.name.clone())),
        Op::Patch { kind, name, .. } | Op::Delete { kind, name, .. } => Some((*kind, name.clone())),
        _ => None,
    }
}

/// The class whose allocation an operation puts or deletes (both have one name), and what is put.
fn allocated(op: &Op) -> Option<(&Name, Option<&AllocationSpec>)> {
    match op {
        Op::Put(Put { given: Given::Object(Object { name, spec: Spec::Allocation(spec), .. }), .. }) => {
            Some((name, Some(spec)))
        }
        Op::Delete { kind: Kind::Allocation, name, .. } => Some((name, None)),
        _ => None,
    }
}

/// Makes an operation on an allocation give at least what another part holds of it.
fn raise(op: &mut Op, class: &Name, held: &AllocationSpec) {
    if let Op::Put(Put { given: Given::Object(Object { spec: Spec::Allocation(spec), .. }), .. }) = op {
        cover(spec, held);
    } else {
        *op = Op::put(Object::new(class.clone(), Spec::Allocation(held.clone())));
    }
}

/// Makes an allocation give at least what another does.
fn cover(spec: &mut AllocationSpec, held: &AllocationSpec) {
    spec.guarantee = spec.guarantee.max(held.guarantee);
    // No ceiling is the highest.
    spec.ceiling = spec.ceiling.zip(held.ceiling).map(|(one, other)| one.max(other));
    spec.shared |= held.shared;
}

#[cfg(test)]
#[path = "sum_tests.rs"]
mod tests;
