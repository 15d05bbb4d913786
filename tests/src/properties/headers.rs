//! One header each: what a view accepts, its representation writes back; what a rewrite changes, checksums follow.

use perhop_units::Dscp;
use perhop_wire::checksum::{Sum, pseudo_header_v6};
use perhop_wire::{
    Ecn, HeaderError, Malformed, arp as arp_wire, dissect, ethernet as ethernet_wire, icmpv4 as icmpv4_wire,
    icmpv6 as icmpv6_wire, ipv4 as ipv4_wire, ipv6 as ipv6_wire, ipv6_ext as ext, layout, ndp as ndp_wire,
    protocol, rtp as rtp_wire, tcp as tcp_wire, tcp_options as options, udp as udp_wire, vlan as vlan_wire,
};

/// Any pseudo-header serves: the sum over it is what is tested.
fn pseudo(len: usize) -> Sum {
    pseudo_header_v6([0xfe; 16], [0x01; 16], protocol::ICMPV6, len as u32)
}

/// An Ethernet frame of `ethertype` around `packet`.
fn framed(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; ethernet_wire::HEADER_LEN];
    ethernet_wire::Repr { ethertype, ..Default::default() }.emit(&mut frame);
    frame.extend_from_slice(packet);
    frame
}

/// Ethernet II: every 14 bytes are a header, and writing its fields gives the same bytes.
pub fn ethernet(data: &[u8]) {
    let Ok(view) = ethernet_wire::View::new_checked(data) else {
        assert!(data.len() < ethernet_wire::HEADER_LEN);
        return;
    };
    let mut out = [0xaa; ethernet_wire::HEADER_LEN];
    ethernet_wire::Repr::parse(&view).emit(&mut out);
    assert_eq!(out, data[..out.len()]);
    assert_eq!(view.payload(), &data[out.len()..]);
}

/// VLAN tag: as Ethernet; setting the priority changes the priority alone.
pub fn vlan(data: &[u8]) {
    let Ok(view) = vlan_wire::View::new_checked(data) else {
        assert!(data.len() < vlan_wire::HEADER_LEN);
        return;
    };
    let repr = vlan_wire::Repr::parse(&view);
    let mut out = [0xaa; vlan_wire::HEADER_LEN];
    repr.emit(&mut out);
    assert_eq!(out, data[..out.len()]);
    let pcp = view.payload().first().map_or(0, |b| b & 7);
    let mut tag = vlan_wire::ViewMut::new_checked(&mut out).expect("long enough");
    tag.set_pcp(pcp);
    tag.set_drop_eligible(!repr.drop_eligible);
    let changed = vlan_wire::Repr::parse(&vlan_wire::View::new_checked(&out).expect("long enough"));
    assert_eq!(changed, vlan_wire::Repr { pcp, drop_eligible: !repr.drop_eligible, ..repr });
}

/// ARP: a packet for Ethernet and IPv4 writes back as the same bytes, and a frame of it dissects.
pub fn arp(data: &[u8]) {
    let view = arp_wire::View::new_checked(data);
    assert_eq!(view.is_ok(), dissect(&framed(0x0806, data)).is_ok());
    let Ok(view) = view else { return };
    let mut out = [0xaa; arp_wire::HEADER_LEN];
    arp_wire::Repr::parse(&view).emit(&mut out);
    assert_eq!(out, data[..out.len()]);
}

/// IPv4: an accepted header survives writing and reading, agrees with [`dissect`], and every rewrite keeps its checksum
/// right.
pub fn ipv4(data: &[u8]) {
    let view = ipv4_wire::View::new_checked(data);
    let frame = framed(0x0800, data);
    let dissected = dissect(&frame);
    let Ok(view) = view else {
        assert!(dissected.is_err(), "{view:?}, but the frame is {dissected:?}");
        return;
    };
    match dissected {
        Ok(l) => {
            assert_eq!((l.ip_version, l.l3_offset, l.ip_len), (4, 14, view.total_len()));
            assert_eq!((l.protocol, Dscp::from_octet(l.tos)), (view.protocol(), view.dscp()));
        }
        // What only dissection looks at: options, fragments and the transport header.
        Err(
            Malformed::Ipv4Options
            | Malformed::Ipv4Fragment
            | Malformed::UdpLength
            | Malformed::TcpLength
            | Malformed::IcmpTruncated,
        ) => {}
        Err(other) => panic!("accepted by the view, {other:?} as a frame"),
    }
    let repr = ipv4_wire::Repr::parse(&view);
    let mut out = vec![0xaa; repr.len()];
    repr.emit(&mut out);
    out.extend_from_slice(view.payload());
    let again = ipv4_wire::View::new_checked(&out).expect("what was emitted is well formed");
    assert_eq!(ipv4_wire::Repr::parse(&again), repr);
    assert_eq!(again.payload(), view.payload());

    let mut packet = data.to_vec();
    let dscp = Dscp::from_octet(data[data.len() - 1]);
    let ecn = Ecn::from_octet(data[data.len() / 2]);
    let mut header = ipv4_wire::ViewMut::new_checked(&mut packet).expect("accepted before");
    header.set_dscp(dscp);
    header.set_ecn(ecn);
    let lived = header.decrement_ttl().is_ok();
    assert_eq!(lived, repr.ttl > 1);
    let after = ipv4_wire::View::new_checked(&packet).expect("a rewrite keeps the checksum right");
    let expected = ipv4_wire::Repr { dscp, ecn, ttl: repr.ttl - u8::from(lived), ..repr };
    assert_eq!(ipv4_wire::Repr::parse(&after), expected);
}

/// IPv6: an accepted header writes back as the same bytes; a rewrite changes its field alone.
pub fn ipv6(data: &[u8]) {
    let Ok(view) = ipv6_wire::View::new_checked(data) else {
        assert!(dissect(&framed(0x86dd, data)).is_err());
        return;
    };
    assert_eq!(view.payload().len(), usize::from(view.payload_len()));
    let repr = ipv6_wire::Repr::parse(&view);
    let mut out = [0xaa; ipv6_wire::HEADER_LEN];
    repr.emit(&mut out);
    assert_eq!(out, data[..out.len()]);
    if let Ok(l) = dissect(&framed(0x86dd, data)) {
        assert_eq!(u32::from(l.ip_len), 40 + u32::from(view.payload_len()));
        assert_eq!(Dscp::from_octet(l.tos), view.dscp());
    }
    let dscp = Dscp::from_octet(data[data.len() - 1]);
    let ecn = Ecn::from_octet(data[data.len() / 2]);
    let mut header = ipv6_wire::ViewMut::new_checked(&mut out).expect("accepted before");
    header.set_dscp(dscp);
    header.set_ecn(ecn);
    let lived = header.decrement_hop_limit().is_ok();
    assert_eq!(lived, repr.hop_limit > 1);
    let expected = ipv6_wire::Repr { dscp, ecn, hop_limit: repr.hop_limit - u8::from(lived), ..repr };
    let mut anew = [0; ipv6_wire::HEADER_LEN];
    expected.emit(&mut anew);
    assert_eq!(out, anew);
}

/// IPv6 extension headers: the walk ends, loses no byte, and finds what [`dissect`] finds. The first byte of the input
/// is the first header's type.
pub fn ipv6_ext(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let mut walk = ext::Extensions::new(first, rest);
    let (mut walked, mut error, mut steps) = (0, None, 0);
    for step in walk.by_ref() {
        steps += 1;
        assert!(steps <= layout::MAX_IPV6_EXTENSIONS + 1, "the walk does not end");
        match step {
            Ok(extension) => {
                assert_eq!(extension.bytes, &rest[walked..walked + extension.bytes.len()]);
                walked += extension.bytes.len();
                if extension.kind == protocol::IPV6_FRAGMENT {
                    fragment_header(extension.bytes);
                }
            }
            Err(e) => error = Some(e),
        }
    }
    assert!(walk.next().is_none());
    assert_eq!(walked + walk.rest().len(), rest.len());

    let Ok(payload_len) = u16::try_from(rest.len()) else { return };
    let header = ipv6_wire::Repr { payload_len, next_header: first, ..Default::default() };
    let mut packet = vec![0; ipv6_wire::HEADER_LEN];
    header.emit(&mut packet);
    packet.extend_from_slice(rest);
    if let Ok(l) = dissect(&framed(0x86dd, &packet)) {
        assert_eq!(error, None);
        assert_eq!(l.protocol, walk.next_header());
        if l.l4_offset != 0 {
            assert_eq!(usize::from(l.l4_offset), 14 + 40 + walked);
        }
    }
}

fn fragment_header(bytes: &[u8]) {
    let view = ext::View::new_checked(bytes).expect("a fragment header has 8 bytes");
    let mut out = [0xaa; ext::FRAGMENT_HEADER_LEN];
    ext::Repr::parse(&view).emit(&mut out);
    let mut expected = [0; ext::FRAGMENT_HEADER_LEN];
    expected.copy_from_slice(bytes);
    // Reserved bits are sent as zero.
    (expected[1], expected[3]) = (0, expected[3] & 0xf9);
    assert_eq!(out, expected);
}

/// ICMP: fields survive writing and reading; a computed checksum is valid; no error counts as none.
pub fn icmpv4(data: &[u8]) {
    let Ok(view) = icmpv4_wire::View::new_checked(data) else {
        assert!(data.len() < icmpv4_wire::HEADER_LEN);
        return;
    };
    let repr = icmpv4_wire::Repr::parse(&view);
    let mut out = data.to_vec();
    repr.emit(&mut out);
    icmpv4_wire::fill_checksum(&mut out);
    let again = icmpv4_wire::View::new_checked(&out).expect("long enough");
    assert!(again.checksum_is_valid());
    assert_eq!(icmpv4_wire::Repr::parse(&again), repr);
    assert_eq!((again.kind(), again.code(), again.body()), (view.kind(), view.code(), view.body()));
    use icmpv4_wire::Repr::*;
    if matches!(repr, EchoRequest { .. } | EchoReply { .. }) {
        assert!(!view.is_error());
        assert_eq!(&out[4..], &data[4..]);
    }
    if matches!(repr, Unreachable { .. } | FragmentationNeeded { .. } | TimeExceeded { .. } | Redirect { .. })
    {
        assert!(view.is_error());
    }
}

/// ICMPv6: as [`icmpv4`], over a pseudo-header.
pub fn icmpv6(data: &[u8]) {
    let Ok(view) = icmpv6_wire::View::new_checked(data) else {
        assert!(data.len() < icmpv6_wire::HEADER_LEN);
        return;
    };
    let repr = icmpv6_wire::Repr::parse(&view);
    let mut out = data.to_vec();
    repr.emit(&mut out);
    icmpv6_wire::fill_checksum(&mut out, pseudo(data.len()));
    let again = icmpv6_wire::View::new_checked(&out).expect("long enough");
    assert!(again.checksum_is_valid(pseudo(data.len())));
    assert_eq!(icmpv6_wire::Repr::parse(&again), repr);
    assert_eq!((again.kind(), again.body()), (view.kind(), view.body()));
    use icmpv6_wire::Repr::*;
    assert_eq!(view.is_error(), view.kind() < 128);
    if matches!(repr, EchoRequest { .. } | EchoReply { .. }) {
        assert!(!view.is_error());
    }
}

/// Neighbour discovery: what is read survives writing and reading.
pub fn ndp(data: &[u8]) {
    let view = match ndp_wire::View::new_checked(data) {
        Ok(view) => view,
        Err(e) => {
            assert_eq!(e == HeaderError::Truncated, data.len() < ndp_wire::HEADER_LEN);
            return;
        }
    };
    let repr = ndp_wire::Repr::parse(&view);
    let mut out = vec![0xaa; repr.len()];
    repr.emit(&mut out);
    icmpv6_wire::fill_checksum(&mut out, pseudo(repr.len()));
    let again = ndp_wire::View::new_checked(&out).expect("what was emitted is well formed");
    assert_eq!(ndp_wire::Repr::parse(&again), repr);
}

/// UDP: all but the checksum writes back as the same bytes; a computed checksum is valid and never zero.
pub fn udp(data: &[u8]) {
    let Ok(view) = udp_wire::View::new_checked(data) else { return };
    assert_eq!(view.payload().len() + udp_wire::HEADER_LEN, usize::from(view.length()));
    let mut out = data[..usize::from(view.length())].to_vec();
    udp_wire::Repr::parse(&view).emit(&mut out);
    assert_eq!(out[..6], data[..6]);
    udp_wire::fill_checksum(&mut out, pseudo(data.len()));
    let again = udp_wire::View::new_checked(&out).expect("what was emitted is well formed");
    assert_ne!(again.checksum(), 0);
    assert!(again.checksum_is_valid(pseudo(data.len())));
    assert_eq!(again.payload(), view.payload());
    if view.checksum() != 0 && view.checksum_is_valid(pseudo(data.len())) {
        // Zero in ones' complement has two forms.
        assert_eq!(view.checksum() % 0xffff, again.checksum() % 0xffff);
    }
}

/// TCP: fields and known options survive writing and reading; rewriting the window keeps the checksum right.
pub fn tcp(data: &[u8]) {
    let Ok(view) = tcp_wire::View::new_checked(data) else { return };
    assert_eq!(view.payload(), &data[view.header_len()..]);
    let mut segment = data.to_vec();
    tcp_wire::fill_checksum(&mut segment, pseudo(data.len()));
    let window = u16::from_be_bytes([data[data.len() - 1], data[data.len() / 2]]);
    tcp_wire::ViewMut::new_checked(&mut segment).expect("long enough").set_window(window);
    let clamped = tcp_wire::View::new_checked(&segment).expect("as long as before");
    assert!(clamped.checksum_is_valid(pseudo(data.len())));
    assert_eq!(clamped.window(), window);

    let Ok(repr) = tcp_wire::Repr::parse(&view) else { return };
    let mut out = vec![0xaa; repr.len()];
    repr.emit(&mut out);
    let again = tcp_wire::View::new_checked(&out).expect("what was emitted is well formed");
    assert_eq!(tcp_wire::Repr::parse(&again), Ok(repr));
    assert_eq!(again.payload(), b"");
}

/// TCP options: the walk ends at the first error, and known options survive writing and reading.
pub fn tcp_options(data: &[u8]) {
    let data = &data[..data.len().min(options::MAX_LEN)];
    let mut walk = options::Options::new(data);
    let mut failed = false;
    for option in walk.by_ref() {
        assert!(!failed, "the walk goes on behind an error");
        failed = option.is_err();
    }
    assert!(walk.next().is_none());
    let repr = options::Repr::parse(options::Options::new(data));
    assert_eq!(repr.is_err(), failed);
    let Ok(repr) = repr else { return };
    assert!(repr.len() <= options::MAX_LEN && repr.len().is_multiple_of(4));
    let mut out = vec![0xaa; repr.len()];
    repr.emit(&mut out);
    assert_eq!(options::Repr::parse(options::Options::new(&out)), Ok(repr));
}

/// RTP: an accepted header writes back as the same bytes, and header, payload and padding are the datagram.
pub fn rtp(data: &[u8]) {
    let rtcp = rtp_wire::is_rtcp(data);
    let Ok(view) = rtp_wire::View::new_checked(data) else { return };
    // Marker and payload type share the octet of RTCP's packet type.
    assert_eq!(rtcp, view.marker() && (64..96).contains(&view.payload_type()));
    let repr = rtp_wire::Repr::parse(&view);
    let mut out = vec![0xaa; repr.len()];
    repr.emit(&mut out);
    assert_eq!(out, data[..out.len()]);
    assert_eq!(out.len() + view.payload().len() + usize::from(view.padding()), data.len());
    assert_eq!(repr.padded, view.padding() != 0);
}
