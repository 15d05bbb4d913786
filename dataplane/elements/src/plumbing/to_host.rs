//! # Synopsis
//! `ToHost` gives packets to this machine: the kernel, or the simulated host.
//!
//! # Ports
//! Input 0: frames for this machine. No output.
//!
//! # Configuration
//! None.
//!
//! # Behaviour
//! Everything is delivered, with the port it came in by in its metadata.
//!
//! # Counters
//! `bytes` (frame bytes delivered).
//!
//! # Invariants
//! Order is kept.
//!
//! # Example
//! `FromPort(lan) -> ToHost()`
//!
//! # Source
//! None: plumbing.

use super::adapter::{as_any, keep};
use perhop_element::{CounterSink, Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::Batch;

/// The element.
#[derive(Debug, Default)]
pub struct ToHost {
    bytes: u64,
}

impl Element for ToHost {
    fn type_name(&self) -> &'static str {
        "ToHost"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            self.bytes += packet.len() as u64;
            cx.deliver_local(packet);
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("bytes", self.bytes);
    }

    keep!(bytes: u64);
    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "ToHost",
    synopsis: "gives packets to this machine",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(0),
    build: |args, _| Reader::new(args).finish(Box::new(ToHost::default()) as _),
    sample: |_| String::new(),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;

    #[test]
    fn packets_are_delivered_and_counted_consumed() {
        let mut bench = Bench::new(ToHost::default(), 0);
        bench.push(&udp(100));
        assert_eq!(bench.driver.local_queue().len(), 1);
        assert_eq!(bench.driver.counters(bench.node).unwrap().consumed, 1);
    }
}
