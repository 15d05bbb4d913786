//! The crate against the kernel of this machine, in namespaces of its own.
//!
//! Each test makes what it needs and never touches the namespace it was
//! started in. Without rights it says so and skips; with `netns` in
//! `PERHOP_REQUIRE` a skip is a failure.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test may panic, and these talk to the kernel over real sockets"
)]

mod guard;

use std::io::Write;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::tc::{ClassSpec, FilterSpec, Handle, HtbClass, QdiscSpec, U32Filter, U32Key};
use perhop_netlink::*;
use perhop_units::{Bytes, Rate};

/// How long the kernel may take for what it does in the background.
const PATIENCE: Duration = Duration::from_secs(20);
/// The kernel has such an object already.
const EXISTS: Option<i32> = Some(libc::EEXIST);

fn required() -> bool {
    std::env::var("PERHOP_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item == "netns"))
}

fn skip(name: &str, why: &str) {
    // Not eprintln!, whose output the harness keeps back when a test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
    assert!(!required(), "{name} is required by PERHOP_REQUIRE but cannot run: {why}");
}

/// Whether namespaces can be made here.
fn may_run(name: &str) -> bool {
    if is_privileged_for_net() {
        return true;
    }
    skip(name, "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`");
    false
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Polls until `ready`, as the kernel does some things in the background.
fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `ip` in a namespace; whether it was glad.
fn type_ip(namespace: &Namespace, words: &str) -> bool {
    let quiet = std::process::Stdio::null;
    let mut command = std::process::Command::new("ip");
    let command = command.args(words.split_whitespace()).stderr(quiet()).stdout(quiet());
    namespace.run(|| command.status()).unwrap().is_ok_and(|status| status.success())
}

/// Two namespaces joined by a veth pair: `a0` with .1 and `b0` with .2.
struct Pair {
    left: Namespace,
    right: Namespace,
    a: Netlink,
    b: Netlink,
}

fn pair() -> Pair {
    let (left, right) = (Namespace::create().unwrap(), Namespace::create().unwrap());
    let (a, b) = (Netlink::open_in(&left).unwrap(), Netlink::open_in(&right).unwrap());
    a.create_veth("a0", "b0", Some(&right)).unwrap();
    laboratory::disable_duplicate_detection(&left, "a0").unwrap();
    laboratory::disable_duplicate_detection(&right, "b0").unwrap();
    for (netlink, name, v4, v6) in
        [(&a, "a0", "10.7.0.1/24", "fd07::1/64"), (&b, "b0", "10.7.0.2/24", "fd07::2/64")]
    {
        netlink.add_address(name, net(v4)).unwrap();
        netlink.add_address_now(name, net(v6)).unwrap();
        netlink.set_up(name).unwrap();
    }
    eventually("both ends run", || a.link("a0").unwrap().running && b.link("b0").unwrap().running);
    Pair { left, right, a, b }
}

/// Sends a question from the left to the right and the answer back.
fn exchange(p: &Pair, left: &str, right: &str) {
    let server = p.right.run(|| UdpSocket::bind((ip(right), 0))).unwrap().unwrap();
    let client = p.left.run(|| UdpSocket::bind((ip(left), 0))).unwrap().unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let mut buffer = [0; 64];
    client.send_to(b"question", server.local_addr().unwrap()).unwrap();
    let (length, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"question"[..], client.local_addr().unwrap()));
    server.send_to(b"answer", from).unwrap();
    let length = client.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"answer");
}

#[test]
fn two_namespaces_talk_over_a_veth_in_both_ip_versions() {
    if !may_run("two_namespaces_talk_over_a_veth_in_both_ip_versions") {
        return;
    }
    let p = pair();
    exchange(&p, "10.7.0.1", "10.7.0.2");
    exchange(&p, "fd07::1", "fd07::2");
    let (left, right) = (p.a.link("a0").unwrap(), p.b.link("b0").unwrap());
    assert_eq!(left.kind.as_deref(), Some("veth"));
    assert_eq!((left.peer_index, left.peer_elsewhere), (Some(right.index), true));
    assert_eq!(left.speed_mbit, Some(10_000), "the veth driver's nominal speed");
    assert!(p.a.link("b0").is_err(), "the other end is out of sight");
    let mine = p.a.addresses().unwrap();
    for address in ["10.7.0.1/24", "fd07::1/64"] {
        let found = mine.iter().find(|a| a.address == net(address)).unwrap();
        assert_eq!((found.ifindex, found.tentative), (left.index, false));
    }
    p.a.delete_address("a0", net("10.7.0.1/24")).unwrap();
    assert!(p.a.delete_address("a0", net("10.7.0.1/24")).unwrap_err().is_not_found());
}

#[test]
fn link_properties_are_set_and_read_back() {
    if !may_run("link_properties_are_set_and_read_back") {
        return;
    }
    let (here, there) = (Namespace::create().unwrap(), Namespace::create().unwrap());
    let (a, b) = (Netlink::open_in(&here).unwrap(), Netlink::open_in(&there).unwrap());
    let lo = a.link("lo").unwrap();
    assert!(lo.up && lo.loopback && lo.kind.is_none());
    a.create_veth("x", "y", None).unwrap();
    assert_eq!(a.create_veth("x", "z", None).unwrap_err().errno(), EXISTS);
    a.set_mtu("x", 1400).unwrap();
    a.set_mac("x", [2, 0, 0, 0, 0, 9]).unwrap();
    a.rename("x", "left.7").unwrap();
    let link = a.link("left.7").unwrap();
    assert_eq!((link.mtu, link.mac, link.up), (1400, Some([2, 0, 0, 0, 0, 9]), false));
    assert!(a.set_mtu("left.7", 7).is_err(), "below the minimum");
    a.move_to("y", &there).unwrap();
    assert!(matches!(a.link("y"), Err(NetlinkError::NoSuchInterface { .. })));
    b.set_up("y").unwrap();
    assert!(b.link("y").unwrap().up && !b.link("y").unwrap().running, "the far end is down");
    b.delete_link("y").unwrap();
    assert!(a.link("left.7").is_err(), "a veth dies with its other end");
    assert!(a.delete_link("lo").is_err());
    assert_eq!(a.links().unwrap().len(), 1);
}

#[test]
fn routes_are_added_listed_and_deleted() {
    if !may_run("routes_are_added_listed_and_deleted") {
        return;
    }
    let p = pair();
    let index = p.a.link("a0").unwrap().index;
    let main = || -> Vec<FibRoute> {
        let all = p.a.routes().unwrap();
        all.into_iter().filter(|r| r.table == FibRoute::MAIN_TABLE).collect()
    };
    let find = |dest: &str| main().into_iter().find(|r| r.dest == net(dest));
    let connected = find("10.7.0.0/24").unwrap();
    assert_eq!(connected.source_hint, Some(ip("10.7.0.1")));
    assert_eq!((connected.next_hops[0].via, connected.next_hops[0].ifindex), (None, index));

    for (dest, via) in [("0.0.0.0/0", "10.7.0.2"), ("10.8.0.0/16", "10.7.0.2"), ("::/0", "fd07::2")] {
        p.a.add_route(net(dest), Some(ip(via)), Some("a0")).unwrap();
        let route = find(dest).unwrap();
        assert_eq!(route.kind, RouteKind::Unicast);
        let hop =
            NextHop { via: Some(ip(via)), ifindex: index, weight: 1, unusable: false, encapsulated: false };
        assert_eq!(route.next_hops, [hop], "{dest}");
        assert_eq!(p.a.add_route(net(dest), Some(ip(via)), None).unwrap_err().errno(), EXISTS);
    }
    p.a.add_route(net("10.9.0.0/16"), Some(ip("fd07::2")), Some("a0")).unwrap();
    assert_eq!(find("10.9.0.0/16").unwrap().next_hops[0].via, Some(ip("fd07::2")));
    p.a.add_route(net("10.10.1.2/16"), None, Some("a0")).unwrap();
    assert_eq!(find("10.10.0.0/16").unwrap().next_hops[0].via, None, "host bits are ignored");
    for (dest, kind) in [
        ("10.11.0.0/16", RouteKind::Blackhole),
        ("fd09::/64", RouteKind::Unreachable),
        ("10.12.0.0/16", RouteKind::Prohibit),
    ] {
        p.a.add_refusing_route(net(dest), kind).unwrap();
        assert_eq!(find(dest).unwrap().kind, kind);
    }
    for (dest, one, two) in [("10.13.0.0/16", "10.7.0.2", "10.7.0.3"), ("fd0a::/64", "fd07::2", "fd07::3")] {
        p.a.add_multipath_route(net(dest), &[(ip(one), "a0", 1), (ip(two), "a0", 3)]).unwrap();
        let hops: Vec<_> = find(dest).unwrap().next_hops.iter().map(|h| (h.via, h.weight)).collect();
        assert_eq!(hops, [(Some(ip(one)), 1), (Some(ip(two)), 3)], "{dest}");
    }
    let local = p.a.routes().unwrap();
    assert!(local.iter().any(|r| r.kind == RouteKind::Local
        && r.dest == net("10.7.0.1/32")
        && r.table == FibRoute::LOCAL_TABLE));
    assert!(local.iter().any(|r| r.kind == RouteKind::Broadcast && r.dest == net("10.7.0.255/32")));

    let refused = p.a.add_route(net("10.99.0.0/16"), Some(ip("192.0.2.1")), None).unwrap_err();
    assert_eq!(refused.errno(), Some(libc::ENETUNREACH), "{refused}");
    assert!(refused.to_string().contains("gateway"), "the kernel's sentence is shown: {refused}");
    for (dest, via) in [
        ("0.0.0.0/0", Some("10.7.0.2")),
        ("10.11.0.0/16", None),
        ("10.13.0.0/16", None),
        ("fd09::/64", None),
        ("::/0", None),
    ] {
        p.a.delete_route(net(dest), via.map(ip), None).unwrap();
        assert!(find(dest).is_none(), "{dest}");
        assert!(p.a.delete_route(net(dest), None, None).unwrap_err().is_not_found());
    }
}

#[test]
fn the_mirror_sees_a_neighbour_resolved_by_the_kernel() {
    if !may_run("the_mirror_sees_a_neighbour_resolved_by_the_kernel") {
        return;
    }
    let p = pair();
    let index = p.a.link("a0").unwrap().index;
    let mut mirror = Mirror::open_in(&p.left).unwrap();
    for target in ["10.7.0.2", "fd07::2"] {
        assert!(!mirror.neighbours().contains_key(&(index, ip(target))));
        mirror.netlink().probe_neighbour(index, ip(target)).unwrap();
        let mac = p.b.link("b0").unwrap().mac;
        eventually("resolution", || {
            mirror.refresh(Duration::from_millis(50)).unwrap();
            mirror.neighbours().get(&(index, ip(target))).is_some_and(|n| n.state.is_usable() && n.mac == mac)
        });
    }
    p.a.probe_neighbour(index, ip("10.7.0.77")).unwrap();
    eventually("nobody answers", || {
        mirror.refresh(Duration::from_millis(50)).unwrap();
        mirror.neighbours().get(&(index, ip("10.7.0.77"))).is_some_and(|n| n.state == NeighbourState::Failed)
    });
    p.a.add_neighbour(index, ip("10.7.0.9"), [2, 0, 0, 0, 0, 1]).unwrap();
    let entry = p.a.neighbours().unwrap().into_iter().find(|n| n.ip == ip("10.7.0.9")).unwrap();
    assert_eq!((entry.mac, entry.state), (Some([2, 0, 0, 0, 0, 1]), NeighbourState::Permanent));
    p.a.delete_neighbour(index, ip("10.7.0.9")).unwrap();
    eventually("the permanent entry goes", || {
        mirror.refresh(Duration::from_millis(50)).unwrap();
        !mirror.neighbours().get(&(index, ip("10.7.0.9"))).is_some_and(|n| n.state.is_usable())
    });
}

#[test]
fn the_mirror_follows_routes_that_vanish_silently() {
    if !may_run("the_mirror_follows_routes_that_vanish_silently") {
        return;
    }
    let p = pair();
    // IPv6 does announce what goes with a link, which would hide the silence.
    sysctl::write(&p.left, IpVersion::V6, "a0", "disable_ipv6", 1).unwrap();
    let mut mirror = Mirror::open_in(&p.left).unwrap();
    p.a.add_route(net("10.20.0.0/16"), Some(ip("10.7.0.2")), None).unwrap();
    let has = |m: &Mirror| m.routes().iter().any(|r| r.dest == net("10.20.0.0/16"));
    eventually("the route arrives", || {
        mirror.refresh(Duration::from_millis(50)).unwrap();
        has(&mirror)
    });
    while mirror.refresh(Duration::from_millis(100)).unwrap().any() {}
    p.a.set_down("a0").unwrap();
    eventually("the route is gone with its link", || {
        mirror.refresh(Duration::from_millis(50)).unwrap();
        !has(&mirror)
    });
    assert!(!mirror.link("a0").unwrap().up);
    p.b.delete_link("b0").unwrap();
    eventually("the link is gone", || {
        mirror.refresh(Duration::from_millis(50)).unwrap();
        mirror.link("a0").is_none() && !mirror.addresses().iter().any(|a| a.address == net("10.7.0.1/24"))
    });
}

/// Random changes of a few destinations, in all the ways in which they may be written: what the mirror has made of the
/// messages is what a new listing says.
#[test]
fn the_mirror_is_what_a_listing_says_whatever_is_typed() {
    let name = "the_mirror_is_what_a_listing_says_whatever_is_typed";
    if !may_run(name) {
        return;
    }
    if !type_ip(&pair().left, "route") {
        return skip(name, "there is no ip here");
    }
    for start in 1..4 {
        type_whatever(start);
    }
}

/// What no listing shows while it stands between routes that are joined counts as soon as it does not.
#[test]
fn what_stands_between_joined_routes_is_there_when_they_go() {
    let name = "what_stands_between_joined_routes_is_there_when_they_go";
    if !may_run(name) {
        return;
    }
    if !type_ip(&pair().left, "route") {
        return skip(name, "there is no ip here");
    }
    let stories: [(&[&str], &[&str]); 3] = [
        (
            &["add D via fd07::2 dev a0", "append D dev a0", "append D via fd07::3 dev a0"],
            &["del D via fd07::2 dev a0", "del D via fd07::3 dev a0"],
        ),
        (
            &["add D via fd07::2 dev a0", "append D dev a0"],
            &["append D via fd07::3 dev a0", "del D via fd07::3 dev a0", "del D via fd07::2 dev a0"],
        ),
        (
            &["add D dev a0", "append D dev a0 mtu 1400"],
            &["change D nexthop via fd07::2 dev a0 nexthop via fd07::3 dev a0", "del D via fd07::2 dev a0"],
        ),
    ];
    for (before, after) in stories {
        let p = pair();
        let typed = |words: &str| {
            let words = format!("-6 route {} metric 10", words.replace('D', "fd77::/32"));
            type_ip(&p.left, &words);
        };
        before.iter().for_each(|words| typed(words));
        let mut mirror = Mirror::open_in(&p.left).unwrap();
        for words in after {
            typed(words);
            while mirror.refresh(Duration::from_millis(10)).unwrap().any() {}
        }
        let of = |route: &FibRoute| route.dest.to_string() == "fd77::/32";
        let found: Vec<FibRoute> = mirror.routes().iter().filter(of).collect();
        let expected: Vec<FibRoute> = p.a.routes().unwrap().into_iter().filter(of).collect();
        assert_eq!(found, expected, "{before:?} {after:?}");
        assert!(!expected.is_empty(), "{before:?} {after:?}");
    }
}

/// Types what random numbers from `start` on say.
fn type_whatever(start: u64) {
    let p = pair();
    let mut state = start;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut mirror = Mirror::open_in(&p.left).unwrap();
    let (mut done, mut refused) = (0, 0);
    for turn in 0..600 {
        // In the end routes do not say where next-hop objects lead.
        if turn == 400 {
            p.left
                .run(|| std::fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", "0"))
                .unwrap()
                .expect("a kernel with next-hop objects");
        }
        let v6 = random(2) == 0;
        let mut verb = ["add", "append", "prepend", "replace", "change", "del"][random(6) as usize];
        let dest = if v6 { format!("fd77:{}::/32", random(2)) } else { format!("10.77.{}.0/24", random(2)) };
        let gateway = |n: u64| if v6 { format!("fd07::{}", 2 + n) } else { format!("10.7.0.{}", 2 + n) };
        let (one, other) = (gateway(random(3)), gateway(random(3)));
        let object = 1 + random(2);
        let hops = match random(6) {
            0 => "dev a0".to_owned(),
            1 => format!("nexthop via {one} dev a0 weight 2 nexthop via {other} dev a0"),
            2 if random(2) == 0 => format!("nhid {object}"),
            3 if v6 => format!("from fd99::/48 via {one} dev a0"),
            3 => format!("tos 0x10 via {one} dev a0"),
            4 => format!("via {one} dev a0 table 100 mtu 1400"),
            _ => format!("via {one} dev a0"),
        };
        // A listing leaves out what stands between routes that are joined.
        let is_between = v6 && verb.ends_with("pend") && !hops.contains("via");
        if is_between {
            verb = "add";
        }
        let words =
            format!("{} route {verb} {dest} {hops} metric {}", if v6 { "-6" } else { "-4" }, 10 + random(2));
        *(if type_ip(&p.left, &words) { &mut done } else { &mut refused }) += 1;
        if turn % 40 == 20 {
            let words = format!("nexthop replace id 1 via 10.7.0.{} dev a0", 2 + random(3));
            assert!(type_ip(&p.left, &words));
            type_ip(&p.left, &format!("-6 nexthop replace id 2 via fd07::{} dev a0", 2 + random(3)));
            type_ip(&p.left, &format!("rule add from 10.{turn}.0.0/16 lookup 100 pref 1{turn}"));
        }
        let n = turn / 40;
        if turn >= 400 && turn % 40 == 20 {
            type_ip(&p.left, "nexthop replace id 3 blackhole");
            type_ip(&p.left, &format!("route replace 10.78.0.0/16 nhid {}", [1, 3][n % 2]));
        }
        if turn >= 400 && turn % 40 == 30 {
            // What was a way ends, and what ended is a way.
            type_ip(&p.left, "nexthop replace id 1 blackhole");
            type_ip(&p.left, &format!("nexthop replace id 3 via 10.7.0.{} dev a0", 2 + n % 3));
        }
        if turn % 100 == 99 {
            sysctl::write(&p.left, IpVersion::V4, "a0", "arp_notify", 0).unwrap();
            p.a.set_down("a0").unwrap();
            p.a.set_up("a0").unwrap();
            type_ip(&p.left, "nexthop del id 1");
        }
        while mirror.refresh(Duration::from_millis(10)).unwrap().any() {}
        let expected: Vec<FibRoute> = if turn < 400 {
            p.a.routes().unwrap()
        } else {
            Mirror::open_in(&p.left).unwrap().routes().iter().collect()
        };
        let mut found: Vec<FibRoute> = mirror.routes().iter().collect();
        for key in expected.iter().map(|r| (r.table, r.dest)).collect::<std::collections::BTreeSet<_>>() {
            let at = |r: &FibRoute| (r.table, r.dest) == key;
            let mut expected: Vec<_> = expected.iter().filter(|r| at(r)).cloned().collect();
            let mut found: Vec<_> = found.extract_if(.., |r| at(r)).collect();
            // Only among routes for the same sources the order means something.
            expected.sort_by_key(|r| r.from);
            found.sort_by_key(|r| r.from);
            assert_eq!(found, expected, "start {start}, turn {turn}, after {words}");
        }
        assert!(found.is_empty(), "start {start}, turn {turn}, after {words}: {found:?} is no longer there");
        assert_eq!(mirror.rules(), p.a.rules().unwrap());
    }
    assert!(done > 100, "{done} done, {refused} refused");
}

#[test]
fn the_monitor_tells_of_links_down_up_and_deleted() {
    if !may_run("the_monitor_tells_of_links_down_up_and_deleted") {
        return;
    }
    let p = pair();
    let index = p.a.link("a0").unwrap().index;
    let mut monitor = Monitor::open_in(&p.left).unwrap();
    let mut expect = |what: &str, matches: &dyn Fn(&Update) -> bool| {
        let end = Instant::now() + PATIENCE;
        loop {
            match monitor.recv_timeout(end.saturating_duration_since(Instant::now())).unwrap() {
                Some(update) if matches(&update) => break,
                Some(_) => {}
                None => panic!("no update: {what}"),
            }
        }
    };
    p.a.set_down("a0").unwrap();
    expect("down", &|u| matches!(u, Update::Link(l) if l.index == index && !l.up));
    p.a.set_up("a0").unwrap();
    expect("up", &|u| matches!(u, Update::Link(l) if l.index == index && l.up));
    p.b.set_down("b0").unwrap();
    expect("carrier lost", &|u| matches!(u, Update::Link(l) if l.index == index && l.up && !l.running));
    p.b.set_up("b0").unwrap();
    expect("carrier back", &|u| matches!(u, Update::Link(l) if l.index == index && l.running));
    p.a.add_address("a0", net("10.30.0.1/24")).unwrap();
    expect("address", &|u| matches!(u, Update::Address(Change::Set, a) if a.address == net("10.30.0.1/24")));
    expect("route", &|u| matches!(u, Update::Route(RouteChange::Added, r) if r.dest == net("10.30.0.0/24")));
    p.a.delete_link("a0").unwrap();
    expect("gone", &|u| matches!(u, Update::LinkGone(i, name) if *i == index && name == "a0"));
}

#[test]
fn a_reader_that_is_too_slow_learns_that_updates_were_lost() {
    if !may_run("a_reader_that_is_too_slow_learns_that_updates_were_lost") {
        return;
    }
    let p = pair();
    let mut monitor = Monitor::open_in(&p.left).unwrap();
    monitor.set_buffer(4096).unwrap();
    for host in 1..=200u8 {
        p.a.add_address("a0", net(&format!("10.40.{host}.1/24"))).unwrap();
    }
    let mut seen = Vec::new();
    while let Some(update) = monitor.recv_timeout(Duration::ZERO).unwrap() {
        seen.push(update);
    }
    assert!(seen.contains(&Update::Overrun), "{} updates", seen.len());
    // It goes on afterwards.
    p.a.set_mtu("a0", 1400).unwrap();
    let next = monitor.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(next, Some(Update::Link(link)) if link.mtu == 1400));
}

#[test]
fn offloads_go_off_and_come_back_on_both_ends() {
    if !may_run("offloads_go_off_and_come_back_on_both_ends") {
        return;
    }
    let p = pair();
    for (netlink, name) in [(&p.a, "a0"), (&p.b, "b0")] {
        let before = netlink.offloads(name).unwrap();
        assert!(before.active.iter().any(|f| f == "tx-tcp-segmentation"), "{before:?}");
        assert!(before.active.iter().any(|f| f == "tx-checksum-ip-generic"), "{before:?}");
        let saved = netlink.disable_offloads(name).unwrap();
        assert_eq!(saved, before);
        let off = netlink.offloads(name).unwrap();
        assert!(off.is_off(), "{off:?}");
        netlink.restore_offloads(name, &saved).unwrap();
        assert_eq!(netlink.offloads(name).unwrap(), before);
    }
    exchange(&p, "10.7.0.1", "10.7.0.2");
    assert!(matches!(p.a.offloads("b0"), Err(NetlinkError::NoSuchInterface { .. })));
}

#[test]
fn forwarding_is_saved_and_restored_per_namespace() {
    if !may_run("forwarding_is_saved_and_restored_per_namespace") {
        return;
    }
    let p = pair();
    let state = |ns: &Namespace, name: &str| {
        [IpVersion::V4, IpVersion::V6].map(|v| sysctl::read(ns, v, name, "forwarding").unwrap())
    };
    sysctl::write(&p.left, IpVersion::V4, "a0", "forwarding", 1).unwrap();
    sysctl::write(&p.left, IpVersion::V6, "a0", "forwarding", 0).unwrap();
    let other = state(&p.right, "b0");
    let forwarding = |on| [IpVersion::V4, IpVersion::V6].map(|version| (version, "forwarding", on));
    let saved = sysctl::set(&p.left, "a0", &forwarding(1)).unwrap();
    assert_eq!(state(&p.left, "a0"), [1, 1]);
    let again = sysctl::set(&p.left, "a0", &forwarding(0)).unwrap();
    assert_eq!(state(&p.left, "a0"), [0, 0]);
    assert_eq!(state(&p.right, "b0"), other, "the other namespace is untouched");
    sysctl::restore(&p.left, &again).unwrap();
    assert_eq!(state(&p.left, "a0"), [1, 1]);
    sysctl::restore(&p.left, &saved).unwrap();
    assert_eq!(state(&p.left, "a0"), [1, 0]);

    // The keys are those of the namespace, not of this test's thread.
    let elsewhere = sysctl::read(&p.right, IpVersion::V4, "a0", "forwarding").unwrap_err();
    assert!(elsewhere.is_not_found(), "{elsewhere}");

    // A failure in the middle puts the first key back.
    let keys = [(IpVersion::V4, "rp_filter", 2), (IpVersion::V4, "no_such_key", 1)];
    let before = sysctl::read(&p.left, IpVersion::V4, "a0", "rp_filter").unwrap();
    assert!(sysctl::set(&p.left, "a0", &keys).unwrap_err().is_not_found());
    assert_eq!(sysctl::read(&p.left, IpVersion::V4, "a0", "rp_filter").unwrap(), before);
    let rest = [(IpVersion::V4, "rp_filter", 0), (IpVersion::V4, "accept_local", 1)];
    let saved = sysctl::set(&p.left, "a0", &rest).unwrap();
    assert_eq!(sysctl::read(&p.left, IpVersion::V4, "a0", "accept_local").unwrap(), 1);
    p.a.delete_link("a0").unwrap();
    sysctl::restore(&p.left, &saved).expect("keys of a link that is gone are skipped");
}

#[test]
fn a_namespace_disappears_when_the_last_descriptor_closes() {
    if !may_run("a_namespace_disappears_when_the_last_descriptor_closes") {
        return;
    }
    let here = Namespace::create().unwrap();
    let netlink = Netlink::open_in(&here).unwrap();
    let gone = Namespace::create().unwrap();
    let clone = gone.clone();
    assert_ne!(here, gone);
    netlink.create_veth("a0", "b0", Some(&gone)).unwrap();
    drop(gone);
    assert!(clone.run(|| Netlink::open().unwrap().link("b0").unwrap()).is_ok());
    drop(clone);
    // With the namespace its end of the pair goes, and so does ours.
    eventually("the namespace is cleaned up", || netlink.link("a0").is_err());
}

#[test]
fn threads_live_where_they_were_put() {
    if !may_run("threads_live_where_they_were_put") {
        return;
    }
    let home = Namespace::current().unwrap();
    let other = Namespace::create().unwrap();
    assert!(home.is_current() && !other.is_current());
    assert_eq!(other.run(|| Namespace::current().unwrap()).unwrap(), other);
    let handle = other.spawn("resident", || {
        let name = std::thread::current().name().map(str::to_owned);
        (Namespace::current().unwrap(), name)
    });
    assert_eq!(handle.unwrap().join().unwrap(), (other.clone(), Some("resident".into())));
    assert!(home.is_current(), "the calling thread stayed");
    let moved = std::thread::spawn({
        let other = other.clone();
        move || {
            other.enter_thread().unwrap();
            other.is_current()
        }
    });
    assert!(moved.join().unwrap());
    assert_eq!(Namespace::of_process(std::process::id()).unwrap(), home);
    let missing = Namespace::open_named("perhop-no-such-namespace").unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    assert!(matches!(Namespace::open_named("../x"), Err(NetlinkError::BadNamespaceName { .. })));
}

#[test]
fn entering_a_user_namespace_with_threads_is_refused() {
    let refused = std::thread::spawn(|| {
        let _second = std::thread::spawn(|| std::thread::sleep(Duration::from_millis(200)));
        enter_user_namespace().unwrap_err()
    });
    let refused = refused.join().unwrap();
    assert!(matches!(refused, NetlinkError::ThreadsRunning { threads } if threads > 1), "{refused}");
}

/// Tells the re-executed test binary which part it plays.
const PART: &str = "PERHOP_NETLINK_PART";
/// An unprivileged user of every Linux machine (`nobody`).
const NOBODY: u32 = 65_534;

/// Runs this whole file again as an ordinary user: first without any rights
/// (when started as root), then as root of a user namespace that
/// [`enter_user_namespace`] made.
#[test]
fn everything_works_for_an_unprivileged_user() {
    let name = "everything_works_for_an_unprivileged_user";
    let part = std::env::var(PART).unwrap_or_default();
    if part == "inside" {
        assert!(is_privileged_for_net(), "root of the user namespace");
        return;
    }
    let user = rustix::process::geteuid();
    if user.is_root() && part.is_empty() {
        // The link, because the directories above may be closed to others.
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", name, "--nocapture"]).env(PART, "unprivileged");
        match command.uid(NOBODY).gid(NOBODY).output() {
            Ok(output) => {
                let _ = std::io::stderr().write_all(&output.stderr);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
                return;
            }
            // Root of a user namespace with one user cannot become another.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}"),
        }
    }
    if !user.is_root() {
        assert!(!is_privileged_for_net());
        let refused = Namespace::create().unwrap_err();
        assert!(refused.is_permission() && refused.to_string().contains("user namespace"), "{refused}");
        let refused = Netlink::open().unwrap().set_mtu("lo", 1500).unwrap_err();
        assert!(refused.is_permission(), "{refused}");
    }
    let mut command = Command::new("/proc/self/exe");
    command.env(PART, "inside").env("PERHOP_REQUIRE", "netns");
    // SAFETY: the child has one thread, owns its copy of the memory, and
    // enter_user_namespace takes no lock that another thread of the parent
    // could have held; the allocator of the C library is safe after fork.
    unsafe {
        command.pre_exec(|| {
            enter_user_namespace()
                .map_err(|error| std::io::Error::from_raw_os_error(error.errno().unwrap_or(libc::EPROTO)))
        });
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            let forbidden = [libc::EPERM, libc::EACCES, libc::ENOSPC, libc::EINVAL];
            assert!(forbidden.iter().any(|&e| error.raw_os_error() == Some(e)), "{error}");
            return skip(name, &format!("this machine forbids user namespaces: {error}"));
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("test result: ok"), "{text}\n{errors}");
}

fn htb(rate_kbit: u64, ceil_kbit: u64, priority: u32) -> HtbClass {
    HtbClass {
        rate: Rate::from_kbit(rate_kbit),
        ceil: Rate::from_kbit(ceil_kbit),
        burst: Bytes(16_000),
        cburst: Bytes(3_200),
        priority,
        quantum: 1514,
    }
}

#[test]
fn an_htb_tree_with_u32_filters_is_added_listed_used_and_deleted() {
    if !may_run("an_htb_tree_with_u32_filters_is_added_listed_used_and_deleted") {
        return;
    }
    let p = pair();
    let (root, top) = (Handle::new(1, 0), Handle::new(1, 1));
    let (voice, rest) = (Handle::new(1, 0x10), Handle::new(1, 0x20));
    let spec = QdiscSpec::Htb { default_minor: 0x20, rate_to_quantum: 10 };
    p.a.add_qdisc("a0", Handle::ROOT, root, &spec).unwrap();
    assert_eq!(p.a.add_qdisc("a0", Handle::ROOT, root, &spec).unwrap_err().errno(), EXISTS);
    p.a.add_class("a0", root, top, &htb(10_000, 10_000, 0)).unwrap();
    p.a.add_class("a0", top, voice, &htb(2_000, 10_000, 0)).unwrap();
    p.a.add_class("a0", top, rest, &htb(8_000, 10_000, 7)).unwrap();
    p.a.add_qdisc("a0", rest, Handle::new(0x20, 0), &QdiscSpec::Pfifo { limit_packets: 50 }).unwrap();

    let qdiscs = p.a.qdiscs("a0").unwrap();
    let found: Vec<_> = qdiscs.iter().map(|q| (q.parent, q.handle, q.spec.clone())).collect();
    assert!(found.contains(&(Handle::ROOT, root, spec)), "{found:?}");
    assert!(found.contains(&(rest, Handle::new(0x20, 0), QdiscSpec::Pfifo { limit_packets: 50 })));
    let class = |handle| p.a.classes("a0").unwrap().into_iter().find(|c| c.handle == handle);
    assert_eq!(class(top).unwrap().parent, Handle::ROOT);
    assert_eq!(class(voice).unwrap().spec, ClassSpec::Htb(htb(2_000, 10_000, 0)));
    assert_eq!(class(rest).unwrap().parent, top);
    p.a.change_class("a0", top, voice, &htb(3_000, 9_000, 1)).unwrap();
    assert_eq!(class(voice).unwrap().spec, ClassSpec::Htb(htb(3_000, 9_000, 1)));
    // 64 ns at this rate are 400 bytes, so only the rate reads back exactly.
    let fast = htb(50_000_000, 50_000_000, 0);
    p.a.change_class("a0", root, top, &fast).unwrap();
    assert!(
        matches!(class(top).unwrap().spec, ClassSpec::Htb(c) if (c.rate, c.ceil) == (fast.rate, fast.ceil))
    );

    let filter = U32Filter {
        keys: vec![U32Key::ipv4_protocol(17), U32Key::ipv4_destination("10.7.0.2/32".parse().unwrap())],
        class: voice,
    };
    p.a.add_filter("a0", root, 5, 0x0800, &filter).unwrap();
    let everything = U32Filter { keys: vec![U32Key { offset: 0, mask: 0, value: 0 }], class: rest };
    p.a.add_filter("a0", root, 6, 0x86dd, &everything).unwrap();
    let filters = p.a.filters("a0", root).unwrap();
    let listed: Vec<_> = filters.iter().map(|f| (f.priority, f.protocol, f.spec.clone())).collect();
    assert_eq!(listed, [(5, 0x0800, FilterSpec::U32(filter)), (6, 0x86dd, FilterSpec::U32(everything))]);

    // The question (8 bytes of UDP) is the only IPv4 frame the filter claims.
    assert_eq!(class(voice).unwrap().stats.packets, 0);
    exchange(&p, "10.7.0.1", "10.7.0.2");
    eventually("the class sent the question", || class(voice).unwrap().stats.packets == 1);
    assert_eq!(class(voice).unwrap().stats.bytes, 14 + 20 + 8 + 8);

    assert_eq!(p.a.delete_class("a0", voice).unwrap_err().errno(), Some(libc::EBUSY));
    p.a.delete_filter("a0", &filters[0]).unwrap();
    assert_eq!(p.a.filters("a0", root).unwrap().len(), 1);
    p.a.delete_filters("a0", root).unwrap();
    assert!(p.a.filters("a0", root).unwrap().is_empty());
    p.a.delete_filters("a0", root).expect("nothing left is no error");
    p.a.delete_class("a0", voice).unwrap();
    assert!(class(voice).is_none() && p.a.delete_class("a0", voice).unwrap_err().is_not_found());
    p.a.delete_qdisc("a0", Handle::ROOT).unwrap();
    assert!(p.a.classes("a0").unwrap().is_empty());
    assert!(p.a.delete_qdisc("a0", Handle::ROOT).unwrap_err().is_not_found());
}

#[test]
fn a_queue_in_bytes_and_ingress_are_added_listed_and_deleted() {
    if !may_run("a_queue_in_bytes_and_ingress_are_added_listed_and_deleted") {
        return;
    }
    let p = pair();
    let first = |kind: &str| p.a.qdiscs("a0").unwrap().into_iter().find(|q| q.spec.kind() == kind);
    let pfifo = QdiscSpec::Pfifo { limit_packets: 50 };
    p.a.add_qdisc("a0", Handle::ROOT, Handle::new(1, 0), &pfifo).unwrap();
    exchange(&p, "10.7.0.1", "10.7.0.2");
    assert!(first("pfifo").unwrap().stats.packets > 0);
    let bfifo = QdiscSpec::Bfifo { limit: Bytes(125_000) };
    p.a.replace_qdisc("a0", Handle::ROOT, Handle::new(3, 0), &bfifo).unwrap();
    assert_eq!(first("bfifo").unwrap().spec, bfifo);

    p.a.add_qdisc("a0", Handle::INGRESS, Handle::new(0xffff, 0), &QdiscSpec::Ingress).unwrap();
    assert_eq!(first("ingress").unwrap().parent, Handle::INGRESS);
    p.a.delete_qdisc("a0", Handle::INGRESS).unwrap();
    assert!(first("ingress").is_none());
    let unknown = QdiscSpec::Other("no_such_kind".into());
    let refused = p.a.replace_qdisc("a0", Handle::ROOT, Handle::NONE, &unknown).unwrap_err();
    assert!(refused.is_not_found(), "{refused}");
    assert_eq!(first("bfifo").unwrap().spec, bfifo, "a refused change changes nothing");
}
