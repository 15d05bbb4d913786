//! When to look at a connection again.

/// Slots of the wheel.
pub(crate) const SLOTS: usize = 64;
/// Milliseconds a slot.
pub(crate) const TICK_MS: u64 = 1000;

/// A timing wheel of singly linked lists through the entries. An entry stays where it was put until its slot comes
/// round, whatever happens to it; then it is looked at and put back or removed. So a packet never touches the wheel,
/// and an idle entry is found at most one tick late, or [`SLOTS`] ticks late if its time-out was shortened meanwhile.
#[derive(Debug)]
pub(crate) struct Wheel {
    pub heads: [u32; SLOTS],
    /// Next tick to be looked at.
    pub tick: u64,
}

impl Wheel {
    pub fn new() -> Self {
        Self { heads: [u32::MAX; SLOTS], tick: 0 }
    }

    /// The slot for something due in `in_ms` from `now_ms`.
    pub fn slot(&self, now_ms: u64, in_ms: u64) -> usize {
        let due = (now_ms + in_ms).div_ceil(TICK_MS);
        let farthest = self.tick + SLOTS as u64 - 1;
        (due.clamp(self.tick + 1, farthest) % SLOTS as u64) as usize
    }
}
