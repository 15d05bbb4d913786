//! Putting a change into force: one on its way at a time, answered when every worker has it.

use super::objects::Entry;
use super::store::Draft;
use super::{Cause, Control, DEFAULT_DRAIN, Draining, InFlight, Output, Planner, scaled, whole};
use perhop_model::{EventKind, Key, Kind, Outcome, Status};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;
use std::sync::Arc;

/// In a list of elements to reset: every element.
pub const RESET_ALL: &str = "*";

/// A packet graph to replace the running one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRequest {
    /// Graph text; empty = the graph that the router makes of its objects.
    pub text: String,
    /// Elements whose state may be lost; [`RESET_ALL`] for all.
    pub reset: Vec<String>,
    /// The operation that asked.
    pub op: usize,
}

/// The next revision.
pub(super) struct Next {
    /// What differs; `None` = removed.
    pub(super) changes: BTreeMap<Key, Option<Arc<Entry>>>,
    /// How long removed classes may drain, if not the default.
    pub(super) drains: BTreeMap<Key, Duration>,
    /// New packet graph.
    pub(super) graph: Option<GraphRequest>,
}

impl<P: Planner> Control<P> {
    /// Installs `next` as the next revision and sends the change to the workers.
    pub(super) fn install(&mut self, now: Instant, next: Next, cause: Cause) {
        assert!(self.in_flight.is_none(), "one change is on its way at a time: `advance` waits for it");
        assert_eq!(self.generation, self.revision, "all workers have every revision before this one");
        let Next { changes, drains, graph } = next;
        let mut draft = Draft::indexed(&self.objects, &self.index);
        let mut draining = Vec::new();
        for (key, after) in &changes {
            draft.set(key.clone(), after.clone());
            let Some(before) = self.objects.get(key) else { continue };
            if after.is_none() && key.kind == Kind::Class {
                let until = now + drains.get(key).copied().unwrap_or(DEFAULT_DRAIN);
                draining.push(Draining { key: key.clone(), id: before.id, until });
                let drains = self.draining.insert(before.id, before.state(key, Status::Draining));
                assert!(drains.is_none(), "{key}: an id is given once, so nothing drains under it yet");
            }
        }
        let events = scaled::events(&Draft::indexed(&self.objects, &self.index), &draft, self.revision + 1);
        let change = self.planner.plan(now, &draft, &draining, graph.as_ref());
        for (key, entry) in changes {
            self.put_object(key, entry);
        }
        if let Some(graph) = graph {
            self.graph = (!graph.text.is_empty()).then_some(graph);
        }
        self.revision += 1;
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.in_flight = Some(InFlight { ticket, cause, events });
        self.outputs.push_back(Output::Apply { ticket, change });
    }

    /// Keeps the objects and the order of their expiry together.
    pub(super) fn put_object(&mut self, key: Key, entry: Option<Arc<Entry>>) {
        if let Some(e) = &entry {
            assert!(e.id < self.next_id, "{key} has an id that is still to be given");
            assert!(e.version <= self.revision + 1, "{key} is newer than the next revision");
        }
        self.index.update(&key, self.objects.get(&key), entry.as_ref());
        let before = match entry.clone() {
            Some(e) => self.objects.insert(key.clone(), e),
            None => self.objects.remove(&key),
        };
        if let Some(after) = &entry {
            self.owners.gained(&after.owner);
        }
        if let Some(before) = &before {
            self.owners.lost(&before.owner);
            if let Some(at) = before.expires_at_ns {
                self.soft.remove(&before.owner, at, key.clone());
            }
        }
        if let Some((after, at)) = entry.as_ref().and_then(|e| Some((e, e.expires_at_ns?))) {
            self.soft.insert(&after.owner, at, key);
        }
    }

    pub(super) fn applied(&mut self, now: Instant, ticket: u64) {
        let Some(done) = self.in_flight.take_if(|f| f.ticket == ticket) else { return };
        self.generation += 1;
        assert_eq!(self.generation, self.revision, "it was the only change on its way");
        match done.cause {
            Cause::Transaction { request, mut reply, digest, owner, forced } => {
                reply.revision = self.revision;
                reply.generation = self.generation;
                reply.committed_ns = now.as_nanos();
                let txn_id = reply.txn_id;
                let reply = Arc::new(*reply);
                self.keep(now, &owner, digest, &reply);
                let revision = self.revision;
                self.events.push(now, EventKind::Committed { owner, txn_id, revision, forced });
                self.answer(request, reply);
            }
            Cause::Expired { keys, lapsed, owners } => {
                let revision = self.revision;
                self.events.push(now, EventKind::Expired { keys, revision, lapsed, owners });
            }
            Cause::Reverted { owner, txn_id } => {
                let revision = self.revision;
                self.events.push(now, EventKind::Reverted { owner, txn_id, revision });
            }
        }
        for event in done.events {
            self.events.push(now, event);
        }
    }

    pub(super) fn drained(&mut self, now: Instant, id: u64, dropped: u64) {
        let Some(state) = self.draining.remove(&id) else { return };
        let key = Key { kind: state.kind, name: state.name };
        self.events.push(now, EventKind::Drained { key, dropped });
    }

    pub(super) fn shut_down(&mut self, now: Instant) {
        self.stopping = true;
        for waiting in std::mem::take(&mut self.queue) {
            let mut reply = self.reply(&waiting.transaction, now, Outcome::Rejected);
            reply.errors = vec![whole(Code::ShuttingDown, "the router is stopping".to_owned())];
            self.answer(waiting.request, Arc::new(reply));
        }
    }
}
