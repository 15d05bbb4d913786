//! Numbers of logical classes, for as long as something is called so.

use super::slots::Slots;
use perhop_contract::Draft;
use perhop_elements::police::MAX_IDS;
use perhop_model::{ErrorItem, Kind, Spec};
use perhop_packet::ClassId;
use perhop_reason::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Logical classes in use: those of class objects (whatever else names one needs such an object) and those that the
/// running graph names. A name that nothing uses any more loses its number with the change that removed it; the number
/// is given again after that change at the earliest. By then no cached verdict has it: what named the class went with
/// it, so every verdict that came of it is made anew before it is used.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    slots: Slots<Arc<str>>,
    /// By number. Of a free number the last, for what is still on its way.
    names: Vec<Arc<str>>,
    /// Class objects by the logical name they have.
    users: BTreeMap<Arc<str>, usize>,
    /// Names in the running graph.
    graph: BTreeSet<String>,
    /// Names that may have lost their last user by the change being planned.
    suspects: Vec<Arc<str>>,
    limit: u32,
}

impl Classes {
    /// None yet, and at most `limit` numbers.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            slots: Slots::from_number(0),
            names: Vec::new(),
            users: BTreeMap::new(),
            graph: BTreeSet::new(),
            suspects: Vec::new(),
            limit: limit.min(MAX_IDS),
        }
    }

    /// The names of the first graph, with the numbers it was built with.
    pub(super) fn adopt(&mut self, built: &BTreeMap<String, ClassId>) {
        let mut by_number: Vec<_> = built.iter().collect();
        by_number.sort_by_key(|(_, id)| **id);
        for (name, id) in by_number {
            let given = self.give(name);
            assert_eq!(given, *id, "a graph is built before anything else has a number");
            self.graph.insert(name.clone());
        }
    }

    /// The number of a name; [`ClassId::NONE`] when nothing is called so.
    pub(super) fn id(&self, name: &str) -> ClassId {
        self.slots.find(name).map_or(ClassId::NONE, ClassId)
    }

    /// The name of a number; of a number that is free, the last one it had.
    pub(super) fn name(&self, id: ClassId) -> Option<&str> {
        self.names.get(id.index()).map(|n| &**n)
    }

    fn give(&mut self, name: &str) -> ClassId {
        let name: Arc<str> = Arc::from(name);
        let id = ClassId(self.slots.give(name.clone()));
        if id.index() >= self.names.len() {
            self.names.resize(id.index() + 1, name.clone());
        }
        self.names[id.index()] = name;
        id
    }

    /// Whether there are numbers for what `draft` and a new graph's `names` add. What the same change frees does not
    /// count: its packets are still on their way.
    pub(super) fn check(&self, draft: &Draft<'_>, names: Option<&BTreeSet<String>>) -> Option<ErrorItem> {
        let objects =
            draft.changed(Kind::Class).filter_map(|(key, _, after)| match after.map(|e| &*e.spec) {
                Some(Spec::Class(c)) => Some(c.logical_name(&key.name)),
                _ => None,
            });
        let graph = names.into_iter().flatten().map(String::as_str);
        let new: BTreeSet<&str> = objects.chain(graph).filter(|n| self.slots.find(*n).is_none()).collect();
        let free = self.slots.available(self.limit);
        (new.len() > free).then(|| ErrorItem {
            value: Some((new.len() as u64).into()),
            limit: Some(u64::from(self.limit)),
            free: Some(free as u64),
            ..ErrorItem::new(
                Code::LimitReached,
                "class",
                format!("{} new logical class names, and {free} of {} are free", new.len(), self.limit),
            )
        })
    }

    /// Gives numbers to the names that a change brings.
    pub(super) fn enter(&mut self, draft: &Draft<'_>, names: Option<BTreeSet<String>>) {
        for (key, before, after) in draft.changed(Kind::Class) {
            if let Some(Spec::Class(c)) = before.map(|e| &*e.spec) {
                let name: Arc<str> = Arc::from(c.logical_name(&key.name));
                let users = self.users.get_mut(&name).filter(|n| **n > 0);
                *users.expect("a class that goes or changes was counted when it came") -= 1;
                self.suspects.push(name);
            }
            if let Some(Spec::Class(c)) = after.map(|e| &*e.spec) {
                let name = c.logical_name(&key.name);
                let _ = self.give(name);
                *self.users.entry(Arc::from(name)).or_default() += 1;
            }
        }
        if let Some(names) = names {
            for name in &names {
                let _ = self.give(name);
            }
            let before = std::mem::replace(&mut self.graph, names);
            self.suspects.extend(before.iter().map(|n| Arc::from(n.as_str())));
        }
    }

    /// The change is planned whole: names that it left without use lose their numbers.
    pub(super) fn leave(&mut self) {
        for name in std::mem::take(&mut self.suspects) {
            if self.users.get(&name).is_none_or(|n| *n == 0) {
                self.users.remove(&name);
                if !self.graph.contains(&*name) {
                    self.slots.take(&*name);
                }
            }
        }
        self.slots.release();
    }

    /// The numbers of these names, as a graph is built with them.
    pub(super) fn numbers(&self, names: &BTreeSet<String>) -> BTreeMap<String, ClassId> {
        names.iter().map(|n| (n.clone(), self.id(n))).collect()
    }
}
