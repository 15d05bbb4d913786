//! # Synopsis
//! `PortSwitch` sends each packet to the output whose number is its outgoing port.
//!
//! # Ports
//! Input 0: routed or bridged packets. Outputs 0 … 63: one a router port, by port number.
//!
//! # Configuration
//! None.
//!
//! # Behaviour
//! Output = `meta.out_port`. A packet without an outgoing port is dropped as `no_route`; one whose output is not
//! connected as `unconnected`.
//!
//! # Counters
//! None of its own.
//!
//! # Invariants
//! Order is kept per output.
//!
//! # Example
//! `FromPort(lan) -> r :: Route(2); r[0] -> c :: Counter(); r[1] -> c -> s :: PortSwitch();
//! s[0] -> ToPort(lan); s[1] -> ToPort(wan); r[2] -> ToHost()`
//!
//! # Source
//! None: plumbing.

use super::adapter::as_any;
use perhop_element::{Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, DropReason};

/// The element.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortSwitch;

impl Element for PortSwitch {
    fn type_name(&self) -> &'static str {
        "PortSwitch"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            let port = packet.meta().out_port;
            match PortIndex::try_from(port.0) {
                Ok(output) => cx.emit(output, packet),
                Err(_) if port.is_some() => cx.drop(packet, DropReason::Unconnected),
                Err(_) => cx.drop(packet, DropReason::NoRoute),
            }
        }
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "PortSwitch",
    synopsis: "sends each packet to the output numbered as its outgoing port",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, 64),
    build: |args, _| Reader::new(args).finish(Box::new(PortSwitch) as _),
    sample: |_| String::new(),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;
    use perhop_packet::PortId;

    #[test]
    fn the_outgoing_port_chooses_the_output() {
        let mut bench = Bench::new(PortSwitch, 2);
        for port in [PortId(1), PortId(0), PortId(1), PortId::NONE, PortId(9), PortId(300)] {
            let mut packet = bench.packet(&udp(100));
            packet.meta_mut().out_port = port;
            bench.push_packet(0, packet);
        }
        assert_eq!((bench.arrived(0).len(), bench.arrived(1).len()), (1, 2));
        let drops = &bench.driver.counters(bench.node).unwrap().drops;
        assert_eq!(drops[DropReason::NoRoute.index()], 1);
        assert_eq!(drops[DropReason::Unconnected.index()], 2);
    }
}
