//! Recognised RTP flows: their quality, and what else goes by on their ports.

mod meter;
mod way;

pub(crate) use meter::Meter;
pub use meter::{Assumed, CallInfo};
pub use way::HereInfo;
pub(crate) use way::Way;

use crate::realtime::machine::Undecided;
use perhop_element::PacketEnd;
use perhop_packet::prefetch;
use perhop_units::Duration;

/// One flow. What every packet touches comes first, in three cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Call {
    /// Twice the connection plus the half; `u32::MAX` = free.
    owner: u32,
    /// When its quality was reported last, or it began, wrapping.
    pub reported_ms: u32,
    /// Packets that came in and whose end will be told.
    pub marked: u64,
    pub meter: Meter,
    /// Packets of other SSRCs.
    pub others: Undecided,
}

const FREE: u32 = u32::MAX;

/// Bounded memory for recognised flows. When it is full, a flow is recognised without being measured.
#[derive(Debug)]
pub(crate) struct CallSlab {
    slots: Vec<Call>,
    /// Of each slot: apart, because it is touched when packets end.
    ways: Vec<Way>,
    free: Vec<u32>,
    capacity: usize,
    pub unmeasured: u64,
}

impl CallSlab {
    /// At most `capacity` flows; memory is reserved now and touched as it fills.
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: Vec::with_capacity(capacity),
            ways: Vec::with_capacity(capacity),
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
        let call = Call { owner, reported_ms: now_ms, marked: 0, meter, others: Undecided::default() };
        self.give(owner, (call, Way::default()))
    }

    /// Takes what `owner` has at `slot` out.
    pub fn take(&mut self, slot: u32, owner: u32) -> Option<(Call, Way)> {
        let call = *self.find(slot, owner)?;
        self.close(slot, owner);
        Some((call, *self.ways.get(slot as usize)?))
    }

    /// A place for a call that is `owner`'s from now on; `None` when there is none left.
    pub fn give(&mut self, owner: u32, (call, way): (Call, Way)) -> Option<u32> {
        let call = Call { owner, ..call };
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = call;
            self.ways[slot as usize] = way;
            return Some(slot);
        }
        if self.slots.len() == self.capacity {
            self.unmeasured += 1;
            return None;
        }
        self.slots.push(call);
        self.ways.push(way);
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

    /// A packet of `owner`'s call at `slot` ended.
    pub fn end(&mut self, slot: u32, owner: u32, end: &PacketEnd, playout: Duration) {
        let Self { slots, ways, .. } = self;
        let call = slots.get(slot as usize).filter(|call| call.owner == owner);
        if let (Some(call), Some(way)) = (call, ways.get_mut(slot as usize)) {
            way.end(end, &call.meter, playout);
        }
    }

    /// How the call that `owner` has at `slot` comes in, and what this router does to it.
    pub fn info(&self, slot: u32, owner: u32, assumed: &Assumed) -> Option<(CallInfo, HereInfo)> {
        let (call, way) = (self.find(slot, owner)?, self.ways.get(slot as usize)?);
        let info = call.meter.info(assumed);
        Some((info, way.info(call.marked, &call.meter, &info, assumed)))
    }

    /// The same, for a report: what is dropped from now on is the next one's.
    pub fn report(&mut self, slot: u32, owner: u32, assumed: &Assumed) -> Option<(CallInfo, HereInfo)> {
        let info = self.info(slot, owner, assumed)?;
        self.ways[slot as usize].reported();
        Some(info)
    }

    /// Begins the call that `owner` has at `slot` anew.
    pub fn begin_again(&mut self, slot: u32, owner: u32, meter: Meter) {
        if let Some(call) = self.find_mut(slot, owner) {
            (call.meter, call.marked) = (meter, 0);
            self.ways[slot as usize] = Way::default();
        }
    }

    /// Frees what `owner` has at `slot`, if anything.
    pub fn close(&mut self, slot: u32, owner: u32) {
        if let Some(call) = self.find_mut(slot, owner) {
            call.owner = FREE;
            self.free.push(slot);
        }
    }
}
