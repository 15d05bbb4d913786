//! A hierarchical timing wheel over timers that live in the nodes themselves: O(1) to arm, exact to the nanosecond.
//!
//! Six levels of 64 slots; a slot of level 0 is 1,024 ns. Slots that lie behind are expired whole; in the slot of the
//! present each timer is compared with the clock, so nothing fires early or late.

/// No timer.
pub(super) const NIL: u32 = u32::MAX;

const LEVELS: usize = 6;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const TICK_BITS: u32 = 10;
/// Timers further away are put this many ticks ahead and armed again from there.
const HORIZON: u64 = (SLOTS as u64 - 1) << (SLOT_BITS * (LEVELS as u32 - 1));

/// One timer: a member of a slot's list, or idle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    when: u64,
    next: u32,
    prev: u32,
    /// Level · 64 + slot, or [`IDLE`].
    place: u16,
}

const IDLE: u16 = u16::MAX;

impl Default for Timer {
    fn default() -> Self {
        Self { when: 0, next: NIL, prev: NIL, place: IDLE }
    }
}

impl Timer {
    pub(super) fn is_armed(&self) -> bool {
        self.place != IDLE
    }
}

/// Where the wheel finds a timer by its number.
pub(super) trait Timers {
    fn timer(&mut self, id: u32) -> &mut Timer;
}

#[derive(Debug)]
pub(super) struct Wheel {
    /// The present in ticks; every slot before it is empty.
    tick: u64,
    occupied: [u64; LEVELS],
    heads: Box<[[u32; SLOTS]; LEVELS]>,
    /// Earliest timer in the slot of the present, or `u64::MAX`.
    present_min: u64,
    armed: usize,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self {
            tick: 0,
            occupied: [0; LEVELS],
            heads: Box::new([[NIL; SLOTS]; LEVELS]),
            present_min: u64::MAX,
            armed: 0,
        }
    }

    /// Arms `id` to fire at `when` (ns). An armed timer that fires earlier stays as it is: firing early is allowed.
    pub(super) fn arm(&mut self, timers: &mut impl Timers, id: u32, when: u64) {
        let timer = timers.timer(id);
        if timer.is_armed() {
            if timer.when <= when {
                return;
            }
            self.disarm(timers, id);
        }
        timers.timer(id).when = when;
        self.insert(timers, id);
    }

    pub(super) fn disarm(&mut self, timers: &mut impl Timers, id: u32) {
        let Timer { next, prev, place, .. } = *timers.timer(id);
        if place == IDLE {
            return;
        }
        let (level, slot) = (place as usize / SLOTS, place as usize % SLOTS);
        if prev == NIL {
            self.heads[level][slot] = next;
            if next == NIL {
                self.occupied[level] &= !(1 << slot);
            }
        } else {
            timers.timer(prev).next = next;
        }
        if next != NIL {
            timers.timer(next).prev = prev;
        }
        timers.timer(id).place = IDLE;
        self.armed -= 1;
    }

    fn insert(&mut self, timers: &mut impl Timers, id: u32) {
        let timer = timers.timer(id);
        let tick = (timer.when >> TICK_BITS).clamp(self.tick, self.tick.saturating_add(HORIZON));
        let differ = tick ^ self.tick;
        let level = if differ == 0 { 0 } else { (differ.ilog2() / SLOT_BITS) as usize };
        // A carry out of the highest level wraps around in it: the horizon keeps it less than a turn ahead.
        let level = level.min(LEVELS - 1);
        let slot = (tick >> (level as u32 * SLOT_BITS)) as usize % SLOTS;
        let head = self.heads[level][slot];
        timer.next = head;
        timer.prev = NIL;
        timer.place = (level * SLOTS + slot) as u16;
        if tick == self.tick {
            self.present_min = self.present_min.min(timer.when);
        }
        if head != NIL {
            timers.timer(head).prev = id;
        }
        self.heads[level][slot] = id;
        self.occupied[level] |= 1 << slot;
        self.armed += 1;
    }

    /// Takes one timer that is due at `now`; `None` when there is none (the wheel then stands at `now`).
    pub(super) fn pop_due(&mut self, timers: &mut impl Timers, now: u64) -> Option<u32> {
        let target = now >> TICK_BITS;
        loop {
            if self.armed == 0 {
                self.tick = self.tick.max(target);
                self.present_min = u64::MAX;
                return None;
            }
            if self.present_min <= now
                && let Some(id) = self.pop_present(timers, now)
            {
                return Some(id);
            }
            match self.next_slot() {
                Some((level, slot, start)) if start <= target && start > self.tick => {
                    self.tick = start;
                    self.cascade(timers, level, slot);
                }
                _ => {
                    self.enter(target);
                    if self.present_min > now {
                        return None;
                    }
                }
            }
        }
    }

    /// Moves the present to `target`, before which nothing is due.
    fn enter(&mut self, target: u64) {
        if target <= self.tick {
            return;
        }
        self.tick = target;
        self.present_min = u64::MAX;
    }

    /// First timer due in the slot of the present.
    fn pop_present(&mut self, timers: &mut impl Timers, now: u64) -> Option<u32> {
        let mut id = self.heads[0][self.tick as usize % SLOTS];
        let mut min = u64::MAX;
        let mut due = None;
        while id != NIL {
            let timer = timers.timer(id);
            if timer.when <= now {
                if due.is_some() {
                    min = timer.when;
                    break;
                }
                due = Some(id);
            } else {
                min = min.min(timer.when);
            }
            id = timer.next;
        }
        self.present_min = min;
        if let Some(id) = due {
            self.disarm(timers, id);
        }
        due
    }

    /// The occupied slot after the present that comes first: level, slot, first tick.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        for level in 0..LEVELS {
            let shift = level as u32 * SLOT_BITS;
            let here = (self.tick >> shift) as u32 % SLOTS as u32;
            let later = self.occupied[level].rotate_right(here) & !1;
            if later != 0 {
                let ahead = u64::from(later.trailing_zeros());
                let start = ((self.tick >> shift) + ahead) << shift;
                return Some((level, (u64::from(here) + ahead) as usize % SLOTS, start));
            }
        }
        None
    }

    fn cascade(&mut self, timers: &mut impl Timers, level: usize, slot: usize) {
        self.present_min = u64::MAX;
        let mut id = std::mem::replace(&mut self.heads[level][slot], NIL);
        self.occupied[level] &= !(1 << slot);
        while id != NIL {
            let next = timers.timer(id).next;
            self.armed -= 1;
            self.insert(timers, id);
            id = next;
        }
    }

    /// A time at or before which no timer fires but near the first one: never later than the earliest timer.
    pub(super) fn next_due(&self) -> Option<u64> {
        if self.armed == 0 {
            return None;
        }
        if self.present_min != u64::MAX {
            return Some(self.present_min);
        }
        self.next_slot().map(|(_, _, start)| start << TICK_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Timers for Vec<Timer> {
        fn timer(&mut self, id: u32) -> &mut Timer {
            &mut self[id as usize]
        }
    }

    proptest! {
        #[test]
        fn fires_exactly_what_a_sorted_list_would(
            steps in prop::collection::vec((0u32..40, 0u64..400_000_000_000, 0u64..30_000_000_000, any::<bool>(), 0u32..40), 1..120)
        ) {
            let mut timers = vec![Timer::default(); 40];
            let mut wheel = Wheel::new();
            let mut model = vec![None::<u64>; 40];
            let mut now = 0u64;
            for (id, ahead, step, disarm, shift) in steps {
                let when = now + (ahead >> shift);
                wheel.arm(&mut timers, id, when);
                let m = &mut model[id as usize];
                *m = Some(m.map_or(when, |old| old.min(when)));
                if disarm {
                    let other = (id + shift) % 40;
                    wheel.disarm(&mut timers, other);
                    model[other as usize] = None;
                }
                let first = model.iter().flatten().min().copied();
                match (wheel.next_due(), first) {
                    (None, None) => {}
                    (Some(bound), Some(first)) => prop_assert!(bound <= first.max(now), "{} > {}", bound, first),
                    other => prop_assert!(false, "{:?}", other),
                }
                now += step >> (shift / 2);
                let mut fired = Vec::new();
                while let Some(id) = wheel.pop_due(&mut timers, now) {
                    fired.push(id);
                }
                fired.sort_unstable();
                let mut expected = Vec::new();
                for (id, m) in model.iter_mut().enumerate() {
                    if m.is_some_and(|w| w <= now) {
                        *m = None;
                        expected.push(id as u32);
                    }
                }
                prop_assert_eq!(fired, expected);
            }
        }
    }
}
