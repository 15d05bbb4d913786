//! The frame parser against an independent one (the crate `etherparse`): on built frames, on damaged ones, on noise.
//!
//! Where they differ on purpose, [`stricter`] and [`out_of_scope`] say so; anywhere else both accept or both refuse,
//! and what both accept they describe alike.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use etherparse::{LinkExtSlice, LinkSlice, NetSlice, SlicedPacket, TransportSlice};
use perhop_units::Dscp;
use perhop_wire::build::{self, FrameBuilder};
use perhop_wire::ipv6_ext::Extensions;
use perhop_wire::{Ecn, Fragment, Layout, Malformed, checksum, dissect, ipv6, protocol};
use proptest::prelude::*;

/// Where `part` starts in `frame`.
fn offset(frame: &[u8], part: &[u8]) -> u16 {
    (part.as_ptr() as usize - frame.as_ptr() as usize) as u16
}

/// The other parser's answer in our terms, or `None` if it refuses the frame.
fn oracle(frame: &[u8]) -> Option<Layout> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let mut layout = Layout::default();
    let Some(LinkSlice::Ethernet2(ethernet)) = &sliced.link else { return None };
    layout.ethertype = ethernet.ether_type().0;
    layout.l3_offset = 14;
    for (i, extension) in sliced.link_exts.iter().enumerate() {
        let LinkExtSlice::Vlan(tag) = extension else { return None };
        if let Some(slot) = layout.vlan.get_mut(i) {
            *slot = tag.vlan_identifier().value();
        }
        layout.vlan_tags += 1;
        layout.l3_offset += 4;
        layout.ethertype = tag.ether_type().0;
    }
    match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            layout.ip_version = 4;
            layout.tos = header.dcp().value() << 2 | header.ecn().value();
            layout.ip_len = header.total_len();
            layout.protocol = header.protocol().0;
            let (more, at) = (header.more_fragments(), header.fragments_offset().value());
            note_fragment(&mut layout, more, at, u32::from(header.identification()));
            note_payload(&mut layout, frame, ip.payload().payload);
        }
        Some(NetSlice::Ipv6(ip)) => {
            let header = ip.header();
            layout.ip_version = 6;
            layout.tos = header.traffic_class();
            layout.ip_len = header.payload_length().wrapping_add(40);
            layout.protocol = ip.payload().ip_number.0;
            for extension in ip.extensions().clone() {
                if let etherparse::Ipv6ExtensionSlice::Fragment(f) = extension {
                    note_fragment(
                        &mut layout,
                        f.more_fragments(),
                        f.fragment_offset().value(),
                        f.identification(),
                    );
                }
            }
            note_payload(&mut layout, frame, ip.payload().payload);
        }
        _ => {}
    }
    note_transport(&mut layout, frame, sliced.transport.as_ref());
    Some(layout)
}

fn note_fragment(layout: &mut Layout, more: bool, at: u16, identification: u32) {
    layout.fragment = match (more, at) {
        (false, 0) => Fragment::Whole,
        (true, 0) => Fragment::First,
        _ => Fragment::Later,
    };
    layout.fragment_id = if layout.fragment == Fragment::Whole { 0 } else { identification };
}

fn note_payload(layout: &mut Layout, frame: &[u8], payload: &[u8]) {
    let none = layout.ip_version == 6 && layout.protocol == protocol::IPV6_NO_NEXT;
    if layout.fragment != Fragment::Later && !payload.is_empty() && !none {
        layout.l4_offset = offset(frame, payload);
    }
}

fn note_transport(layout: &mut Layout, frame: &[u8], transport: Option<&TransportSlice<'_>>) {
    match transport {
        Some(TransportSlice::Udp(udp)) => {
            (layout.src_port, layout.dst_port) = (udp.source_port(), udp.destination_port());
            layout.payload_offset = offset(frame, udp.slice()) + 8;
        }
        Some(TransportSlice::Tcp(tcp)) => {
            (layout.src_port, layout.dst_port) = (tcp.source_port(), tcp.destination_port());
            layout.payload_offset = offset(frame, tcp.slice()) + tcp.header_len() as u16;
            let bits =
                [tcp.fin(), tcp.syn(), tcp.rst(), tcp.psh(), tcp.ack(), tcp.urg(), tcp.ece(), tcp.cwr()];
            layout.tcp_flags = bits.iter().enumerate().map(|(i, bit)| u8::from(*bit) << i).sum();
        }
        Some(TransportSlice::Icmpv4(icmp)) if layout.ip_version == 4 => {
            layout.src_port = u16::from(icmp.type_u8()) << 8 | u16::from(icmp.code_u8());
            layout.payload_offset = offset(frame, icmp.slice()) + 8;
        }
        Some(TransportSlice::Icmpv6(icmp)) if layout.ip_version == 6 => {
            layout.src_port = u16::from(icmp.type_u8()) << 8 | u16::from(icmp.code_u8());
            layout.payload_offset = offset(frame, icmp.slice()) + 8;
        }
        _ => {}
    }
}

/// What the other parser accepts and we refuse on purpose.
fn stricter(error: Malformed, theirs: &Layout, frame: &[u8]) -> bool {
    let first = theirs.fragment == Fragment::First;
    match error {
        // It does not look at these.
        Malformed::VlanTooDeep
        | Malformed::Ipv4Checksum
        | Malformed::Ipv4Options
        | Malformed::Ipv4Fragment
        | Malformed::Ipv6Fragment
        | Malformed::Ipv6ExtensionsTooMany => true,
        // It takes any hardware and protocol type.
        Malformed::ArpMalformed => true,
        // It takes a payload length of 0 as "unknown" (jumbograms), and repeated fragment headers; we do not.
        Malformed::Ipv6Extension => {
            theirs.ip_len == 40 || extension_kinds(frame, theirs, protocol::IPV6_FRAGMENT) > 1
        }
        Malformed::Ipv6PayloadLength => theirs.ip_len < 40,
        // A length of 0 is "unknown" to it; it does not read the transport header of a first fragment.
        Malformed::UdpLength => {
            let at = usize::from(theirs.l4_offset);
            first || theirs.ip_len == 40 || frame.get(at + 4..at + 6) == Some(&[0, 0])
        }
        Malformed::TcpLength | Malformed::IcmpTruncated => first || theirs.ip_len == 40,
        _ => false,
    }
}

fn extension_kinds(frame: &[u8], layout: &Layout, kind: u8) -> usize {
    let Ok(view) = ipv6::View::new_checked(&frame[usize::from(layout.l3_offset)..]) else { return 0 };
    view.extensions().filter(|e| e.is_ok_and(|e| e.kind == kind)).count()
}

/// Frames on which the parsers pursue different aims, so that their answers say nothing about each other.
fn out_of_scope(ours: &Layout) -> bool {
    // It reads MACsec; to us that is an unknown EtherType.
    ours.ethertype == 0x88e5
        // It walks an authentication header in IPv4; to us that is the transport protocol.
        || ours.ip_version == 4 && ours.protocol == protocol::AH
        // It checks IGMP, the exact size of ICMP time stamps, and each ICMP version in both IP versions.
        || ours.protocol == 2
        || ours.protocol == protocol::ICMPV4 && matches!(ours.src_port, 0x0d00 | 0x0e00)
        || ours.ip_version == 4 && ours.protocol == protocol::ICMPV6
        || ours.ip_version == 6 && ours.protocol == protocol::ICMPV4
        // It walks on over the data of later IPv6 fragments, and ends at mobility headers.
        || ours.ip_version == 6 && ours.fragment == Fragment::Later
        // It takes a payload length of 0 as "unknown".
        || ours.ip_version == 6 && ours.ip_len == 40
}

/// Checks that both parsers agree on `frame`; true if both accepted it.
fn agree(frame: &[u8]) -> Result<bool, TestCaseError> {
    match (dissect(frame), oracle(frame)) {
        (Ok(ours), _) if out_of_scope(&ours) => Ok(false),
        (Ok(ours), theirs) => {
            prop_assert!(theirs.is_some(), "only we accept {ours:?}: {frame:02x?}");
            let mut theirs = theirs.unwrap();
            let mobility = extension_kinds(frame, &ours, protocol::IPV6_MOBILITY) != 0;
            if ours.ip_version == 6 && mobility {
                return Ok(false);
            }
            if ours.fragment == Fragment::First {
                // Only we read the transport header of a first fragment.
                (theirs.src_port, theirs.dst_port) = (ours.src_port, ours.dst_port);
                (theirs.tcp_flags, theirs.payload_offset) = (ours.tcp_flags, ours.payload_offset);
            }
            prop_assert_eq!(ours, theirs, "{:02x?}", frame);
            Ok(true)
        }
        (Err(_), None) => Ok(false),
        (Err(error), Some(theirs)) => {
            let mobility = extension_kinds(frame, &theirs, protocol::IPV6_MOBILITY) != 0
                || theirs.ip_version == 6 && theirs.protocol == protocol::IPV6_MOBILITY;
            let known = stricter(error, &theirs, frame) || mobility;
            prop_assert!(known, "only we refuse with {error:?}: {theirs:?} {frame:02x?}");
            Ok(false)
        }
    }
}

fn any_builder() -> impl Strategy<Value = FrameBuilder> {
    let kind = (0usize..6, any::<([u8; 16], [u8; 16])>(), any::<(u16, u16)>());
    let network = (0u8..64, 0u8..4, any::<u8>(), any::<u32>(), any::<bool>());
    let shape = (
        proptest::collection::vec((0u16..4096, 0u8..8), 0..3),
        proptest::option::weighted(0.3, (0u16..200, any::<bool>())),
        proptest::collection::vec(prop::sample::select(vec![43u8, 60, 51, 135]), 0..4),
        0usize..10,
        0usize..80,
    );
    (kind, network, shape, any::<(u8, u16)>()).prop_map(
        |((kind, a, ports), n, (tags, fragment, exts, words, len), tcp)| {
            let v4 = |a: &[u8; 16]| [a[0], a[1], a[2], a[3]];
            let base = match kind {
                0 => build::udp4(v4(&a.0), v4(&a.1)),
                1 => build::udp6(a.0, a.1),
                2 => build::tcp4(v4(&a.0), v4(&a.1)),
                3 => build::tcp6(a.0, a.1),
                4 => build::icmp4_echo(v4(&a.0), v4(&a.1), ports.0, ports.1),
                _ => build::icmp6_echo(a.0, a.1, ports.0, ports.1),
            };
            let mut base =
                base.ports(ports.0, ports.1).dscp(Dscp::new(n.0).unwrap()).ecn(Ecn::from_octet(n.1)).ttl(n.2);
            base = base
                .identification(n.3)
                .payload_len(len)
                .options(&vec![1; words * 4])
                .flags(tcp.0)
                .window(tcp.1);
            if n.4 {
                base = base.tcp(|t| t.options.timestamps = Some((1, 2))).dont_fragment();
            }
            for (vid, pcp) in tags {
                base = base.vlan(vid, pcp);
            }
            for kind in exts {
                base = base.extension(kind, &[0; 14]);
            }
            if let Some((units, more)) = fragment {
                // An offset of 8 is refused under TCP and tested by itself.
                base = base.fragment(if units == 1 { 0 } else { units * 8 }, more);
            }
            base
        },
    )
}

/// Makes the IPv4 header checksum right again, if there is such a header, so that damage behind it is seen.
fn repair(frame: &mut [u8]) {
    let mut at = 14;
    while at < 26 && matches!(frame.get(at - 2..at), Some([0x81, 0] | [0x88, 0xa8] | [0x91, 0])) {
        at += 4;
    }
    let Some(first) = frame.get(at) else { return };
    let len = usize::from(first & 0x0f) * 4;
    if let Some(header) = frame.get_mut(at..at + len).filter(|h| h.len() >= 20) {
        header[10..12].fill(0);
        let sum = checksum::of(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn any_mutation() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), 0u8..61]), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn built_frames(builder in any_builder()) {
        let frame = builder.build();
        let layout = dissect(&frame);
        prop_assert!(layout.is_ok(), "{layout:?} {builder:?}");
        agree(&frame)?;
    }

    #[test]
    fn damaged_frames(builder in any_builder(), damage in any_mutation(), cut in 0usize..100, fix in any::<bool>()) {
        let mut frame = builder.build();
        for (at, value) in damage {
            // Damage where the headers are.
            let at = 12 + at.index(frame.len().min(110) - 12);
            frame[at] = value;
        }
        if fix && frame.get(12..14) != Some(&[0x86, 0xdd]) {
            repair(&mut frame);
        }
        frame.truncate(frame.len() - cut.saturating_sub(60).min(frame.len()));
        agree(&frame)?;
    }

    /// The other's idea of the transport checksum is what we wrote.
    #[test]
    fn checksums(builder in any_builder()) {
        let frame = builder.build();
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let addresses = match &sliced.net {
            Some(NetSlice::Ipv4(ip)) => Ok((ip.header().source(), ip.header().destination())),
            Some(NetSlice::Ipv6(ip)) => Err((ip.header().source(), ip.header().destination())),
            _ => return Ok(()),
        };
        match (&sliced.transport, addresses) {
            (Some(TransportSlice::Udp(udp)), Ok((src, dst))) => {
                let theirs = udp.to_header().calc_checksum_ipv4_raw(src, dst, udp.payload()).unwrap();
                prop_assert_eq!(udp.checksum(), theirs);
            }
            (Some(TransportSlice::Udp(udp)), Err((src, dst))) => {
                let theirs = udp.to_header().calc_checksum_ipv6_raw(src, dst, udp.payload()).unwrap();
                prop_assert_eq!(udp.checksum(), theirs);
            }
            (Some(TransportSlice::Tcp(tcp)), Ok((src, dst))) => {
                prop_assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv4(src, dst).unwrap());
            }
            (Some(TransportSlice::Tcp(tcp)), Err((src, dst))) => {
                prop_assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv6(src, dst).unwrap());
            }
            (Some(TransportSlice::Icmpv4(icmp)), Ok(_)) => {
                prop_assert_eq!(icmp.checksum(), icmp.icmp_type().calc_checksum(icmp.payload()));
            }
            (Some(TransportSlice::Icmpv6(icmp)), Err((src, dst))) => {
                prop_assert!(icmp.is_checksum_valid(src, dst));
            }
            _ => {}
        }
    }

    /// Every length an IP packet may claim, so that each header is cut at each place.
    #[test]
    fn shortened_packets(builder in any_builder(), len in any::<prop::sample::Index>()) {
        let mut frame = builder.build();
        let layout = dissect(&frame).unwrap();
        let at = usize::from(layout.l3_offset);
        let len = len.index(usize::from(layout.ip_len)) as u16;
        if layout.ip_version == 4 {
            frame[at + 2..at + 4].copy_from_slice(&len.to_be_bytes());
            repair(&mut frame);
        } else {
            frame[at + 4..at + 6].copy_from_slice(&len.saturating_sub(40).to_be_bytes());
        }
        agree(&frame)?;
    }

    #[test]
    fn noise(mut frame in proptest::collection::vec(any::<u8>(), 0..120), kind in 0usize..6) {
        let types = [[8, 0, 0x45, 0], [0x86, 0xdd, 0x60, 0], [8, 6, 0, 1], [0x81, 0, 0, 7], [0x88, 0xa8, 0, 7], [0x91, 0, 0, 1]];
        if let Some(slot) = frame.get_mut(12..16) {
            slot.copy_from_slice(&types[kind]);
        }
        agree(&frame)?;
    }

    /// The walk of `ipv6_ext` and the one of `dissect` end at the same place.
    #[test]
    fn both_walks_agree(builder in any_builder()) {
        let frame = builder.build();
        let layout = dissect(&frame).unwrap();
        if layout.ip_version == 6 && layout.fragment != Fragment::Later {
            let packet = &frame[usize::from(layout.l3_offset)..];
            let mut walk: Extensions<'_> = ipv6::View::new_checked(packet).unwrap().extensions();
            prop_assert!(walk.by_ref().all(|e| e.is_ok()));
            prop_assert_eq!(walk.next_header(), layout.protocol);
            prop_assert_eq!(offset(&frame, walk.rest()), layout.l4_offset);
        }
    }
}

/// The comparison is worth something only if much is compared.
#[test]
fn most_built_frames_are_compared() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let compared = (0..500)
        .filter(|_| agree(&any_builder().new_tree(&mut runner).unwrap().current().build()).unwrap())
        .count();
    assert!(compared > 250, "{compared} of 500");
}
