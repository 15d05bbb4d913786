//! What differs between two policies, and between what two policies want of routers.

use crate::compile::{Present, Wanted, objects};
use crate::model::Policy;
use crate::validate::Section;
use perhop_model::{Key, Name, Spec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An object of a policy as it is kept: JSON, the same octets for the same object.
pub type Rows = BTreeMap<RowKey, String>;

/// The key of a row.
pub type RowKey = (Section, Name);

/// The key of a row by its kind's name ([`Section::name`]) and its own; `None` if no row has it.
pub fn row_key(section: &str, name: &str) -> Option<RowKey> {
    let all = [
        Section::Router,
        Section::Class,
        Section::Filter,
        Section::Profile,
        Section::Sla,
        Section::Subscriber,
    ];
    let section = all.into_iter().find(|one| one.name() == section)?;
    Some((section, Name::new(name).ok()?))
}

/// An object that is new, changed or gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowChange {
    /// Kind.
    pub section: Section,
    /// Name.
    pub name: Name,
    /// What it is from now on: JSON; none = it is gone.
    pub spec: Option<String>,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Its path in JSON, `meter.cir`; empty where the whole object is new or gone.
    pub path: String,
    /// As it was; null = it was not there.
    pub before: Value,
    /// As it is; null = it is not there.
    pub after: Value,
}

/// An object of a router that is new, changed or gone.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange {
    /// The router.
    pub router: Name,
    /// Which object.
    pub key: Key,
    /// What it is from now on; none = it is gone.
    pub spec: Option<Spec>,
}

/// A row is not one of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what is kept of {} \"{name}\" cannot be read", section.name())]
pub struct RowError {
    /// Kind.
    pub section: Section,
    /// Name.
    pub name: Name,
}

/// A policy as rows.
pub fn rows(policy: &Policy) -> Rows {
    fn each<T: Serialize>(out: &mut Rows, section: Section, all: &BTreeMap<Name, T>) {
        let row = |(name, object): (&Name, &T)| {
            let spec = serde_json::to_string(object);
            debug_assert!(spec.is_ok(), "objects have only maps by name");
            Some(((section, name.clone()), spec.ok()?))
        };
        out.extend(all.iter().filter_map(row));
    }
    let mut out = Rows::new();
    each(&mut out, Section::Router, &policy.routers);
    each(&mut out, Section::Class, &policy.classes);
    each(&mut out, Section::Filter, &policy.filters);
    each(&mut out, Section::Profile, &policy.profiles);
    each(&mut out, Section::Sla, &policy.slas);
    each(&mut out, Section::Subscriber, &policy.subscribers);
    out
}

/// The policy of rows.
///
/// # Errors
/// The first row that is none, or of a kind that is kept inside another.
pub fn assemble(rows: &Rows) -> Result<Policy, RowError> {
    let mut policy = Policy::default();
    for ((section, name), spec) in rows {
        let taken = match section {
            Section::Router => take(&mut policy.routers, name, spec),
            Section::Class => take(&mut policy.classes, name, spec),
            Section::Filter => take(&mut policy.filters, name, spec),
            Section::Profile => take(&mut policy.profiles, name, spec),
            Section::Sla => take(&mut policy.slas, name, spec),
            Section::Subscriber => take(&mut policy.subscribers, name, spec),
            Section::Port | Section::ProfileFilter => None,
        };
        taken.ok_or_else(|| RowError { section: *section, name: name.clone() })?;
    }
    Ok(policy)
}

fn take<T: for<'d> Deserialize<'d>>(all: &mut BTreeMap<Name, T>, name: &Name, spec: &str) -> Option<()> {
    all.insert(name.clone(), serde_json::from_str(spec).ok()?);
    Some(())
}

/// What must be done to the rows of one policy so that they are another's, in order of kind and name.
pub fn row_changes(before: &Policy, after: &Policy) -> Vec<RowChange> {
    let (before, after) = (rows(before), rows(after));
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differing = keys.into_iter().filter(|key| before.get(key) != after.get(key));
    let change = |key: &(Section, Name)| RowChange {
        section: key.0,
        name: key.1.clone(),
        spec: after.get(key).cloned(),
    };
    differing.map(change).collect()
}

/// Which fields of which objects differ, to be shown to a person.
pub fn field_changes(before: &Policy, after: &Policy) -> Vec<(RowChange, Vec<FieldChange>)> {
    let kept = rows(before);
    let fields = |change: RowChange| {
        let value = |text: Option<&String>| {
            text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
        };
        let mut out = Vec::new();
        let before = value(kept.get(&(change.section, change.name.clone())));
        compare(String::new(), &before, &value(change.spec.as_ref()), &mut out);
        (change, out)
    };
    row_changes(before, after).into_iter().map(fields).collect()
}

fn compare(path: String, before: &Value, after: &Value, out: &mut Vec<FieldChange>) {
    if let (Value::Object(before), Value::Object(after)) = (before, after) {
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let (before, after) = (before.get(key), after.get(key));
            compare(path, before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null), out);
        }
    } else if before != after {
        out.push(FieldChange { path, before: before.clone(), after: after.clone() });
    }
}

/// What must be done to the objects of routers when one policy takes the place of another, with those who are present in each.
/// O(objects of all routers of both).
pub fn object_changes(
    (before, was): (&Policy, &BTreeMap<Name, BTreeMap<Name, Present>>),
    (after, is): (&Policy, &BTreeMap<Name, BTreeMap<Name, Present>>),
) -> Vec<ObjectChange> {
    let routers: BTreeSet<&Name> =
        before.routers.keys().chain(after.routers.keys()).chain(was.keys()).chain(is.keys()).collect();
    let mut out = Vec::new();
    for router in routers {
        let wanted = |policy, present: &BTreeMap<Name, BTreeMap<Name, Present>>| {
            objects(policy, router, present.get(router).into_iter().flatten())
        };
        let change = |(key, spec)| ObjectChange { router: router.clone(), key, spec };
        out.extend(between(&wanted(before, was), &wanted(after, is)).into_iter().map(change));
    }
    out
}

/// What must be done to one set of objects so that it is another: those that are to be, and those that are not to be any more.
pub fn between(before: &Wanted, after: &Wanted) -> Vec<(Key, Option<Spec>)> {
    let gone = before.keys().filter(|key| !after.contains_key(key)).map(|key| (key.clone(), None));
    let differing = after.iter().filter(|(key, spec)| before.get(key) != Some(spec));
    gone.chain(differing.map(|(key, spec)| (key.clone(), Some(spec.clone())))).collect()
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
