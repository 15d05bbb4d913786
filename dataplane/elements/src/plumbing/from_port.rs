//! # Synopsis
//! `FromPort(port)` is where frames received by a router port enter the graph.
//!
//! # Ports
//! No input in graph text; the driver's owner pushes received batches into input 0, and what this machine itself sends by the port
//! into input 1. Output 0: well-formed frames.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `port` (1st) | port | | required | a port of the router, by name or number |
//! | `bridged` | flag | | no | |
//!
//! # Behaviour
//! Dissects each frame once and notes its layout and the port it came from in the metadata. A malformed frame is
//! dropped for the reason that makes it so, or with `bridged` passed on as one of unknown content, as a bridge does: only an Ethernet
//! header that is cut off ends it then. A frame of an unknown EtherType is not malformed. Order is kept.
//!
//! # Counters
//! `bytes` (frame bytes of everything received).
//!
//! # Invariants
//! Every packet behind it has a valid layout (`meta.parsed`), and an incoming port, or none but the port that it leaves by.
//!
//! # Example
//! `FromPort(lan) -> Counter() -> ToHost()`
//!
//! # Source
//! The checks are those of [`perhop_wire::dissect`].

use super::adapter::{as_any, keep};
use super::check_frame::dissect_batch;
use perhop_element::{CounterSink, Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, PortId};

/// The element.
#[derive(Debug)]
pub struct FromPort {
    port: PortId,
    bridged: bool,
    bytes: u64,
}

impl FromPort {
    /// Input for what this machine itself sends by the port.
    pub const OWN: PortIndex = 1;

    /// The entrance of `port`.
    pub fn new(port: PortId) -> Self {
        Self { port, bridged: false, bytes: 0 }
    }

    /// The entrance of `port` of a bridge, to which what frames contain does not matter.
    pub fn bridged(port: PortId) -> Self {
        Self { bridged: true, ..Self::new(port) }
    }

    /// The port it stands for.
    pub fn port(&self) -> PortId {
        self.port
    }
}

impl Element for FromPort {
    fn type_name(&self) -> &'static str {
        "FromPort"
    }

    fn push(&mut self, cx: &mut Cx<'_>, input: PortIndex, batch: &mut Batch) {
        let (in_port, out_port) =
            if input == Self::OWN { (PortId::NONE, self.port) } else { (self.port, PortId::NONE) };
        for packet in batch.iter_mut() {
            self.bytes += packet.len() as u64;
            let meta = packet.meta_mut();
            (meta.in_port, meta.out_port) = (in_port, out_port);
        }
        dissect_batch(cx, batch, None, self.bridged);
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("bytes", self.bytes);
    }

    keep!(bytes: u64);
    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "FromPort",
    synopsis: "frames received by a router port, dissected",
    inputs: PortCount::Exactly(0),
    outputs: PortCount::Exactly(1),
    build: |args, cx| {
        let mut r = Reader::new(args);
        let port = r.port("port", Some(0), cx);
        let bridged = r.flag("bridged", false);
        r.finish(Box::new(FromPort { bridged, ..FromPort::new(port) }) as _)
    },
    sample: |rng| format!("{}, bridged = {}", rng.next_u32() % 4, ["no", "yes"][rng.next_u32() as usize % 2]),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;
    use perhop_packet::DropReason;
    use perhop_wire::Malformed;

    #[test]
    fn at_a_bridge_only_a_cut_off_ethernet_header_is_malformed() {
        let mut bench = Bench::new(FromPort::bridged(PortId(2)), 1);
        let mut bad_sum = udp(100);
        bad_sum[24] ^= 1;
        let mut deep = udp(100);
        for tpid in [[0x81, 0], [0x81, 0], [0x88, 0xa8]] {
            deep.splice(12..12, [tpid[0], tpid[1], 0, 7]);
        }
        // A first fragment of eight bytes, without the whole of its transport's header.
        let mut tiny = perhop_wire::build::tcp4([10, 0, 0, 1], [10, 0, 0, 2]).fragment(0, true).build();
        tiny.truncate(14 + 28);
        tiny[16..18].copy_from_slice(&28u16.to_be_bytes());
        let frames = [bad_sum, deep, tiny, udp(62)];
        for frame in &frames {
            bench.push(frame);
        }
        bench.push(&[1, 2, 3]);
        let out: Vec<_> = bench.arrived(0).into_iter().map(|(_, frame)| frame).collect();
        assert_eq!(out, frames);
        let layouts: Vec<_> = bench.sink(0).arrived.iter().map(|(_, p)| p.meta().layout).collect();
        assert_eq!(layouts.iter().map(|l| l.ip_version).collect::<Vec<_>>(), [0, 0, 0, 4]);
        assert_eq!((layouts[1].vlan_tags, layouts[1].vlan), (2, [7, 7]));
        let drops = &bench.driver.counters(bench.node).unwrap().drops;
        assert_eq!(drops[DropReason::Malformed(Malformed::EthernetTruncated).index()], 1);
    }

    #[test]
    fn malformed_frames_are_dropped_by_reason_and_the_rest_keeps_its_order() {
        let mut bench = Bench::new(FromPort::new(PortId(2)), 1);
        let mut bad_sum = udp(100);
        bad_sum[24] ^= 1;
        let frames = [udp(60), vec![1, 2, 3], udp(61), bad_sum, udp(62)];
        let mut batch = Batch::new();
        for frame in &frames {
            batch.push(bench.driver.pool().packet(frame).unwrap());
        }
        bench.push_batch(0, &mut batch);
        let lens: Vec<_> = bench.sink(0).arrived.iter().map(|(_, p)| p.meta().layout.ip_len).collect();
        assert_eq!(lens, [60, 61, 62]);
        assert!(bench.sink(0).arrived.iter().all(|(_, p)| p.meta().parsed && p.meta().in_port == PortId(2)));
        let drops = &bench.driver.counters(bench.node).unwrap().drops;
        assert_eq!(drops[DropReason::Malformed(Malformed::EthernetTruncated).index()], 1);
        assert_eq!(drops[DropReason::Malformed(Malformed::Ipv4Checksum).index()], 1);
    }
}
