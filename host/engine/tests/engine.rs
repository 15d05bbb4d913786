//! Routers and emulated links against the kernel of this machine, in namespaces of their own.
//!
//! Each test makes what it needs. Without rights it says so and skips; with `netns` in `PERHOP_REQUIRE` a skip is a
//! failure.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use ipnet::IpNet;
use perhop_engine::*;
use perhop_graph::routerfile::RouterFile;
use perhop_model::{Credentials, EventKind, Kind, Mode, Name, Op, Outcome, Owner, StateQuery, Transaction};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink, is_privileged_for_net};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the kernel may take for what it does in the background.
const PATIENCE: Duration = Duration::from_secs(20);

fn may_run(name: &str) -> bool {
    if is_privileged_for_net() {
        return true;
    }
    let why = "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`";
    eprintln!("SKIPPED {name}: {why}");
    let required = std::env::var("PERHOP_REQUIRE").is_ok_and(|l| l.split(',').any(|item| item == "netns"));
    assert!(!required, "{name} is required by PERHOP_REQUIRE but cannot run: {why}");
    false
}

fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// A directory that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("perhop-engine-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
        sysctl::disable_duplicate_detection(&self.router, &port).unwrap();
        sysctl::disable_duplicate_detection(&self.hosts[i], device).unwrap();
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
        let path = self.scratch.0.join("router.toml");
        std::fs::write(&path, text).unwrap();
        let (file, diagnostics) = RouterFile::read("router.toml", text);
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        EngineConfig {
            state_dir: Some(self.scratch.0.clone()),
            pool_size: 8192,
            ..EngineConfig::of_file(name, Some(self.router.clone()), &file, Some(path))
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
    let page = engine.wait(|done| engine.counters(done)).unwrap();
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
