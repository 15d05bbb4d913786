//! Objects by what others know them by, so that a change looks only at what it concerns.

use super::objects::{Entry, Objects};
use perhop_model::{Key, Kind, Name, Spec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Classes by port, by logical name and by parent, allocations by class, what refers to profiles and contracts, and how many
/// objects of each kind there are.
#[derive(Clone, Debug, Default)]
pub struct Index {
    by_port: BTreeMap<Name, BTreeSet<Name>>,
    by_logical: BTreeMap<String, BTreeSet<Name>>,
    by_parent: BTreeMap<Name, BTreeSet<Name>>,
    allocations: BTreeMap<Name, BTreeSet<Name>>,
    /// Profiles and contracts, which come and go with what refers to them, each with an object that does. In one set: most have
    /// one.
    referrers: BTreeSet<(Key, Key)>,
    counts: BTreeMap<Kind, usize>,
}

impl Index {
    /// The index of these objects. O(n log n).
    pub fn of(objects: &Objects) -> Self {
        let mut index = Self::default();
        objects.iter().for_each(|(key, entry)| index.update(key, None, Some(entry)));
        index
    }

    /// An object changed from `before` to `after`. O(log n).
    pub fn update(&mut self, key: &Key, before: Option<&Arc<Entry>>, after: Option<&Arc<Entry>>) {
        if let Some(entry) = before {
            self.forget(key, &entry.spec);
            let n = self.counts.get_mut(&key.kind).filter(|n| **n > 0);
            *n.expect("an object that changes was counted when it came") -= 1;
        }
        let Some(entry) = after else { return };
        self.referrers.extend(referred(&entry.spec).map(|target| (target, key.clone())));
        *self.counts.entry(key.kind).or_default() += 1;
        let name = || key.name.clone();
        match &*entry.spec {
            Spec::Class(c) => {
                self.by_port.entry(c.port.clone()).or_default().insert(name());
                self.by_logical.entry(c.logical_name(&key.name).to_owned()).or_default().insert(name());
                if let Some(parent) = &c.parent {
                    self.by_parent.entry(parent.clone()).or_default().insert(name());
                }
            }
            Spec::Allocation(a) => {
                self.allocations.entry(a.class.clone()).or_default().insert(name());
            }
            _ => {}
        }
    }

    fn forget(&mut self, key: &Key, spec: &Spec) {
        for target in referred(spec) {
            assert!(self.referrers.remove(&(target, key.clone())), "{key} is not in the index");
        }
        match spec {
            Spec::Class(c) => {
                remove(&mut self.by_port, &c.port, &key.name);
                remove(&mut self.by_logical, c.logical_name(&key.name), &key.name);
                if let Some(parent) = &c.parent {
                    remove(&mut self.by_parent, parent, &key.name);
                }
            }
            Spec::Allocation(a) => remove(&mut self.allocations, &a.class, &key.name),
            _ => {}
        }
    }

    /// Classes of a port, by name.
    pub fn classes_on(&self, port: &Name) -> impl Iterator<Item = &Name> {
        self.by_port.get(port).into_iter().flatten()
    }

    /// Classes with a logical name, by name.
    pub fn classes_called(&self, logical: &str) -> impl Iterator<Item = &Name> {
        self.by_logical.get(logical).into_iter().flatten()
    }

    /// Children of a class, by name.
    pub fn children_of(&self, class: &Name) -> impl Iterator<Item = &Name> {
        self.by_parent.get(class).into_iter().flatten()
    }

    /// Allocations of a class, by name.
    pub fn allocations_of(&self, class: &Name) -> impl Iterator<Item = &Name> {
        self.allocations.get(class).into_iter().flatten()
    }

    /// Objects that refer to a profile or a contract, by kind and name.
    pub fn referrers_of<'s>(&'s self, target: &'s Key) -> impl Iterator<Item = &'s Key> {
        let from = (target.clone(), least(Kind::ALL[0]));
        self.referrers.range(from..).take_while(move |(of, _)| of == target).map(|(_, key)| key)
    }

    /// Objects of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.counts.get(&kind).copied().unwrap_or(0)
    }
}

/// Before every object of a kind.
pub(super) fn least(kind: Kind) -> Key {
    // '-' is the least character that a name may have.
    Key { kind, name: Name::new("-").expect("one legal character") }
}

/// Profiles and contracts that an object names, each once.
fn referred(spec: &Spec) -> impl Iterator<Item = Key> + use<> {
    let (profile, sla) = match spec {
        Spec::Filter(filter) => (filter.profile.clone(), filter.sla.clone()),
        Spec::Class(class) => (None, class.sla.clone()),
        Spec::AbrPolicy(policy) => (None, policy.matches.sla.clone()),
        _ => (None, None),
    };
    let key = |kind| move |name| Key { kind, name };
    profile.map(key(Kind::Profile)).into_iter().chain(sla.map(key(Kind::Sla)))
}

fn remove<K, Q>(map: &mut BTreeMap<K, BTreeSet<Name>>, key: &Q, name: &Name)
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ?Sized,
{
    let names = map.get_mut(key).expect("an object is indexed under all that it names");
    assert!(names.remove(name), "{name} is not in the index");
    if names.is_empty() {
        map.remove(key);
    }
}
