//! What is known of class objects by their places: the slots they have and had, in all trees of all ports.

use perhop_contract::Draft;
use perhop_elements::schedule::ClassCounters;
use perhop_model::Kind;
use std::collections::BTreeMap;

/// A class object that is gone for good: no slot of any tree holds packets of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its id.
    pub id: u64,
    /// Packets of it that did not leave in time.
    pub dropped: u64,
}

/// One class object's.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Slots that are not free yet.
    slots: usize,
    /// Whether the object was deleted.
    deleted: bool,
    /// Packets dropped since.
    dropped: u64,
    /// What it counted in slots that are free.
    before: ClassCounters,
}

/// By object id.
#[derive(Debug, Default)]
pub(super) struct Places {
    by_id: BTreeMap<u64, Place>,
}

impl Places {
    /// A class has one slot more.
    pub(super) fn taken(&mut self, id: u64) {
        self.by_id.entry(id).or_default().slots += 1;
    }

    /// What a change deletes. O(changes).
    pub(super) fn delete(&mut self, draft: &Draft<'_>) {
        for (_, before, after) in draft.changed(Kind::Class) {
            let Some(before) = before.filter(|b| after.is_none_or(|a| a.id != b.id)) else { continue };
            self.by_id.get_mut(&before.id).expect("a class has a slot until it is deleted").deleted = true;
        }
    }

    /// A slot is free in which its class counted this. Tells when it was the last of a deleted class.
    pub(super) fn freed(&mut self, id: u64, counters: &ClassCounters) -> Option<Gone> {
        let place = self.by_id.get_mut(&id).filter(|place| place.slots > 0);
        let place = place.expect("a slot that is free was taken, and is free once");
        place.slots -= 1;
        place.before = total([place.before, *counters]);
        // What a class lost while it moved from slot to slot is no part of its end.
        place.dropped += if place.deleted { counters.dropped_class_removed } else { 0 };
        let gone = Gone { id, dropped: place.dropped };
        (place.slots == 0 && place.deleted).then(|| {
            self.by_id.remove(&id);
            gone
        })
    }

    /// What a class counted in slots that are free.
    pub(super) fn counted(&self, id: u64) -> ClassCounters {
        self.by_id.get(&id).map_or_else(ClassCounters::default, |place| place.before)
    }
}

/// What a class counted in several slots.
pub fn total(parts: impl IntoIterator<Item = ClassCounters>) -> ClassCounters {
    parts.into_iter().fold(ClassCounters::default(), |a, b| ClassCounters {
        packets: a.packets + b.packets,
        bytes: a.bytes + b.bytes,
        shared: a.shared + b.shared,
        borrowed: a.borrowed + b.borrowed,
        dropped_queue_full: a.dropped_queue_full + b.dropped_queue_full,
        dropped_early: a.dropped_early + b.dropped_early,
        marked: a.marked + b.marked,
        dropped_class_removed: a.dropped_class_removed + b.dropped_class_removed,
        dropped_bytes: a.dropped_bytes + b.dropped_bytes,
        throttled: a.throttled + b.throttled,
        waited_us: a.waited_us + b.waited_us,
    })
}
