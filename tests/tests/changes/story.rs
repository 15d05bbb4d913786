//! What the router tells about its changes: events and replies tell the same story, counters never go back.

use super::churn::Request;
use super::world::World;
use perhop_elements::schedule::ClassCounters;
use perhop_graph::router::total;
use perhop_model::{EventKind, Key, Kind, Op, Outcome, Owner, Reply, StateQuery, TxnId};
use perhop_packet::PortId;
use perhop_units::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// A commit that waits for its confirmation.
#[derive(Clone, Debug)]
struct Pending {
    owner: Owner,
    txn_id: TxnId,
    deadline: Instant,
}

/// Ends of lifetimes this long ago can no longer come back with a revert: no commit waits as long for its confirmation.
const PAST: u64 = 600_000_000_000;

/// A reader of events that knows what it was answered.
#[derive(Debug, Default)]
pub struct Story {
    seen: u64,
    revision: u64,
    pending: Vec<Pending>,
    /// Objects that have a lifetime, or had one that a revert may bring back: when it may end.
    soft: BTreeMap<Key, BTreeSet<u64>>,
    /// Names of classes, each as often as it was removed and not yet reported as drained.
    removed: Vec<Key>,
    /// Soft classes that were there when something was reverted: they may have come back and expired before anybody
    /// looked, and what they held drains later still.
    returned: BTreeSet<Key>,
    classes: BTreeMap<u64, Key>,
    /// Revision of the objects that are remembered.
    remembered: Option<u64>,
    counters: BTreeMap<(Kind, u64), Vec<u64>>,
    pub expired: u32,
    pub reverted: u32,
    pub drained: u32,
}

impl Story {
    /// A reader that begins now.
    pub fn new(w: &mut World) -> Self {
        let control = w.router.control();
        let mut story =
            Self { seen: control.events().latest(), revision: control.revision(), ..Self::default() };
        story.remember(w);
        story
    }

    /// Commits that wait for their confirmation.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The oldest of them.
    pub fn to_confirm(&self) -> Option<(Owner, TxnId)> {
        self.pending.first().map(|p| (p.owner.clone(), p.txn_id))
    }

    fn remember(&mut self, w: &mut World) {
        // Nothing changes an object without a revision.
        let revision = Some(w.router.control().revision());
        if self.remembered == revision {
            return;
        }
        self.remembered = revision;
        let objects = w.router.control().objects();
        for (key, at) in objects.iter().filter_map(|(k, e)| Some((k.clone(), e.expires_at_ns?))) {
            self.soft.entry(key).or_default().insert(at);
        }
        let past = w.router.now().0.saturating_sub(PAST);
        self.soft.values_mut().filter(|ends| ends.first().is_some_and(|at| *at < past)).for_each(|ends| {
            *ends = ends.split_off(&past);
        });
        let objects = w.router.control().objects();
        let classes: BTreeMap<u64, Key> =
            objects.iter().filter(|(k, _)| k.kind == Kind::Class).map(|(k, e)| (e.id, k.clone())).collect();
        let gone = self.classes.iter().filter(|(id, _)| !classes.contains_key(id));
        self.removed.extend(gone.map(|(_, key)| key.clone()));
        self.classes = classes;
    }

    /// Reads on. `answered` is a commit that was answered since the last call, with what was asked.
    pub fn read(&mut self, w: &mut World, answered: Option<(&Request, &Reply)>) {
        // What vanished since: classes first, so that a drained event may follow in the same breath.
        self.remember(w);
        let mut came_back = false;
        let mut expected =
            answered.filter(|(_, r)| r.outcome == Outcome::Committed && r.revision > self.revision);
        for event in w.router.control().events().after(self.seen, usize::MAX) {
            assert_eq!(event.seq, self.seen + 1, "events are numbered without gaps");
            self.seen = event.seq;
            match event.kind {
                EventKind::Committed { owner, txn_id, revision, forced } => {
                    let (request, reply) = expected.take().expect("an event of a commit that was answered");
                    assert_eq!((&owner, txn_id, revision), (&request.owner, reply.txn_id, reply.revision));
                    assert_eq!(forced, request.force);
                    assert_eq!(event.at_ns, reply.committed_ns);
                    self.next(revision);
                }
                EventKind::Expired { keys, revision, .. } => {
                    for key in &keys {
                        let due = self.soft.get(key).and_then(|ends| ends.first());
                        let due = due.unwrap_or_else(|| panic!("{key} expired and was not soft"));
                        assert!(*due <= event.at_ns, "{key} expired before its time");
                        // What a revert behind it brought back has the revert's revision.
                        let now = w.router.control().objects().get(key);
                        assert!(now.is_none_or(|e| e.version > revision), "{key} expired and is there");
                    }
                    self.next(revision);
                    self.expired += 1;
                }
                EventKind::Reverted { owner, txn_id, revision } => {
                    let at = self.pending.iter().position(|p| p.txn_id == txn_id && p.owner == owner);
                    let pending = self.pending.remove(at.expect("only what waits is reverted"));
                    assert!(pending.deadline.0 <= event.at_ns, "reverted before its deadline");
                    self.next(revision);
                    self.reverted += 1;
                    came_back = true;
                    self.returned.extend(self.soft.keys().filter(|k| k.kind == Kind::Class).cloned());
                }
                EventKind::Drained { key, dropped } => {
                    // What a revert brought back may have expired before anybody looked.
                    let at = self.removed.iter().position(|k| *k == key);
                    let brief = came_back || self.returned.contains(&key);
                    assert!(at.is_some() || brief, "{key} drained and was not removed");
                    at.map(|at| self.removed.remove(at));
                    assert_eq!(
                        dropped, 0,
                        "{key} still held packets at {} ns, when its time was over",
                        event.at_ns
                    );
                    self.drained += 1;
                }
                other => panic!("nothing of the kind happened: {other:?}"),
            }
        }
        assert!(expected.is_none(), "a commit without its event");
        assert_eq!(self.revision, w.router.control().revision(), "every revision has its event");
        let now = w.now();
        assert!(self.pending.iter().all(|p| p.deadline > now), "a deadline passed without a revert");
    }

    fn next(&mut self, revision: u64) {
        assert_eq!(revision, self.revision + 1, "each change is one revision");
        self.revision = revision;
    }

    /// Keeps the books of what waits for its confirmation.
    pub fn committed(&mut self, now: Instant, request: &Request, reply: &Reply) {
        for op in &request.ops {
            if let Op::Confirm { txn_id } = op {
                self.pending.retain(|p| p.txn_id != *txn_id || p.owner != request.owner);
            }
        }
        if let Some(ms) = request.confirm_within_ms {
            let deadline = now + perhop_units::Duration::from_millis(ms);
            self.pending.push(Pending { owner: request.owner.clone(), txn_id: reply.txn_id, deadline });
        }
    }

    /// Everything that was removed has drained.
    pub fn end(&self) {
        assert!(self.removed.is_empty(), "{:?} never drained", self.removed);
    }

    /// Counters of classes, contracts and profiles never go back as long as the object lives.
    pub fn count(&mut self, w: &mut World) {
        let mut now: BTreeMap<(Kind, u64), Vec<u64>> = BTreeMap::new();
        let ports = w.draw.rates.len();
        let (control, worker) = w.router.halves();
        let planner = control.planner();
        let mut classes: BTreeMap<u64, ClassCounters> = BTreeMap::new();
        for port in (0..ports).map(|p| PortId(p as u16)) {
            let Some(egress) = worker.egress(port) else { continue };
            for class in egress.tree().iter() {
                // An object may have several places.
                if let Some((_, id)) = planner.leaf_class(port, class.index.0) {
                    let sum = classes.entry(id).or_insert_with(|| planner.counted_before(id));
                    *sum = total([*sum, class.counters]);
                }
            }
        }
        let mut add = |key: (Kind, u64), values: Vec<u64>| now.insert(key, values);
        for (id, c) in classes {
            let values = vec![
                c.packets,
                c.bytes,
                c.shared,
                c.borrowed,
                c.dropped_queue_full,
                c.dropped_class_removed,
                c.throttled,
            ];
            add((Kind::Class, id), values);
        }
        let id = |kind: Kind, name: &perhop_model::Name| {
            control.objects().get(&Key { kind, name: name.clone() }).map(|e| (kind, e.id))
        };
        let (slas, profiles) = planner.conditioned();
        let values = |c: &perhop_elements::police::ConditionCounters| {
            let mut values = c.colors.packets.to_vec();
            values.extend(c.colors.bytes);
            values.extend([c.dropped_packets, c.dropped_bytes, c.demoted_packets, c.demoted_bytes]);
            values
        };
        let conditioner = worker.conditioner().expect("the edge graph has one");
        for (name, sla) in slas {
            if let (Some(key), Some(c)) = (id(Kind::Sla, name), conditioner.sla_counters(sla)) {
                add(key, values(&c));
            }
        }
        for (name, profile) in profiles {
            if let (Some(key), Some(c)) = (id(Kind::Profile, name), conditioner.profile_counters(profile)) {
                add(key, values(&c));
            }
        }
        for (key, values) in &now {
            if let Some(before) = self.counters.get(key) {
                let back = before.iter().zip(values).any(|(b, v)| v < b);
                assert!(!back, "{} of object {} went from {before:?} to {values:?}", key.0, key.1);
            }
        }
        self.counters = now;
    }
}

/// Everything that can be read of the objects, as the bytes a client gets.
pub fn state_bytes(w: &mut World) -> Vec<u8> {
    crate::support::state_bytes(&mut w.router)
}

/// A put of what was read is `unchanged`, owner by owner.
pub fn says_what_it_is(w: &mut World) {
    let page = w.router.control().state(&StateQuery { limit: Some(10_000), ..StateQuery::default() });
    let page = page.expect("the first page of a read");
    let owners: BTreeSet<Owner> = page.objects.iter().map(|o| o.owner.clone()).collect();
    for (n, owner) in owners.into_iter().enumerate() {
        let mine = page.objects.iter().filter(|o| o.owner == owner && o.expires_at_ns.is_none());
        let ops: Vec<Op> = mine
            .filter(|o| o.status == perhop_model::Status::Active)
            .map(|o| {
                crate::support::put(
                    o.kind,
                    o.name.as_str(),
                    serde_json::to_value(&o.spec).expect("plain data"),
                )
            })
            .collect();
        if ops.is_empty() {
            continue;
        }
        let reply = crate::support::commit(&mut w.router, owner, 1 << 90 | n as u128, ops);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
        assert!(reply.ops.iter().all(|o| o.outcome == perhop_model::OpOutcome::Unchanged));
        assert_eq!(reply.revision, page.revision);
    }
}
