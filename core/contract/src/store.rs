//! A draft of what the router's objects would be after a transaction.

use super::index::{Index, least};
use super::objects::{Entry, Objects};
use perhop_model::{AllocationSpec, ClassSpec, Key, Kind, Name, Spec};
use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A state laid over another: what the objects would be. Reading costs a look-up in both maps.
#[derive(Debug)]
pub struct Draft<'a> {
    base: &'a Objects,
    /// Of `base`, where somebody keeps it; else made when first needed.
    index: Option<&'a Index>,
    own_index: OnceCell<Index>,
    /// Changed keys; `None` = deleted.
    changes: BTreeMap<Key, Option<Arc<Entry>>>,
    /// What the changes bring.
    new: Index,
    visits: Cell<u64>,
}

impl<'a> Draft<'a> {
    /// No change yet.
    pub fn new(base: &'a Objects) -> Self {
        Self {
            base,
            index: None,
            own_index: OnceCell::new(),
            changes: BTreeMap::new(),
            new: Index::default(),
            visits: Cell::new(0),
        }
    }
    /// No change yet to objects whose index is at hand.
    pub fn indexed(base: &'a Objects, index: &'a Index) -> Self {
        Self { index: Some(index), ..Self::new(base) }
    }
    fn index(&self) -> &Index {
        self.index.unwrap_or_else(|| self.own_index.get_or_init(|| Index::of(self.base)))
    }
    /// Objects looked at so far, each as often as it was: what working with this draft has cost.
    pub fn visits(&self) -> u64 {
        self.visits.get()
    }
    fn visited(&self) {
        self.visits.set(self.visits.get() + 1);
    }
    /// The state before, as a draft of no change.
    pub fn unchanged(&self) -> Self {
        Self::new(self.base)
    }
    /// The object in the draft.
    pub fn find(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.visited();
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
        let before = self.changes.get(&key).cloned().flatten();
        self.new.update(&key, before.as_ref(), entry.as_ref().filter(|_| !same));
        if same {
            self.changes.remove(&key);
        } else {
            self.changes.insert(key, entry);
        }
    }
    /// What differs.
    pub fn changes(&self) -> &BTreeMap<Key, Option<Arc<Entry>>> {
        &self.changes
    }
    /// Changed objects of a kind, by name: key, before, after.
    pub fn changed(
        &self,
        kind: Kind,
    ) -> impl Iterator<Item = (&Key, Option<&Arc<Entry>>, Option<&Arc<Entry>>)> + '_ {
        range(&self.changes, kind).map(|(key, after)| (key, self.before(key), after.as_ref()))
    }
    /// Whether objects of these kinds differ. O(changes).
    pub fn touches(&self, kinds: &[Kind]) -> bool {
        self.changes.keys().any(|key| kinds.contains(&key.kind))
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
        Merge { a: base.peekable(), b: new.peekable() }.inspect(|_| self.visited())
    }
    /// Number of objects of a kind. O(changes).
    pub fn count(&self, kind: Kind) -> usize {
        let changed = range(&self.changes, kind).filter(|(key, _)| self.base.contains_key(*key));
        self.index().count(kind) + self.new.count(kind) - changed.count()
    }
    fn class_at(&self, key: &Key) -> Option<(&Name, &ClassSpec, &Entry)> {
        self.visited();
        let (key, entry) = match self.changes.get_key_value(key) {
            Some((key, changed)) => (key, changed.as_ref()?),
            None => self.base.get_key_value(key)?,
        };
        match &*entry.spec {
            Spec::Class(c) => Some((&key.name, c, entry.as_ref())),
            _ => None,
        }
    }
    /// A class by its object's name.
    pub fn class(&self, name: &Name) -> Option<&ClassSpec> {
        self.class_at(&Key { kind: Kind::Class, name: name.clone() }).map(|(_, c, _)| c)
    }
    /// Names that the base has and the changes do not concern, and names that the changes bring, in order.
    fn both<'s>(
        &'s self,
        kind: Kind,
        base: impl Iterator<Item = &'s Name>,
        new: impl Iterator<Item = &'s Name>,
    ) -> Vec<Key> {
        let key = |name: &Name| Key { kind, name: name.clone() };
        let base = base.map(key).filter(|key| !self.changes.contains_key(key));
        let mut all: Vec<Key> = base.chain(new.map(key)).collect();
        all.sort_unstable();
        all
    }
    /// Classes of one port, by name. O(classes of the port · log n).
    pub fn classes_on(&self, port: &Name) -> Vec<(&Name, &ClassSpec, &Entry)> {
        let keys = self.both(Kind::Class, self.index().classes_on(port), self.new.classes_on(port));
        keys.iter().filter_map(|key| self.class_at(key)).collect()
    }
    /// Classes with one logical name, by name. O(their number · log n).
    pub fn classes_called(&self, logical: &str) -> Vec<(&Name, &ClassSpec, &Entry)> {
        let keys =
            self.both(Kind::Class, self.index().classes_called(logical), self.new.classes_called(logical));
        keys.iter().filter_map(|key| self.class_at(key)).collect()
    }
    /// Whether a class of the base is as it was.
    fn stays(&self, class: &Name) -> bool {
        self.visited();
        !self.changes.contains_key(&Key { kind: Kind::Class, name: class.clone() })
    }
    /// Whether some class has this logical name.
    pub fn has_logical(&self, logical: &str) -> bool {
        self.new.classes_called(logical).next().is_some()
            || self.index().classes_called(logical).any(|name| self.stays(name))
    }
    /// Whether some class without children has this logical name: only these queue packets. O(their number · log n).
    pub fn has_leaf_called(&self, logical: &str) -> bool {
        self.new.classes_called(logical).any(|name| !self.has_children(name))
            || self.index().classes_called(logical).any(|name| self.stays(name) && !self.has_children(name))
    }
    /// Whether some class has this one for its parent.
    fn has_children(&self, class: &Name) -> bool {
        self.children(class).next().is_some()
    }
    /// Classes of the same port that have this one for their parent, in no order.
    pub fn children<'s>(&'s self, class: &Name) -> impl Iterator<Item = &'s Name> {
        let port = self.class(class).map(|c| &c.port);
        let base = self.index().children_of(class).filter(|name| self.stays(name));
        let here = move |name: &&Name| self.class(name).map(|c| &c.port) == port;
        self.new.children_of(class).chain(base).filter(here)
    }
    /// Allocations of one class, by name.
    pub fn allocations_of(&self, class: &Name) -> Vec<(&Key, &AllocationSpec)> {
        let keys =
            self.both(Kind::Allocation, self.index().allocations_of(class), self.new.allocations_of(class));
        let found = keys.iter().filter_map(|key| {
            self.visited();
            let (key, entry) = match self.changes.get_key_value(key) {
                Some((key, changed)) => (key, changed.as_ref()?),
                None => self.base.get_key_value(key)?,
            };
            match &*entry.spec {
                Spec::Allocation(a) => Some((key, a)),
                _ => None,
            }
        });
        found.collect()
    }
    /// Unchanged objects that refer to a profile or a contract, by kind and name. O(their number · log n).
    pub fn unchanged_referrers<'s>(
        &'s self,
        target: &'s Key,
    ) -> impl Iterator<Item = (&'s Key, &'s Arc<Entry>)> {
        let kept = self.index().referrers_of(target).filter(|key| !self.changes.contains_key(*key));
        kept.filter_map(|key| {
            self.visited();
            self.base.get_key_value(key)
        })
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
    map.range(least(kind)..).take_while(move |(k, _)| k.kind == kind)
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
