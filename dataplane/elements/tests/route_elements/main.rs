//! `Route` and `IcmpError` together in virtual time, through their public faces.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod errors;
mod forward;
mod neighbour;

use ipnet::IpNet;
use perhop_element::testkit::Bench;
use perhop_element::{NodeId, TimerId};
use perhop_elements::route::{
    Fib, IcmpError, IcmpErrorConfig, NeighbourState, NeighbourUpdate, NextHop, PortInfo, Route, RouteChange,
    RouteConfig, RouteEntry, RouteKind,
};
use perhop_packet::{ClassId, DropReason, Packet, PortId};
use perhop_wire::MacAddr;
use perhop_wire::build::FrameBuilder;
use std::net::IpAddr;

/// Host output of a router with three ports.
const HOST: usize = 3;
/// A station on each link.
const STATION: [MacAddr; 3] = [mac(0x10), mac(0x11), mac(0x12)];
/// The router on each link.
const ROUTER: [MacAddr; 3] = [mac(0), mac(1), mac(2)];

const fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, n])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn entry(dest: &str, kind: RouteKind) -> RouteEntry {
    RouteEntry::new(dest.parse().unwrap(), kind)
}

fn via(dest: &str, hops: &[(Option<&str>, u16)]) -> RouteEntry {
    let next_hops = hops.iter().map(|(via, port)| NextHop::new(via.map(ip), PortId(*port)));
    entry(dest, RouteKind::Unicast { next_hops: next_hops.collect() })
}

fn routes() -> Vec<RouteEntry> {
    vec![
        via("10.0.0.0/24", &[(None, 0)]),
        entry("10.0.0.1/32", RouteKind::Local),
        entry("10.0.0.255/32", RouteKind::Broadcast),
        via("10.1.0.0/24", &[(None, 1)]),
        entry("10.1.0.1/32", RouteKind::Local),
        via("10.2.0.0/24", &[(None, 2)]),
        via("20.0.0.0/8", &[(Some("10.1.0.2"), 1)]),
        via("30.0.0.0/8", &[(Some("10.1.0.2"), 1), (Some("10.2.0.2"), 2)]),
        entry("40.0.0.0/8", RouteKind::Blackhole),
        entry("41.0.0.0/8", RouteKind::Unreachable),
        entry("42.0.0.0/8", RouteKind::Prohibit),
        via("2001:db8::/64", &[(None, 0)]),
        via("2001:db8:1::/64", &[(None, 1)]),
        entry("2001:db8:41::/48", RouteKind::Unreachable),
        entry("2001:db8::1/128", RouteKind::Local),
        via("2001:db8:20::/48", &[(Some("fe80::2"), 1)]),
    ]
}

fn ports() -> Vec<PortInfo> {
    let port = |n: usize, mtu, addresses: &[&str]| PortInfo {
        mac: ROUTER[n],
        mtu,
        addresses: addresses.iter().map(|a| a.parse::<IpNet>().unwrap()).collect(),
        ..PortInfo::default()
    };
    vec![
        port(0, 1500, &["fe80::1/64", "10.0.0.1/24", "2001:db8::1/64"]),
        port(1, 1500, &["10.1.0.1/24", "2001:db8:1::1/64"]),
        port(2, 1500, &["10.2.0.1/24"]),
    ]
}

fn resolved(port: u16, address: &str) -> NeighbourUpdate {
    let state = NeighbourState::Reachable(STATION[usize::from(port)]);
    NeighbourUpdate { port: PortId(port), ip: ip(address), state }
}

struct Router {
    bench: Bench,
    icmp: NodeId,
}

impl Router {
    /// Three ports, the routes above, a neighbour on each link, an ICMP element.
    fn new() -> Self {
        Self::with(RouteConfig::new(3), IcmpErrorConfig::default())
    }

    fn with(config: RouteConfig, icmp: IcmpErrorConfig) -> Self {
        let mut bench = Bench::new(Route::new(config), HOST + 1);
        let mut icmp = IcmpError::new(icmp);
        icmp.set_ports(&mut ports());
        let icmp = bench.driver.add("icmp", Box::new(icmp), 1);
        bench.driver.connect(icmp, 0, bench.node, 0).unwrap();
        bench.driver.set_icmp(Some(icmp));
        let mut router = Self { bench, icmp };
        let neighbours = vec![
            resolved(0, "10.0.0.9"),
            resolved(1, "10.1.0.2"),
            resolved(2, "10.2.0.2"),
            resolved(0, "2001:db8::9"),
            resolved(1, "fe80::2"),
            resolved(1, "2001:db8:1::2"),
        ];
        router.change(RouteChange {
            fib: Some(Fib::build(routes())),
            neighbours,
            ports: Some(ports()),
            path_seed: Some(1),
        });
        router
    }

    fn change(&mut self, mut change: RouteChange) -> RouteChange {
        let now = self.bench.now();
        if self.bench.element::<Route>().commit(now, &mut change) {
            self.bench.driver.wake(now, self.bench.node, TimerId::MAIN);
        }
        change
    }

    fn neighbour(&mut self, port: u16, address: &str, state: NeighbourState) {
        let update = NeighbourUpdate { port: PortId(port), ip: ip(address), state };
        self.change(RouteChange { neighbours: vec![update], ..RouteChange::default() });
    }

    fn set_mtu(&mut self, port: usize, mtu: u32) {
        let mut list = ports();
        list[port].mtu = mtu;
        self.change(RouteChange { ports: Some(list), ..RouteChange::default() });
    }

    /// A frame from the station on the link of `port` to the router.
    fn receive(&mut self, port: u16, frame: FrameBuilder) {
        let n = usize::from(port);
        self.receive_frame(port, &frame.macs(STATION[n], ROUTER[n]).build());
    }

    fn receive_frame(&mut self, port: u16, frame: &[u8]) {
        let mut packet = self.bench.packet(frame);
        packet.meta_mut().in_port = PortId(port);
        packet.meta_mut().class = ClassId(7);
        self.bench.push_packet(0, packet);
    }

    fn counts(&self) -> [usize; HOST + 1] {
        [0, 1, 2, HOST].map(|i| self.bench.arrived(i).len())
    }

    fn frames(&self, port: usize) -> Vec<Vec<u8>> {
        self.bench.arrived(port).into_iter().map(|(_, frame)| frame).collect()
    }

    fn packets(&self, port: usize) -> impl Iterator<Item = &Packet> {
        self.bench.sink(port).arrived.iter().map(|(_, p)| p)
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.bench.driver.counters(self.bench.node).unwrap().drops[reason.index()]
    }

    fn counter(&self, node: NodeId, name: &str) -> u64 {
        let mut report: Vec<(String, u64)> = vec![];
        self.bench.driver.report(node, &mut report);
        report.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }

    fn requests(&mut self) -> Vec<(PortId, IpAddr)> {
        let mut list = vec![];
        self.bench.element::<Route>().take_neighbour_requests(&mut list);
        list
    }
}
