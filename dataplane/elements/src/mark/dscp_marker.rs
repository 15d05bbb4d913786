//! # Synopsis
//! `DscpMarker(dscp)` or `DscpMarker(green = …, yellow = …, red = …)` writes the DiffServ code point.
//!
//! # Ports
//! Input 0 and output 0: packets.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `dscp` (1st) | DSCP | | none | 0 … 63 or a name; not together with the others |
//! | `green`, `yellow`, `red` | DSCP | | none = leave | 0 … 63 or a name; at least one |
//!
//! # Behaviour
//! Writes the code point for every packet or by `meta.color`, into IPv4 (with the header checksum updated) and IPv6.
//! The ECN bits are not touched. What is not IP passes unchanged.
//!
//! # Counters
//! `marked` (code point changed), `unchanged` (had it already, or its colour has none), `not_ip`.
//!
//! # Invariants
//! The IPv4 header checksum stays valid; no byte but the TOS octet or traffic class and that checksum changes.
//!
//! # Example
//! `TrTcmMeter(1 Mbit/s, 10 kB, 2 Mbit/s, 20 kB) -> DscpMarker(green = AF11, yellow = AF12, red = AF13)`
//!
//! # Source
//! RFC 2474 §3, RFC 3260 §4 (the six bits), RFC 3168 §5 (the other two), RFC 1624 eqn 3 (checksum).

use crate::plumbing::adapter::{as_any, keep};
use perhop_element::{CounterSink, Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, Packet};
use perhop_units::{Color, Dscp};
use perhop_wire::layout::set_dscp;

/// Writes `dscp`; false if the packet is not IP.
#[inline]
pub fn mark(packet: &mut Packet, dscp: Dscp) -> bool {
    let (meta, frame) = packet.parts_mut();
    if meta.layout.ip_version == 0 {
        return false;
    }
    // Rewriting an equal value would touch the packet's cache line for nothing.
    if Dscp::from_octet(meta.layout.tos) != dscp {
        set_dscp(frame, &mut meta.layout, dscp);
    }
    true
}

/// The code point to write by [`Color`] as index; `None` leaves it.
pub type DscpByColor = [Option<Dscp>; 3];

/// The element.
#[derive(Debug)]
pub struct DscpMarker {
    dscp: DscpByColor,
    marked: u64,
    unchanged: u64,
    not_ip: u64,
}

impl DscpMarker {
    /// The same code point for every packet.
    pub fn fixed(dscp: Dscp) -> Self {
        Self::by_color([Some(dscp); 3])
    }

    /// A code point by colour.
    pub fn by_color(dscp: DscpByColor) -> Self {
        Self { dscp, marked: 0, unchanged: 0, not_ip: 0 }
    }
}

impl Element for DscpMarker {
    fn type_name(&self) -> &'static str {
        "DscpMarker"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let meta = packet.meta();
            match self.dscp[meta.color as usize] {
                _ if meta.layout.ip_version == 0 => self.not_ip += 1,
                Some(dscp) if Dscp::from_octet(meta.layout.tos) != dscp => {
                    mark(packet, dscp);
                    self.marked += 1;
                }
                _ => self.unchanged += 1,
            }
        }
        cx.emit_all(0, batch);
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("marked", self.marked);
        sink.counter("unchanged", self.unchanged);
        sink.counter("not_ip", self.not_ip);
    }

    keep!(marked: u64, unchanged: u64, not_ip: u64);
    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "DscpMarker",
    synopsis: "writes the DiffServ code point, fixed or by colour",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, _| {
        let mut r = Reader::new(args);
        let fixed: Option<Dscp> = r.optional("dscp", Some(0));
        let mut dscp: DscpByColor = [None; 3];
        for (key, color) in [("green", Color::Green), ("yellow", Color::Yellow), ("red", Color::Red)] {
            dscp[color as usize] = r.optional(key, None);
        }
        let colored = ["green", "yellow", "red"].iter().any(|key| r.text(key, None).is_some());
        if colored == r.text("dscp", Some(0)).is_some() {
            let message = "give either dscp or some of green, yellow, red".to_owned();
            r.fail("dscp", message, None);
        }
        if let Some(fixed) = fixed {
            dscp = [Some(fixed); 3];
        }
        r.finish(Box::new(DscpMarker::by_color(dscp)) as _)
    },
    sample: |rng| match rng.next_u32() {
        n if n & 1 == 0 => (n % 64).to_string(),
        n => format!("green = {}, red = AF13", n % 64),
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::UdpFrame;
    use perhop_element::BuildCx;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn only_the_code_point_and_the_checksum_change(old in 0u8..64, new in 0u8..64, ecn in 0u8..4) {
            let dscp = Dscp::new(old).unwrap();
            let frame = UdpFrame { dscp, ecn, ..UdpFrame::default() }.to_vec();
            let mut bench = Bench::new(DscpMarker::fixed(Dscp::new(new).unwrap()), 1);
            bench.push(&frame);
            let out = bench.arrived(0).remove(0).1;
            let layout = perhop_wire::dissect(&out).expect("the checksum is valid");
            prop_assert_eq!(layout.tos, new << 2 | ecn);
            prop_assert_eq!(bench.sink(0).arrived[0].1.meta().layout.tos, layout.tos);
            for (i, (a, b)) in frame.iter().zip(&out).enumerate() {
                prop_assert!(a == b || [15, 24, 25].contains(&i), "byte {} changed", i);
            }
        }
    }

    #[test]
    fn by_color_and_ipv6() {
        let element = (TYPE.build)(&args("green = AF11, red = 14"), &mut BuildCx::default()).unwrap();
        let mut bench = Bench::with_seed(element, 1, 1);
        let mut v6 = vec![0u8; 14 + 40];
        v6[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        v6[20] = 59;
        for color in [Color::Green, Color::Yellow, Color::Red] {
            let mut packet = bench.packet(&v6);
            assert!(packet.meta().parsed);
            packet.meta_mut().color = color;
            bench.push_packet(0, packet);
        }
        bench.push(&[0xff; 60]);
        let classes: Vec<_> =
            bench.arrived(0).iter().map(|(_, f)| perhop_wire::dissect(f).unwrap().tos >> 2).collect();
        assert_eq!(classes, [10, 0, 14, 0]);
        let element = bench.element::<DscpMarker>();
        assert_eq!((element.marked, element.unchanged, element.not_ip), (2, 1, 1));
    }

    #[test]
    fn fixed_and_by_color_exclude_each_other() {
        for text in ["", "EF, green = 1", "dscp = EF, red = 2"] {
            let errors = (TYPE.build)(&args(text), &mut BuildCx::default()).err().unwrap();
            assert_eq!(errors.len(), 1, "{text}");
        }
    }
}
