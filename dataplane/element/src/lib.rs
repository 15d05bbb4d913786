//! The contract between packet-processing elements and the world that drives them.
//!
//! An [`Element`] is pushed batches and woken by timers; everything else reaches it through [`Cx`]: the time, random
//! numbers, its outputs, dropping, copying. A [`Discipline`] holds packets and decides their order; the
//! [`Driver`] owns an arena of elements, delivers what they emit (no recursion), runs timers and keeps the books:
//! for every element `in + made = out + consumed + dropped + held`.
#![forbid(unsafe_code)]

mod args;
mod cost;
mod counters;
mod cx;
mod discipline;
mod driver;
mod end;
mod histogram;
mod port;
mod reader;
mod registry;
pub mod testkit;
mod trace;

pub use args::{Arg, ArgError, Args, BuildCx};
pub use cost::{CallCost, Clock, CostConfig, ElementCost};
pub use counters::{ConservationError, CounterSink, NodeCounters};
pub use cx::{Cx, NodeId, PortIndex, Reject, TimerId};
pub use discipline::{Budget, Delta, Discipline, Head};
pub use driver::{Driver, DriverError, Edge};
pub use end::PacketEnd;
pub use histogram::Histogram;
pub use port::{Port, PortError};
pub use reader::Reader;
pub use registry::{BuildFn, ElementType, PortCount, Registry};
pub use trace::{DelaySample, DelayTrace, TraceConfig};

use perhop_packet::Batch;
use std::any::Any;

/// State that moves from an element to its successor of the same name when a graph is replaced.
pub type ElementState = Box<dyn Any + Send>;

/// A packet-processing element. Implementations are thin adapters around plain algorithm structs.
pub trait Element: Any + Send {
    /// Name of the element's type as written in graph text, e.g. `Fifo`.
    fn type_name(&self) -> &'static str;

    /// Version of the state that [`Element::export_state`] gives; state moves only between equal versions.
    fn version(&self) -> u32 {
        1
    }

    /// Takes all packets of `batch` (1 … [`Batch::MAX`]) that arrive at input `port`: each is emitted, dropped,
    /// consumed through `cx` or held. What is left in `batch` afterwards is a defect (counted, and fatal in tests).
    fn push(&mut self, cx: &mut Cx<'_>, port: PortIndex, batch: &mut Batch);

    /// A timer set with [`Cx::timer_at`] is due. May come early or without need; re-arm if it matters.
    fn wake(&mut self, cx: &mut Cx<'_>, timer: TimerId) {
        let _ = (cx, timer);
    }

    /// Packets inside now.
    fn held(&self) -> u64 {
        0
    }

    /// Reports the element's own counters (names in snake_case, monotonic).
    fn counters(&self, sink: &mut dyn CounterSink) {
        let _ = sink;
    }

    /// Gives up the state that a successor may adopt (queues, tokens, tables); packets inside move along.
    fn export_state(&mut self) -> Option<ElementState> {
        None
    }

    /// Adopts a predecessor's state. On failure the state comes back unchanged.
    ///
    /// # Errors
    /// The state itself, when it is of another shape.
    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        Err(state)
    }

    /// Hands every held packet to `out`, for an element that goes away.
    fn drain(&mut self, out: &mut Batch) {
        let _ = out;
    }

    /// For transactions that address a known element type (`driver.element_mut::<T>()`).
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// Shared form of [`Element::as_any_mut`].
    fn as_any(&self) -> &dyn Any;
}
