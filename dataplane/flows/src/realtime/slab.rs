//! Bounded memory for flows that are not recognised yet.

use super::machine::Undecided;
use perhop_packet::prefetch;

/// One flow: 128 bytes.
#[derive(Clone, Copy, Debug)]
struct Slot {
    state: Undecided,
    /// Twice the connection plus the half; `u32::MAX` = free.
    owner: u32,
    used_ms: u32,
}

const FREE: u32 = u32::MAX;
/// Slots looked at when one must be given up.
const SAMPLE: usize = 4;
/// A slot in which a train has begun is kept this long between its packets, ms.
const KEPT_MS: u32 = 250;
/// A slot may go to anybody after this time without a packet of its flow, ms.
const UNUSED_MS: u32 = 2_000;

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

    /// The state of `owner`, at `slot` if it is still there, else fresh in a slot that is noted in `slot`. When all are
    /// taken, an `urgent` owner gets the least recently seen of the next few in which no train is under way; another
    /// only one that nobody has used for a while. So what hardly looks like media does not drive out what may be, and
    /// many that begin at once do not keep each other from coming to an end. `None` when that leaves nothing.
    pub fn of(&mut self, slot: &mut u32, owner: u32, now_ms: u32, urgent: bool) -> Option<&mut Undecided> {
        let mine = self.slots.get(*slot as usize).is_some_and(|s| s.owner == owner);
        if !mine {
            *slot = self.make(owner, now_ms, urgent)?;
        }
        let slot = &mut self.slots[*slot as usize];
        slot.used_ms = now_ms;
        Some(&mut slot.state)
    }

    /// Brings the slot near.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        if let Some(slot) = self.slots.get(slot as usize) {
            prefetch(&slot.state);
            prefetch(&slot.used_ms);
        }
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

    /// Takes the state of `owner` at `slot` out, with when it was used last.
    pub fn take(&mut self, slot: u32, owner: u32) -> Option<(Undecided, u32)> {
        let found =
            self.slots.get(slot as usize).filter(|s| s.owner == owner).map(|s| (s.state, s.used_ms))?;
        self.forget(slot, owner);
        Some(found)
    }

    /// Gives `owner` a slot with a state that was in another slab; `None` as for one that is urgent in [`UndecidedSlab::of`].
    pub fn give(&mut self, owner: u32, (state, used_ms): (Undecided, u32)) -> Option<u32> {
        let slot = self.make(owner, used_ms, true)?;
        self.slots[slot as usize].state = state;
        Some(slot)
    }

    fn make(&mut self, owner: u32, now_ms: u32, urgent: bool) -> Option<u32> {
        let fresh = Slot { state: Undecided::default(), owner, used_ms: now_ms };
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = fresh;
            return Some(slot);
        }
        if self.slots.len() < self.capacity {
            self.slots.push(fresh);
            return Some((self.slots.len() - 1) as u32);
        }
        let len = self.slots.len();
        let looked_at = if urgent { SAMPLE } else { 1 };
        let sample = (0..looked_at).map(|i| (self.hand + i) % len);
        let found = sample
            .map(|at| (now_ms.wrapping_sub(self.slots[at].used_ms), at))
            .filter(|(age, at)| *age > KEPT_MS || !self.slots[*at].state.is_train())
            .max();
        self.hand = (self.hand + looked_at) % len;
        let (age, oldest) = found?;
        if !urgent && age <= UNUSED_MS {
            return None;
        }
        self.evicted += 1;
        self.slots[oldest] = fresh;
        Some(oldest as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_two_cache_lines_and_the_least_recent_goes() {
        assert_eq!(size_of::<Slot>(), 128);
        let mut slab = UndecidedSlab::new(8);
        let mut slots = [u32::MAX; 10];
        for owner in 0..8 {
            assert!(slab.of(&mut slots[owner as usize], owner, owner, false).is_some());
        }
        assert!(slab.of(&mut slots[0], 0, 100, false).is_some());
        // Somebody who hardly looks like media gets nothing; somebody who does gets the place of the least recent.
        assert!(slab.of(&mut slots[9], 9, 101, false).is_none());
        assert!(slab.of(&mut slots[8], 8, 101, true).is_some());
        assert!(!slab.has(slots[1], 1) && slab.has(slots[0], 0) && slab.has(slots[8], 8));
        assert_eq!((slab.evicted, slab.len()), (1, 8));
        slab.forget(slots[8], 8);
        slab.forget(slots[8], 8);
        assert_eq!(slab.len(), 7);
        // After a while anybody may have what nobody uses.
        assert!(slab.of(&mut slots[8], 8, 102, false).is_some());
        assert!(slab.of(&mut slots[9], 9, 2_200, false).is_some());
        assert_eq!((slab.evicted, slab.len()), (2, 8));
    }
}
