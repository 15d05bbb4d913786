//! Which ports' trees a change concerns.

use super::plan::changed;
use crate::control::Draft;
use perhop_model::{Key, Kind, Name, Spec};
use std::collections::BTreeSet;

/// Ports that change themselves, or whose classes or allocations do. A tree and its table of leaves depend on nothing
/// else: ids of contracts and logical classes stay as long as something refers to them. O(changes · log n).
pub(super) fn touched_ports<'d>(draft: &'d Draft<'_>) -> BTreeSet<&'d Name> {
    let mut ports: BTreeSet<&Name> = changed(draft, Kind::Port).map(|(key, _, _)| &key.name).collect();
    for (_, before, after) in changed(draft, Kind::Class) {
        for entry in [before, after].into_iter().flatten() {
            if let Spec::Class(c) = &*entry.spec {
                ports.insert(&c.port);
            }
        }
    }
    for (_, before, after) in changed(draft, Kind::Allocation) {
        for entry in [before, after].into_iter().flatten() {
            let Spec::Allocation(a) = &*entry.spec else { continue };
            let class = Key { kind: Kind::Class, name: a.class.clone() };
            if let Some(Spec::Class(c)) = draft.find(&class).map(|e| &*e.spec) {
                ports.insert(&c.port);
            }
        }
    }
    ports
}
