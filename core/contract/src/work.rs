//! Working a transaction's operations out against the state, one method a kind of operation.

use super::commit::{GraphRequest, Next};
use super::objects::Entry;
use super::store::Draft;
use super::validate::implied_defaults;
use super::{TTL_MS, item};
use perhop_model::{
    ClassSpec, ErrorItem, Given, Key, Kind, Name, Op, OpOutcome, OpResult, Spec, Transaction,
};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A transaction being worked out.
pub(super) struct Work<'a> {
    pub(super) draft: Draft<'a>,
    /// Operation that names a key.
    pub(super) ops: BTreeMap<Key, usize>,
    /// One an operation so far.
    pub(super) results: Vec<OpResult>,
    /// Everything wrong so far.
    pub(super) errors: Vec<ErrorItem>,
    /// Objects that are not as they are meant to be because of these errors.
    pub(super) broken: BTreeSet<Key>,
    drains: BTreeMap<Key, Duration>,
    /// New packet graph.
    pub(super) graph: Option<GraphRequest>,
    /// Indices of the commits confirmed.
    pub(super) confirms: Vec<usize>,
    next_id: u64,
    /// Classes that are a port's default before, though none says so.
    implied: OnceCell<BTreeSet<Name>>,
    /// Objects whose new specification says only what is in force.
    said_again: BTreeSet<Key>,
}

/// What a valid transaction comes to.
pub(super) struct Finished {
    pub(super) next: Next,
    /// Whether everything is in force already.
    pub(super) quiet: bool,
    pub(super) results: Vec<OpResult>,
    pub(super) confirms: Vec<usize>,
    pub(super) next_id: u64,
}

type OpReply = Result<OpResult, ErrorItem>;

impl<'a> Work<'a> {
    /// Nothing done yet.
    pub(super) fn new(draft: Draft<'a>, next_id: u64) -> Self {
        Self {
            draft,
            ops: BTreeMap::new(),
            results: Vec::new(),
            errors: Vec::new(),
            broken: BTreeSet::new(),
            drains: BTreeMap::new(),
            graph: None,
            confirms: Vec::new(),
            next_id,
            implied: OnceCell::new(),
            said_again: BTreeSet::new(),
        }
    }

    /// Works one operation out (any but `confirm`, which concerns no object).
    pub(super) fn apply(
        &mut self,
        now: Instant,
        i: usize,
        op: &Op,
        t: &Transaction,
        version: u64,
    ) -> OpReply {
        match op {
            Op::Put(put) => self.put(now, i, &put.given, t, put.if_version, version),
            Op::Patch { kind, name, fields, if_version } => {
                let key = Key { kind: *kind, name: name.clone() };
                self.claim_key(i, &key)?;
                if self.is_managed(&key, fields, t) {
                    self.versioned(i, &key, *if_version)?;
                } else {
                    self.owned(i, &key, t, *if_version)?;
                }
                self.patch(i, key, fields, t, version)
            }
            Op::Delete { kind, name, if_version, drain_ms } => {
                let key = self.own_key(i, Key { kind: *kind, name: name.clone() }, t, *if_version)?;
                self.delete(i, key, *drain_ms)
            }
            Op::ReplaceOwned { kinds, objects } => self.replace_owned(now, i, kinds, objects, t, version),
            Op::ReplaceGraph { text, reset } => self.replace_graph(i, text, reset),
            Op::Renew { keys, ttl_ms } => self.renew(now, i, keys.as_deref(), *ttl_ms, t),
            Op::Confirm { .. } => Ok(OpResult { outcome: OpOutcome::Unchanged, id: 0, version: 0 }),
        }
    }

    fn own_key(
        &mut self,
        op: usize,
        key: Key,
        t: &Transaction,
        if_version: Option<u64>,
    ) -> Result<Key, ErrorItem> {
        self.claim_key(op, &key)?;
        self.owned(op, &key, t, if_version)?;
        Ok(key)
    }

    fn put(
        &mut self,
        now: Instant,
        op: usize,
        given: &Given,
        t: &Transaction,
        if_version: Option<u64>,
        version: u64,
    ) -> OpReply {
        let key = self.own_key(op, given.key(), t, if_version)?;
        let object = given.object(op)?;
        let expires_at_ns = expiry(now, op, object.ttl_ms)?;
        Ok(self.place(key, object.spec.clone(), expires_at_ns, t, version))
    }

    pub(super) fn finish(self) -> Finished {
        let changes = self.draft.into_changes();
        let quiet = self.graph.is_none() && changes.keys().all(|key| self.said_again.contains(key));
        let next = Next { changes, drains: self.drains, graph: self.graph };
        Finished { next, quiet, results: self.results, confirms: self.confirms, next_id: self.next_id }
    }

    /// A key may be named once in a transaction.
    fn claim_key(&mut self, op: usize, key: &Key) -> Result<(), ErrorItem> {
        if let Some(first) = self.ops.get(key) {
            let why = format!("operation {first} names {key} already");
            return Err(item(op, &format!("{}/{}", key.kind, key.name), Code::Malformed, why));
        }
        self.ops.insert(key.clone(), op);
        Ok(())
    }

    /// The object, if there, must be ours (or forced) and of the expected version.
    fn owned(&self, op: usize, key: &Key, t: &Transaction, if_version: Option<u64>) -> Result<(), ErrorItem> {
        let path = format!("{}/{}", key.kind, key.name);
        let before = self.draft.before(key);
        if let Some(e) = before.filter(|e| e.owner != t.owner && !t.force) {
            let managed = match e.spec.managed() {
                Some((owner, fields)) if *owner == t.owner => {
                    format!("; {owner} may patch {} of it and nothing else", fields.join(", "))
                }
                _ => String::new(),
            };
            let why = format!("{key} belongs to {}{managed}", e.owner);
            return Err(item(op, &path, Code::NotOwner, why));
        }
        self.versioned(op, key, if_version)
    }

    /// Whether a patch concerns only what the object's owner has given into the hands of the transaction's.
    fn is_managed(&self, key: &Key, fields: &Value, t: &Transaction) -> bool {
        let managed = self.draft.before(key).and_then(|e| e.spec.managed());
        managed.is_some_and(|(owner, allowed)| {
            let named = fields.as_object();
            *owner == t.owner && named.is_some_and(|f| f.keys().all(|name| allowed.contains(&name.as_str())))
        })
    }

    /// The object must be of the expected version.
    fn versioned(&self, op: usize, key: &Key, if_version: Option<u64>) -> Result<(), ErrorItem> {
        let (path, before) = (format!("{}/{}", key.kind, key.name), self.draft.before(key));
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
                if e.expires_at_ns == expires_at_ns {
                    return OpResult { outcome: OpOutcome::Unchanged, id: e.id, version: e.version };
                }
                // Only the life time moves: the object keeps its version.
                (OpOutcome::Unchanged, e.id, e.version)
            }
            // It is the port's default already, because nobody else is. From now on it is by name.
            Some(e) if self.is_read_of(&key.name, e, &spec) && e.expires_at_ns == expires_at_ns => {
                self.said_again.insert(key.clone());
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

    /// Whether `spec` is what is read of `before`, though not what was written: see [`implied_defaults`].
    fn is_read_of(&self, name: &Name, before: &Entry, spec: &Spec) -> bool {
        let (Spec::Class(before), Spec::Class(new)) = (&*before.spec, spec) else { return false };
        if before.default || !new.default || (ClassSpec { default: true, ..before.clone() }) != *new {
            return false;
        }
        let implied = self
            .implied
            .get_or_init(|| implied_defaults(&self.draft.unchanged()).into_values().cloned().collect());
        implied.contains(name)
    }

    fn patch(&mut self, op: usize, key: Key, fields: &Value, t: &Transaction, version: u64) -> OpReply {
        let path = format!("{}/{}", key.kind, key.name);
        let Some(before) = self.draft.before(&key).cloned() else {
            return Err(item(op, &path, Code::NotFound, format!("there is no {key}")));
        };
        if !fields.is_object() {
            return Err(item(op, &path, Code::Malformed, "fields must be a JSON object".to_owned()));
        }
        let mut value = serde_json::to_value(&*before.spec).expect("a specification is plain data");
        merge(&mut value, fields);
        let spec = Spec::from_value(key.kind, &value).map_err(|e| e.item(op, &key))?;
        // The life time is no field: what is left of it stays.
        Ok(self.place(key, spec, before.expires_at_ns, t, version))
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
        objects: &[Given],
        t: &Transaction,
        version: u64,
    ) -> OpReply {
        let kinds: BTreeSet<Kind> = kinds.iter().copied().collect();
        let mut wanted = BTreeSet::new();
        let mut changed = false;
        for (i, given) in objects.iter().enumerate() {
            let key = given.key();
            if !kinds.contains(&key.kind) {
                let why = format!("objects[{i}] is a {}, which is not among the kinds replaced", key.kind);
                self.errors.push(item(op, &format!("objects[{i}]"), Code::Malformed, why));
                continue;
            }
            wanted.insert(key.clone());
            match self.put(now, op, given, t, None, version) {
                Ok(r) => changed |= r.outcome != OpOutcome::Unchanged,
                Err(e) => {
                    self.broken.insert(key);
                    self.errors.push(e);
                }
            }
        }
        let gone: Vec<Key> = kinds
            .iter()
            .flat_map(|k| self.draft.of_kind(*k))
            .filter(|(key, e)| e.owner == t.owner && !wanted.contains(*key))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.claim_key(op, &key)?;
            self.draft.set(key, None);
            changed = true;
        }
        let outcome = if changed { OpOutcome::Updated } else { OpOutcome::Unchanged };
        Ok(OpResult { outcome, id: 0, version: 0 })
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
            None => Kind::ALL
                .iter()
                .flat_map(|k| self.draft.of_kind(*k))
                .filter(|(_, e)| e.owner == t.owner && e.expires_at_ns.is_some())
                .map(|(k, _)| k.clone())
                .collect(),
        };
        for key in keys {
            self.claim_key(op, &key)?;
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
        Some(ms) if !TTL_MS.contains(&ms) => {
            let why = format!("ttl_ms = {ms} is outside {} to {}", TTL_MS.start(), TTL_MS.end());
            Err(item(op, "ttl_ms", Code::OutOfRange, why))
        }
        Some(ms) => Ok(Some((now + Duration::from_millis(ms)).as_nanos())),
    }
}

/// Keys that say which of several a value is, and hold it: of a queue's limit, a share, a queue's kind. No object of the
/// model has one of these fields alone.
const TAGS: [&[&str]; 3] = [
    &["packets", "bytes", "time"],
    &["rate", "ppm"],
    &["fifo", "red", "wred", "codel", "pie", "blue", "fq_codel"],
];
/// Fields that say which of several an object is: a meter, what is done with a colour, a filter of latency.
const TAG_FIELDS: [&str; 2] = ["type", "do"];

/// Whether `patch` makes of `target` another of several that have nothing in common.
fn is_another(target: &Map<String, Value>, patch: &Map<String, Value>) -> bool {
    let only = |of: &Map<String, Value>| if of.len() == 1 { of.keys().next().cloned() } else { None };
    if let (Some(old), Some(new)) = (only(target), only(patch)) {
        let among = |tags: &&[&str]| tags.contains(&old.as_str()) && tags.contains(&new.as_str());
        return old != new && TAGS.iter().any(among);
    }
    let differs = |field: &&str| match (target.get(*field), patch.get(*field)) {
        (Some(old), Some(new)) => !new.is_null() && old != new,
        _ => false,
    };
    TAG_FIELDS.iter().any(differs)
}

/// JSON merge patch (RFC 7396): null resets a field to its default. A value that is one of several kinds is replaced by
/// one of another kind: their fields do not mix.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if target.as_object().is_some_and(|target| is_another(target, fields)) {
        *target = Value::Null;
    }
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in fields {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
