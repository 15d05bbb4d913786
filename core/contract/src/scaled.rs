//! Allocations that a change leaves less than they came to before: their owners are told.

use super::store::Draft;
use super::validate::{Trees, reshaped_ports};
use perhop_model::{AllocationSpec, EventKind, Key, Kind, Name, ScaledAllocation, Spec};
use perhop_units::Rate;

/// Allocations that one event names; it says how many there are.
const NAMED: usize = 100;

/// Events about the allocations of `after`, which is `revision`, that come to less than in `before` and than they were made
/// for. Only a port or a class takes something from an allocation: a change of nothing but allocations costs nothing here, any
/// other O(classes of the ports concerned).
pub(super) fn events(before: &Draft<'_>, after: &Draft<'_>, revision: u64) -> Vec<EventKind> {
    if after.count(Kind::Allocation) == 0 {
        return Vec::new();
    }
    let (was, is) = (Trees::new(before), Trees::new(after));
    let mut events = Vec::new();
    for port in reshaped_ports(after) {
        let mut less = false;
        let mut allocations = Vec::new();
        let mut total = 0;
        for (class, _, _) in after.classes_on(port) {
            let Some((key, allocation)) = after.allocations_of(class).first().copied() else { continue };
            let Some(made) = allocation.guarantee else { continue };
            let has = is.guarantee(class, 0);
            if has >= made {
                continue;
            }
            total += 1;
            less |= has < had(before, &was, class, key, allocation);
            if allocations.len() < NAMED
                && let Some(entry) = after.find(key)
            {
                let (name, owner) = (key.name.clone(), entry.owner.clone());
                allocations.push(ScaledAllocation { name, owner, class: class.clone(), made, has });
            }
        }
        if less {
            events.push(EventKind::AllocationScaled { port: port.to_string(), revision, allocations, total });
        }
    }
    events
}

/// What an allocation came to; one that was not there before, what it is made for.
fn had(before: &Draft<'_>, was: &Trees<'_>, class: &Name, key: &Key, allocation: &AllocationSpec) -> Rate {
    let was_there = before.class(class).is_some()
        && before.find(key).is_some_and(|e| matches!(&*e.spec, Spec::Allocation(a) if a.class == *class));
    if was_there { was.guarantee(class, 0) } else { allocation.guarantee.unwrap_or_default() }
}
