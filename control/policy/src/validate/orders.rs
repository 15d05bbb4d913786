//! Filters that can never match, as one before them has the same condition.

use crate::model::{ClassFilter, ProfileFilter};
use perhop_model::{FilterMatch, Name};
use std::collections::{BTreeMap, HashMap};

/// Filters of classes that are hidden, and by which; those for other routers hide nothing.
pub(super) fn hidden(filters: &BTreeMap<Name, ClassFilter>) -> Vec<(Name, Name)> {
    let mut order: Vec<(&Name, &ClassFilter)> = filters.iter().collect();
    order.sort_by_key(|(name, filter)| (filter.tier, filter.priority, *name));
    let mut before: HashMap<&FilterMatch, Vec<(&Name, &ClassFilter)>> = HashMap::new();
    let mut hidden = Vec::new();
    for (name, filter) in order {
        let same = before.entry(&filter.matches).or_default();
        let covers = |other: &ClassFilter| {
            other.routers.is_empty()
                || !filter.routers.is_empty()
                    && filter.routers.iter().all(|router| other.routers.contains(router))
        };
        match same.iter().find(|(_, other)| covers(other)) {
            Some((other, _)) => hidden.push((name.clone(), (*other).clone())),
            None => same.push((name, filter)),
        }
    }
    hidden
}

/// The same of a profile's.
pub(super) fn hidden_in(filters: &BTreeMap<Name, ProfileFilter>) -> Vec<(Name, Name)> {
    let mut order: Vec<(&Name, &ProfileFilter)> = filters.iter().collect();
    order.sort_by_key(|(name, filter)| (filter.priority, *name));
    let mut before: HashMap<&FilterMatch, &Name> = HashMap::new();
    let mut hidden = Vec::new();
    for (name, filter) in order {
        match before.get(&filter.matches) {
            Some(other) => hidden.push((name.clone(), (*other).clone())),
            None => drop(before.insert(&filter.matches, name)),
        }
    }
    hidden
}
