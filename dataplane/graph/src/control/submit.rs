//! Serving one transaction: authorise, replay, draft, validate, install.

use super::replay::{Known, RequestDigest};
use super::store::{Draft, Entry};
use super::{Cause, Control, Pending, Planner, Waiting, only_checks, validate, whole};
use perhop_model::{
    Credentials, ErrorItem, Key, Kind, MAX_OPS, Name, Object, Op, OpOutcome, OpResult, Outcome, Reply, Role,
    Spec, Transaction,
};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A packet graph to replace the running one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRequest {
    /// Graph text.
    pub text: String,
    /// Elements whose state may be lost.
    pub reset: Vec<String>,
    /// The operation that asked.
    pub op: usize,
}

/// A transaction being worked out.
struct Work<'a> {
    draft: Draft<'a>,
    /// Operation that names a key.
    ops: BTreeMap<Key, usize>,
    results: Vec<OpResult>,
    errors: Vec<ErrorItem>,
    drains: BTreeMap<Key, Duration>,
    graph: Option<GraphRequest>,
    confirms: Vec<usize>,
    next_id: u64,
}

impl<P: Planner> Control<P> {
    pub(super) fn serve(&mut self, now: Instant, waiting: Waiting) {
        let Waiting { request, who, transaction, received } = waiting;
        let digest = digest(&transaction);
        if !only_checks(&transaction) {
            match self.replays.find(now, &transaction.owner, transaction.txn_id, &digest) {
                Known::New => {}
                Known::Same(reply) => {
                    let again = Reply { replayed: true, ..(*reply).clone() };
                    return self.answer(request, Arc::new(again));
                }
                Known::Other => {
                    let why = "this transaction id was used for another request".to_owned();
                    return self.reject(request, &transaction, received, vec![whole(Code::TxnIdReused, why)]);
                }
                Known::Full => {
                    let mut reply = self.reply(&transaction, received, Outcome::Rejected);
                    let why = "too many answers are kept for this owner".to_owned();
                    reply.errors = vec![whole(Code::Overload, why)];
                    reply.retry_after_ms = Some(1000);
                    return self.answer(request, Arc::new(reply));
                }
            }
        }
        if let Err(error) = self.authorise(&who, &transaction) {
            return self.refuse(now, request, &transaction, received, &digest, vec![error]);
        }
        let mut work = match self.draft(now, &transaction) {
            Ok(work) => work,
            Err(errors) => return self.refuse(now, request, &transaction, received, &digest, errors),
        };
        work.errors.extend(self.conflicts(&work));
        if work.errors.is_empty() {
            work.errors = validate::validate(&work.draft, &work.ops, &self.limits);
        }
        if work.errors.is_empty() {
            work.errors = self.planner.check(&work.draft, work.graph.as_ref());
        }
        if work.errors.is_empty() {
            work.errors = self.survives_reverts(&work);
        }
        if !work.errors.is_empty() {
            let errors = work.errors;
            return self.refuse(now, request, &transaction, received, &digest, errors);
        }
        self.settle(now, request, transaction, received, digest, work.finish());
    }

    fn authorise(&mut self, who: &Credentials, t: &Transaction) -> Result<(), ErrorItem> {
        let forbidden = |why: String| Err(whole(Code::Forbidden, why));
        if who.role == Role::Read && !only_checks(t) {
            return forbidden("the role read may not change anything".to_owned());
        }
        if let Some(mine) = who.owner.as_ref().filter(|o| **o != t.owner) {
            return forbidden(format!("these credentials speak for {mine}, not for {}", t.owner));
        }
        if t.force && who.role != Role::Admin {
            return forbidden("force needs the role admin".to_owned());
        }
        let fence = self.fences.entry(t.owner.clone()).or_insert(0);
        if t.fence < *fence {
            let why = format!("fence {} of {} is older than {}", t.fence, t.owner, fence);
            return Err(whole(Code::Fenced, why));
        }
        *fence = t.fence;
        if let Some(r) = t.if_revision.filter(|r| *r != self.revision) {
            let why = format!("the router is at revision {}, not {r}", self.revision);
            return Err(whole(Code::StaleRevision, why));
        }
        if t.ops.is_empty() || t.ops.len() > MAX_OPS {
            let mut item =
                whole(Code::Malformed, format!("{} operations; allowed are 1 to {MAX_OPS}", t.ops.len()));
            item.limit = Some(MAX_OPS as u64);
            return Err(item);
        }
        if t.confirm_within_ms.is_some_and(|ms| ms == 0 || ms > 86_400_000) {
            return Err(whole(Code::OutOfRange, "confirm_within_ms is 1 to 86400000".to_owned()));
        }
        Ok(())
    }

    /// Works the operations out against the current state.
    fn draft(&self, now: Instant, t: &Transaction) -> Result<Work<'_>, Vec<ErrorItem>> {
        let mut work = Work {
            draft: Draft::new(&self.objects),
            ops: BTreeMap::new(),
            results: Vec::with_capacity(t.ops.len()),
            errors: Vec::new(),
            drains: BTreeMap::new(),
            graph: None,
            confirms: Vec::new(),
            next_id: self.next_id,
        };
        let version = self.revision + 1;
        for (i, op) in t.ops.iter().enumerate() {
            let result = match op {
                Op::Put { kind, name, spec, if_version, ttl_ms } => work
                    .claim_key(i, *kind, name)
                    .and_then(|key| work.owned(i, &key, t, *if_version).map(|()| key))
                    .and_then(|key| work.put(now, i, key, spec.clone(), *ttl_ms, t, version)),
                Op::Patch { kind, name, fields, if_version } => work
                    .claim_key(i, *kind, name)
                    .and_then(|key| work.owned(i, &key, t, *if_version).map(|()| key))
                    .and_then(|key| work.patch(now, i, key, fields, t, version)),
                Op::Delete { kind, name, if_version, drain_ms } => work
                    .claim_key(i, *kind, name)
                    .and_then(|key| work.owned(i, &key, t, *if_version).map(|()| key))
                    .and_then(|key| work.delete(i, key, *drain_ms)),
                Op::ReplaceOwned { kinds, objects } => work.replace_owned(now, i, kinds, objects, t, version),
                Op::ReplaceGraph { text, reset } => work.replace_graph(i, text, reset),
                Op::Renew { keys, ttl_ms } => work.renew(now, i, keys.as_deref(), *ttl_ms, t),
                Op::Confirm { txn_id } => {
                    match self.pending.iter().position(|p| p.txn_id == *txn_id && p.owner == t.owner) {
                        Some(at) => {
                            work.confirms.push(at);
                            Ok(OpResult { outcome: OpOutcome::Updated, id: 0, version: 0 })
                        }
                        None => Err(item(
                            i,
                            "txn_id",
                            Code::NotFound,
                            format!("no transaction {txn_id} of {} waits for confirmation", t.owner),
                        )),
                    }
                }
            };
            match result {
                Ok(r) => work.results.push(r),
                Err(e) => work.errors.push(e),
            }
        }
        if work.errors.is_empty() { Ok(work) } else { Err(work.errors) }
    }

    /// Objects that wait for another transaction's confirmation must not be touched.
    fn conflicts(&self, work: &Work<'_>) -> Vec<ErrorItem> {
        let mut errors = Vec::new();
        for (at, p) in self.pending.iter().enumerate() {
            if work.confirms.contains(&at) {
                continue;
            }
            let waiting =
                |what: &str| format!("{what} waits for {} to confirm transaction {}", p.owner, p.txn_id);
            for key in work.draft.changes().keys().filter(|k| p.undo.contains_key(*k)) {
                let op = work.ops.get(key).copied();
                errors.push(ErrorItem {
                    op,
                    path: format!("{}/{}", key.kind, key.name),
                    ..whole(Code::PendingConfirm, waiting(&key.to_string()))
                });
            }
            if let (Some(g), Some(_)) = (&work.graph, &p.undo_graph) {
                errors.push(item(g.op, "text", Code::PendingConfirm, waiting("the graph")));
            }
        }
        errors
    }

    /// A pending commit may be taken back at any time, so the draft must be valid without it too.
    fn survives_reverts(&self, work: &Work<'_>) -> Vec<ErrorItem> {
        for (at, p) in self.pending.iter().enumerate() {
            if work.confirms.contains(&at) {
                continue;
            }
            let after = work.draft.materialise();
            let mut reverted = Draft::new(&after);
            for (key, entry) in &p.undo {
                reverted.set(key.clone(), entry.clone());
            }
            let errors = validate::validate(&reverted, &work.ops, &self.limits);
            if let Some(first) = errors.into_iter().next() {
                let why = format!(
                    "it would not be valid if {}'s unconfirmed transaction {} were taken back: {}",
                    p.owner, p.txn_id, first.message
                );
                return vec![ErrorItem {
                    op: first.op,
                    path: first.path,
                    ..whole(Code::PendingConfirm, why)
                }];
            }
        }
        Vec::new()
    }

    fn settle(
        &mut self,
        now: Instant,
        request: u64,
        t: Box<Transaction>,
        received: Instant,
        digest: RequestDigest,
        done: Finished,
    ) {
        let mut reply = self.reply(&t, received, Outcome::Checked);
        reply.ops = done.results;
        if only_checks(&t) {
            return self.answer(request, Arc::new(reply));
        }
        let mut confirms = done.confirms;
        confirms.sort_unstable();
        for at in confirms.into_iter().rev() {
            self.pending.remove(at);
        }
        self.next_id = done.next_id;
        reply.outcome = Outcome::Committed;
        let forced =
            done.changes.iter().any(|(k, _)| self.objects.get(k).is_some_and(|e| e.owner != t.owner));
        if let Some(ms) = t.confirm_within_ms {
            let undo = done.changes.keys().map(|k| (k.clone(), self.objects.get(k).cloned())).collect();
            let undo_graph = done.graph.as_ref().and(self.graph.clone());
            let deadline = now + Duration::from_millis(ms);
            let (owner, txn_id) = (t.owner.clone(), t.txn_id);
            self.pending.push(Pending { owner, txn_id, deadline, undo, undo_graph });
        }
        if done.changes.is_empty() && done.graph.is_none() {
            // Nothing for the workers to do: the state is what was asked for already.
            reply.committed_ns = now.as_nanos();
            let reply = Arc::new(reply);
            self.replays.keep(now, &t.owner, digest, reply.clone());
            return self.answer(request, reply);
        }
        let cause =
            Cause::Transaction { request, reply: Box::new(reply), digest, owner: t.owner.clone(), forced };
        self.install(now, done.changes, &done.drains, done.graph, cause);
    }

    /// Rejects and keeps the answer for repetitions.
    fn refuse(
        &mut self,
        now: Instant,
        request: u64,
        t: &Transaction,
        received: Instant,
        digest: &RequestDigest,
        errors: Vec<ErrorItem>,
    ) {
        let mut reply = self.reply(t, received, Outcome::Rejected);
        reply.errors = errors;
        let reply = Arc::new(reply);
        if !only_checks(t) {
            self.replays.keep(now, &t.owner, *digest, reply.clone());
        }
        self.answer(request, reply);
    }

    fn reject(&mut self, request: u64, t: &Transaction, received: Instant, errors: Vec<ErrorItem>) {
        let mut reply = self.reply(t, received, Outcome::Rejected);
        reply.errors = errors;
        self.answer(request, Arc::new(reply));
    }
}

/// What a valid transaction comes to.
struct Finished {
    changes: BTreeMap<Key, Option<Arc<Entry>>>,
    results: Vec<OpResult>,
    drains: BTreeMap<Key, Duration>,
    graph: Option<GraphRequest>,
    confirms: Vec<usize>,
    next_id: u64,
}

type OpReply = Result<OpResult, ErrorItem>;

impl Work<'_> {
    fn finish(self) -> Finished {
        Finished {
            changes: self.draft.into_changes(),
            results: self.results,
            drains: self.drains,
            graph: self.graph,
            confirms: self.confirms,
            next_id: self.next_id,
        }
    }

    /// A key may be named once in a transaction.
    fn claim_key(&mut self, op: usize, kind: Kind, name: &Name) -> Result<Key, ErrorItem> {
        let key = Key { kind, name: name.clone() };
        if let Some(first) = self.ops.get(&key) {
            let why = format!("operation {first} names {key} already");
            return Err(item(op, &format!("{kind}/{name}"), Code::Malformed, why));
        }
        self.ops.insert(key.clone(), op);
        Ok(key)
    }

    /// The object, if there, must be ours (or forced) and of the expected version.
    fn owned(&self, op: usize, key: &Key, t: &Transaction, if_version: Option<u64>) -> Result<(), ErrorItem> {
        let path = format!("{}/{}", key.kind, key.name);
        let before = self.draft.before(key);
        if let Some(e) = before.filter(|e| e.owner != t.owner && !t.force) {
            return Err(item(op, &path, Code::NotOwner, format!("{key} belongs to {}", e.owner)));
        }
        match (if_version, before) {
            (None, _) => Ok(()),
            (Some(0), Some(_)) => Err(item(op, &path, Code::Exists, format!("{key} exists"))),
            (Some(want), found) if want != found.map_or(0, |e| e.version) => {
                let have = found.map_or(0, |e| e.version);
                let why = format!("{key} has version {have}, not {want}");
                Err(item(op, &path, Code::StaleVersion, why))
            }
            _ => Ok(()),
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "one call site a kind of operation; a struct would only rename them"
    )]
    fn put(
        &mut self,
        now: Instant,
        op: usize,
        key: Key,
        spec: Value,
        ttl_ms: Option<u64>,
        t: &Transaction,
        version: u64,
    ) -> OpReply {
        let spec = Spec::from_value(key.kind, spec).map_err(|e| {
            let path = if e.path == "." { String::new() } else { format!(".{}", e.path) };
            item(op, &format!("{}/{}{path}", key.kind, key.name), e.code, e.message)
        })?;
        let expires_at_ns = expiry(now, op, ttl_ms)?;
        Ok(self.place(key, spec, expires_at_ns, t, version))
    }

    /// Creates, replaces or leaves an object.
    fn place(
        &mut self,
        key: Key,
        spec: Spec,
        expires_at_ns: Option<u64>,
        t: &Transaction,
        version: u64,
    ) -> OpResult {
        let before = self.draft.before(&key).cloned();
        let (outcome, id, version) = match &before {
            Some(e) if *e.spec == spec && e.expires_at_ns.is_some() == expires_at_ns.is_some() => {
                if e.expires_at_ns.is_none() {
                    return OpResult { outcome: OpOutcome::Unchanged, id: e.id, version: e.version };
                }
                // Only the life time moves: the object keeps its version.
                (OpOutcome::Unchanged, e.id, e.version)
            }
            Some(e) => (OpOutcome::Updated, e.id, version),
            None => {
                self.next_id += 1;
                (OpOutcome::Created, self.next_id - 1, version)
            }
        };
        // A forced change leaves the object with its owner.
        let owner = before.map_or_else(|| t.owner.clone(), |e| e.owner.clone());
        self.draft
            .set(key, Some(Arc::new(Entry { owner, id, version, expires_at_ns, spec: Arc::new(spec) })));
        OpResult { outcome, id, version }
    }

    fn patch(
        &mut self,
        now: Instant,
        op: usize,
        key: Key,
        fields: &Value,
        t: &Transaction,
        version: u64,
    ) -> OpReply {
        let path = format!("{}/{}", key.kind, key.name);
        let Some(before) = self.draft.before(&key).cloned() else {
            return Err(item(op, &path, Code::NotFound, format!("there is no {key}")));
        };
        if !fields.is_object() {
            return Err(item(op, &path, Code::Malformed, "fields must be a JSON object".to_owned()));
        }
        let mut value = serde_json::to_value(&*before.spec)
            .map_err(|e| item(op, &path, Code::Malformed, e.to_string()))?;
        merge(&mut value, fields);
        let left_ms =
            before.expires_at_ns.map(|at| at.saturating_sub(now.as_nanos()).div_ceil(1_000_000).max(1));
        let result = self.put(now, op, key.clone(), value, left_ms, t, version)?;
        if result.outcome == OpOutcome::Unchanged {
            self.draft.set(key, Some(before));
        }
        Ok(result)
    }

    fn delete(&mut self, op: usize, key: Key, drain_ms: Option<u64>) -> OpReply {
        if let Some(ms) = drain_ms.filter(|ms| *ms > 60_000) {
            let why = format!("drain_ms = {ms} is above 60000");
            return Err(item(op, "drain_ms", Code::OutOfRange, why));
        }
        let Some(before) = self.draft.before(&key).cloned() else {
            return Ok(OpResult { outcome: OpOutcome::Unchanged, id: 0, version: 0 });
        };
        if let Some(ms) = drain_ms {
            self.drains.insert(key.clone(), Duration::from_millis(ms));
        }
        self.draft.set(key, None);
        Ok(OpResult { outcome: OpOutcome::Deleted, id: before.id, version: before.version })
    }

    fn replace_owned(
        &mut self,
        now: Instant,
        op: usize,
        kinds: &[Kind],
        objects: &[Object],
        t: &Transaction,
        version: u64,
    ) -> OpReply {
        let mut wanted = BTreeSet::new();
        let mut changed = false;
        for (i, o) in objects.iter().enumerate() {
            if !kinds.contains(&o.kind) {
                let why = format!("objects[{i}] is a {}, which is not among the kinds replaced", o.kind);
                self.errors.push(item(op, &format!("objects[{i}]"), Code::Malformed, why));
                continue;
            }
            let placed = self
                .claim_key(op, o.kind, &o.name)
                .and_then(|key| self.owned(op, &key, t, None).map(|()| key))
                .and_then(|key| {
                    wanted.insert(key.clone());
                    self.put(now, op, key, o.spec.clone(), o.ttl_ms, t, version)
                });
            match placed {
                Ok(r) => changed |= r.outcome != OpOutcome::Unchanged,
                Err(e) => self.errors.push(e),
            }
        }
        let gone: Vec<Key> = self
            .all_of(kinds)
            .filter(|(key, e)| e.owner == t.owner && !wanted.contains(*key))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            let key = self.claim_key(op, key.kind, &key.name)?;
            self.draft.set(key, None);
            changed = true;
        }
        let outcome = if changed { OpOutcome::Updated } else { OpOutcome::Unchanged };
        Ok(OpResult { outcome, id: 0, version: 0 })
    }

    fn all_of<'s>(&'s self, kinds: &'s [Kind]) -> impl Iterator<Item = (&'s Key, &'s Arc<Entry>)> + 's {
        kinds.iter().flat_map(|k| self.draft.of_kind(*k))
    }

    fn replace_graph(&mut self, op: usize, text: &str, reset: &[String]) -> OpReply {
        if self.graph.is_some() {
            return Err(item(op, "text", Code::Malformed, "the graph is replaced twice".to_owned()));
        }
        self.graph = Some(GraphRequest { text: text.to_owned(), reset: reset.to_vec(), op });
        Ok(OpResult { outcome: OpOutcome::Updated, id: 0, version: 0 })
    }

    fn renew(
        &mut self,
        now: Instant,
        op: usize,
        keys: Option<&[Key]>,
        ttl_ms: u64,
        t: &Transaction,
    ) -> OpReply {
        let expires_at_ns = expiry(now, op, Some(ttl_ms))?;
        let keys: Vec<Key> = match keys {
            Some(keys) => keys.to_vec(),
            None => self
                .all_of(&Kind::ALL)
                .filter(|(_, e)| e.owner == t.owner && e.expires_at_ns.is_some())
                .map(|(k, _)| k.clone())
                .collect(),
        };
        for key in keys {
            let key = self.claim_key(op, key.kind, &key.name)?;
            self.owned(op, &key, t, None)?;
            let path = format!("{}/{}", key.kind, key.name);
            match self.draft.before(&key).cloned() {
                None => return Err(item(op, &path, Code::NotFound, format!("there is no {key}"))),
                Some(e) if e.expires_at_ns.is_none() => {
                    return Err(item(op, &path, Code::OutOfRange, format!("{key} is hard state")));
                }
                Some(e) => self.draft.set(key, Some(Arc::new(Entry { expires_at_ns, ..(*e).clone() }))),
            }
        }
        Ok(OpResult { outcome: OpOutcome::Updated, id: 0, version: 0 })
    }
}

fn expiry(now: Instant, op: usize, ttl_ms: Option<u64>) -> Result<Option<u64>, ErrorItem> {
    match ttl_ms {
        None => Ok(None),
        Some(ms) if ms == 0 || ms > 7 * 86_400_000 => {
            Err(item(op, "ttl_ms", Code::OutOfRange, format!("ttl_ms = {ms} is outside 1 to 604800000")))
        }
        Some(ms) => Ok(Some((now + Duration::from_millis(ms)).as_nanos())),
    }
}

fn item(op: usize, path: &str, code: Code, message: String) -> ErrorItem {
    ErrorItem { op: Some(op), path: path.to_owned(), ..whole(code, message) }
}

/// JSON merge patch (RFC 7396): null resets a field to its default.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(t), Value::Object(p)) => {
            for (key, value) in p {
                if value.is_null() {
                    t.remove(key);
                } else {
                    merge(t.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

fn digest(t: &Transaction) -> RequestDigest {
    // A transaction is plain data; serialising it cannot fail.
    Sha256::digest(serde_json::to_vec(t).unwrap_or_default()).into()
}
