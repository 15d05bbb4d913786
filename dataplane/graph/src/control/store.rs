//! The router's objects, and a draft of what they would be after a transaction.

use perhop_model::{ClassSpec, Key, Kind, Name, ObjectState, Owner, Spec, Status};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object with its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Owner.
    pub owner: Owner,
    /// Never reused within the epoch.
    pub id: u64,
    /// Revision of the last change.
    pub version: u64,
    /// When it expires, ns of the router's clock.
    pub expires_at_ns: Option<u64>,
    /// Effective specification.
    pub spec: Arc<Spec>,
}

impl Entry {
    /// As the router reports it.
    pub fn state(&self, key: &Key, status: Status) -> ObjectState {
        ObjectState {
            kind: key.kind,
            name: key.name.clone(),
            owner: self.owner.clone(),
            id: self.id,
            version: self.version,
            status,
            expires_at_ns: self.expires_at_ns,
            spec: (*self.spec).clone(),
        }
    }
}

/// All active objects by (kind, name).
pub type Objects = BTreeMap<Key, Arc<Entry>>;

/// A state laid over another: what the objects would be. Reading costs a look-up in both maps.
#[derive(Debug)]
pub struct Draft<'a> {
    base: &'a Objects,
    /// Changed keys; `None` = deleted.
    changes: BTreeMap<Key, Option<Arc<Entry>>>,
}

impl<'a> Draft<'a> {
    /// No change yet.
    pub fn new(base: &'a Objects) -> Self {
        Self { base, changes: BTreeMap::new() }
    }
    /// The state before, as a draft of no change.
    pub fn unchanged(&self) -> Self {
        Self::new(self.base)
    }
    /// The object in the draft.
    pub fn find(&self, key: &Key) -> Option<&Arc<Entry>> {
        match self.changes.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.base.get(key),
        }
    }
    /// The object before.
    pub fn before(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.base.get(key)
    }
    /// Sets (or deletes) an object.
    pub fn set(&mut self, key: Key, entry: Option<Arc<Entry>>) {
        let same = match (&entry, self.base.get(&key)) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        if same {
            self.changes.remove(&key);
        } else {
            self.changes.insert(key, entry);
        }
    }
    /// Whether anything differs.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }
    /// What differs.
    pub fn changes(&self) -> &BTreeMap<Key, Option<Arc<Entry>>> {
        &self.changes
    }
    /// The differences, owned.
    pub fn into_changes(self) -> BTreeMap<Key, Option<Arc<Entry>>> {
        self.changes
    }
    /// All objects of a kind in the draft, by name.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Arc<Entry>)> + '_ {
        let base = range(self.base, kind).filter(move |(k, _)| !self.changes.contains_key(*k));
        let new = range(&self.changes, kind).filter_map(|(k, e)| e.as_ref().map(|e| (k, e)));
        // Both halves are sorted; a merge keeps the whole sorted by name.
        Merge { a: base.peekable(), b: new.peekable() }
    }
    /// The whole state of the draft as a map of its own.
    pub fn materialise(&self) -> Objects {
        let mut all = self.base.clone();
        for (key, entry) in &self.changes {
            match entry {
                Some(e) => all.insert(key.clone(), e.clone()),
                None => all.remove(key),
            };
        }
        all
    }
    /// Objects of a kind as their specification type.
    pub fn classes(&self) -> impl Iterator<Item = (&Name, &ClassSpec, &Entry)> + '_ {
        self.of_kind(Kind::Class).filter_map(|(k, e)| match &*e.spec {
            Spec::Class(c) => Some((&k.name, c, e.as_ref())),
            _ => None,
        })
    }
}

/// The objects of one kind: a range of the map, found in O(log n).
fn range<T>(map: &BTreeMap<Key, T>, kind: Kind) -> impl Iterator<Item = (&Key, &T)> + '_ {
    // '-' is the least character that a name may have.
    let first = Key { kind, name: Name::new("-").expect("one legal character") };
    map.range(first..).take_while(move |(k, _)| k.kind == kind)
}

struct Merge<A: Iterator, B: Iterator> {
    a: std::iter::Peekable<A>,
    b: std::iter::Peekable<B>,
}

impl<'k, A, B> Iterator for Merge<A, B>
where
    A: Iterator<Item = (&'k Key, &'k Arc<Entry>)>,
    B: Iterator<Item = (&'k Key, &'k Arc<Entry>)>,
{
    type Item = (&'k Key, &'k Arc<Entry>);
    fn next(&mut self) -> Option<Self::Item> {
        match (self.a.peek(), self.b.peek()) {
            (Some((x, _)), Some((y, _))) if x <= y => self.a.next(),
            (_, Some(_)) => self.b.next(),
            _ => self.a.next(),
        }
    }
}
