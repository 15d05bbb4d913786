//! Queueing disciplines: packets in, packets out in an order of their choosing.

use crate::{CounterSink, Cx, ElementState};
use perhop_packet::Batch;
use perhop_units::Instant;
use std::any::Any;

/// The packet that [`Discipline::dequeue`] would give next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its frame length in bytes.
    pub len: u32,
}

/// How much [`Discipline::dequeue`] may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Frame bytes; the packet that crosses the budget is still given.
    pub bytes: u64,
    /// Packets.
    pub packets: u32,
}

impl Budget {
    /// One packet.
    pub const ONE: Self = Self { bytes: u64::MAX, packets: 1 };
}

/// What a call changed, for the parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Delta {
    /// Change of packets held.
    pub packets: i64,
    /// Change of frame bytes held.
    pub bytes: i64,
    /// From empty to not empty.
    pub became_active: bool,
    /// From not empty to empty.
    pub became_idle: bool,
}

impl Delta {
    /// What changed from `before` to `after`, each packets and frame bytes held.
    #[inline]
    pub fn between(before: (u64, u64), after: (u64, u64)) -> Self {
        Self {
            packets: after.0 as i64 - before.0 as i64,
            bytes: after.1 as i64 - before.1 as i64,
            became_active: before.0 == 0 && after.0 > 0,
            became_idle: before.0 > 0 && after.0 == 0,
        }
    }
}

/// A queueing discipline. `peek` and `dequeue` may drop (AQM); drops go through `cx` and are counted at the element
/// that owns the discipline.
pub trait Discipline: Any + Send {
    /// Name of the discipline's type, e.g. `Fifo`.
    fn type_name(&self) -> &'static str;

    /// Takes every packet of `batch`: holds it or drops it (or another) through `cx`. Packets carry a direct leaf
    /// handle in their metadata; trees never search for the leaf.
    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta;

    /// The packet `dequeue` would give now, after AQM drops; `None` when nothing may leave now. Stable until the
    /// next `dequeue` or `enqueue`.
    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head>;

    /// Moves packets that may leave now to `out`, within `budget`.
    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta;

    /// When something held now may leave although `peek` gives nothing: `None` if empty or never without new
    /// packets. O(1).
    fn next_wakeup(&self) -> Option<Instant>;

    /// Packets held.
    fn held(&self) -> u64;

    /// Frame bytes held.
    fn held_bytes(&self) -> u64;

    /// Reports counters and gauges.
    fn counters(&self, sink: &mut dyn CounterSink) {
        let _ = sink;
    }

    /// Tells of each of its classes, by name, the smallest and largest frame bytes that waited in it since the last call;
    /// the first one begins. Without classes by name there is nothing to tell.
    fn length_ranges(&mut self, now: Instant, each: &mut dyn FnMut(&str, [u64; 2])) {
        let _ = (now, each);
    }

    /// Hands every held packet to `out`, for a discipline that goes away.
    fn drain(&mut self, out: &mut Batch);

    /// Gives up the state a successor may adopt.
    fn export_state(&mut self) -> Option<ElementState> {
        None
    }

    /// Adopts a predecessor's state.
    ///
    /// # Errors
    /// The state itself, when it is of another shape.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        Err(state)
    }

    /// For the tree that a transaction edits.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// Shared form.
    fn as_any(&self) -> &dyn Any;
}
