//! # Synopsis
//! `Counter` counts packets and bytes and passes them on.
//!
//! # Ports
//! Input 0 and output 0: packets.
//!
//! # Configuration
//! None.
//!
//! # Behaviour
//! Batches pass whole.
//!
//! # Counters
//! `packets`, `frame_bytes`, `ip_bytes` (IP length; see [`crate::meter::metered_len`] for what is not IP).
//!
//! # Invariants
//! Order is kept.
//!
//! # Example
//! `FromPort(lan) -> Counter() -> ToPort(wan)`
//!
//! # Source
//! None: plumbing.

use super::adapter::as_any;
use crate::meter::metered_len;
use perhop_element::{CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::Batch;

/// The element, and its own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Packets passed.
    pub packets: u64,
    /// Their frame bytes.
    pub frame_bytes: u64,
    /// Their IP bytes.
    pub ip_bytes: u64,
}

impl Element for Counter {
    fn type_name(&self) -> &'static str {
        "Counter"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        self.packets += batch.len() as u64;
        for packet in batch.iter() {
            self.frame_bytes += packet.len() as u64;
            self.ip_bytes += metered_len(packet).0;
        }
        cx.emit_all(0, batch);
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("packets", self.packets);
        sink.counter("frame_bytes", self.frame_bytes);
        sink.counter("ip_bytes", self.ip_bytes);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        Some(Box::new(*self))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        *self = *state.downcast::<Self>()?;
        Ok(())
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Counter",
    synopsis: "counts packets and bytes",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, _| Reader::new(args).finish(Box::new(Counter::default()) as _),
    sample: |_| String::new(),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;

    #[test]
    fn padding_counts_as_frame_but_not_as_ip() {
        let mut bench = Bench::new(Counter::default(), 1);
        bench.push(&udp(30));
        bench.push(&udp(1000));
        let expected = Counter { packets: 2, frame_bytes: 60 + 1014, ip_bytes: 1030 };
        assert_eq!(*bench.element::<Counter>(), expected);
        assert_eq!(bench.arrived(0).len(), 2);
    }
}
