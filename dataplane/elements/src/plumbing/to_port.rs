//! # Synopsis
//! `ToPort(port)` hands packets to the transmitter of a router port.
//!
//! # Ports
//! Input 0: frames ready to send. No output.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `port` (1st) | port | | required | a port of the router, by name or number |
//!
//! # Behaviour
//! Everything is transmitted at once, without a queue of its own; packets for a port that does not exist are dropped
//! as `port_down`.
//!
//! # Counters
//! `bytes` (frame bytes handed over).
//!
//! # Invariants
//! Order is kept.
//!
//! # Example
//! `FromPort(lan) -> Counter() -> ToPort(wan)`
//!
//! # Source
//! None: plumbing.

use super::adapter::{as_any, keep};
use perhop_element::{CounterSink, Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, PortId};

/// The element.
#[derive(Debug)]
pub struct ToPort {
    port: PortId,
    bytes: u64,
}

impl ToPort {
    /// The exit of `port`.
    pub fn new(port: PortId) -> Self {
        Self { port, bytes: 0 }
    }
}

impl Element for ToPort {
    fn type_name(&self) -> &'static str {
        "ToPort"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            self.bytes += packet.len() as u64;
            cx.transmit(self.port, packet);
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("bytes", self.bytes);
    }

    keep!(bytes: u64);
    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "ToPort",
    synopsis: "hands packets to a port's transmitter",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(0),
    build: |args, cx| {
        let mut r = Reader::new(args);
        let port = r.port("port", Some(0), cx);
        r.finish(Box::new(ToPort::new(port)) as _)
    },
    sample: |rng| (rng.next_u32() % 4).to_string(),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;

    #[test]
    fn packets_reach_the_transmit_queue_of_their_port() {
        let mut cx = BuildCx::default();
        cx.ports.insert("wan".to_owned(), PortId(1));
        let mut bench = Bench::with_seed((TYPE.build)(&args("wan"), &mut cx).unwrap(), 0, 1);
        bench.push(&udp(100));
        let queue = bench.driver.transmit_queue(PortId(1)).unwrap();
        assert_eq!(queue.len(), 1);
        let errors = (TYPE.build)(&args("dmz"), &mut cx).err().unwrap();
        assert!(errors[0].allowed.as_ref().unwrap().contains("wan"));
    }

    #[test]
    fn a_port_that_does_not_exist_drops() {
        let mut bench = Bench::new(ToPort::new(PortId(77)), 0);
        bench.push(&udp(100));
        assert_eq!(bench.driver.counters(bench.node).unwrap().dropped, 1);
    }
}
