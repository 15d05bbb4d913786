//! Which way a packet goes, and what is changed in it.

use super::*;
use perhop_element::Reject;
use perhop_elements::route::{Sources, Verdict};
use perhop_wire::build::{icmp6_echo, tcp4, udp4, udp6};
use perhop_wire::{Fragment, ethertype, ipv4, protocol};
use proptest::prelude::*;

#[test]
fn a_packet_changes_in_macs_ttl_and_checksum_only() {
    let mut router = Router::new();
    let sent = udp4([10, 0, 0, 9], [20, 1, 2, 3]).ports(5, 6).payload(&[7; 300]).ttl(9);
    router.receive(0, sent.clone());
    assert_eq!(router.frames(1), [sent.macs(ROUTER[1], STATION[1]).ttl(8).build()]);
    let packet = router.packets(1).next().unwrap();
    assert_eq!((packet.meta().out_port, packet.meta().class), (PortId(1), ClassId(7)));
}

#[test]
fn ipv6_likewise() {
    let mut router = Router::new();
    let sent = udp6(v6("2001:db8::9"), v6("2001:db8:20::3")).ports(5, 6).payload(&[7; 300]).ttl(9);
    router.receive(0, sent.clone());
    let on_link = icmp6_echo(v6("2001:db8:1::2"), v6("2001:db8::9"), 1, 2);
    router.receive(1, on_link.clone());
    assert_eq!(router.frames(1), [sent.macs(ROUTER[1], STATION[1]).ttl(8).build()]);
    assert_eq!(router.frames(0), [on_link.macs(ROUTER[0], STATION[0]).ttl(63).build()]);
}

pub(crate) fn v6(text: &str) -> std::net::Ipv6Addr {
    text.parse().unwrap()
}

#[test]
fn padding_behind_the_packet_is_cut() {
    let mut router = Router::new();
    let mut frame = udp4([10, 0, 0, 9], [20, 1, 2, 3]).macs(STATION[0], ROUTER[0]).payload_len(8).build();
    frame.resize(900, 0xee);
    router.receive_frame(0, &frame);
    assert_eq!(router.frames(1)[0].len(), 60);
}

#[test]
fn this_machine_gets_its_own() {
    let mut router = Router::new();
    router.receive(0, udp4([10, 0, 0, 9], [10, 1, 0, 1]).ttl(1));
    router.receive(0, udp4([10, 0, 0, 9], [224, 0, 0, 5]).ttl(1));
    router.receive(0, udp4([0, 0, 0, 0], [255, 255, 255, 255]));
    router.receive(0, udp4([10, 0, 0, 9], [10, 0, 0, 255]));
    router.receive(0, udp6(v6("2001:db8::9"), v6("2001:db8::1")));
    router.receive(0, udp6(v6("fe80::9"), v6("fe80::1")));
    router.receive(0, udp6(v6("::"), v6("ff02::1:ff00:1")));
    let mut arp = vec![0; 60];
    arp[..6].fill(0xff);
    arp[6..12].copy_from_slice(&STATION[0].0);
    arp[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    router.receive_frame(0, &arp);
    let broadcast = udp4([10, 0, 0, 9], [10, 0, 0, 255]).macs(STATION[0], MacAddr::BROADCAST);
    router.receive_frame(0, &broadcast.build());
    assert_eq!(router.counts(), [0, 0, 0, 9]);
    assert_eq!(router.frames(HOST)[7], arp);
    assert_eq!(router.counter(router.bench.node, "delivered"), 9);
}

#[test]
fn frames_for_others_and_tagged_frames_are_dropped() {
    let mut router = Router::new();
    router.receive_frame(0, &udp4([10, 0, 0, 9], [20, 0, 0, 1]).macs(STATION[0], ROUTER[1]).build());
    router.receive_frame(9, &udp4([10, 0, 0, 9], [20, 0, 0, 1]).macs(STATION[0], ROUTER[0]).build());
    assert_eq!(router.drops(DropReason::OtherHost), 2);
    router.receive(0, udp4([10, 0, 0, 9], [20, 0, 0, 1]).vlan(3, 0));
    assert_eq!(router.drops(DropReason::VlanTag), 1);
    let group = udp4([10, 0, 0, 9], [20, 0, 0, 1]).macs(STATION[0], MacAddr::BROADCAST);
    router.receive_frame(0, &group.build());
    assert_eq!(router.drops(DropReason::BadDestination), 1);
    // Nor is a broadcast frame answered.
    let group = udp4([10, 0, 0, 9], [99, 0, 0, 1]).macs(STATION[0], MacAddr([1, 0, 0x5e, 1, 1, 1]));
    router.receive_frame(0, &group.build());
    assert_eq!(router.drops(DropReason::BadDestination), 2);
    assert_eq!(router.counts(), [0; 4]);
}

/// VLAN 0 names none: such a tag has a priority only, and the frame is as one without it.
#[test]
fn frames_with_a_priority_alone_are_forwarded_without_their_tag() {
    for tags in [&[(0, 5)][..], &[(0, 0), (0, 7)]] {
        let mut router = Router::new();
        for plain in [
            udp4([10, 0, 0, 9], [20, 0, 0, 1]).ports(1, 2).payload_len(100),
            udp6(v6("2001:db8::9"), v6("2001:db8:20::1")).ports(1, 2).payload_len(3),
        ] {
            let tagged = tags.iter().fold(plain.clone(), |frame, (vid, pcp)| frame.vlan(*vid, *pcp));
            router.receive(0, tagged.clone());
            router.receive(0, plain);
            let frames = router.frames(1);
            let [.., once, again] = frames.as_slice() else { panic!("{} frames", frames.len()) };
            assert_eq!(once, again, "{tags:?}");
        }
        // To be forwarded in pieces, and to this machine.
        router.set_mtu(1, 600);
        let tagged =
            |dst| tags.iter().fold(udp4([10, 0, 0, 9], dst), |frame, (vid, pcp)| frame.vlan(*vid, *pcp));
        router.receive(0, tagged([20, 0, 0, 1]).payload_len(1000));
        router.receive(0, tagged([10, 0, 0, 1]));
        assert_eq!(router.counts(), [0, 6, 0, 1]);
        let frame = tagged([20, 0, 0, 1]).macs(STATION[0], ROUTER[0]).build();
        let layout = perhop_wire::dissect(&frame).unwrap();
        let said = router.bench.element::<Route>().explain(&frame, &layout, PortId(0));
        assert!(matches!(said.verdict, Verdict::Hop(_)), "{:?}", said.verdict);
    }
    let mut router = Router::new();
    router.receive(0, udp4([10, 0, 0, 9], [20, 0, 0, 1]).vlan(0, 5).vlan(3, 0));
    assert_eq!(router.drops(DropReason::VlanTag), 1, "a VLAN behind a priority");
}

#[test]
fn martians_v4() {
    for (source, destination, reason) in [
        ([0, 0, 0, 0], [20, 0, 0, 1], DropReason::BadSource),
        ([127, 0, 0, 1], [20, 0, 0, 1], DropReason::BadSource),
        ([224, 0, 0, 1], [20, 0, 0, 1], DropReason::BadSource),
        ([240, 0, 0, 1], [20, 0, 0, 1], DropReason::BadSource),
        ([255, 255, 255, 255], [20, 0, 0, 1], DropReason::BadSource),
        ([169, 254, 0, 1], [20, 0, 0, 1], DropReason::BadSource),
        ([10, 0, 0, 9], [0, 0, 0, 1], DropReason::BadDestination),
        ([10, 0, 0, 9], [127, 0, 0, 1], DropReason::BadDestination),
        ([10, 0, 0, 9], [169, 254, 0, 1], DropReason::BadDestination),
        ([10, 0, 0, 9], [240, 0, 0, 1], DropReason::BadDestination),
    ] {
        let mut router = Router::new();
        router.receive(0, udp4(source, destination));
        assert_eq!(router.drops(reason), 1, "{source:?} to {destination:?}");
        assert_eq!(router.counts(), [0; 4]);
    }
}

#[test]
fn martians_v6() {
    for (source, destination, reason) in [
        ("::", "2001:db8:20::1", DropReason::BadSource),
        ("::1", "2001:db8:20::1", DropReason::BadSource),
        ("::ffff:10.0.0.9", "2001:db8:20::1", DropReason::BadSource),
        ("ff02::1", "2001:db8:20::1", DropReason::BadSource),
        ("ff02::1", "ff02::2", DropReason::BadSource),
        ("fe80::9", "2001:db8:20::1", DropReason::BadSource),
        ("2001:db8::9", "::1", DropReason::BadDestination),
        ("2001:db8::9", "::", DropReason::BadDestination),
    ] {
        let mut router = Router::new();
        router.receive(0, udp6(v6(source), v6(destination)));
        assert_eq!(router.drops(reason), 1, "{source} to {destination}");
        assert_eq!(router.counts(), [0; 4]);
    }
}

#[test]
fn both_directions_of_a_flow_take_the_same_member() {
    let mut router = Router::new();
    let (mut forth, mut used) = (vec![], [0, 0]);
    for port in 0..64u16 {
        let before = router.counts();
        router.receive(0, udp4([10, 0, 0, 9], [30, 0, 0, 1]).ports(port, 9000));
        let after = router.counts();
        let taken = usize::from(after[2] > before[2]);
        used[taken] += 1;
        forth.push(taken);
    }
    assert!(used.iter().all(|n| *n >= 16), "{used:?}");
    // Backwards through a router whose group leads to the other side.
    let back = via("10.0.0.0/24", &[(Some("10.1.0.2"), 1), (Some("10.2.0.2"), 2)]);
    router.change(RouteChange { fib: Some(Fib::build(vec![back])), ..RouteChange::default() });
    for (port, taken) in forth.iter().enumerate() {
        let before = router.counts();
        router.receive(0, udp4([30, 0, 0, 1], [10, 0, 0, 9]).ports(9000, port as u16));
        assert_eq!(usize::from(router.counts()[2] > before[2]), *taken);
    }
}

#[test]
fn the_seed_decides_which_flows_take_which_member() {
    let taken = |seed| {
        let mut router = Router::new();
        router.change(RouteChange { path_seed: Some(seed), ..RouteChange::default() });
        let by_second = |n: u8| {
            let before = router.counts();
            router.receive(0, udp4([10, 0, 0, n], [30, 0, 0, n]).ports(5060, 5060));
            router.counts()[2] > before[2]
        };
        (2..202).map(by_second).collect::<Vec<bool>>()
    };
    let [one, again, other] = [7, 7, 8].map(taken);
    assert_eq!(one, again);
    let alike = one.iter().zip(&other).filter(|(a, b)| a == b).count();
    assert!((64..=136).contains(&alike), "{alike} of 200");
}

#[test]
fn fragments_of_a_flow_stay_together() {
    let mut router = Router::new();
    for n in 0..20 {
        let piece = |at, more| udp4([10, 0, 0, 9], [30, 0, 0, n]).ports(n.into(), 9).fragment(at, more);
        let before = router.counts();
        router.receive(0, piece(0, true).payload_len(16));
        router.receive(0, piece(24, false).payload_len(16));
        let after = router.counts();
        assert!(after[1] == before[1] + 2 || after[2] == before[2] + 2);
    }
}

#[test]
fn too_long_packets_are_cut_and_keep_their_class() {
    let mut router = Router::new();
    router.set_mtu(1, 600);
    let payload: Vec<u8> = (0..1400u32).map(|i| (i * 7) as u8).collect();
    let sent = udp4([10, 0, 0, 9], [20, 1, 2, 3]).ports(5, 6).payload(&payload).identification(99).ttl(9);
    router.receive(0, sent.clone());
    let frames = router.frames(1);
    assert_eq!(frames.len(), 3);
    let mut data = vec![];
    for (packet, frame) in router.packets(1).zip(&frames) {
        let view = ipv4::View::new_checked(&frame[14..]).unwrap();
        assert!(view.total_len() <= 600);
        assert_eq!((view.ttl(), usize::from(view.fragment_offset())), (8, data.len()));
        data.extend_from_slice(view.payload());
        assert_eq!(frame[..6], STATION[1].0);
        assert_eq!(packet.meta().class, ClassId(7));
        assert_eq!(packet.meta().out_port, PortId(1));
        assert_eq!(packet.meta().layout, perhop_wire::dissect(frame).unwrap());
        assert_ne!(packet.meta().layout.fragment, Fragment::Whole);
    }
    assert_eq!(data, sent.build_ip()[20..]);
    let books = router.bench.driver.counters(router.bench.node).unwrap();
    assert_eq!((books.made, books.consumed, books.emitted), (3, 1, 3));
    assert_eq!(router.counter(router.bench.node, "fragments"), 3);
    // A fragment is cut again.
    router.set_mtu(1, 300);
    router.receive(0, udp4([10, 0, 0, 9], [20, 1, 2, 3]).fragment(800, true).payload(&payload[..400]));
    let later: Vec<_> = router.packets(1).skip(3).map(|p| p.meta().layout.fragment).collect();
    assert_eq!(later, [Fragment::Later; 2]);
}

#[test]
fn fragments_come_all_or_not_at_all() {
    let mut router = Router::new();
    router.set_mtu(1, 100);
    let pool = router.bench.driver.pool().clone();
    let mut hoard: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    for packet in hoard.drain(..5) {
        packet.release();
    }
    router.receive(0, udp4([10, 0, 0, 9], [20, 1, 2, 3]).payload_len(1000));
    assert_eq!(router.counts(), [0; 4]);
    // The original and the four pieces that had a buffer.
    assert_eq!(router.drops(DropReason::NoBuffer), 5);
    hoard.into_iter().for_each(Packet::release);
}

#[test]
fn unparsed_packets_are_parsed_and_bad_ones_dropped() {
    let mut router = Router::new();
    let mut frame = udp4([10, 0, 0, 9], [20, 1, 2, 3]).macs(STATION[0], ROUTER[0]).build();
    let mut packet = router.bench.driver.pool().packet(&frame).unwrap();
    packet.meta_mut().in_port = PortId(0);
    router.bench.push_packet(0, packet);
    assert_eq!(router.counts(), [0, 1, 0, 0]);
    frame[20] ^= 1;
    router.receive_frame(0, &frame);
    assert_eq!(router.drops(DropReason::Malformed(perhop_wire::Malformed::Ipv4Checksum)), 1);
}

#[test]
fn another_table_takes_over_and_the_old_one_comes_back() {
    let mut router = Router::new();
    let only = vec![via("20.0.0.0/8", &[(Some("10.2.0.2"), 2)])];
    let change = router.change(RouteChange { fib: Some(Fib::build(only)), ..RouteChange::default() });
    assert_eq!(change.fib.unwrap().routes(), routes().len());
    router.receive(0, udp4([10, 0, 0, 9], [20, 1, 2, 3]));
    assert_eq!(router.counts(), [0, 0, 1, 0]);
    // Other link addresses of a port reach every adjacency.
    let mut list = ports();
    list[2].mac = ROUTER[0];
    router.change(RouteChange { ports: Some(list), ..RouteChange::default() });
    router.receive(0, udp4([10, 0, 0, 9], [20, 1, 2, 3]));
    assert_eq!(router.frames(2)[1][6..12], ROUTER[0].0);
}

#[test]
fn explaining_agrees_with_what_happens_and_changes_nothing() {
    let mut router = Router::new();
    router.set_mtu(1, 600);
    let ten = [10, 0, 0, 9];
    let reject = |reason, reject| Verdict::Reject(reason, reject);
    let cases = [
        (udp4(ten, [20, 0, 0, 1]), Verdict::Hop(0), Some("20.0.0.0/8"), Some(STATION[1]), false),
        (
            udp4(ten, [20, 0, 0, 1]).payload_len(900),
            Verdict::Hop(0),
            Some("20.0.0.0/8"),
            Some(STATION[1]),
            true,
        ),
        (
            udp4(ten, [20, 0, 0, 1]).payload_len(900).dont_fragment(),
            reject(DropReason::TooBig, Reject::TooBig { mtu: 600 }),
            Some("20.0.0.0/8"),
            None,
            false,
        ),
        (
            udp4(ten, [20, 0, 0, 1]).ttl(1),
            reject(DropReason::TtlExpired, Reject::TtlExpired),
            Some("20.0.0.0/8"),
            None,
            false,
        ),
        (udp4(ten, [10, 2, 0, 99]), Verdict::Hop(0), Some("10.2.0.0/24"), None, false),
        (udp4(ten, [10, 0, 0, 1]), Verdict::Host, Some("10.0.0.1/32"), None, false),
        (udp4(ten, [99, 0, 0, 1]), reject(DropReason::NoRoute, Reject::NetUnreachable), None, None, false),
        (udp4([127, 0, 0, 1], ten), Verdict::Drop(DropReason::BadSource), Some("10.0.0.0/24"), None, false),
        (
            udp6(v6("2001:db8::9"), v6("2001:db8:20::1")),
            Verdict::Hop(0),
            Some("2001:db8:20::/48"),
            Some(STATION[1]),
            false,
        ),
    ];
    for (sent, verdict, route, link_address, fragments) in cases {
        let frame = sent.macs(STATION[0], ROUTER[0]).build();
        let layout = perhop_wire::dissect(&frame).unwrap();
        let said = router.bench.element::<Route>().explain(&frame, &layout, PortId(0));
        match (said.verdict, verdict) {
            (Verdict::Hop(_), Verdict::Hop(_)) => {}
            (said, expected) => assert_eq!(said, expected),
        }
        assert_eq!(said.route.and_then(|r| Some(r.dest?.to_string())).as_deref(), route);
        assert_eq!((said.link_address, said.fragments), (link_address, fragments));
    }
    assert_eq!(router.counts(), [0; 4]);
    assert_eq!(router.requests(), []);
}

#[test]
fn a_port_that_is_not_there_is_down() {
    let mut router = Router::new();
    let far = vec![via("20.0.0.0/8", &[(None, 77)])];
    router.change(RouteChange { fib: Some(Fib::build(far)), ..RouteChange::default() });
    router.receive(0, udp4([10, 0, 0, 9], [20, 1, 2, 3]));
    assert_eq!(router.drops(DropReason::PortDown), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn forwarding_is_a_ttl_less_and_other_macs(
        ttl: u8, dst in any::<[u8; 3]>(), tcp: bool, options in 0usize..10, len in 0usize..1400, df: bool,
    ) {
        let mut router = Router::new();
        let dst = [20, dst[0], dst[1], dst[2]];
        let sent = if tcp { tcp4([10, 0, 0, 9], dst) } else { udp4([10, 0, 0, 9], dst) };
        let sent = sent.ports(1, 2).payload_len(len).options(&vec![1; options * 4]).ttl(ttl);
        let sent = if df { sent.dont_fragment() } else { sent };
        router.receive(0, sent.clone());
        if ttl <= 1 {
            prop_assert_eq!(router.drops(DropReason::TtlExpired), 1);
            let answer = &router.frames(0)[0];
            prop_assert_eq!((answer[23], answer[34]), (protocol::ICMPV4, 11));
        } else {
            let expected = sent.macs(ROUTER[1], STATION[1]).ttl(ttl - 1).build();
            prop_assert_eq!(router.frames(1), [expected]);
        }
    }

    #[test]
    fn no_frame_panics(frame in proptest::collection::vec(any::<u8>(), 0..120), kind in 0u8..3) {
        let mut frame = frame;
        if frame.len() > 14 {
            frame[..6].copy_from_slice(&ROUTER[0].0);
            let ethertype = [ethertype::IPV4, ethertype::IPV6, ethertype::ARP][usize::from(kind)];
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        }
        Router::new().receive_frame(0, &frame);
    }
}

/// What each port does with a source, of those that lead back by it, by another, past the ports, and nowhere.
#[test]
fn a_port_takes_sources_to_which_there_is_a_way_back_and_none_else() {
    let sources = [[10, 0, 0, 9], [10, 1, 0, 7], [30, 0, 0, 9], [50, 0, 0, 9]];
    let takes = |kind: Sources| {
        sources.map(|source| {
            let mut router = Router::new();
            let mut list = ports();
            list[0].sources = [kind, Sources::All];
            router.change(RouteChange { ports: Some(list), ..RouteChange::default() });
            router.receive(0, udp4(source, [20, 1, 2, 3]).ports(5, 6));
            // To this machine goes what is its own; the kernel looks for itself.
            router.receive(0, udp4(source, [10, 1, 0, 1]).ports(5, 6));
            assert_eq!(router.frames(HOST).len(), 1);
            router.receive(0, udp6(v6("2001:db8:77::9"), v6("2001:db8:20::3")));
            let through = router.frames(1).len();
            assert!((1..=2).contains(&through), "IPv6 passes");
            through == 2
        })
    };
    assert_eq!(takes(Sources::All), [true; 4]);
    assert_eq!(takes(Sources::Routed), [true, true, true, false]);
    assert_eq!(takes(Sources::ByPort), [true, false, false, false]);
}

#[test]
fn the_mtu_of_a_route_holds_where_it_is_less_than_the_links() {
    let mut router = Router::new();
    let hop = NextHop { mtu: 1280, ..NextHop::new(Some(ip("10.1.0.2")), PortId(1)) };
    let mut with = routes();
    with.push(entry("20.5.0.0/16", RouteKind::by(hop)));
    router.change(RouteChange { fib: Some(Fib::build(with)), ..RouteChange::default() });
    let long = |last: u8, more: usize| udp4([10, 0, 0, 9], [20, last, 2, 3]).payload_len(1280 - 28 + more);
    router.receive(0, long(5, 0).dont_fragment());
    router.receive(0, long(4, 100).dont_fragment());
    assert_eq!(router.frames(1).len(), 2, "as long as the route says, and on another route");
    router.receive(0, long(5, 1));
    assert_eq!(router.frames(1).len(), 4, "in two pieces");
    router.receive(0, long(5, 1).dont_fragment());
    assert_eq!(router.frames(1).len(), 4);
    let answer = &router.frames(0)[0];
    assert_eq!((answer[34], answer[35], &answer[40..42]), (3, 4, &1280_u16.to_be_bytes()[..]));
}
