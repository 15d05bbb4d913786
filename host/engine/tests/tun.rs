//! A router with a TUN port, against the kernel of this machine, in namespaces of its own.
//!
//! Without rights over namespaces, or without `/dev/net/tun`, the test says so and skips; with `netns` in `PERHOP_REQUIRE`
//! a skip is a failure.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test needs real sockets, threads and clocks"
)]

mod support;

use perhop_element::Port;
use perhop_engine::{Engine, EngineConfig};
use perhop_io::{AfPacket, AfPacketConfig, Outgoing, TunPort, clock};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink};
use perhop_packet::{Batch, Pool};
use perhop_routerfile::RouterFile;
use std::net::UdpSocket;
use std::time::Duration;
use support::{Scratch, eventually, may_run_unless, no_namespaces};

fn may_run(name: &str) -> bool {
    let no_tun = || std::fs::File::open("/dev/net/tun").err().map(|error| format!("/dev/net/tun: {error}"));
    may_run_unless(name, no_namespaces().or_else(no_tun))
}

const ROUTER: &str = r#"
[[port]]
name = "host"
device = "t0"
io = "tun"

[[port]]
name = "p0"

[[route]]
dest = "198.51.100.0/24"
via = "10.20.0.2"
port = "p0"
"#;

/// The router's host with a TUN interface, and another behind `p0` that is 198.51.100.1.
struct World {
    here: Namespace,
    there: Namespace,
    net: Netlink,
    scratch: Scratch,
}

impl World {
    fn new(name: &str) -> Self {
        let (here, there) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        let (net, far) = (Netlink::open_in(&here).unwrap(), Netlink::open_in(&there).unwrap());
        net.create_veth("p0", "eth0", Some(&there)).unwrap();
        for (namespace, net, device, address) in
            [(&here, &net, "p0", "10.20.0.1/24"), (&there, &far, "eth0", "10.20.0.2/24")]
        {
            sysctl::write(namespace, IpVersion::V6, device, "disable_ipv6", 1).unwrap();
            sysctl::write(namespace, IpVersion::V4, device, "rp_filter", 2).unwrap();
            net.disable_offloads(device).unwrap();
            net.add_address(device, address.parse().unwrap()).unwrap();
            net.set_up(device).unwrap();
        }
        eventually("the link runs", || net.link("p0").unwrap().running && far.link("eth0").unwrap().running);
        far.add_address("eth0", "198.51.100.1/32".parse().unwrap()).unwrap();
        let back = "10.99.0.0/24".parse().unwrap();
        far.add_route(back, Some("10.20.0.1".parse().unwrap()), Some("eth0")).unwrap();
        Self { here, there, net, scratch: Scratch::new(&format!("tun-{name}")) }
    }

    fn start(&self, text: &str) -> Engine {
        let (file, diagnostics) = RouterFile::read("tun.toml", text);
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        let config = EngineConfig {
            pool_size: 4096,
            ..EngineConfig::of_file("tun", Some(self.here.clone()), &file, self.scratch.path())
        };
        Engine::start(config).unwrap().0
    }

    /// The address of the TUN interface, and the kernel's way to the other host through it.
    fn use_tun(&self) {
        self.net.add_address("t0", "10.99.0.1/24".parse().unwrap()).unwrap();
        self.net.add_route("198.51.100.0/24".parse().unwrap(), None, Some("t0")).unwrap();
    }

    fn socket(&self, namespace: &Namespace, address: &str) -> UdpSocket {
        let socket = namespace.run(|| UdpSocket::bind(address)).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket
    }
}

#[test]
fn what_the_host_sends_by_a_tun_port_is_forwarded_and_the_other_way_it_is_the_hosts() {
    let name = "what_the_host_sends_by_a_tun_port_is_forwarded_and_the_other_way_it_is_the_hosts";
    if !may_run(name) {
        return;
    }
    let world = World::new("both");
    let engine = world.start(ROUTER);
    assert!(world.net.link("t0").unwrap().up, "made and switched on");
    world.use_tun();
    let (mine, theirs) =
        (world.socket(&world.here, "0.0.0.0:0"), world.socket(&world.there, "198.51.100.1:7"));
    let mut buffer = [0; 2048];
    // Routes and neighbours take a moment. Of every length that fits.
    eventually("a datagram arrives", || {
        mine.send_to(b"first", "198.51.100.1:7").unwrap();
        theirs.recv_from(&mut buffer).is_ok()
    });
    while theirs.recv_from(&mut buffer).is_ok() {}
    for len in [1, 18, 19, 500, 1472] {
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        mine.send_to(&data, "198.51.100.1:7").unwrap();
        let (came, from) = theirs.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..came], from.ip().to_string().as_str()), (&data[..], "10.99.0.1"));
        theirs.send_to(&data, from).unwrap();
        assert_eq!(mine.recv_from(&mut buffer).unwrap().0, len, "the kernel has what is for its address");
    }

    // Of a host behind the interface, as far as the router knows: out of the port, into this kernel.
    let config = AfPacketConfig { outgoing: Outgoing::Ignored, ..AfPacketConfig::new("tap", "t0") };
    let mut tap = world.here.run(|| AfPacket::open(config)).unwrap().unwrap();
    let (pool, mut batch, mut came) = (Pool::new(256), Batch::new(), Vec::new());
    theirs.send_to(b"for another", "10.99.0.77:9").unwrap();
    eventually("the kernel receives it from the interface", || {
        tap.receive(clock::monotonic(), &pool, &mut batch).unwrap();
        came.extend(batch.iter().map(|p| p.frame().to_vec()));
        batch.release_all();
        came.iter().any(|packet| packet.ends_with(b"for another"))
    });
    let packet = came.iter().find(|packet| packet.ends_with(b"for another")).unwrap();
    assert_eq!(
        (packet[0], packet[8], packet.len()),
        (0x45, 63, 39),
        "an IP packet, without padding, a hop older"
    );
    assert_eq!(packet[12..20], [198, 51, 100, 1, 10, 99, 0, 77]);

    let report = engine.stop().report;
    let port = report.find("port", "host").unwrap();
    assert_eq!(port.facts["io"], "tun");
    for none in ["rx_too_long", "rx_not_ip", "rx_no_buffer", "tx_failed", "tx_not_ip"] {
        assert_eq!(port.counters[none], 0, "{none}");
    }
    assert!(port.counters["rx_packets"] >= 6 && port.counters["tx_packets"] == 1, "{:?}", port.counters);
    assert!(world.net.link("t0").is_err(), "gone with the router");
}

#[test]
fn an_interface_that_was_there_before_stays_as_it_was() {
    let name = "an_interface_that_was_there_before_stays_as_it_was";
    if !may_run(name) {
        return;
    }
    let world = World::new("stays");
    // Held by a descriptor as another program's would be: two cannot have it.
    let held = world.here.run(|| TunPort::open("held", "t0")).unwrap().unwrap();
    let (file, _) = RouterFile::read("tun.toml", ROUTER);
    let config = EngineConfig::of_file("tun", Some(world.here.clone()), &file.unwrap(), world.scratch.path());
    let error = Engine::start(config).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("host") && error.contains("busy"), "{error}");
    assert_eq!(std::fs::read_dir(world.scratch.path()).unwrap().count(), 0, "nothing is left to put back");
    drop(held);
    eventually("it goes with its descriptor", || world.net.link("t0").is_err());

    let engine = world.start(ROUTER);
    world.use_tun();
    let (mine, theirs) =
        (world.socket(&world.here, "0.0.0.0:0"), world.socket(&world.there, "198.51.100.1:7"));
    let mut arrives = || {
        let _ = mine.send_to(b"again", "198.51.100.1:7");
        theirs.recv_from(&mut [0; 64]).is_ok()
    };
    eventually("a datagram arrives", &mut arrives);
    // Off and on again it is the same interface.
    let index = world.net.link("t0").unwrap().index;
    world.net.set_down("t0").unwrap();
    world.net.set_up("t0").unwrap();
    world.net.add_route("198.51.100.0/24".parse().unwrap(), None, Some("t0")).unwrap();
    eventually("a datagram arrives again", &mut arrives);
    assert_eq!(world.net.link("t0").unwrap().index, index);
    drop(engine);
}

const BESIDE: &str = r#"
[[port]]
name = "vpn"
device = "wg0"
rate = "50 Mbit/s"

[[port]]
name = "p0"
"#;

/// An interface without link headers that another program has, as a VPN does: here the test is at its other end.
#[test]
fn a_point_to_point_interface_of_another_program_is_a_port_like_any_other() {
    let name = "a_point_to_point_interface_of_another_program_is_a_port_like_any_other";
    if !may_run(name) {
        return;
    }
    let world = World::new("vpn");
    let mut far_end = world.here.run(|| TunPort::open("far", "wg0")).unwrap().unwrap();
    // A kernel that forwards too would do it a second time.
    for version in [IpVersion::V4, IpVersion::V6] {
        sysctl::write(&world.here, version, "all", "forwarding", 1).unwrap();
    }
    sysctl::write(&world.here, IpVersion::V6, "p0", "disable_ipv6", 0).unwrap();
    sysctl::write(&world.there, IpVersion::V6, "eth0", "disable_ipv6", 0).unwrap();
    let there = Netlink::open_in(&world.there).unwrap();
    world.net.set_up("wg0").unwrap();
    for (net, device, address) in [
        (&world.net, "wg0", "10.99.0.1/24"),
        (&world.net, "wg0", "fd99::1/64"),
        (&world.net, "p0", "fd20::1/64"),
        (&there, "eth0", "fd20::2/64"),
    ] {
        net.add_address_now(device, address.parse().unwrap()).unwrap();
    }
    world.net.add_route("203.0.113.0/24".parse().unwrap(), None, Some("wg0")).unwrap();
    there
        .add_route("203.0.113.0/24".parse().unwrap(), Some("10.20.0.1".parse().unwrap()), Some("eth0"))
        .unwrap();
    there.add_route("fd99::/64".parse().unwrap(), Some("fd20::1".parse().unwrap()), Some("eth0")).unwrap();
    let engine = world.start(BESIDE);
    assert!(!engine.warnings().iter().any(|text| text.contains("wg0")), "{:?}", engine.warnings());

    let (pool, mut batch) = (Pool::new(256), Batch::new());
    // What comes out at the other end within a moment, of datagrams that end so.
    let mut come = |far_end: &mut TunPort, ending: &[u8]| -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for _ in 0..20 {
            far_end.receive(clock::monotonic(), &pool, &mut batch).unwrap();
            all.extend(batch.iter().map(|packet| packet.frame().to_vec()).filter(|f| f.ends_with(ending)));
            batch.release_all();
            std::thread::sleep(Duration::from_millis(5));
        }
        all
    };
    let mut buffer = [0; 64];
    for (ours, theirs, hops_at) in [("10.20.0.2:5", "203.0.113.7:9", 22), ("[fd20::2]:5", "[fd99::7]:9", 21)]
    {
        let host = world.socket(&world.there, ours);
        eventually("a datagram arrives", || {
            host.send_to(b"first", theirs).unwrap();
            !come(&mut far_end, b"first").is_empty()
        });
        host.send_to(b"once", theirs).unwrap();
        let frames = come(&mut far_end, b"once");
        assert_eq!(frames.len(), 1, "forwarded once: {frames:?}");
        let mut back = frames[0].clone();
        assert_eq!(back[hops_at], 63, "a hop older");
        // The answer: addresses and ports change places, which no checksum minds.
        let (address, length) = if hops_at == 22 { (26, 4) } else { (22, 16) };
        let (source, rest) = back[address..].split_at_mut(length);
        source.swap_with_slice(&mut rest[..length]);
        let transport = address + 2 * length;
        let (port, rest) = back[transport..].split_at_mut(2);
        port.swap_with_slice(&mut rest[..2]);
        let pool = Pool::new(1);
        let mut answers = Batch::new();
        answers.push(pool.packet(&back).unwrap());
        assert_eq!(far_end.transmit(&mut answers).unwrap(), 1);
        let (length, from) = host.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&b"once"[..], theirs.parse().unwrap()));
        host.recv_from(&mut buffer).expect_err("once");
    }
    // What this host itself sends there waits with the rest.
    let own = world.socket(&world.here, "10.99.0.1:5");
    own.send_to(b"own", "203.0.113.7:9").unwrap();
    let frames = come(&mut far_end, b"own");
    assert_eq!(frames.len(), 1, "{frames:?}");
    // Off and on again.
    world.net.set_down("wg0").unwrap();
    world.net.set_up("wg0").unwrap();
    world.net.add_route("203.0.113.0/24".parse().unwrap(), None, Some("wg0")).unwrap();
    let host = world.socket(&world.there, "10.20.0.2:6");
    eventually("a datagram arrives again", || {
        host.send_to(b"again", "203.0.113.7:9").unwrap();
        !come(&mut far_end, b"again").is_empty()
    });
    let report = engine.stop().report;
    let port = report.find("port", "vpn").unwrap();
    assert_eq!(port.facts["io"], "ip");
    for none in ["rx_too_long", "rx_no_buffer", "tx_not_ip"] {
        assert_eq!(port.counters[none], 0, "{none}");
    }
    assert!(port.counters["own_packets"] >= 1, "{:?}", port.counters);
}
