//! Routers and emulated links against the kernel of this machine, in namespaces of their own.
//!
//! Each test makes what it needs. Without rights it says so and skips; with `netns` in `PERHOP_REQUIRE` a skip is a
//! failure.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the test needs real sockets, threads and clocks"
)]

mod behind;
mod beside_kernel;
mod interfaces;
mod own_traffic;
mod refused;
mod workers;

use ipnet::IpNet;
#[path = "../support/mod.rs"]
mod support;

use perhop_element::Port as _;
use perhop_engine::*;
use perhop_io::EarlyDrop;
use perhop_io::pcap::CaptureReader;
use perhop_io::{AfPacket, AfPacketConfig, Outgoing};
use perhop_model::{
    Call, CountersQuery, Credentials, EventFilter, EventKind, Given, Kind, Name, Op, Outcome, Owner, Reply,
    ShowQuery, StateQuery, Status, Transaction,
};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink, laboratory};
use perhop_packet::{Batch, Pool};
use perhop_routerfile::RouterFile;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{PATIENCE, Scratch, eventually, may_run};

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Hosts around a router: host i has 10.20.i.2 and fd20:i::2, the router .1 on port `pI`.
struct World {
    router: Namespace,
    hosts: Vec<Namespace>,
    net: Netlink,
    scratch: Scratch,
}

impl World {
    fn new(name: &str, hosts: usize) -> Self {
        let router = Namespace::create().unwrap();
        let net = Netlink::open_in(&router).unwrap();
        let mut world = Self { router, hosts: Vec::new(), net, scratch: Scratch::new(name) };
        for i in 0..hosts {
            world.hosts.push(Namespace::create().unwrap());
            world.join(i);
        }
        world
    }

    /// Makes the veth pair of host `i` and its addresses.
    fn join(&self, i: usize) {
        let host = Netlink::open_in(&self.hosts[i]).unwrap();
        let (port, device) = (format!("p{i}"), "eth0");
        self.net.create_veth(&port, device, Some(&self.hosts[i])).unwrap();
        laboratory::disable_duplicate_detection(&self.router, &port).unwrap();
        laboratory::disable_duplicate_detection(&self.hosts[i], device).unwrap();
        self.net.add_address(&port, net(&format!("10.20.{i}.1/24"))).unwrap();
        host.add_address(device, net(&format!("10.20.{i}.2/24"))).unwrap();
        self.net.set_up(&port).unwrap();
        host.set_up(device).unwrap();
        self.net.add_address_now(&port, net(&format!("fd20:{i}::1/64"))).unwrap();
        host.add_address_now(device, net(&format!("fd20:{i}::2/64"))).unwrap();
        host.disable_offloads(device).unwrap();
        let run = |n: &Netlink, d: &str| n.link(d).unwrap().running;
        eventually("the link runs", || run(&self.net, &port) && run(&host, device));
        for (all, via) in [("0.0.0.0/0", format!("10.20.{i}.1")), ("::/0", format!("fd20:{i}::1"))] {
            host.add_route(net(all), Some(via.parse().unwrap()), Some(device)).unwrap();
        }
    }

    fn config(&self, name: &str, more: &str) -> EngineConfig {
        let mut text = String::new();
        for i in 0..self.hosts.len() {
            text += &format!("[[port]]\nname = \"p{i}\"\n\n");
        }
        text += more;
        self.config_of(name, &text)
    }

    fn config_of(&self, name: &str, text: &str) -> EngineConfig {
        let (file, diagnostics) = RouterFile::read("router.toml", text);
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        EngineConfig {
            pool_size: 8192,
            ..EngineConfig::of_file(name, Some(self.router.clone()), &file, self.scratch.path())
        }
    }

    fn socket(&self, host: usize, address: &str) -> UdpSocket {
        let socket = self.hosts[host].run(|| UdpSocket::bind(address)).unwrap().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Whether one of a few datagrams of `from` arrives at `to` soon.
    fn reaches(&self, from: &UdpSocket, to: &UdpSocket) -> bool {
        to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let target = to.local_addr().unwrap();
        let mut buffer = [0; 64];
        let arrived = (0..50).any(|_| {
            let _ = from.send_to(b"ping", target);
            to.recv_from(&mut buffer).is_ok()
        });
        to.set_read_timeout(Some(PATIENCE)).unwrap();
        arrived
    }
}

fn counter(engine: &Handle, kind: &str, name: &str, what: &str) -> u64 {
    let page = engine.wait(|done| Call::Counters(CountersQuery::default(), done)).unwrap();
    let row = page.rows.iter().find(|r| r.kind == kind && r.name == name);
    row.unwrap_or_else(|| panic!("no {kind} {name}: {page:?}")).counters.get(what).copied().unwrap_or(0)
}

#[test]
fn udp_passes_both_ways_in_both_ip_versions() {
    if !may_run("udp_passes_both_ways_in_both_ip_versions") {
        return;
    }
    let w = World::new("udp", 2);
    let (engine, handle) = Engine::start(w.config("udp", "")).unwrap();
    for (a, b) in [("10.20.0.2:0", "10.20.1.2:0"), ("[fd20:0::2]:0", "[fd20:1::2]:0")] {
        let (left, right) = (w.socket(0, a), w.socket(1, b));
        assert!(w.reaches(&left, &right), "{a} to {b}");
        assert!(w.reaches(&right, &left), "{b} to {a}");
    }
    assert!(counter(&handle, "port", "p0", "tx_packets") > 0);
    assert_eq!(counter(&handle, "pool", "pool", "leaked"), 0);
    let report = engine.stop();
    assert!(report.restore_error.is_none(), "{:?}", report.restore_error);
}

/// Frames of a capture.
fn frames(path: &Path) -> Vec<Vec<u8>> {
    CaptureReader::open(path).unwrap().map(|r| r.unwrap().data).collect()
}

/// UDP packets whose payload is a number: (TTL or hop limit, payload).
fn numbered(frames: &[Vec<u8>]) -> Vec<(u8, Vec<u8>)> {
    frames
        .iter()
        .filter_map(|f| {
            let layout = perhop_wire::dissect(f).ok()?;
            let l3 = layout.l3_offset as usize;
            let ttl = if layout.ip_version == 4 { f[l3 + 8] } else { f[l3 + 7] };
            if layout.protocol != 17 {
                return None;
            }
            let payload = &f[layout.l4_offset as usize + 8..l3 + layout.ip_len as usize];
            payload.starts_with(b"number").then(|| (ttl, payload.to_vec()))
        })
        .collect()
}

#[test]
fn each_packet_arrives_once_with_its_ttl_decremented() {
    if !may_run("each_packet_arrives_once_with_its_ttl_decremented") {
        return;
    }
    let w = World::new("once", 2);
    let captures = w.scratch.path().join("captures");
    let config = EngineConfig { pcap_dir: Some(captures.clone()), ..w.config("once", "") };
    let (engine, handle) = Engine::start(config).unwrap();
    for (a, b) in [("10.20.0.2:0", "10.20.1.2:0"), ("[fd20:0::2]:0", "[fd20:1::2]:0")] {
        let (left, right) = (w.socket(0, a), w.socket(1, b));
        let target = right.local_addr().unwrap();
        assert!(w.reaches(&left, &right), "the neighbour is known after this");
        right.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut buffer = [0; 64];
        while right.recv(&mut buffer).is_ok() {}
        for i in 0..100u32 {
            left.send_to(format!("number {i}").as_bytes(), target).unwrap();
        }
        let mut got = Vec::new();
        while let Ok(n) = right.recv(&mut buffer) {
            got.push(String::from_utf8(buffer[..n].to_vec()).unwrap());
        }
        let sent: Vec<String> = (0..100).map(|i| format!("number {i}")).collect();
        assert_eq!(got, sent, "once, in order");
    }
    // What expires here is answered.
    let left = w.socket(0, "10.20.0.2:0");
    left.set_ttl(1).unwrap();
    left.send_to(b"too far", "10.20.1.2:4444").unwrap();
    let icmp = || counter(&handle, "element", "icmp", "sent");
    eventually("the answer is made", || icmp() > 0);
    let report = engine.stop();
    assert_eq!(report.report.find("port", "p0").unwrap().counter("capture_lost"), 0);
    let read = |file: &str| frames(&captures.join(file));
    let (came, went) = (numbered(&read("p0.in.pcap")), numbered(&read("p1.out.pcap")));
    assert_eq!(came.len(), 200);
    let decremented: Vec<(u8, Vec<u8>)> = came.into_iter().map(|(ttl, text)| (ttl - 1, text)).collect();
    assert_eq!(went, decremented);
    let layouts = |file| read(file).into_iter().filter_map(|f| Some((perhop_wire::dissect(&f).ok()?, f)));
    assert!(layouts("p1.out.pcap").all(|(l, _)| l.dst_port != 4444), "what expired went on");
    let exceeded =
        |(l, f): (perhop_wire::Layout, Vec<u8>)| l.protocol == 1 && f[l.l4_offset as usize..][..2] == [11, 0];
    assert!(layouts("p0.out.pcap").any(exceeded), "time exceeded in transit (RFC 792)");
}

#[test]
fn offloads_are_off_while_a_router_runs_and_the_kernels_forwarding_stays_as_it_is() {
    if !may_run("offloads_are_off_while_a_router_runs_and_the_kernels_forwarding_stays_as_it_is") {
        return;
    }
    let w = World::new("switches", 2);
    let read = |version, device: &str| sysctl::read(&w.router, version, device, "forwarding").unwrap();
    let offloads = || w.net.offloads("p0").unwrap();
    sysctl::write(&w.router, IpVersion::V4, "p0", "forwarding", 1).unwrap();
    sysctl::write(&w.router, IpVersion::V6, "p1", "forwarding", 1).unwrap();
    let before = offloads();
    assert!(!before.is_off(), "a veth has offloads");
    let (engine, _) = Engine::start(w.config("switches", "")).unwrap();
    let state = engine.state_file().to_owned();
    assert!(state.exists());
    let as_before = || {
        assert_eq!((read(IpVersion::V4, "p0"), read(IpVersion::V6, "p0")), (1, 0));
        assert_eq!((read(IpVersion::V4, "p1"), read(IpVersion::V6, "p1")), (0, 1));
    };
    as_before();
    assert!(offloads().is_off());
    let second = Engine::start(w.config("switches", "")).map(|_| ()).unwrap_err();
    assert!(matches!(second, EngineError::NameInUse { .. }), "{second}");
    assert!(state.exists() && offloads().is_off(), "the refused one touched nothing");
    assert!(engine.stop().restore_error.is_none());
    as_before();
    assert_eq!(offloads().wanted, before.wanted);
    assert!(!state.exists());
}

/// IP packets that the kernel has looked at in a namespace: IPv4, IPv6.
fn looked_at(namespace: &Namespace) -> [u64; 2] {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
    let (v4, v6) = namespace.run(|| (read("snmp"), read("snmp6"))).unwrap();
    let numbers = v4.lines().filter(|l| l.starts_with("Ip:")).nth(1).unwrap();
    let v6 = v6.lines().find(|l| l.starts_with("Ip6InReceives ")).unwrap();
    [numbers.split_whitespace().nth(3), v6.split_whitespace().nth(1)].map(|n| n.unwrap().parse().unwrap())
}

#[test]
fn the_kernel_looks_at_its_own_packets_only() {
    let name = "the_kernel_looks_at_its_own_packets_only";
    if !may_run(name) {
        return;
    }
    let w = World::new("spared", 2);
    let index = w.net.link("p0").unwrap().index;
    if let Err(error) = w.router.run(|| EarlyDrop::attach(index, &[])).unwrap() {
        // An unprivileged user namespace may not; there the kernel looks at everything, which only costs time.
        eprintln!("SKIPPED {name}: attaching a program: {error}");
        return;
    }
    let (engine, _) = Engine::start(w.config("spared", "")).unwrap();
    let pairs = [("10.20.0.2:0", "10.20.1.2:0"), ("[fd20:0::2]:0", "[fd20:1::2]:0")];
    let pairs = pairs.map(|(a, b)| (w.socket(0, a), w.socket(1, b)));
    let grown = |since: [u64; 2]| {
        let now = looked_at(&w.router);
        [now[0] - since[0], now[1] - since[1]]
    };
    for (i, (left, right)) in pairs.iter().enumerate() {
        assert!(w.reaches(left, right));
        let before = looked_at(&w.router);
        let target = right.local_addr().unwrap();
        for _ in 0..200 {
            left.send_to(b"through", target).unwrap();
        }
        assert!(w.reaches(left, right));
        let grown = grown(before);
        // Neighbour discovery is IPv6 and for the kernel.
        assert!(grown[i] < 50, "the kernel looked at {grown:?}");
    }
    // What is for the host arrives: at this port's address, at another's, at one that is new.
    let at_router = |address: &str| {
        let socket = w.router.run(|| UdpSocket::bind(address)).unwrap().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    for (i, address) in [(0, "10.20.0.1:0"), (0, "10.20.1.1:0"), (1, "[fd20:0::1]:0"), (1, "[fd20:1::1]:0")] {
        assert!(w.reaches(&pairs[i].0, &at_router(address)), "{address}");
    }
    w.net.add_address("p0", net("10.20.0.77/24")).unwrap();
    w.net.add_address_now("p1", net("fd20:1::77/64")).unwrap();
    for (i, address) in [(0, "10.20.0.77:0"), (1, "[fd20:1::77]:0")] {
        let socket = at_router(address);
        eventually("the new address is heard", || w.reaches(&pairs[i].0, &socket));
    }
    assert!(engine.stop().restore_error.is_none());
    for (i, (left, right)) in pairs.iter().enumerate() {
        let before = looked_at(&w.router);
        for _ in 0..20 {
            left.send_to(b"to nobody", right.local_addr().unwrap()).unwrap();
        }
        eventually("the program is gone", || grown(before)[i] >= 20);
    }
}

#[test]
fn after_a_crash_the_state_file_puts_everything_back() {
    if !may_run("after_a_crash_the_state_file_puts_everything_back") {
        return;
    }
    let w = World::new("crash", 1);
    let (engine, _) = Engine::start(w.config("crash", "")).unwrap();
    let state = engine.state_file().to_owned();
    let left = std::fs::read_to_string(&state).unwrap();
    assert!(matches!(restore(&state), Err(EngineError::NameInUse { .. })), "it runs");
    engine.stop();
    // As a process that is gone would have left it: its file, and its changes.
    let pid = format!("\"pid\": {}", std::process::id());
    assert!(left.contains(&pid), "{left}");
    std::fs::write(&state, left.replace(&pid, "\"pid\": 4194305")).unwrap();
    w.net.disable_offloads("p0").unwrap();
    let restored = w.router.run(|| restore(&state)).unwrap().unwrap();
    assert_eq!((restored.router.as_str(), restored.devices.as_slice()), ("crash", &["p0".to_owned()][..]));
    assert!(!restored.namespace_gone && !state.exists());
    assert!(!w.net.offloads("p0").unwrap().is_off());
}

#[test]
fn what_is_restored_is_named_and_so_is_what_is_gone() {
    if !may_run("what_is_restored_is_named_and_so_is_what_is_gone") {
        return;
    }
    let w = World::new("gone", 2);
    let (engine, _) = Engine::start(w.config("gone", "")).unwrap();
    let state = engine.state_file().to_owned();
    let left = std::fs::read_to_string(&state).unwrap();
    engine.stop();
    let pid = format!("\"pid\": {}", std::process::id());
    std::fs::write(&state, left.replace(&pid, "\"pid\": 4194305")).unwrap();
    w.net.set_down("p0").unwrap();
    w.net.rename("p0", "other").unwrap();
    w.net.delete_link("p1").unwrap();
    let restored = w.router.run(|| restore(&state)).unwrap().unwrap();
    assert_eq!((restored.devices, restored.gone), (vec!["other".to_owned()], vec!["p1".to_owned()]));
}

#[test]
fn a_renamed_interface_and_the_one_that_took_its_name_are_both_put_back() {
    if !may_run("a_renamed_interface_and_the_one_that_took_its_name_are_both_put_back") {
        return;
    }
    let w = World::new("renamed", 1);
    let is_off = |device: &str| w.net.offloads(device).unwrap().is_off();
    let before = w.net.offloads("p0").unwrap().wanted;
    let (engine, _) = Engine::start(w.config("renamed", "")).unwrap();
    w.net.set_down("p0").unwrap();
    w.net.rename("p0", "away").unwrap();
    w.net.create_veth("p0", "p0-peer", None).unwrap();
    assert_eq!((is_off("away"), is_off("p0")), (true, false));
    w.net.set_up("p0").unwrap();
    w.net.set_up("p0-peer").unwrap();
    eventually("the new interface is the port", || is_off("p0"));
    let state = std::fs::read_to_string(engine.state_file()).unwrap();
    assert_eq!(state.matches("\"index\"").count(), 2, "{state}");
    assert!(engine.stop().restore_error.is_none());
    assert_eq!(w.net.offloads("away").unwrap().wanted, before);
    assert!(!w.net.offloads("p0").unwrap().is_off());
}

#[test]
fn an_interface_of_another_router_is_refused_or_first_put_back() {
    if !may_run("an_interface_of_another_router_is_refused_or_first_put_back") {
        return;
    }
    let w = World::new("shared", 1);
    let is_off = || w.net.offloads("p0").unwrap().is_off();
    let before = w.net.offloads("p0").unwrap().wanted;
    let (engine, _) = Engine::start(w.config("first", "")).unwrap();
    let path = engine.state_file().to_owned();
    let left = std::fs::read_to_string(&path).unwrap();
    let error = Engine::start(w.config("second", "")).map(|_| ()).unwrap_err();
    assert!(matches!(&error, EngineError::DeviceInUse { router, .. } if router == "first"), "{error}");
    assert!(is_off(), "the refused one touched nothing");
    engine.stop();
    assert!(!is_off());
    // The first as it would have crashed.
    let pid = format!("\"pid\": {}", std::process::id());
    std::fs::write(&path, left.replace(&pid, "\"pid\": 4194305")).unwrap();
    w.net.disable_offloads("p0").unwrap();
    let (engine, _) = Engine::start(w.config("second", "")).unwrap();
    assert!(!path.exists() && is_off());
    engine.stop();
    assert_eq!(w.net.offloads("p0").unwrap().wanted, before, "as before the first");
}

#[test]
fn a_port_goes_and_comes_back_while_others_forward() {
    if !may_run("a_port_goes_and_comes_back_while_others_forward") {
        return;
    }
    let w = World::new("hotplug", 3);
    let (engine, handle) = Engine::start(w.config("hotplug", "")).unwrap();
    let (a, b) = (w.socket(0, "10.20.0.2:0"), w.socket(1, "10.20.1.2:0"));
    assert!(w.reaches(&a, &b));
    let up = |wanted: u64| {
        let page = handle.wait(|done| Call::Show(ShowQuery::new("ports", 10), done)).unwrap().unwrap();
        let row = page.rows.iter().find(|r| r.name == "p2").unwrap();
        row.facts["state"] == "up" && row.counter("times_down") >= wanted
    };
    w.net.delete_link("p2").unwrap();
    eventually("the loss is noticed", || {
        let events = handle.wait(|done| Call::Events(0, EventFilter::default(), 100, done)).unwrap().events;
        events.iter().any(|e| e.kind == EventKind::PortDown { port: "p2".into() })
    });
    assert!(w.reaches(&a, &b), "while the port is gone");
    w.join(2);
    eventually("the port is back", || up(1));
    assert!(w.reaches(&b, &a));
    let c = w.socket(2, "10.20.2.2:0");
    assert!(w.reaches(&a, &c) && w.reaches(&c, &b), "through the new interface");
    assert!(w.net.offloads("p2").unwrap().is_off());
    // A loss that is told late would open the port again and tell of it.
    std::thread::sleep(Duration::from_millis(400));
    let events = handle.wait(|done| Call::Events(0, EventFilter::default(), 100, done)).unwrap().events;
    let ports =
        events.iter().filter(|e| matches!(e.kind, EventKind::PortUp { .. } | EventKind::PortDown { .. }));
    let told: Vec<_> = ports.map(|e| e.kind.clone()).collect();
    assert_eq!(
        told,
        [EventKind::PortDown { port: "p2".into() }, EventKind::PortUp { port: "p2".into() }],
        "each once"
    );
    engine.stop();
}

const CLASSES: &str = "[[port]]\nname = \"p0\"\n[[port]]\nname = \"p1\"\nrate = \"100 Mbit/s\"\n\
    [[class]]\nname = \"best\"\nport = \"p1\"\nguarantee = \"50 Mbit/s\"\nceiling = \"50 Mbit/s\"\ndefault = true\n";

fn transaction(handle: &Handle, owner: Owner, ops: Vec<Op>) -> Transaction {
    Transaction::new(handle.new_txn_id(), owner, ops)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Names of an owner's objects in force; a class that drains is still listed beside them.
fn names_of(handle: &Handle, owner: Owner) -> Vec<String> {
    let query = StateQuery { owner: Some(owner), ..StateQuery::default() };
    let page = handle.wait(|done| Call::State(query, done)).unwrap().unwrap();
    let active = page.objects.iter().filter(|o| o.status == Status::Active);
    active.map(|o| o.name.to_string()).collect()
}

/// One operation, which must be taken.
fn commit(handle: &Handle, owner: Owner, op: Op) -> std::sync::Arc<Reply> {
    let reply = handle.submit_blocking(Credentials::ADMIN, transaction(handle, owner, vec![op])).unwrap();
    assert_eq!(reply.outcome, Outcome::Committed, "{reply:?}");
    reply
}

/// A class of an owner that is not the file.
fn put_class(handle: &Handle, class: &str) {
    let spec = serde_json::json!({"port": "p1", "guarantee": {"rate": 1_000_000}});
    let op = Op::put(Given::read(Kind::Class, name(class), spec, None));
    commit(handle, Owner::Cli, op);
}

#[test]
fn a_transaction_changes_a_class_while_packets_pass() {
    if !may_run("a_transaction_changes_a_class_while_packets_pass") {
        return;
    }
    let w = World::new("live", 2);
    let (engine, handle) = Engine::start(w.config_of("live", CLASSES)).unwrap();
    let (a, b) = (w.socket(0, "10.20.0.2:0"), w.socket(1, "10.20.1.2:0"));
    assert!(w.reaches(&a, &b));
    let class = names_of(&handle, Owner::File).into_iter().find(|n| n.contains("best")).unwrap();
    let fields = serde_json::json!({"guarantee": {"rate": 100_000}, "ceiling": {"rate": 100_000}});
    let op = Op::Patch { kind: Kind::Class, name: name(&class), fields, if_version: None };
    let reply = commit(&handle, Owner::File, op);
    assert!(reply.committed_ns >= reply.received_ns);
    // 40 packets of 1,042 B at 100 kbit/s take 3.3 s; the burst lets some go at once.
    let begin = Instant::now();
    b.set_read_timeout(Some(Duration::from_secs(6))).unwrap();
    for _ in 0..10 {
        a.send_to(&[0; 1000], b.local_addr().unwrap()).unwrap();
    }
    let mut buffer = [0; 2000];
    let arrived = (0..10).take_while(|_| b.recv(&mut buffer).is_ok()).count();
    let took = begin.elapsed();
    let sent = counter(&handle, "class", &class, "packets");
    assert!(arrived > 0 && sent >= arrived as u64, "{arrived} of {sent}");
    let limit = Duration::from_millis((arrived as u64).saturating_sub(4) * 80);
    assert!(
        took >= limit,
        "{arrived} packets in {took:?} is faster than 100 kbit/s and a burst of 3 packets"
    );
    engine.stop();
}

/// Filters of the test below, each of them a transaction.
const FILTERS: usize = 750;

/// A filter before all that packets match; nobody sends to its address.
fn filter_of_nobody(n: usize) -> Op {
    let matches = serde_json::json!({"dst": format!("192.0.{}.{}/32", n / 250, n % 250), "protocol": 17});
    let spec = serde_json::json!({"match": matches, "priority": n, "class": "best"});
    Op::put(Given::read(Kind::Filter, name(&format!("f{n}")), spec, None))
}

/// Four streams of 128 B at 500 kbit/s, as where this was first measured. How late packets are is told and not judged:
/// it is the scenario P-6.4.6 that has a target for it.
#[test]
fn filters_added_one_by_one_lose_and_overtake_nothing() {
    if !may_run("filters_added_one_by_one_lose_and_overtake_nothing") {
        return;
    }
    let w = World::new("filters", 2);
    let (engine, handle) = Engine::start(w.config_of("filters", CLASSES)).unwrap();
    let from: Vec<UdpSocket> = (0..4).map(|_| w.socket(0, "10.20.0.2:0")).collect();
    let to: Vec<UdpSocket> = (0..4).map(|_| w.socket(1, "10.20.1.2:0")).collect();
    assert!(w.reaches(&from[0], &to[0]));
    // A receiver that waits for the processor must not lose what the router did not.
    for socket in &to {
        rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, 8 << 20).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    }
    let (start, busy) = (Instant::now(), std::sync::atomic::AtomicBool::new(true));
    let since = |start: Instant| start.elapsed().as_nanos() as u64;
    let (sent, arrived) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut seq = 0_u64;
            while busy.load(std::sync::atomic::Ordering::Relaxed) {
                for (from, to) in from.iter().zip(&to) {
                    let mut payload = [0; 100];
                    payload[..8].copy_from_slice(&seq.to_be_bytes());
                    payload[8..16].copy_from_slice(&since(start).to_be_bytes());
                    from.send_to(&payload, to.local_addr().unwrap()).unwrap();
                }
                seq += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            seq
        });
        let receive = |socket: &UdpSocket| {
            let (mut buffer, mut all) = ([0; 200], Vec::new());
            let word = |b: &[u8]| u64::from_be_bytes(b.try_into().unwrap());
            while let Ok(length) = socket.recv(&mut buffer) {
                // What asked whether packets pass is shorter.
                if length == 100 {
                    let at = word(&buffer[8..16]);
                    all.push((word(&buffer[..8]), at, since(start).saturating_sub(at)));
                }
            }
            all
        };
        let receivers: Vec<_> = to.iter().map(|socket| scope.spawn(move || receive(socket))).collect();
        std::thread::sleep(Duration::from_millis(500));
        for n in 0..FILTERS {
            commit(&handle, Owner::Cli, filter_of_nobody(n));
            std::thread::sleep(Duration::from_millis(1));
        }
        busy.store(false, std::sync::atomic::Ordering::Relaxed);
        let sent = sender.join().unwrap();
        (sent, receivers.into_iter().map(|r| r.join().unwrap()).collect::<Vec<_>>())
    });
    for (stream, all) in arrived.iter().enumerate() {
        assert!(all.iter().map(|p| p.0).eq(0..sent), "stream {stream}: each of {sent} once, in order");
    }
    let mut bins = std::collections::BTreeMap::<u64, (u64, u64)>::new();
    for (_, at, late) in arrived.iter().flatten() {
        let bin = bins.entry(at / 100_000_000).or_default();
        *bin = (bin.0 + late, bin.1 + 1);
    }
    let means: Vec<u64> = bins.values().map(|(late, count)| late / count / 1_000).collect();
    println!(
        "{sent} packets a stream; mean delay of each 100 ms in µs, changes from the sixth on: {means:?}"
    );
    assert_eq!(names_of(&handle, Owner::Cli).len(), FILTERS);
    engine.stop();
}

#[test]
fn a_replaced_file_keeps_what_others_own() {
    if !may_run("a_replaced_file_keeps_what_others_own") {
        return;
    }
    let w = World::new("reload", 2);
    let (engine, handle) = Engine::start(w.config_of("reload", CLASSES)).unwrap();
    put_class(&handle, "p1/guest");
    let before = names_of(&handle, Owner::File);
    let objects = w.config_of("reload", &CLASSES.replace("\"best\"", "\"rest\"")).objects;
    let op = Op::replace_owned(&RouterFile::KINDS, objects);
    let replace = transaction(&handle, Owner::File, vec![op]);
    let reply = handle.submit_blocking(Credentials::ADMIN, replace).unwrap();
    assert_eq!(reply.outcome, Outcome::Committed, "{reply:?}");
    let after = names_of(&handle, Owner::File);
    assert_ne!(before, after);
    assert!(
        after.iter().any(|n| n.contains("rest")) && !after.iter().any(|n| n.contains("best")),
        "{after:?}"
    );
    assert_eq!(names_of(&handle, Owner::Cli), ["p1/guest"]);
    engine.stop();
}

#[test]
fn what_a_small_ring_loses_is_counted() {
    if !may_run("what_a_small_ring_loses_is_counted") {
        return;
    }
    let w = World::new("ring", 2);
    // Bursts of thousands of frames meet 64 slots: whenever the packet thread is not on its CPU, they overflow.
    let config = EngineConfig { rx_slots: 64, ..w.config("ring", "") };
    let (engine, handle) = Engine::start(config).unwrap();
    let (a, b) = (w.socket(0, "10.20.0.2:0"), w.socket(1, "10.20.1.2:0"));
    assert!(w.reaches(&a, &b));
    let seen = || {
        let count = |what| counter(&handle, "port", "p0", what);
        (count("rx_packets"), count("rx_ring_lost"))
    };
    let begin = seen();
    let target = b.local_addr().unwrap();
    let mut sent = 0u64;
    while seen().1 == begin.1 && sent < 400_000 {
        for _ in 0..20_000 {
            sent += u64::from(a.send_to(&[7; 18], target).is_ok());
        }
    }
    let all = |(rx, lost): (u64, u64)| rx + lost - begin.0 - begin.1;
    eventually("everything is accounted for", || all(seen()) >= sent);
    assert!(seen().1 > begin.1, "{sent} frames into 64 slots and none lost?");
    engine.stop();
}

#[test]
fn frames_that_the_kernel_did_not_take_go_with_a_later_kick() {
    if !may_run("frames_that_the_kernel_did_not_take_go_with_a_later_kick") {
        return;
    }
    let namespace = Namespace::create().unwrap();
    let links = Netlink::open_in(&namespace).unwrap();
    links.create_veth("near", "far", None).unwrap();
    links.set_up("near").unwrap();
    let open = |device: &str| {
        let config = AfPacketConfig { outgoing: Outgoing::Ignored, ..AfPacketConfig::new(device, device) };
        namespace.run(|| AfPacket::open(config)).unwrap().unwrap()
    };
    let mut near = open("near");
    let pool = Pool::new(512);
    let mut batch = Batch::new();
    let frame = [[2; 12].as_slice(), &[0x88, 0xb5], &[0x5a; 100]].concat();
    let count = |port: &mut AfPacket, what: &str| {
        let mut counters: Vec<(String, u64)> = Vec::new();
        port.counters(&mut counters);
        counters.iter().find(|(n, _)| n == what).unwrap().1
    };
    // The other end is down: there is no carrier, and the kernel leaves the frames in the ring.
    for _ in 0..3 {
        batch.push(pool.packet(&frame).unwrap());
    }
    assert_eq!(near.transmit(&mut batch).unwrap(), 3);
    assert!(near.has_pending_output());
    assert_eq!(count(&mut near, "tx_kicks_no_buffers"), 1);
    links.set_up("far").unwrap();
    let mut far = open("far");
    eventually("the carrier is there", || links.link("near").unwrap().running);
    eventually("a kick empties the ring", || {
        near.transmit(&mut batch).unwrap();
        !near.has_pending_output()
    });
    let mut arrived = 0;
    eventually("the frames arrive", || {
        far.receive(perhop_units::Instant(u64::MAX), &pool, &mut batch).unwrap();
        arrived += batch.iter().filter(|p| p.frame() == frame).count();
        batch.release_all();
        arrived == 3
    });
}

#[test]
fn explain_and_show_name_things() {
    if !may_run("explain_and_show_name_things") {
        return;
    }
    let w = World::new("explain", 2);
    let (engine, handle) = Engine::start(w.config_of("explain", CLASSES)).unwrap();
    let explain = |text: &str| handle.wait(|done| Call::Explain(text.to_owned(), done)).unwrap();
    let told = explain("in=p0 udp 10.20.0.2:5004>10.20.1.2:5004 len=200").unwrap();
    let fact = |told: &serde_json::Value, step: &str, fact: &str| {
        let steps = told["steps"].as_array().unwrap().iter();
        steps.filter(|s| s["step"] == step).map(|s| s["facts"][fact].clone()).next().unwrap_or_default()
    };
    assert_eq!(
        (fact(&told, "route", "port"), fact(&told, "route", "dest")),
        ("p1".into(), "10.20.1.0/24".into())
    );
    assert!(told["outcome"].as_str().unwrap().contains("best"), "{told}");
    let told = explain("in=p0 icmp 10.20.0.2>10.20.1.1").unwrap();
    assert_eq!(told["outcome"], "handed to this machine");
    let told = explain("in=p0 udp 10.20.0.2:1>192.0.2.1:1").unwrap();
    assert_eq!(told["outcome"], "dropped (no_route)");
    assert!(explain("in=p9 udp 10.20.0.2:1>192.0.2.1:1").unwrap_err().message.contains("p0, p1"));
    let (a, b) = (w.socket(0, "10.20.0.2:0"), w.socket(1, "10.20.1.2:0"));
    assert!(w.reaches(&a, &b));
    let show = |what: &str| handle.wait(|done| Call::Show(ShowQuery::new(what, 100), done)).unwrap();
    let flows = show("flows").unwrap().rows;
    let flow = format!("udp {}>{}", a.local_addr().unwrap(), b.local_addr().unwrap());
    assert!(flows.iter().any(|r| r.name == flow), "{flow} in {flows:?}");
    assert!(show("classes").unwrap().rows.iter().any(|r| r.owner == "file" && r.facts["port"] == "p1"));
    assert!(show("elements").unwrap().rows.iter().any(|r| r.facts["type"] == "Egress"));
    assert!(show("nonsense").unwrap_err().allowed.unwrap().contains("flows"));
    assert!(handle.wait(Call::Graph).unwrap().contains("Flows"));
    engine.stop();
}

#[test]
fn the_loopback_is_no_port() {
    if !may_run("the_loopback_is_no_port") {
        return;
    }
    let w = World::new("bare", 1);
    let error = Engine::start(w.config("bare", "[[port]]\nname = \"lo\"\n")).map(|_| ()).unwrap_err();
    assert!(matches!(&error, EngineError::NoLinkAddress { loopback: true, .. }), "{error}");
    assert!(error.is_environment() && error.to_string().contains("loopback"), "{error}");
    assert_eq!(std::fs::read_dir(w.scratch.path()).unwrap().count(), 0, "nothing was changed");
}

#[test]
fn a_missing_interface_is_named_and_nothing_stays_changed() {
    if !may_run("a_missing_interface_is_named_and_nothing_stays_changed") {
        return;
    }
    let w = World::new("missing", 1);
    let before = w.net.offloads("p0").unwrap();
    let config = w.config("missing", "[[port]]\nname = \"gone\"\n");
    let error = Engine::start(config).map(|_| ()).unwrap_err();
    assert!(matches!(&error, EngineError::NoDevice { port, .. } if port == "gone"), "{error}");
    assert!(error.is_environment());
    assert_eq!(w.net.offloads("p0").unwrap(), before);
    assert_eq!(
        std::fs::read_dir(w.scratch.path())
            .unwrap()
            .filter(|f| { f.as_ref().unwrap().file_name().to_string_lossy().ends_with("state.json") })
            .count(),
        0
    );
}

#[test]
fn an_emulated_link_delays_paces_and_changes_its_rate() {
    if !may_run("an_emulated_link_delays_paces_and_changes_its_rate") {
        return;
    }
    let (left, middle, right) =
        (Namespace::create().unwrap(), Namespace::create().unwrap(), Namespace::create().unwrap());
    let net_ = Netlink::open_in(&middle).unwrap();
    for (host, port, address) in [(&left, "a", "10.30.0.1/24"), (&right, "b", "10.30.0.2/24")] {
        let own = Netlink::open_in(host).unwrap();
        net_.create_veth(port, "eth0", Some(host)).unwrap();
        own.add_address("eth0", net(address)).unwrap();
        own.set_up("eth0").unwrap();
        own.disable_offloads("eth0").unwrap();
    }
    let graph = |rate: &str| {
        format!(
            "FromPort(a) -> up :: Link({rate}, 20 ms, limit = 200 packets) -> ToPort(b);\n\
             FromPort(b) -> down :: Link({rate}, 20 ms, limit = 200 packets) -> ToPort(a);"
        )
    };
    let record = Some(perhop_units::Duration::from_millis(10));
    let config = EmulatorConfig { record, ..EmulatorConfig::new("wire", Some(middle), &graph("1 Mbit/s")) };
    let emulator = Emulator::start(config.port("a", "a").port("b", "b")).unwrap();
    let bind = |n: &Namespace, a: &str| {
        let s = n.run(|| UdpSocket::bind(a)).unwrap().unwrap();
        s.set_read_timeout(Some(PATIENCE)).unwrap();
        s
    };
    let (a, b) = (bind(&left, "10.30.0.1:0"), bind(&right, "10.30.0.2:0"));
    let mut buffer = [0; 2000];
    eventually("the way is open", || {
        b.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        a.send_to(b"?", b.local_addr().unwrap()).unwrap();
        b.recv(&mut buffer).is_ok()
    });
    while b.recv(&mut buffer).is_ok() {}
    b.set_read_timeout(Some(PATIENCE)).unwrap();
    let begin = Instant::now();
    for _ in 0..50 {
        a.send_to(&[1; 1208], b.local_addr().unwrap()).unwrap();
    }
    b.recv(&mut buffer).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(30), "10 ms on the line and 20 ms of delay");
    for _ in 1..50 {
        b.recv(&mut buffer).unwrap();
    }
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(520), "50 frames of 1,250 B at 1 Mbit/s and 20 ms: {took:?}");
    emulator.set_graph(&graph("1 Gbit/s")).unwrap();
    assert!(emulator.set_graph("FromPort(a) -> Nonsense -> ToPort(b);").is_err());
    for _ in 0..50 {
        a.send_to(&[1; 1208], b.local_addr().unwrap()).unwrap();
        b.recv(&mut buffer).unwrap();
    }
    let report = emulator.stop();
    let up = report.report.find("element", "up").unwrap();
    assert!(up.counter("sent_packets") >= 100, "{up:?}");
    let recording = report.recording.unwrap();
    let held = &recording.series["up.held"];
    assert!(held.iter().any(|(_, n)| *n >= 10), "the queue was seen: {held:?}");
}
