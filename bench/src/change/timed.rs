//! What is counted while packets are forwarded and the router is changed.

use perhop_packet::{ClassId, Meta};

/// What a timed part of a turn came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timed {
    pub packets: u64,
    /// Processor time of the thread, ns.
    pub ns: u64,
    /// Time of the wall, ns.
    pub wall_ns: u64,
    pub allocations: u64,
    /// Changes that came into force.
    pub changes: u64,
    pub stops: Stops,
    pub verdicts: Verdicts,
}

impl Timed {
    pub fn ns_each(&self) -> f64 {
        self.ns as f64 / self.packets.max(1) as f64
    }

    pub fn wall_ns_each(&self) -> f64 {
        self.wall_ns as f64 / self.packets.max(1) as f64
    }
}

/// Times between two batches when the thread did work of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    pub count: u64,
    /// Of processor time, ns.
    pub ns: u64,
    pub longest_ns: u64,
    /// By the wall, ns: with what others took of the processor meanwhile.
    pub longest_wall_ns: u64,
}

impl Stops {
    pub fn note(&mut self, ns: u64, wall_ns: u64) {
        self.count += 1;
        self.ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
        self.longest_wall_ns = self.longest_wall_ns.max(wall_ns);
    }
}

/// What became of verdicts kept with flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Older than a change, and still in force.
    pub revalidated: u64,
    /// Made anew.
    pub classified: u64,
    /// Connections made.
    pub created: u64,
}

impl Verdicts {
    pub fn since(self, before: Self) -> Self {
        Self {
            revalidated: self.revalidated - before.revalidated,
            classified: self.classified - before.classified,
            created: self.created - before.created,
        }
    }
}

/// Looks at what leaves: everything in the order in which it came, by the class it has to have.
#[derive(Debug, Default)]
pub struct Watchman {
    /// Last number, of recognised calls and of the rest: those may overtake these.
    last: [u64; 2],
    class: Option<ClassId>,
    pub disordered: u64,
    pub misplaced: u64,
}

impl Watchman {
    #[inline]
    pub fn look(&mut self, meta: &Meta, number: u64) {
        let last = &mut self.last[usize::from(meta.realtime)];
        self.disordered += u64::from(number <= *last);
        *last = number;
        let wanted = *self.class.get_or_insert(meta.class);
        self.misplaced += u64::from(meta.class != wanted && !meta.realtime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_behind_a_later_packet_or_with_another_class_is_seen() {
        let meta = |class, realtime| Meta { class: ClassId(class), realtime, ..Meta::default() };
        let mut watchman = Watchman::default();
        for (number, class, realtime) in [(1, 7, false), (3, 2, true), (2, 7, false), (4, 7, false)] {
            watchman.look(&meta(class, realtime), number);
        }
        assert_eq!((watchman.disordered, watchman.misplaced), (0, 0), "a call may overtake");
        watchman.look(&meta(7, false), 4);
        assert_eq!((watchman.disordered, watchman.misplaced), (1, 0));
        watchman.look(&meta(2, false), 5);
        assert_eq!((watchman.disordered, watchman.misplaced), (1, 1));
    }

    #[test]
    fn stops_have_a_sum_and_a_longest() {
        let mut stops = Stops::default();
        for (ns, wall_ns) in [(10, 12), (30, 31), (20, 900)] {
            stops.note(ns, wall_ns);
        }
        assert_eq!(stops, Stops { count: 3, ns: 60, longest_ns: 30, longest_wall_ns: 900 });
    }
}
