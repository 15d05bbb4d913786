//! Recognised RTP flows: their quality, and what else goes by on their ports.

mod meter;

pub(crate) use meter::Meter;
pub use meter::{Assumed, CallInfo};

use crate::realtime::machine::Undecided;
use perhop_packet::prefetch;

/// One flow. What every packet touches comes first, in three cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Call {
    /// Twice the connection plus the half; `u32::MAX` = free.
    owner: u32,
    /// When its quality was reported last, or it began, wrapping.
    pub reported_ms: u32,
    pub meter: Meter,
    /// Packets of other SSRCs.
    pub others: Undecided,
}

const FREE: u32 = u32::MAX;

/// Bounded memory for recognised flows. When it is full, a flow is recognised without being measured.
#[derive(Debug)]
pub(crate) struct CallSlab {
    slots: Vec<Call>,
    free: Vec<u32>,
    capacity: usize,
    pub unmeasured: u64,
}

impl CallSlab {
    /// At most `capacity` flows; memory is reserved now and touched as it fills.
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            capacity,
            unmeasured: 0,
        }
    }

    /// Flows inside.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A place for `owner`; `None` when there is none left.
    pub fn open(&mut self, owner: u32, now_ms: u32, meter: Meter) -> Option<u32> {
        self.give(owner, Call { owner, reported_ms: now_ms, meter, others: Undecided::default() })
    }

    /// Takes what `owner` has at `slot` out.
    pub fn take(&mut self, slot: u32, owner: u32) -> Option<Call> {
        let call = *self.find(slot, owner)?;
        self.close(slot, owner);
        Some(call)
    }

    /// A place for a call that is `owner`'s from now on; `None` when there is none left.
    pub fn give(&mut self, owner: u32, call: Call) -> Option<u32> {
        let call = Call { owner, ..call };
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = call;
            return Some(slot);
        }
        if self.slots.len() == self.capacity {
            self.unmeasured += 1;
            return None;
        }
        self.slots.push(call);
        Some((self.slots.len() - 1) as u32)
    }

    /// Brings the slot near.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        if let Some(call) = self.slots.get(slot as usize) {
            prefetch(&call.owner);
            call.meter.prefetch();
        }
    }

    /// What `owner` has at `slot`.
    pub fn find(&self, slot: u32, owner: u32) -> Option<&Call> {
        self.slots.get(slot as usize).filter(|c| c.owner == owner)
    }

    /// The same, to change.
    #[inline]
    pub fn find_mut(&mut self, slot: u32, owner: u32) -> Option<&mut Call> {
        self.slots.get_mut(slot as usize).filter(|c| c.owner == owner)
    }

    /// Frees what `owner` has at `slot`, if anything.
    pub fn close(&mut self, slot: u32, owner: u32) {
        if let Some(call) = self.find_mut(slot, owner) {
            call.owner = FREE;
            self.free.push(slot);
        }
    }
}
