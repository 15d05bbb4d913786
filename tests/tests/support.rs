//! A virtual edge router with two ports, routes and neighbours, and short ways to say transactions.

use perhop_elements::route::{NeighbourState, NeighbourUpdate, PortInfo};
use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{Credentials, Given, Kind, Name, Op, Outcome, Owner, PortSpec, Reply, StateQuery};
use perhop_packet::PortId;
use perhop_routerfile::RouterFile;
pub use perhop_tests::properties::transaction::transaction;
use perhop_traffic::RtpHeader;
use perhop_units::Rate;
use perhop_wire::MacAddr;
use serde_json::{Value, json};
use std::sync::Arc;

pub const LAN: PortId = PortId(0);
pub const WAN: PortId = PortId(1);

pub fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

/// An RTP packet, which goes into a datagram.
pub fn rtp(payload_type: u8, sequence: u16, timestamp: u32, ssrc: u32, payload: &[u8]) -> Vec<u8> {
    let header = RtpHeader { marker: false, payload_type, sequence, timestamp, ssrc };
    [&header.to_bytes(), payload].concat()
}

/// A port of a router built by hand.
pub fn port(name: &str, rate: u64) -> EdgePort {
    EdgePort { name: name.to_owned(), spec: PortSpec { rate: Rate(rate), ..PortSpec::default() } }
}

/// The file of a router whose link of 10 Mbit/s carries just that, of frames as they are unless it says otherwise.
pub fn exact(text: &str) -> String {
    let rate = "rate = \"10 Mbit/s\"";
    let overhead = if text.contains("overhead") { "" } else { "\noverhead = 0" };
    text.replacen(rate, &format!("headroom = \"0 %\"{overhead}\n{rate}"), 1)
}

/// Addresses 10.0.0.1/24 on lan and 10.1.0.1/24 on wan (and IPv6 alike); 10.0.0.2 and 10.1.0.2 are known neighbours.
pub fn connect(router: &mut VirtualRouter) {
    let nets = |s: &[&str]| s.iter().map(|n| n.parse().expect("a network")).collect::<Vec<ipnet::IpNet>>();
    let info = |last, addresses: &[&str]| PortInfo {
        mac: mac(last),
        mtu: 1500,
        addresses: nets(addresses),
        ..PortInfo::default()
    };
    let ports =
        vec![info(1, &["10.0.0.1/24", "2001:db8:0::1/64"]), info(2, &["10.1.0.1/24", "2001:db8:1::1/64"])];
    let change = router.control().planner_mut().port_change(ports);
    router.apply_world(change);
    let neighbour = |port, ip: &str, last| NeighbourUpdate {
        port,
        ip: ip.parse().expect("an address"),
        state: NeighbourState::Reachable(mac(last)),
    };
    let neighbours = vec![
        neighbour(LAN, "10.0.0.2", 0x12),
        neighbour(LAN, "2001:db8:0::2", 0x12),
        neighbour(WAN, "10.1.0.2", 0x22),
        neighbour(WAN, "2001:db8:1::2", 0x22),
    ];
    let change = router.control().planner_mut().neighbour_change(neighbours);
    router.apply_world(change);
    let routes = [
        ("to-lan", json!({ "dest": "10.0.0.0/24", "port": "lan" })),
        ("to-wan", json!({ "dest": "10.1.0.0/24", "port": "wan" })),
        ("to-lan6", json!({ "dest": "2001:db8:0::/64", "port": "lan" })),
        ("to-wan6", json!({ "dest": "2001:db8:1::/64", "port": "wan" })),
    ];
    let ops = routes.into_iter().map(|(name, spec)| put(Kind::Route, name, spec)).collect();
    let reply = commit(router, Owner::Cli, 1, ops);
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
}

pub fn name(s: &str) -> Name {
    Name::new(s).expect("a name")
}

pub fn put(kind: Kind, n: &str, spec: Value) -> Op {
    Op::put(Given::read(kind, name(n), spec, None))
}

pub fn delete(kind: Kind, n: &str) -> Op {
    Op::Delete { kind, name: name(n), if_version: None, drain_ms: None }
}

pub fn commit(router: &mut VirtualRouter, owner: Owner, id: u128, ops: Vec<Op>) -> Arc<Reply> {
    router.submit(Credentials::ADMIN, transaction(owner, id, ops)).expect("a virtual router answers")
}

/// The whole state as the bytes a client would get.
pub fn state_bytes(router: &mut VirtualRouter) -> Vec<u8> {
    let query = StateQuery { limit: Some(10_000), ..StateQuery::default() };
    let page = router.control().state(&query).expect("the first page of a read");
    serde_json::to_vec(&page).expect("plain data")
}

/// A router of a file's objects.
pub fn router_of(text: &str) -> VirtualRouter {
    let (file, diagnostics) = RouterFile::read("test.toml", text);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let mut router =
        VirtualRouter::new(EdgePort::of_objects(&file.objects), 16_384, 1).expect("the edge graph builds");
    let kinds = RouterFile::KINDS.to_vec();
    let ops = vec![Op::replace_owned(&kinds, file.objects.clone())];
    let reply = commit(&mut router, Owner::File, 1, ops);
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    connect(&mut router);
    router
}
