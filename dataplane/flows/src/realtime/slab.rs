//! Bounded memory for flows that are not recognised yet.

use super::rtp::Candidates;

/// One flow: 128 bytes.
#[derive(Clone, Copy, Debug)]
struct Slot {
    candidates: Candidates,
    /// Twice the connection plus the half; `u32::MAX` = free.
    owner: u32,
    used_ms: u32,
}

const FREE: u32 = u32::MAX;
/// Slots looked at when one must be given up.
const SAMPLE: usize = 8;

/// Recognised flows need no slot, so what is evicted is always an unrecognised flow: the least recently seen of the
/// next few. Owners check that their slot is still theirs.
#[derive(Debug)]
pub(crate) struct UndecidedSlab {
    slots: Vec<Slot>,
    free: Vec<u32>,
    capacity: usize,
    hand: usize,
    pub evicted: u64,
}

impl UndecidedSlab {
    /// At most `capacity` flows (at least 8); memory is reserved now and touched as it fills.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(SAMPLE);
        Self {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            capacity,
            hand: 0,
            evicted: 0,
        }
    }

    /// Flows inside.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The state of `owner`, at `slot` if it is still there, else fresh in a slot that is noted in `slot`.
    pub fn of(&mut self, slot: &mut u32, owner: u32, now_ms: u32) -> &mut Candidates {
        let mine = self.slots.get(*slot as usize).is_some_and(|s| s.owner == owner);
        if !mine {
            *slot = self.make(owner, now_ms);
        }
        let state = &mut self.slots[*slot as usize];
        state.used_ms = now_ms;
        &mut state.candidates
    }

    /// Whether `owner` has state at `slot`.
    #[cfg(test)]
    pub fn has(&self, slot: u32, owner: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|s| s.owner == owner)
    }

    /// Forgets the state of `owner` at `slot`, if it is still there.
    pub fn forget(&mut self, slot: u32, owner: u32) {
        if let Some(s) = self.slots.get_mut(slot as usize).filter(|s| s.owner == owner) {
            s.owner = FREE;
            self.free.push(slot);
        }
    }

    fn make(&mut self, owner: u32, now_ms: u32) -> u32 {
        let fresh = Slot { candidates: Candidates::default(), owner, used_ms: now_ms };
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = fresh;
            return slot;
        }
        if self.slots.len() < self.capacity {
            self.slots.push(fresh);
            return (self.slots.len() - 1) as u32;
        }
        let len = self.slots.len();
        let sample = (0..SAMPLE).map(|i| (self.hand + i) % len);
        let oldest = sample.max_by_key(|i| now_ms.wrapping_sub(self.slots[*i].used_ms)).unwrap_or(0);
        self.hand = (self.hand + SAMPLE) % len;
        self.evicted += 1;
        self.slots[oldest] = fresh;
        oldest as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_two_cache_lines_and_the_least_recent_goes() {
        assert_eq!(size_of::<Slot>(), 128);
        let mut slab = UndecidedSlab::new(8);
        let mut slots = [u32::MAX; 9];
        for owner in 0..8 {
            slab.of(&mut slots[owner as usize], owner, owner);
        }
        slab.of(&mut slots[0], 0, 100);
        slab.of(&mut slots[8], 8, 101);
        assert!(!slab.has(slots[1], 1) && slab.has(slots[0], 0) && slab.has(slots[8], 8));
        assert_eq!((slab.evicted, slab.len()), (1, 8));
        slab.forget(slots[8], 8);
        slab.forget(slots[8], 8);
        assert_eq!(slab.len(), 7);
    }
}
