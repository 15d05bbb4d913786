//! ICMP errors: what they say, about what, from whom, how often.

use super::forward::v6;
use super::*;
use perhop_units::Duration;
use perhop_wire::build::{icmp4_echo, icmp6_echo, tcp4, udp4, udp6};
use perhop_wire::checksum::pseudo_header_v6;
use perhop_wire::{icmpv4, icmpv6, ipv4, ipv6, protocol};

fn v4_answer(frame: &[u8]) -> (ipv4::View<'_>, icmpv4::View<'_>) {
    let ip = ipv4::View::new_checked(&frame[14..]).unwrap();
    let icmp = icmpv4::View::new_checked(ip.payload()).unwrap();
    assert!(icmp.checksum_is_valid());
    assert_eq!((ip.protocol(), ip.ttl(), ip.dscp().get()), (protocol::ICMPV4, 64, 48));
    (ip, icmp)
}

fn v6_answer(frame: &[u8]) -> (ipv6::View<'_>, icmpv6::View<'_>) {
    let ip = ipv6::View::new_checked(&frame[14..]).unwrap();
    let icmp = icmpv6::View::new_checked(ip.payload()).unwrap();
    let len = u32::from(ip.payload_len());
    let pseudo = pseudo_header_v6(ip.src().octets(), ip.dst().octets(), protocol::ICMPV6, len);
    assert!(icmp.checksum_is_valid(pseudo));
    assert_eq!((ip.next_header(), ip.hop_limit(), ip.dscp().get()), (protocol::ICMPV6, 64, 48));
    (ip, icmp)
}

#[test]
fn each_reason_has_its_message_v4() {
    use icmpv4::Repr;
    for (dst, ttl, expected) in [
        ([99, 0, 0, 1], 9, Repr::Unreachable { code: 0 }),
        ([41, 0, 0, 1], 9, Repr::Unreachable { code: 1 }),
        ([42, 0, 0, 1], 9, Repr::Unreachable { code: 13 }),
        ([20, 0, 0, 1], 1, Repr::TimeExceeded { code: 0 }),
    ] {
        let mut router = Router::new();
        let sent = udp4([10, 0, 0, 9], dst).ttl(ttl).payload(b"quote me");
        router.receive(0, sent.clone());
        assert_eq!(router.counts(), [1, 0, 0, 0], "{expected:?}");
        let frame = &router.frames(0)[0];
        assert_eq!((&frame[..6], &frame[6..12]), (&STATION[0].0[..], &ROUTER[0].0[..]));
        let (ip, icmp) = v4_answer(frame);
        assert_eq!(icmpv4::Repr::parse(&icmp), expected);
        assert_eq!((ip.src(), ip.dst()), ([10, 0, 0, 1].into(), [10, 0, 0, 9].into()));
        assert_eq!(icmp.body(), sent.build_ip());
        assert_eq!(router.counter(router.icmp, "sent"), 1);
    }
    let mut router = Router::new();
    router.receive(0, udp4([10, 0, 0, 9], [40, 0, 0, 1]));
    assert_eq!((router.counts(), router.drops(DropReason::RouteRejects)), ([0; 4], 1));
}

#[test]
fn each_reason_has_its_message_v6() {
    let mut router = Router::new();
    router.receive(0, udp6(v6("2001:db8::9"), v6("2001:db9::1")));
    router.receive(0, udp6(v6("2001:db8::9"), v6("2001:db8:20::1")).ttl(1));
    router.receive(0, udp6(v6("2001:db8::9"), v6("2001:db8:41::1")));
    router.receive(0, udp6(v6("2001:db8::9"), v6("2001:db8:1::77")));
    router.bench.run_for(Duration::from_secs(1));
    let frames = router.frames(0);
    let kinds: Vec<_> = frames.iter().map(|f| icmpv6::Repr::parse(&v6_answer(f).1)).collect();
    use icmpv6::Repr;
    assert_eq!(
        kinds,
        [
            Repr::Unreachable { code: 0 },
            Repr::TimeExceeded { code: 0 },
            Repr::Unreachable { code: 0 },
            Repr::Unreachable { code: 3 }
        ]
    );
    let (ip, _) = v6_answer(&frames[0]);
    assert_eq!((ip.src(), ip.dst()), (v6("2001:db8::1"), v6("2001:db8::9")));
}

#[test]
fn too_big_carries_the_mtu_and_quotes_what_fits() {
    let mut router = Router::new();
    router.set_mtu(1, 1300);
    let sent = udp4([10, 0, 0, 9], [20, 0, 0, 1]).payload_len(1400).dont_fragment();
    router.receive(0, sent.clone());
    let long = udp6(v6("2001:db8::9"), v6("2001:db8:20::1")).payload_len(1400);
    router.receive(0, long.clone());
    assert_eq!(router.drops(DropReason::TooBig), 2);
    let frames = router.frames(0);
    let (ip, icmp) = v4_answer(&frames[0]);
    assert_eq!(icmpv4::Repr::parse(&icmp), icmpv4::Repr::FragmentationNeeded { mtu: 1300 });
    assert_eq!(ip.total_len(), 576);
    // The TTL may have been lowered (RFC 1812 §4.3.2.3).
    assert_eq!(icmp.body(), &sent.ttl(63).build_ip()[..548]);
    let (ip, icmp) = v6_answer(&frames[1]);
    assert_eq!(icmpv6::Repr::parse(&icmp), icmpv6::Repr::PacketTooBig { mtu: 1300 });
    assert_eq!(ip.payload_len(), 1240);
    assert_eq!(icmp.body(), &long.ttl(63).build_ip()[..1232]);
}

#[test]
fn what_must_not_be_answered_is_not() {
    let nowhere = [99, 0, 0, 1];
    let error = icmpv4::Repr::Unreachable { code: 1 };
    let error6 = icmpv6::Repr::TimeExceeded { code: 0 };
    let cases = [
        icmp4_echo([10, 0, 0, 9], nowhere, 1, 1).icmpv4(error),
        udp4([10, 0, 0, 9], nowhere).fragment(800, false).payload_len(32),
        icmp6_echo(v6("2001:db8::9"), v6("2001:db9::1"), 1, 1).icmpv6(error6),
        udp6(v6("2001:db8::9"), v6("2001:db9::1")).fragment(800, true).payload_len(32),
    ];
    for case in cases {
        let mut router = Router::new();
        router.receive(0, case.clone());
        assert_eq!(router.drops(DropReason::NoRoute), 1, "{case:?}");
        assert_eq!(router.counts(), [0; 4], "{case:?}");
        assert_eq!(router.counter(router.icmp, "forbidden"), 1);
    }
    let mut router = Router::new();
    router.receive(0, icmp4_echo([10, 0, 0, 9], nowhere, 1, 1));
    router.receive(0, udp4([10, 0, 0, 9], nowhere).fragment(0, true).payload_len(32));
    router.receive(0, tcp4([10, 0, 0, 9], nowhere));
    assert_eq!(router.counts(), [3, 0, 0, 0]);
}

#[test]
fn an_answer_without_a_way_ends_there() {
    let mut router = Router::new();
    router.receive(0, udp4([77, 0, 0, 9], [99, 0, 0, 1]));
    assert_eq!(router.drops(DropReason::NoRoute), 2);
    assert_eq!(router.counter(router.icmp, "sent"), 1);
    assert_eq!(router.counter(router.icmp, "forbidden"), 1);
}

#[test]
fn the_rate_is_limited() {
    let mut router = Router::with(RouteConfig::new(3), IcmpErrorConfig { rate: 100, burst: 5 });
    for _ in 0..9 {
        router.receive(0, udp4([10, 0, 0, 9], [99, 0, 0, 1]));
    }
    assert_eq!(router.counts(), [5, 0, 0, 0]);
    assert_eq!(router.counter(router.icmp, "rate_limited"), 4);
    router.bench.run_for(Duration::from_millis(20));
    for _ in 0..9 {
        router.receive(0, udp4([10, 0, 0, 9], [99, 0, 0, 1]));
    }
    assert_eq!(router.counts(), [7, 0, 0, 0]);
}

#[test]
fn the_source_is_near_the_sender_or_any() {
    // A sender behind a gateway on port 1: the port's own address.
    let mut router = Router::new();
    router.receive(1, udp4([20, 0, 0, 9], [99, 0, 0, 1]));
    let frames = router.frames(1);
    assert_eq!(v4_answer(&frames[0]).0.src(), std::net::Ipv4Addr::new(10, 1, 0, 1));
    // Port 2 has no IPv6 address: any other will do, but no link-local one.
    router.receive(2, udp6(v6("2001:db8::9"), v6("2001:db9::1")));
    let frames = router.frames(0);
    assert_eq!(v6_answer(&frames[0]).0.src(), v6("2001:db8::1"));
    let icmp = router.icmp;
    router.bench.driver.element_mut::<IcmpError>(icmp).unwrap().set_ports(&mut vec![]);
    router.receive(0, udp4([10, 0, 0, 9], [99, 0, 0, 1]));
    assert_eq!(router.counter(icmp, "no_source"), 1);
}
