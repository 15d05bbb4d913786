//! A router's guard in the packet filter, between real namespaces.

use super::*;
use perhop_netlink::bypass::bypassed;
use perhop_netlink::nft::{Duty, ForwardGuard};

/// Three hosts on a router: `lan` and `wan` are its ports, `vpn` is none.
struct Star {
    router: Namespace,
    hosts: [(Namespace, Netlink); 3],
    ports: Vec<u32>,
}

const DEVICES: [&str; 3] = ["lan", "wan", "vpn"];

fn star() -> Star {
    let router = Namespace::create().unwrap();
    let r = Netlink::open_in(&router).unwrap();
    for version in [IpVersion::V4, IpVersion::V6] {
        sysctl::write(&router, version, "all", "forwarding", 1).unwrap();
    }
    let host = |i: usize| {
        let host = Namespace::create().unwrap();
        let h = Netlink::open_in(&host).unwrap();
        r.create_veth(DEVICES[i], "eth0", Some(&host)).unwrap();
        laboratory::disable_duplicate_detection(&router, DEVICES[i]).unwrap();
        laboratory::disable_duplicate_detection(&host, "eth0").unwrap();
        for version in ["10.0.", "fd00:"] {
            let (rest, bits) = if version == "10.0." { (".", 24) } else { ("::", 64) };
            r.add_address_now(DEVICES[i], net(&format!("{version}{i}{rest}1/{bits}"))).unwrap();
            h.add_address_now("eth0", net(&format!("{version}{i}{rest}2/{bits}"))).unwrap();
        }
        r.set_up(DEVICES[i]).unwrap();
        h.set_up("eth0").unwrap();
        (host, h)
    };
    let hosts = [0, 1, 2].map(host);
    for (i, (_, h)) in hosts.iter().enumerate() {
        eventually("both ends are up", || h.link("eth0").unwrap().running);
        h.add_route(net("0.0.0.0/0"), Some(ip(&format!("10.0.{i}.1"))), None).unwrap();
        h.add_route(net("::/0"), Some(ip(&format!("fd00:{i}::1"))), None).unwrap();
    }
    let ports = DEVICES[..2].iter().map(|device| r.link(device).unwrap().index).collect();
    Star { router, hosts, ports }
}

/// Whether a datagram gets from a host to an address, where `at` listens.
fn arrives(from: &Namespace, at: &Namespace, to: &str) -> bool {
    let to = ip(to);
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let receiver = at.run(|| UdpSocket::bind(any).unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let sender = from.run(|| UdpSocket::bind(any).unwrap()).unwrap();
    let port = receiver.local_addr().unwrap().port();
    // The first ones find out the neighbours.
    (0..10).any(|_| sender.send_to(b"x", (to, port)).is_ok_and(|_| receiver.recv(&mut [0; 4]).is_ok()))
}

#[test]
fn a_guarded_port_leaves_to_the_kernel_what_is_its_own_and_what_goes_past_the_ports() {
    if !may_run("a_guarded_port_leaves_to_the_kernel_what_is_its_own_and_what_goes_past_the_ports") {
        return;
    }
    let Star { router, hosts: [(lan, _), (wan, _), (vpn, _)], ports } = star();
    let seen = |what: &str| {
        for (net, sep) in [("10.0.", "."), ("fd00:", "::")] {
            let of = |host: usize, last: u8| format!("{net}{host}{sep}{last}");
            assert!(arrives(&lan, &router, &of(0, 1)), "{what}: the router's address, {net}");
            assert!(arrives(&lan, &router, &of(1, 1)), "{what}: its address on another port, {net}");
            assert!(arrives(&lan, &vpn, &of(2, 2)), "{what}: past the ports, {net}");
            assert!(arrives(&vpn, &lan, &of(0, 2)), "{what}: from no port, {net}");
        }
        [arrives(&lan, &wan, "10.0.1.2"), arrives(&lan, &wan, "fd00:1::2"), arrives(&wan, &lan, "10.0.0.2")]
    };
    assert_eq!(seen("before"), [true; 3]);
    let of = |ports: &[u32]| Duty { ports: ports.to_vec(), ..Duty::default() };
    let mut guard = ForwardGuard::open_in(&router, "edge").unwrap();
    assert_eq!(seen("without ports"), [true; 3]);
    guard.protect(of(&ports)).unwrap();
    assert_eq!(seen("guarded"), [false; 3]);
    guard.protect(of(&ports[..1])).unwrap();
    assert_eq!(seen("one port"), [true; 3], "the other is past the ports now");
    guard.protect(of(&ports)).unwrap();
    assert_eq!(ForwardGuard::open_in(&router, "edge").unwrap_err().errno(), EXISTS);
    let mut other = ForwardGuard::open_in(&router, "other").unwrap();
    let taken = other.protect(of(&ports[1..])).unwrap_err();
    assert!(taken.is_taken() && taken.to_string().contains(&format!("interface-{}", ports[1])), "{taken}");
    guard.protect(of(&ports[..1])).unwrap();
    other.protect(of(&ports[1..])).unwrap();
    other.protect(of(&[])).unwrap();
    guard.protect(of(&ports)).unwrap();
    assert_eq!(
        bypassed(&router, &DEVICES, true, &Default::default()).unwrap().all,
        [],
        "a guard is in nobody's way"
    );
    drop((guard, other));
    // The kernel takes a table away after its socket.
    eventually("it is as before", || arrives(&lan, &wan, "10.0.1.2"));
    assert_eq!(seen("after"), [true; 3]);
}
