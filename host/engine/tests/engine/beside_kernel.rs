//! A router and the kernel's own forwarding, which is on: each packet goes on once, by the one whose it is.

use super::*;
use perhop_netlink::tc::{Handle as Place, QdiscSpec};

/// A kernel that forwards, on all interfaces and in both versions.
fn forwarding(w: &World, on: i64) {
    for version in [IpVersion::V4, IpVersion::V6] {
        sysctl::write(&w.router, version, "all", "forwarding", on).unwrap();
    }
}

/// How often each of 50 numbered datagrams arrives at a socket, at least and at most.
fn counted(right: &UdpSocket, send: impl Fn(&[u8], std::net::SocketAddr)) -> (usize, usize) {
    right.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut byte = [0; 64];
    while right.recv(&mut byte).is_ok() {}
    let mut seen = [0; 50];
    for i in 0..seen.len() {
        send(&[i as u8], right.local_addr().unwrap());
    }
    while right.recv(&mut byte).is_ok() {
        seen[usize::from(byte[0])] += 1;
    }
    (seen.into_iter().min().unwrap(), seen.into_iter().max().unwrap())
}

/// From one host to another one, in both versions.
fn copies(w: &World, (from, to): (usize, usize)) -> Vec<(usize, usize)> {
    let pair = |(a, b): (String, String)| (w.socket(from, &a), w.socket(to, &b));
    let v4 = pair((format!("10.20.{from}.2:0"), format!("10.20.{to}.2:0")));
    let v6 = pair((format!("[fd20:{from}::2]:0"), format!("[fd20:{to}::2]:0")));
    let count = |(left, right): (UdpSocket, UdpSocket)| {
        assert!(w.reaches(&left, &right), "{from} to {to}");
        counted(&right, |bytes, to| assert_eq!(left.send_to(bytes, to).unwrap(), 1))
    };
    vec![count(v4), count(v6)]
}

/// Of three hosts, the first two.
const TWO_PORTS: &str = "[[port]]\nname = \"p0\"\n\n[[port]]\nname = \"p1\"\n";

const ONCE: [(usize, usize); 2] = [(1, 1); 2];

#[test]
fn each_packet_goes_on_once_whatever_hangs_on_a_port_and_whoever_turns_the_kernels_switches() {
    if !may_run("each_packet_goes_on_once_whatever_hangs_on_a_port_and_whoever_turns_the_kernels_switches") {
        return;
    }
    // Filters on arrival and other interfaces on a port keep the early-drop program away.
    let w = World::new("onceonly", 2);
    forwarding(&w, 1);
    w.net.add_qdisc("p0", Place::INGRESS, Place::new(0xffff, 0), &QdiscSpec::Ingress).unwrap();
    let (engine, handle) = Engine::start(w.config("onceonly", "")).unwrap();
    assert_eq!(copies(&w, (0, 1)), ONCE, "with filters on arrival");
    assert_eq!(copies(&w, (1, 0)), ONCE);
    forwarding(&w, 0);
    forwarding(&w, 1);
    assert_eq!(copies(&w, (0, 1)), ONCE, "after somebody has switched off and on");
    assert!(counter(&handle, "port", "p1", "tx_packets") >= 200);
    engine.stop();
    eventually("the kernel forwards again", || copies(&w, (0, 1)) == ONCE);
}

#[test]
fn what_goes_past_the_ports_is_the_kernels() {
    if !may_run("what_goes_past_the_ports_is_the_kernels") {
        return;
    }
    let w = World::new("past", 3);
    forwarding(&w, 1);
    let (engine, handle) = Engine::start(w.config_of("past", TWO_PORTS)).unwrap();
    for way in [(0, 1), (1, 0), (0, 2), (2, 0)] {
        assert_eq!(copies(&w, way), ONCE, "{way:?}");
    }
    assert_eq!(counter(&handle, "element", "icmp", "sent"), 0, "nobody is told that it cannot be reached");
    let said = "what the kernel's routes send to \"p2\" is the kernel's to forward, as these are no ports";
    assert_eq!(engine.warnings(), [said]);
    engine.stop();
}

/// From one host to an address beyond another one, each datagram from a port of its own: ways of several next hops are chosen by
/// flow.
fn copies_beyond(w: &World, (from, to): (usize, usize)) -> Vec<(usize, usize)> {
    let ends = [(format!("10.20.{from}.2:0"), "10.77.0.1:0"), (format!("[fd20:{from}::2]:0"), "[fd77::1]:0")];
    let count = |(near, beyond): (String, &str)| {
        let right = w.socket(to, beyond);
        // If it does not, that is counted.
        w.reaches(&w.socket(from, &near), &right);
        counted(&right, |bytes, to| assert_eq!(w.socket(from, &near).send_to(bytes, to).unwrap(), 1))
    };
    ends.map(count).to_vec()
}

/// A world of three hosts, the last two of which have an address that is reached by routes; ports are the first two.
fn with_an_address_beyond(name: &str) -> World {
    let w = World::new(name, 3);
    forwarding(&w, 1);
    for host in &w.hosts[1..] {
        let net = Netlink::open_in(host).unwrap();
        let add = |address: &str| net.add_address("lo", address.parse().unwrap()).unwrap();
        add("10.77.0.1/32");
        add("fd77::1/128");
        net.set_up("lo").unwrap();
    }
    w
}

#[test]
fn what_rules_by_arrival_send_past_the_ports_is_the_kernels_too() {
    const NAME: &str = "what_rules_by_arrival_send_past_the_ports_is_the_kernels_too";
    if !may_run(NAME) {
        return;
    }
    let w = with_an_address_beyond("rule-iif");
    let ip = |words: &str| interfaces::ip(&w.router, NAME, words);
    let routes = [
        "-4 route add 10.77.0.0/16 via 10.20.1.2 dev p1",
        "-4 route add 10.77.0.0/16 via 10.20.2.2 dev p2 table 100",
        "-6 route add fd77::/16 via fd20:1::2 dev p1",
        "-6 route add fd77::/16 via fd20:2::2 dev p2 table 100",
    ];
    if !routes.into_iter().all(ip) {
        return;
    }
    let (engine, _) = Engine::start(w.config_of("rule-iif", TWO_PORTS)).unwrap();
    assert_eq!(copies_beyond(&w, (0, 1)), ONCE, "by a port");
    let rules = ["iif p0 lookup 100", "from 10.20.0.0/16 iif p0 lookup 100", "not iif p1 lookup 100"];
    for (i, rule) in rules.iter().enumerate() {
        let v6 = rule.replace("10.20.0.0/16", "fd20::/16");
        for (verb, to) in [("add", 2), ("del", 1)] {
            assert!(
                ip(&format!("-4 rule {verb} pref 50 {rule}")) && ip(&format!("-6 rule {verb} pref 50 {v6}"))
            );
            eventually("the rule holds", || copies_beyond(&w, (0, to)) == ONCE);
        }
        assert_eq!(copies_beyond(&w, (0, 1)), ONCE, "after rule {i}");
    }
    engine.stop();
}

/// AF_XDP takes frames away from the kernel, so that it must know whose each is.
#[test]
fn af_xdp_ports_leave_the_kernel_what_its_default_route_sends_past_them() {
    const NAME: &str = "af_xdp_ports_leave_the_kernel_what_its_default_route_sends_past_them";
    if !may_run(NAME) {
        return;
    }
    let w = with_an_address_beyond("xdp-past");
    let ip = |words: &str| interfaces::ip(&w.router, NAME, words);
    let routes = [
        "-4 route add default via 10.20.2.2 dev p2",
        "-4 route add 10.77.0.0/16 via 10.20.1.2 dev p1",
        "-6 route add default via fd20:2::2 dev p2",
        "-6 route add fd77::/16 via fd20:1::2 dev p1",
    ];
    if !routes.into_iter().all(ip) {
        return;
    }
    let text = format!("[router]\nio = \"af_xdp\"\n{TWO_PORTS}");
    let (engine, handle) = Engine::start(w.config_of("xdp-past", &text)).unwrap();
    let ports = handle.wait(|done| Call::Show(ShowQuery::new("ports", 9), done)).unwrap().unwrap().rows;
    assert!(ports.iter().all(|row| row.facts["io"].starts_with("af_xdp")), "{:?}", engine.warnings());
    assert_eq!(copies_beyond(&w, (0, 1)), ONCE, "by a port, inside of what goes past them");
    assert_eq!(copies(&w, (0, 1)), ONCE, "to a neighbour of a port");
    assert!(ip("-4 route del 10.77.0.0/16") && ip("-6 route del fd77::/16"));
    eventually("the rest is the kernel's", || copies_beyond(&w, (0, 2)) == ONCE);
    assert_eq!(copies(&w, (0, 1)), ONCE);
    assert!(ip(routes[1]) && ip(routes[3]));
    eventually("the port has it again", || copies_beyond(&w, (0, 1)) == ONCE);
    engine.stop();
}

#[test]
fn what_a_port_without_carrier_leaves_to_a_wider_route_past_the_ports_is_the_kernels() {
    const NAME: &str = "what_a_port_without_carrier_leaves_to_a_wider_route_past_the_ports_is_the_kernels";
    if !may_run(NAME) {
        return;
    }
    let w = with_an_address_beyond("linkdown");
    let routes = [
        "-4 route add 10.77.0.0/16 via 10.20.1.2 dev p1",
        "-4 route add 10.76.0.0/15 via 10.20.2.2 dev p2",
        "-6 route add fd77::/16 via fd20:1::2 dev p1",
        "-6 route add fd76::/15 via fd20:2::2 dev p2",
    ];
    if !routes.into_iter().all(|words| interfaces::ip(&w.router, NAME, words)) {
        return;
    }
    for version in [IpVersion::V4, IpVersion::V6] {
        sysctl::write(&w.router, version, "p1", "ignore_routes_with_linkdown", 1).unwrap();
    }
    let (engine, _) = Engine::start(w.config_of("linkdown", TWO_PORTS)).unwrap();
    assert_eq!(copies_beyond(&w, (0, 1)), ONCE);
    Netlink::open_in(&w.hosts[1]).unwrap().set_down("eth0").unwrap();
    eventually("the wider route holds", || copies_beyond(&w, (0, 2)) == ONCE);
    engine.stop();
}

#[test]
fn what_several_next_hops_share_with_a_device_that_is_no_port_goes_by_the_ports_and_once() {
    const NAME: &str =
        "what_several_next_hops_share_with_a_device_that_is_no_port_goes_by_the_ports_and_once";
    if !may_run(NAME) {
        return;
    }
    let w = with_an_address_beyond("shared");
    let ip = |words: &str| interfaces::ip(&w.router, NAME, words);
    // Filters on arrival keep the early-drop program away: the guard alone decides.
    w.net.add_qdisc("p0", Place::INGRESS, Place::new(0xffff, 0), &QdiscSpec::Ingress).unwrap();
    if !ip("-4 route add default nexthop via 10.20.2.2 dev p2 nexthop via 10.20.1.2 dev p1")
        || !ip("-6 route add default nexthop via fd20:2::2 dev p2 nexthop via fd20:1::2 dev p1")
    {
        return;
    }
    let (engine, handle) = Engine::start(w.config_of("shared", TWO_PORTS)).unwrap();
    assert_eq!(copies_beyond(&w, (0, 1)), ONCE, "by the port");
    assert_eq!(copies_beyond(&w, (0, 2)), [(0, 0); 2], "the kernel sends no part of it");
    let said = "leads by ports and by \"p2\" as well, which is none: the router sends all of it by its ports";
    let is_said = |all: &[String]| all.iter().any(|text| text.contains(said));
    assert!(is_said(engine.warnings()), "{:?}", engine.warnings());
    let notes = handle.wait(|done| Call::Show(ShowQuery::new("ports", 10), done)).unwrap().unwrap().notes;
    assert!(is_said(&notes), "told with the first routes: {notes:?}");
    // What goes past the ports alone goes on, also inside.
    assert!(
        ip("-4 route add 10.77.0.0/16 via 10.20.2.2 dev p2")
            && ip("-6 route add fd77::/16 via fd20:2::2 dev p2")
    );
    eventually("the kernel forwards it", || copies_beyond(&w, (0, 2)) == ONCE);
    engine.stop();
}

/// The flag that says router in a host's neighbour table follows the kernel's `forwarding` (RFC 4861 §4.4, §7.2.5).
#[test]
fn a_host_keeps_its_router() {
    if !may_run("a_host_keeps_its_router") {
        return;
    }
    let w = World::new("flag", 2);
    forwarding(&w, 1);
    let (engine, _) = Engine::start(w.config("flag", "")).unwrap();
    let host = Netlink::open_in(&w.hosts[0]).unwrap();
    let index = host.link("eth0").unwrap().index;
    let router: std::net::IpAddr = "fd20:0::1".parse().unwrap();
    let _ = host.delete_neighbour(index, router);
    let (a, b) = (w.socket(0, "[fd20:0::2]:0"), w.socket(1, "[fd20:1::2]:0"));
    assert!(w.reaches(&a, &b));
    let known = host.neighbours().unwrap();
    let known = known.iter().find(|n| n.ip == router && n.ifindex == index).expect("it was asked");
    assert!(known.router, "{known:?}");
    engine.stop();
}

#[test]
fn an_interface_has_one_router_in_a_namespace_whatever_their_directories() {
    if !may_run("an_interface_has_one_router_in_a_namespace_whatever_their_directories") {
        return;
    }
    let w = World::new("twice", 2);
    let (engine, _) = Engine::start(w.config("first", "")).unwrap();
    let elsewhere = Scratch::new("elsewhere");
    let second = |name: &str, text: &str| {
        let config = w.config_of(name, text);
        Engine::start(EngineConfig { state_dir: elsewhere.path().to_owned(), ..config }).map(|_| ())
    };
    let p1 = "[[port]]\nname = \"wan\"\ndevice = \"p1\"\n";
    let error = second("second", p1).unwrap_err();
    assert!(
        matches!(&error, EngineError::DeviceHeld { port, device } if (port, device) == (&"wan".into(), &"p1".into())),
        "{error}"
    );
    let error = second("first", p1).unwrap_err();
    assert!(matches!(&error, EngineError::Guarded { name } if name == "first"), "{error}");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "a start that fails leaves nothing");
    engine.stop();
    second("second", p1).unwrap();
}

/// A world of two hosts whose interfaces leave it to their cards to cut segments.
fn with_offloads(name: &str) -> World {
    let w = World::new(name, 2);
    for host in &w.hosts {
        let host = Netlink::open_in(host).unwrap();
        let mut offloads = host.offloads("eth0").unwrap();
        offloads.wanted.values_mut().for_each(|on| *on = true);
        host.restore_offloads("eth0", &offloads).unwrap();
    }
    w
}

/// Sends some megabytes over TCP from the first host to the second one, at this address; all must arrive.
fn transfer(w: &World, to: &str) {
    const BYTES: usize = 4_000_000;
    let listener = w.hosts[1].run(|| std::net::TcpListener::bind(to)).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut all).unwrap();
        all
    });
    let sent: Vec<u8> = (0..BYTES).map(|i| (i / 251) as u8 ^ i as u8).collect();
    let mut stream = w.hosts[0].run(|| std::net::TcpStream::connect(address)).unwrap().unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    std::io::Write::write_all(&mut stream, &sent).unwrap();
    drop(stream);
    assert!(receiver.join().unwrap() == sent, "what arrived is what was sent");
}

/// What a card that cuts segments for its host, or a device that merges them, hands over.
#[test]
fn superframes_are_cut_into_frames_and_nothing_of_a_transfer_is_lost() {
    if !may_run("superframes_are_cut_into_frames_and_nothing_of_a_transfer_is_lost") {
        return;
    }
    let w = with_offloads("superframes");
    let (engine, handle) = Engine::start(w.config("superframes", "")).unwrap();
    for (from, to) in [("10.20.0.2:0", "10.20.1.2:0"), ("[fd20:0::2]:0", "[fd20:1::2]:0")] {
        assert!(w.reaches(&w.socket(0, from), &w.socket(1, to)), "neighbours are known after this");
        transfer(&w, to);
    }
    assert!(counter(&handle, "port", "p0", "rx_segmented") > 0, "there were superframes");
    assert_eq!(counter(&handle, "port", "p0", "rx_too_long"), 0);
    engine.stop();
}

/// What is not much longer than a frame fits into a slot of the ring, beside those that are one frame.
#[test]
fn superframes_of_two_small_segments_are_cut_as_well() {
    if !may_run("superframes_of_two_small_segments_are_cut_as_well") {
        return;
    }
    const ROUNDS: u64 = 20;
    let w = with_offloads("small");
    let (engine, handle) = Engine::start(w.config("small", "")).unwrap();
    let (left, right) = (w.socket(0, "10.20.0.2:0"), w.socket(1, "10.20.1.2:0"));
    assert!(w.reaches(&left, &right), "neighbours are known after this");
    let listener = w.hosts[1].run(|| std::net::TcpListener::bind("10.20.1.2:0")).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let mut stream = w.hosts[0].run(|| std::net::TcpStream::connect(address)).unwrap().unwrap();
    let (mut other, _) = listener.accept().unwrap();
    for side in [&stream, &other] {
        side.set_nodelay(true).unwrap();
        side.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let cut = counter(&handle, "port", "p0", "rx_segmented");
    // One segment, and a little more.
    for (round, length) in (0..ROUNDS).zip((1_470..1_700).cycle().step_by(23)) {
        std::io::Write::write_all(&mut stream, &vec![round as u8; length]).unwrap();
        let mut got = vec![0; length];
        std::io::Read::read_exact(&mut other, &mut got).unwrap();
        assert!(got.iter().all(|byte| u64::from(*byte) == round));
        std::io::Write::write_all(&mut other, b"x").unwrap();
        std::io::Read::read_exact(&mut stream, &mut [0]).unwrap();
    }
    assert!(counter(&handle, "port", "p0", "rx_segmented") >= cut + ROUNDS);
    for what in ["rx_too_long", "tx_too_long"] {
        assert_eq!(counter(&handle, "port", "p0", what) + counter(&handle, "port", "p1", what), 0, "{what}");
    }
    engine.stop();
}

#[test]
fn superframes_inside_a_tunnel_are_cut_as_well() {
    const NAME: &str = "superframes_inside_a_tunnel_are_cut_as_well";
    if !may_run(NAME) {
        return;
    }
    let w = with_offloads("tunnel");
    for (i, host) in w.hosts.iter().enumerate() {
        let (own, peer) = (format!("10.20.{i}.2"), format!("10.20.{}.2", 1 - i));
        let words = format!("link add t0 type vxlan id 7 local {own} remote {peer} dstport 4789 udpcsum");
        if !interfaces::ip(host, NAME, &words) {
            return;
        }
        let host = Netlink::open_in(host).unwrap();
        host.add_address_now("t0", net(&format!("192.168.7.{}/24", i + 1))).unwrap();
        host.set_up("t0").unwrap();
    }
    let (engine, handle) = Engine::start(w.config("tunnel", "")).unwrap();
    assert!(w.reaches(&w.socket(0, "192.168.7.1:0"), &w.socket(1, "192.168.7.2:0")));
    transfer(&w, "192.168.7.2:0");
    assert!(counter(&handle, "port", "p0", "rx_segmented") > 0, "there were superframes");
    assert_eq!(counter(&handle, "port", "p0", "rx_too_long"), 0);
    engine.stop();
}

#[test]
fn rules_for_what_is_forwarded_are_named_and_keep_a_router_from_starting() {
    if !may_run("rules_for_what_is_forwarded_are_named_and_keep_a_router_from_starting") {
        return;
    }
    let w = World::new("rules", 2);
    laboratory::drop_forwarded(&w.router).unwrap();
    let error = Engine::start(w.config("rules", "")).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, EngineError::Netfilter { rules } if rules.contains("inet firewall forward")),
        "{error}"
    );
    assert_eq!(std::fs::read_dir(w.scratch.path()).unwrap().count(), 0, "nothing was changed");
    let (engine, _) = Engine::start(w.config("rules", "[kernel]\nbypass_netfilter = true\n")).unwrap();
    assert_eq!(copies(&w, (0, 1)), ONCE);
    let told = |text: &&String| text.contains("pass") && text.contains("inet firewall forward filters");
    assert_eq!(engine.warnings().iter().filter(told).count(), 1, "{:?}", engine.warnings());
    engine.stop();
}

/// Nobody says that rules come, or that forwarding is switched off, so it is looked for.
#[test]
fn what_comes_while_a_router_runs_and_is_passed_by_is_told() {
    if !may_run("what_comes_while_a_router_runs_and_is_passed_by_is_told") {
        return;
    }
    let w = World::new("rulescome", 2);
    let net = Netlink::open_in(&w.router).unwrap();
    net.create_veth("past", "past-peer", None).unwrap();
    net.set_up("past").unwrap();
    net.set_up("past-peer").unwrap();
    net.add_address_now("past", "10.66.0.1/24".parse().unwrap()).unwrap();
    let switch = |value| sysctl::write(&w.router, IpVersion::V4, "all", "forwarding", value).unwrap();
    switch(1);
    let (engine, handle) = Engine::start(w.config("rulescome", "")).unwrap();
    let notes = || handle.wait(|done| Call::Show(ShowQuery::new("routes", 1), done)).unwrap().unwrap().notes;
    let said = |what: &str| notes().iter().any(|note| note.contains(what));
    assert!(said("to \"past\" is the kernel's to forward") && !said("net.ipv4.ip_forward"), "{:?}", notes());
    assert!(!said("passes these of the kernel by"), "{:?}", notes());
    laboratory::drop_forwarded(&w.router).unwrap();
    switch(0);
    let end = Instant::now() + PATIENCE;
    while !(said("inet firewall forward filters") && said("which does not: net.ipv4.ip_forward")) {
        assert!(Instant::now() < end, "{:?}", notes());
        std::thread::sleep(Duration::from_millis(50));
    }
    let answer =
        handle.wait(|done| Call::Explain("in=p0 udp 10.20.0.2:1>10.20.1.2:2".to_owned(), done)).unwrap();
    assert!(answer.unwrap().to_string().contains("inet firewall forward filters"));
    engine.stop();
}

/// A source that the kernel's reverse path filter would not let in does not come through the router either.
#[test]
fn a_reverse_path_filter_of_the_kernel_holds_for_the_router() {
    if !may_run("a_reverse_path_filter_of_the_kernel_holds_for_the_router") {
        return;
    }
    for (filter, lines, passes) in
        [(2, "", false), (1, "source_check = \"off\"\n", true), (0, "source_check = \"strict\"\n", false)]
    {
        let w = World::new("rpfilter", 2);
        for name in ["all", "p0"] {
            sysctl::write(&w.router, IpVersion::V4, name, "rp_filter", filter).unwrap();
        }
        let host = Netlink::open_in(&w.hosts[0]).unwrap();
        host.add_address_now("eth0", net("10.99.0.2/32")).unwrap();
        let text = format!("[[port]]\nname = \"p0\"\n{lines}[[port]]\nname = \"p1\"\n");
        let (engine, handle) = Engine::start(w.config_of("rpfilter", &text)).unwrap();
        assert!(w.reaches(&w.socket(0, "10.20.0.2:0"), &w.socket(1, "10.20.1.2:0")), "an honest one");
        let forged = w.reaches(&w.socket(0, "10.99.0.2:0"), &w.socket(1, "10.20.1.2:0"));
        assert_eq!(forged, passes, "rp_filter {filter}, {lines:?}");
        let dropped = counter(&handle, "element", "forward", "dropped_reverse_path");
        assert_eq!(dropped > 0, !passes);
        engine.stop();
    }
}

/// With `br_netfilter` the rules that keep the kernel from forwarding see frames while they are still in the bridge.
#[test]
fn a_bridge_whose_frames_rules_for_ip_see_is_no_port() {
    const NAME: &str = "a_bridge_whose_frames_rules_for_ip_see_is_no_port";
    if !may_run(NAME) {
        return;
    }
    let w = World::new("brnf", 2);
    let set = |value: &str| {
        w.router.run(|| std::fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", value)).unwrap()
    };
    let made = ["link add br0 type bridge", "link set p0 master br0", "addr del 10.20.0.1/24 dev p0"];
    if !made.into_iter().all(|words| interfaces::ip(&w.router, NAME, words)) {
        return;
    }
    if set("1").is_err() {
        return eprintln!("SKIPPED {NAME}: the kernel has no br_netfilter");
    }
    w.net.set_up("br0").unwrap();
    w.net.add_address("br0", net("10.20.0.1/24")).unwrap();
    let config = || {
        w.config_of(
            "brnf",
            "[kernel]\nbypass_netfilter = true\n[[port]]\nname = \"br0\"\n[[port]]\nname = \"p1\"\n",
        )
    };
    let error = Engine::start(config()).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, EngineError::BridgeFilter { switches } if switches.contains("iptables") && switches.contains("br0")),
        "{error}"
    );
    for key in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"] {
        w.router.run(|| std::fs::write(format!("/proc/sys/net/bridge/{key}"), "0")).unwrap().unwrap();
    }
    let (engine, handle) = Engine::start(config()).unwrap();
    assert!(w.reaches(&w.socket(0, "10.20.0.2:0"), &w.socket(1, "10.20.1.2:0")));
    // Whatever loads the module switches it on.
    set("1").unwrap();
    let end = Instant::now() + PATIENCE;
    let notes = || handle.wait(|done| Call::Show(ShowQuery::new("routes", 1), done)).unwrap().unwrap().notes;
    while !notes().iter().any(|note| note.contains("\"br0\" (net.bridge.bridge-nf-call-iptables = 1)")) {
        assert!(Instant::now() < end, "{:?}", notes());
        std::thread::sleep(Duration::from_millis(50));
    }
    engine.stop();
}
