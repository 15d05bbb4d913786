//! What interfaces are and become while a router runs on them: their MTU, and what is above them.

use super::*;

/// Runs `ip` in a namespace; what a machine cannot do skips the test, loudly.
pub(crate) fn ip(namespace: &Namespace, name: &str, words: &str) -> bool {
    let made = namespace.run(|| std::process::Command::new("ip").args(words.split(' ')).status()).unwrap();
    let done = made.is_ok_and(|status| status.success());
    if !done {
        eprintln!("SKIPPED {name}: `ip {words}` of iproute2, or what it needs of the kernel, is not here");
    }
    done
}

/// Whether a datagram of this length gets from the first host to the second one.
fn arrives(w: &World, length: usize) -> bool {
    let (left, right) = (w.socket(0, "10.20.0.2:0"), w.socket(1, "10.20.1.2:0"));
    right.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    left.send_to(&vec![7; length], right.local_addr().unwrap()).is_ok()
        && right.recv(&mut vec![0; 65_536]).is_ok_and(|len| len == length)
}

#[test]
fn an_mtu_that_is_raised_holds_at_once() {
    if !may_run("an_mtu_that_is_raised_holds_at_once") {
        return;
    }
    let w = World::new("raised", 2);
    let raise = |mtu: u32| {
        for (i, host) in w.hosts.iter().enumerate() {
            Netlink::open_in(host).unwrap().set_mtu("eth0", mtu).unwrap();
            w.net.set_mtu(&format!("p{i}"), mtu).unwrap();
        }
    };
    raise(1_300);
    let (engine, handle) = Engine::start(w.config("raised", "")).unwrap();
    eventually("packets pass", || arrives(&w, 1_000));
    raise(1_500);
    // The router's own table follows within a moment; until then it says what it believes.
    eventually("long packets pass", || arrives(&w, 1_472));
    assert_eq!(counter(&handle, "port", "p1", "tx_too_long"), 0);
    engine.stop();
}

/// The kernel has no IPv6 where the MTU is below 1,280 (RFC 8200 §5).
#[test]
fn a_port_with_an_mtu_too_small_for_ipv6_forwards_ipv4_also_after_a_flap() {
    if !may_run("a_port_with_an_mtu_too_small_for_ipv6_forwards_ipv4_also_after_a_flap") {
        return;
    }
    let w = World::new("smallmtu", 2);
    w.net.set_mtu("p1", 1_000).unwrap();
    let (engine, _) = Engine::start(w.config("smallmtu", "")).unwrap();
    eventually("packets pass", || arrives(&w, 900));
    for _ in 0..2 {
        w.net.set_down("p1").unwrap();
        eventually("it is down", || !arrives(&w, 900));
        w.net.set_up("p1").unwrap();
        eventually("packets pass after a flap", || arrives(&w, 900));
    }
    engine.stop();
}

/// The address of a virtual router is that of a macvlan on the port (keepalived's `use_vmac`).
#[test]
fn frames_to_a_virtual_routers_address_are_forwarded_once_by_the_router() {
    const NAME: &str = "frames_to_a_virtual_routers_address_are_forwarded_once_by_the_router";
    if !may_run(NAME) {
        return;
    }
    let w = World::new("vrrp", 2);
    for version in [IpVersion::V4, IpVersion::V6] {
        sysctl::write(&w.router, version, "all", "forwarding", 1).unwrap();
    }
    let (engine, handle) = Engine::start(w.config("vrrp", "")).unwrap();
    // It comes while the router runs, as the other one fails.
    let address = "address 00:00:5e:00:01:33";
    if !ip(&w.router, NAME, &format!("link add vrrp51 link p0 {address} type macvlan mode private"))
        || !ip(&w.router, NAME, "address add 10.20.0.254/32 dev vrrp51")
        || !ip(&w.router, NAME, "link set vrrp51 up")
        || !ip(&w.hosts[0], NAME, "neigh replace 10.20.0.254 lladdr 00:00:5e:00:01:33 dev eth0")
        || !ip(&w.hosts[0], NAME, "route replace default via 10.20.0.254")
    {
        return;
    }
    eventually("packets pass", || arrives(&w, 100));
    let sent = || counter(&handle, "port", "p1", "tx_packets");
    let before = sent();
    let (left, right) = (w.socket(0, "10.20.0.2:0"), w.socket(1, "10.20.1.2:0"));
    right.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    for i in 0..50_u8 {
        left.send_to(&[i], right.local_addr().unwrap()).unwrap();
    }
    let mut seen = [0; 50];
    let mut byte = [0; 1];
    while right.recv(&mut byte).is_ok() {
        seen[usize::from(byte[0])] += 1;
    }
    assert_eq!(seen, [1; 50], "each once");
    assert!(sent() >= before + 50, "by the router's port");
    engine.stop();
}
