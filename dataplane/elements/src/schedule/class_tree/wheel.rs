//! A hierarchical timing wheel whose entries lie in arrays of their own: O(1) to arm, exact to the nanosecond.
//!
//! Four levels of 256 slots; a slot of level 0 is 1,024 ns. Slots that lie behind are expired whole; in the slot of the
//! present each entry is compared with the clock, so nothing fires early or late. A slot is a chain of blocks of five
//! entries, one cache line each. Moving entries to lower levels and finding those that are due touches no class: what
//! is due is known in a row, and the classes can be brought near before each is looked at.
//!
//! A timer has two entries at the most: one for the time it is armed for, and one that an earlier time has overtaken and
//! that is passed over when it comes. So memory for two entries a timer always suffices.

use perhop_packet::prefetch;

/// No block, no class.
pub(super) const NIL: u32 = u32::MAX;
/// No time.
const NEVER: u64 = u64::MAX;

const LEVELS: usize = 4;
const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
const WORDS: usize = SLOTS / 64;
const TICK_BITS: u32 = 10;
/// Timers further away are put this many ticks ahead and armed again from there.
const HORIZON: u64 = (SLOTS as u64 - 1) << (SLOT_BITS * (LEVELS as u32 - 1));
/// Entries of a block.
const ENTRIES: usize = 5;

/// What a class knows of one of its timers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    /// When it fires, or [`NEVER`].
    when: u64,
    /// Time of an entry that no longer counts, or [`NEVER`].
    overtaken: u64,
}

impl Default for Timer {
    fn default() -> Self {
        Self { when: NEVER, overtaken: NEVER }
    }
}

impl Timer {
    /// Whether the entry for `when`, which has come, counts. It is gone either way.
    #[inline]
    pub(super) fn fires(&mut self, when: u64) -> bool {
        if self.when == when {
            self.when = NEVER;
            return true;
        }
        self.overtaken = NEVER;
        false
    }
}

/// An entry that is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    /// Number of the timer.
    pub id: u32,
    /// The entry's time, for [`Timer::fires`].
    pub when: u64,
}

/// One cache line of a slot. All blocks of a slot but the first are full.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Block {
    when: [u64; ENTRIES],
    id: [u32; ENTRIES],
    next: u32,
}

impl Block {
    const EMPTY: Self = Self { when: [NEVER; ENTRIES], id: [0; ENTRIES], next: NIL };
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    /// Entries in the first block.
    len: u32,
}

impl Slot {
    const EMPTY: Self = Self { head: NIL, len: 0 };
}

/// Blocks allocated at a time.
const PART_BITS: u32 = 8;
const PART: usize = 1 << PART_BITS;

/// Memory for entries, allocated outside the packet thread.
#[derive(Debug)]
pub(super) struct Part(Box<[Block; PART]>);

impl Part {
    /// Timers a part is enough for, beside the parts every wheel begins with.
    pub(super) const TIMERS: usize = PART * ENTRIES / 2;
    /// Its memory.
    pub(super) const BYTES: usize = PART * size_of::<Block>();

    pub(super) fn new() -> Self {
        let blocks: Box<[Block]> = vec![Block::EMPTY; PART].into();
        Self(blocks.try_into().expect("it has that length"))
    }
}

/// Parts a wheel begins with: a slot that is not empty may have a block that is not full.
const FIRST_PARTS: usize = (LEVELS * SLOTS).div_ceil(PART) + 1;

#[derive(Debug)]
pub(super) struct Wheel {
    /// The present in ticks; every slot before it is empty.
    tick: u64,
    /// Earliest entry in the slot of the present, or [`NEVER`].
    present_min: u64,
    entries: usize,
    /// First free block.
    free: u32,
    occupied: [[u64; WORDS]; LEVELS],
    slots: Box<[[Slot; SLOTS]; LEVELS]>,
    parts: Vec<Part>,
}

impl Wheel {
    /// A wheel for [`Part::TIMERS`] timers that can grow to `timers` without moving anything.
    pub(super) fn new(timers: usize) -> Self {
        let mut wheel = Self {
            tick: 0,
            present_min: NEVER,
            entries: 0,
            free: NIL,
            occupied: [[0; WORDS]; LEVELS],
            slots: Box::new([[Slot::EMPTY; SLOTS]; LEVELS]),
            parts: Vec::with_capacity(FIRST_PARTS + timers.div_ceil(Part::TIMERS)),
        };
        for _ in 0..FIRST_PARTS {
            wheel.add(Part::new());
        }
        wheel
    }

    /// Adds memory for [`Part::TIMERS`] timers more.
    pub(super) fn add(&mut self, mut part: Part) {
        let first = (self.parts.len() * PART) as u32;
        for (n, block) in part.0.iter_mut().enumerate() {
            block.next = if n + 1 < PART { first + n as u32 + 1 } else { self.free };
        }
        self.free = first;
        self.parts.push(part);
    }

    /// Arms the timer `id`, whose state is `timer`, to fire at `when` (ns). An armed timer that fires earlier stays as it
    /// is: firing early is allowed.
    #[inline]
    pub(super) fn arm(&mut self, timer: &mut Timer, id: u32, when: u64) {
        if timer.when <= when {
            return;
        }
        if timer.when == NEVER && timer.overtaken <= when {
            // Its entry is there already.
            timer.when = std::mem::replace(&mut timer.overtaken, NEVER);
            return;
        }
        if timer.when != NEVER {
            if timer.overtaken != NEVER {
                self.remove(id, timer.overtaken);
            }
            timer.overtaken = timer.when;
        }
        timer.when = when;
        self.insert(id, when);
    }

    #[inline]
    fn block(&mut self, n: u32) -> &mut Block {
        &mut self.parts[(n >> PART_BITS) as usize].0[n as usize % PART]
    }

    /// Level and slot for a time.
    #[inline]
    fn place(&self, when: u64) -> (usize, usize, u64) {
        let tick = (when >> TICK_BITS).clamp(self.tick, self.tick.saturating_add(HORIZON));
        let differ = tick ^ self.tick;
        let level = if differ == 0 { 0 } else { (differ.ilog2() / SLOT_BITS) as usize };
        // A carry out of the highest level wraps around in it: the horizon keeps it less than a turn ahead.
        let level = level.min(LEVELS - 1);
        (level, (tick >> (level as u32 * SLOT_BITS)) as usize % SLOTS, tick)
    }

    #[inline]
    fn insert(&mut self, id: u32, when: u64) {
        let (level, slot, tick) = self.place(when);
        if tick == self.tick {
            self.present_min = self.present_min.min(when);
        }
        self.put(level, slot, id, when);
    }

    #[inline]
    fn put(&mut self, level: usize, slot: usize, id: u32, when: u64) {
        let mut place = self.slots[level][slot];
        if place.head == NIL || place.len as usize == ENTRIES {
            let fresh = self.free;
            debug_assert!(fresh != NIL, "two entries a timer always fit");
            let block = self.block(fresh);
            let next = std::mem::replace(&mut block.next, place.head);
            self.free = next;
            place = Slot { head: fresh, len: 0 };
            self.occupied[level][slot / 64] |= 1 << (slot % 64);
        }
        let block = self.block(place.head);
        block.when[place.len as usize] = when;
        block.id[place.len as usize] = id;
        self.slots[level][slot] = Slot { len: place.len + 1, ..place };
        self.entries += 1;
    }

    /// Takes the first block of a chain: its content and the number of the next.
    #[inline]
    fn take_block(&mut self, n: u32) -> (Block, u32) {
        let free = self.free;
        let block = self.block(n);
        let content = *block;
        block.next = free;
        self.free = n;
        (content, content.next)
    }

    /// Empties a slot and gives its chain.
    #[inline]
    fn detach(&mut self, level: usize, slot: usize) -> Slot {
        self.occupied[level][slot / 64] &= !(1 << (slot % 64));
        std::mem::replace(&mut self.slots[level][slot], Slot::EMPTY)
    }

    /// Removes the entry of `id` for `when`. O(entries of its slot); seldom needed.
    #[cold]
    fn remove(&mut self, id: u32, when: u64) {
        let tick = (when >> TICK_BITS).max(self.tick);
        // It has come down some levels since it was put in, or its time lay beyond the horizon.
        for level in 0..LEVELS {
            let slot = (tick >> (level as u32 * SLOT_BITS)) as usize % SLOTS;
            if self.remove_from(level, slot, id, when) {
                return;
            }
        }
        for slot in 0..SLOTS {
            if self.remove_from(LEVELS - 1, slot, id, when) {
                return;
            }
        }
        debug_assert!(false, "an overtaken entry is in the wheel");
    }

    fn remove_from(&mut self, level: usize, slot: usize, id: u32, when: u64) -> bool {
        let place = self.slots[level][slot];
        let (mut at, mut len) = (place.head, place.len as usize);
        while at != NIL {
            let block = *self.block(at);
            if let Some(n) = (0..len).find(|n| block.id[*n] == id && block.when[*n] == when) {
                // The last entry of the first block takes its place.
                let last = place.len as usize - 1;
                let head = *self.block(place.head);
                let here = self.block(at);
                here.when[n] = head.when[last];
                here.id[n] = head.id[last];
                self.entries -= 1;
                if last > 0 {
                    self.slots[level][slot].len -= 1;
                    return true;
                }
                let (_, next) = self.take_block(place.head);
                if next == NIL {
                    self.detach(level, slot);
                } else {
                    self.slots[level][slot] = Slot { head: next, len: ENTRIES as u32 };
                }
                return true;
            }
            (at, len) = (block.next, ENTRIES);
        }
        false
    }

    /// Puts entries that are due at `now` into `due`, as many as it holds, and gives how many. None: there is none, and
    /// the wheel stands at `now`.
    pub(super) fn take_due(&mut self, now: u64, due: &mut [Due]) -> usize {
        let target = now >> TICK_BITS;
        let mut taken = 0;
        loop {
            if self.entries == 0 {
                self.tick = self.tick.max(target);
                self.present_min = NEVER;
                return taken;
            }
            if self.present_min <= now {
                taken += self.take_present(now, &mut due[taken..]);
                if taken == due.len() {
                    return taken;
                }
            }
            match self.next_slot() {
                Some((level, slot, start)) if start <= target && start > self.tick => {
                    self.tick = start;
                    if level == 0 {
                        self.present_min = 0;
                    } else {
                        self.cascade(level, slot);
                    }
                }
                _ => {
                    self.enter(target);
                    if self.present_min > now {
                        return taken;
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
        self.present_min = NEVER;
    }

    /// Takes what is due in the slot of the present, until `due` is full.
    fn take_present(&mut self, now: u64, due: &mut [Due]) -> usize {
        let slot = self.tick as usize % SLOTS;
        let Slot { mut head, len } = self.detach(0, slot);
        let (mut taken, mut min, mut len) = (0, NEVER, len as usize);
        while head != NIL && taken < due.len() {
            let (block, next) = self.take_block(head);
            if next != NIL {
                prefetch(self.block(next));
            }
            for (when, id) in block.when.into_iter().zip(block.id).take(len) {
                self.entries -= 1;
                if when <= now && taken < due.len() {
                    due[taken] = Due { id, when };
                    taken += 1;
                } else {
                    min = min.min(when);
                    self.put(0, slot, id, when);
                }
            }
            (head, len) = (next, ENTRIES);
        }
        if head != NIL {
            // Those not looked at follow those that stay; what comes next looks at them.
            min = 0;
            self.append(slot, head);
        }
        self.present_min = min;
        taken
    }

    /// Puts the full blocks from `chain` on behind those of a slot of level 0.
    fn append(&mut self, slot: usize, chain: u32) {
        let mut last = self.slots[0][slot].head;
        if last == NIL {
            self.slots[0][slot] = Slot { head: chain, len: ENTRIES as u32 };
            self.occupied[0][slot / 64] |= 1 << (slot % 64);
            return;
        }
        while self.block(last).next != NIL {
            last = self.block(last).next;
        }
        self.block(last).next = chain;
    }

    /// The occupied slot after the present that comes first: level, slot, first tick.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        for level in 0..LEVELS {
            let shift = level as u32 * SLOT_BITS;
            let here = (self.tick >> shift) as usize % SLOTS;
            if let Some(ahead) = next_bit(&self.occupied[level], here) {
                let start = ((self.tick >> shift) + ahead as u64) << shift;
                return Some((level, (here + ahead) % SLOTS, start));
            }
        }
        None
    }

    fn cascade(&mut self, level: usize, slot: usize) {
        self.present_min = NEVER;
        let Slot { mut head, len } = self.detach(level, slot);
        let mut len = len as usize;
        while head != NIL {
            let (block, next) = self.take_block(head);
            if next != NIL {
                prefetch(self.block(next));
            }
            for (when, id) in block.when.into_iter().zip(block.id).take(len) {
                self.entries -= 1;
                self.insert(id, when);
            }
            (head, len) = (next, ENTRIES);
        }
    }

    /// A time at or before which no timer fires but near the first one: never later than the earliest timer.
    pub(super) fn next_due(&self) -> Option<u64> {
        if self.entries == 0 {
            return None;
        }
        if self.present_min != NEVER {
            return Some(self.present_min);
        }
        self.next_slot().map(|(_, _, start)| start << TICK_BITS)
    }
}

/// How far behind `here`, going around, the next bit is that is set; `here` itself does not count.
#[inline]
fn next_bit(words: &[u64; WORDS], here: usize) -> Option<usize> {
    let (word, bit) = (here / 64, here % 64);
    let above = words[word] & (!1u64 << bit);
    if above != 0 {
        return Some(above.trailing_zeros() as usize - bit);
    }
    for n in 1..WORDS {
        let at = (word + n) % WORDS;
        if words[at] != 0 {
            return Some(n * 64 - bit + words[at].trailing_zeros() as usize);
        }
    }
    let below = words[word] & !(!0u64 << bit);
    (below != 0).then(|| SLOTS - bit + below.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes what is due, as a tree does.
    fn fire(wheel: &mut Wheel, timers: &mut [Timer], now: u64, at_once: usize) -> Vec<u32> {
        let mut due = vec![Due::default(); at_once];
        let mut fired = Vec::new();
        loop {
            let count = wheel.take_due(now, &mut due);
            if count == 0 {
                return fired;
            }
            fired.extend(due[..count].iter().filter(|d| timers[d.id as usize].fires(d.when)).map(|d| d.id));
        }
    }

    proptest! {
        /// A timer fires at the first of the times it was armed for since it last fired; armed again for a time behind
        /// one that had been overtaken, it fires at that one.
        #[test]
        fn fires_exactly_what_a_sorted_list_would(
            steps in prop::collection::vec((0u32..40, 0u64..400_000_000_000, 0u64..30_000_000_000, 0u32..40), 1..200),
            at_once in 1usize..9,
        ) {
            let mut timers = vec![Timer::default(); 40];
            let mut wheel = Wheel::new(40);
            let mut model = vec![(None::<u64>, None::<u64>); 40];
            let mut now = 0u64;
            for (id, ahead, step, shift) in steps {
                let when = now + (ahead >> shift);
                wheel.arm(&mut timers[id as usize], id, when);
                let (armed, overtaken) = &mut model[id as usize];
                match *armed {
                    Some(old) if old <= when => {}
                    Some(old) => (*armed, *overtaken) = (Some(when), Some(old)),
                    None if overtaken.is_some_and(|old| old <= when) => *armed = overtaken.take(),
                    None => *armed = Some(when),
                }
                let first = model.iter().flat_map(|m| [m.0, m.1]).flatten().min();
                match (wheel.next_due(), first) {
                    (None, None) => {}
                    (Some(bound), Some(first)) => prop_assert!(bound <= first.max(now), "{} > {}", bound, first),
                    other => prop_assert!(false, "{:?}", other),
                }
                now += step >> (shift / 2);
                let mut fired = fire(&mut wheel, &mut timers, now, at_once);
                fired.sort_unstable();
                let mut expected = Vec::new();
                for (id, (armed, overtaken)) in model.iter_mut().enumerate() {
                    if armed.is_some_and(|when| when <= now) {
                        *armed = None;
                        expected.push(id as u32);
                    }
                    if overtaken.is_some_and(|when| when <= now) {
                        *overtaken = None;
                    }
                }
                prop_assert_eq!(fired, expected);
                let there: usize = model.iter().map(|m| usize::from(m.0.is_some()) + usize::from(m.1.is_some())).sum();
                prop_assert_eq!(wheel.entries, there);
            }
        }
    }

    #[test]
    fn two_entries_of_every_timer_fit_wherever_they_lie() {
        let timers = 3 * Part::TIMERS;
        let mut wheel = Wheel::new(timers);
        for _ in 0..2 {
            wheel.add(Part::new());
        }
        let mut states = vec![Timer::default(); timers];
        for step in 0..3u64 {
            for (id, timer) in states.iter_mut().enumerate() {
                // Over all levels, later ones first.
                let when = (1u64 << (40 - 3 * step)) / (1 + id as u64 % 97) + (id as u64 * 7919) % 100_000;
                wheel.arm(timer, id as u32, when);
            }
        }
        let fired = fire(&mut wheel, &mut states, 1 << 41, 64);
        assert_eq!((fired.len(), wheel.entries), (timers, 0));
    }
}
