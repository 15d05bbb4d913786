//! References between objects: what an object names must be there, of the right kind, and its own owner's or shared.
//! References may break by a change of what they name: then every referring object is looked at, else the changed ones.

use super::At;
use crate::objects::Entry;
use crate::store::Draft;
use perhop_model::{ColorAction, ErrorItem, Key, Kind, Name, Spec};
use perhop_reason::Code;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an object names.
enum Target<'a> {
    Object(Key),
    Logical(&'a Name),
}

/// A reference that leads nowhere.
struct Missing<'a> {
    field: String,
    message: String,
    target: Target<'a>,
}

/// What is looked up again and again.
struct Names<'a> {
    draft: &'a Draft<'a>,
    broken: &'a BTreeSet<Key>,
    /// Logical names that broken classes would have by default.
    broken_logical: BTreeSet<&'a str>,
    /// Why a logical name leads nowhere, as found out before.
    known: RefCell<BTreeMap<Name, Option<String>>>,
}

/// Leaves that a message names at most.
const MAX_LISTED: usize = 12;

pub(super) fn references(
    draft: &Draft<'_>,
    ops: &BTreeMap<Key, usize>,
    broken: &BTreeSet<Key>,
    errors: &mut Vec<ErrorItem>,
) {
    let touched: BTreeSet<Kind> = draft.changes().keys().map(|k| k.kind).collect();
    let default_logical = |k: &'_ Key| k.name.as_str().rsplit('/').next().map(str::to_owned);
    let owned: Vec<String> =
        broken.iter().filter(|k| k.kind == Kind::Class).filter_map(default_logical).collect();
    let broken_logical = owned.iter().map(String::as_str).collect();
    let names = Names { draft, broken, broken_logical, known: RefCell::default() };
    let losers = losers(draft);
    let mut judge = |key: &Key, entry: &Entry, changed: bool| {
        for missing in names.missing(entry) {
            let mut at = At { key, op: ops.get(key).copied(), errors: &mut *errors };
            if changed {
                at.error(&missing.field, Code::BadReference, missing.message);
            } else {
                blame(&mut at, ops, &losers, draft, missing);
            }
        }
    };
    if !may_be_missed(draft, &losers) {
        let changed = draft.changes().iter().filter_map(|(key, e)| Some((key, e.as_ref()?)));
        changed.for_each(|(key, entry)| judge(key, entry, true));
        // Filters are many and come and go; only policies, which are few, refer to them.
        if lost(draft, &[Kind::Filter]).next().is_some() {
            let kept = draft.of_kind(Kind::AbrPolicy).filter(|(key, _)| !draft.changes().contains_key(*key));
            kept.for_each(|(key, entry)| judge(key, entry, false));
        }
        // Profiles and contracts come and go with what refers to them: who refers to which is known.
        for target in lost(draft, &[Kind::Profile, Kind::Sla]) {
            draft.unchanged_referrers(target).for_each(|(key, entry)| judge(key, entry, false));
        }
        return;
    }
    for kind in Kind::ALL {
        for (key, entry) in draft.of_kind(kind) {
            let changed = draft.changes().contains_key(key);
            if changed || refers_to_any(&entry.spec, &touched) {
                judge(key, entry, changed);
            }
        }
    }
}

/// Whether something is gone, or no longer for everybody, that any unchanged object may refer to; filters, profiles and contracts
/// apart.
fn may_be_missed(draft: &Draft<'_>, losers: &BTreeMap<String, &Key>) -> bool {
    lost(draft, &[Kind::Port, Kind::Class]).next().is_some()
        || losers.keys().any(|name| !draft.has_leaf_called(name))
}

/// Objects of these kinds that are gone, or no longer for everybody.
fn lost<'d>(draft: &'d Draft<'_>, kinds: &'d [Kind]) -> impl Iterator<Item = &'d Key> {
    let lost = |(key, after): &(&Key, &Option<Arc<Entry>>)| match (draft.before(key), after) {
        (Some(before), Some(after)) => {
            before.owner != after.owner || (before.spec.shared() && !after.spec.shared())
        }
        (before, None) => before.is_some(),
        (None, Some(_)) => false,
    };
    let of_kinds = draft.changes().iter().filter(move |(key, _)| kinds.contains(&key.kind));
    of_kinds.filter(lost).map(|(key, _)| key)
}

/// Changed classes by the logical name that they take away: they had it themselves, or their parent has it and queues
/// no packets any more. Who is at fault when no leaf has the name.
fn losers<'d>(draft: &'d Draft<'_>) -> BTreeMap<String, &'d Key> {
    let mut losers = BTreeMap::new();
    let class = |entry: Option<&'d Arc<Entry>>| match entry.map(|e| &*e.spec) {
        Some(Spec::Class(c)) => Some(c),
        _ => None,
    };
    for (key, after) in draft.changes().iter().filter(|(key, _)| key.kind == Kind::Class) {
        let (before, after) = (class(draft.before(key)), class(after.as_ref()));
        if let Some((after, name)) = after.and_then(|c| Some((c, c.parent.clone()?))) {
            let parent = Key { kind: Kind::Class, name };
            if let Some(above) = class(draft.before(&parent)).filter(|above| above.port == after.port) {
                losers.entry(above.logical_name(&parent.name).to_owned()).or_insert(key);
            }
        }
        let had = before.map(|c| c.logical_name(&key.name));
        if let Some(name) = had.filter(|had| after.is_none_or(|c| c.logical_name(&key.name) != *had)) {
            losers.insert(name.to_owned(), key);
        }
    }
    losers
}

/// An unchanged object lost what it refers to: the change of that is at fault, with `in_use`.
fn blame(
    at: &mut At<'_>,
    ops: &BTreeMap<Key, usize>,
    losers: &BTreeMap<String, &Key>,
    draft: &Draft<'_>,
    missing: Missing<'_>,
) {
    let culprit = match &missing.target {
        Target::Object(key) => draft.changes().get_key_value(key).map(|(k, _)| k),
        Target::Logical(name) => losers.get(name.as_str()).copied(),
    };
    let message = format!("{} refers to it: {}", at.key, missing.message);
    match culprit {
        Some(key) => {
            let mut at = At { key, op: ops.get(key).copied(), errors: &mut *at.errors };
            at.error("", Code::InUse, message);
        }
        None => {
            at.error(&missing.field, Code::InUse, message);
        }
    }
}

fn refers_to_any(spec: &Spec, touched: &BTreeSet<Kind>) -> bool {
    let has = |k| touched.contains(&k);
    match spec {
        Spec::Port(_) | Spec::Sla(_) => false,
        Spec::Class(_) => has(Kind::Port) || has(Kind::Class) || has(Kind::Sla),
        Spec::Profile(_) | Spec::Allocation(_) => has(Kind::Class),
        Spec::Detector(_) => has(Kind::Class) || has(Kind::Port),
        Spec::Filter(_) => has(Kind::Class) || has(Kind::Sla) || has(Kind::Profile) || has(Kind::Port),
        Spec::Route(_) => has(Kind::Port),
        Spec::AbrPolicy(_) => has(Kind::Class) || has(Kind::Sla) || has(Kind::Filter),
    }
}

impl Names<'_> {
    fn missing<'e>(&self, me: &'e Entry) -> Vec<Missing<'e>> {
        let mut found = Vec::new();
        let mut object = |field: &str, kind: Kind, name: &Name| {
            let key = Key { kind, name: name.clone() };
            if let Some(message) = self.object(me, &key) {
                found.push(Missing { field: field.to_owned(), message, target: Target::Object(key) });
            }
        };
        let mut logical: Vec<(String, &'e Name)> = Vec::new();
        match &*me.spec {
            Spec::Port(_) | Spec::Sla(_) => {}
            Spec::Class(c) => {
                object("port", Kind::Port, &c.port);
                c.parent.iter().for_each(|p| object("parent", Kind::Class, p));
                c.sla.iter().for_each(|s| object("sla", Kind::Sla, s));
            }
            Spec::Profile(p) => {
                for (field, action) in [("green", &p.green), ("yellow", &p.yellow), ("red", &p.red)] {
                    if let ColorAction::Class { class, .. } = action {
                        logical.push((format!("{field}.class"), class));
                    }
                }
            }
            Spec::Filter(f) => {
                logical.extend(f.class.iter().map(|c| ("class".to_owned(), c)));
                f.sla.iter().for_each(|s| object("sla", Kind::Sla, s));
                f.profile.iter().for_each(|p| object("profile", Kind::Profile, p));
                f.matches.in_port.iter().for_each(|p| object("match.in_port", Kind::Port, p));
            }
            Spec::Route(r) => r.port.iter().for_each(|p| object("port", Kind::Port, p)),
            Spec::Detector(d) => {
                logical.push(("class".to_owned(), &d.class));
                for (i, p) in d.in_ports.iter().enumerate() {
                    object(&format!("in_ports[{i}]"), Kind::Port, p);
                }
            }
            Spec::Allocation(a) => object("class", Kind::Class, &a.class),
            Spec::AbrPolicy(p) => {
                logical.extend(p.matches.class.iter().map(|c| ("match.class".to_owned(), c)));
                p.matches.sla.iter().for_each(|s| object("match.sla", Kind::Sla, s));
                p.matches.filter.iter().for_each(|f| object("match.filter", Kind::Filter, f));
            }
        }
        found.extend(logical.into_iter().filter_map(|(field, name)| {
            let message = self.no_leaf(name)?;
            Some(Missing { field, message, target: Target::Logical(name) })
        }));
        found
    }

    /// Why `me` may not refer to `key`; `None` when it may.
    fn object(&self, me: &Entry, key: &Key) -> Option<String> {
        match self.draft.find(key) {
            _ if self.broken.contains(key) => None,
            None => Some(format!("there is no {key}")),
            Some(e) if e.owner != me.owner && !e.spec.shared() => {
                Some(format!("{key} belongs to {} and is not shared", e.owner))
            }
            Some(_) => None,
        }
    }

    /// Why no packet can be queued in a class of this logical name; `None` when one can.
    fn no_leaf(&self, name: &Name) -> Option<String> {
        self.known.borrow_mut().entry(name.clone()).or_insert_with(|| self.seek_leaf(name)).clone()
    }

    fn seek_leaf(&self, name: &Name) -> Option<String> {
        let logical = name.as_str();
        if self.draft.has_leaf_called(logical) || self.broken_logical.contains(logical) {
            return None;
        }
        if !self.draft.has_logical(logical) {
            return Some(format!("no class of any port has the logical name {logical:?}"));
        }
        // A class that cannot be read may be the child that is there no longer.
        if self.broken.iter().any(|key| key.kind == Kind::Class) {
            return None;
        }
        let leaves: Vec<String> =
            self.leaves_below(logical).into_iter().map(|leaf| format!("{leaf:?}")).collect();
        let instead = if leaves.is_empty() { String::new() } else { format!(": {}", leaves.join(", ")) };
        Some(format!("class {logical:?} has children, and only leaves queue packets{instead}"))
    }

    /// Logical names of leaves below the classes with a logical name, [`MAX_LISTED`] at most. A circle of parents,
    /// which is an error of its own, has none.
    fn leaves_below(&self, logical: &str) -> BTreeSet<&str> {
        let (mut leaves, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open: Vec<&Name> = self.draft.classes_called(logical).into_iter().map(|(n, ..)| n).collect();
        while let Some(class) = open.pop() {
            if leaves.len() == MAX_LISTED || !seen.insert(class) {
                continue;
            }
            let before = open.len();
            open.extend(self.draft.children(class));
            if let (true, Some(spec)) = (open.len() == before, self.draft.class(class)) {
                leaves.insert(spec.logical_name(class));
            }
        }
        leaves
    }
}
