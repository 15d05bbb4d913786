//! The event queue: who is to be looked at next.
//!
//! Everything that happens by itself belongs to an [`Entity`] with one deadline. Arming an entity for an earlier time
//! than it is armed for moves its deadline; arming it for a later one changes nothing, because waking early is
//! harmless and the entity then says when it really wants to be woken. So a timer that is put off with every packet
//! costs nothing. Entities due at the same time are woken in the order in which they were armed: the same run, the
//! same order.

use perhop_units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entity(pub u32);

/// Deadlines of all entities. Arming and taking are O(log n) in the number of armed ones.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, u64, Entity)>>,
    armed: Vec<Instant>,
    free: Vec<Entity>,
    order: u64,
    woken: u64,
}

impl Agenda {
    /// A new entity, not armed.
    pub fn add(&mut self) -> Entity {
        if let Some(entity) = self.free.pop() {
            return entity;
        }
        self.armed.push(Instant::FAR_FUTURE);
        Entity(self.armed.len() as u32 - 1)
    }

    /// Forgets an entity; its number is given out again.
    pub fn remove(&mut self, entity: Entity) {
        self.armed[entity.0 as usize] = Instant::FAR_FUTURE;
        self.free.push(entity);
    }

    /// Wakes `entity` at `at` at the latest. [`Instant::FAR_FUTURE`] is never.
    #[inline]
    pub fn arm(&mut self, entity: Entity, at: Instant) {
        let armed = &mut self.armed[entity.0 as usize];
        if at < *armed {
            *armed = at;
            self.order += 1;
            self.heap.push(Reverse((at, self.order, entity)));
        }
    }

    /// The next entity due at `until` or before, with its time; it is no longer armed.
    #[inline]
    pub fn take(&mut self, until: Instant) -> Option<(Instant, Entity)> {
        while let Some(Reverse((at, _, entity))) = self.heap.peek().copied() {
            if at > until {
                return None;
            }
            self.heap.pop();
            let armed = &mut self.armed[entity.0 as usize];
            // An entry that was moved to an earlier time, or whose entity is gone, is stale.
            if *armed == at {
                *armed = Instant::FAR_FUTURE;
                self.woken += 1;
                return Some((at, entity));
            }
        }
        None
    }

    /// Entities woken so far: the simulator's events.
    pub fn woken(&self) -> u64 {
        self.woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_is_woken_once_at_its_earliest_time() {
        let mut agenda = Agenda::default();
        let (a, b) = (agenda.add(), agenda.add());
        agenda.arm(a, Instant(30));
        agenda.arm(b, Instant(20));
        agenda.arm(a, Instant(10));
        agenda.arm(a, Instant(40));
        assert_eq!(agenda.take(Instant(100)), Some((Instant(10), a)));
        assert_eq!(agenda.take(Instant(100)), Some((Instant(20), b)));
        assert_eq!(agenda.take(Instant(100)), None, "the later times of a were given up");
        assert_eq!(agenda.woken(), 2);
    }

    #[test]
    fn equal_times_keep_the_order_of_arming() {
        let mut agenda = Agenda::default();
        let entities: Vec<Entity> = (0..50).map(|_| agenda.add()).collect();
        for entity in entities.iter().rev() {
            agenda.arm(*entity, Instant(7));
        }
        for entity in entities.iter().rev() {
            assert_eq!(agenda.take(Instant(7)), Some((Instant(7), *entity)));
        }
    }

    #[test]
    fn a_removed_entity_is_not_woken_even_when_its_number_is_used_again() {
        let mut agenda = Agenda::default();
        let old = agenda.add();
        agenda.arm(old, Instant(5));
        agenda.remove(old);
        let new = agenda.add();
        assert_eq!(new, old);
        agenda.arm(new, Instant(9));
        assert_eq!(agenda.take(Instant(100)), Some((Instant(9), new)));
    }
}
