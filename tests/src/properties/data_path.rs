//! Bytes as traffic through a whole router in virtual time.

use super::transaction::transaction;
use super::{Input, successor};
use perhop_elements::route::{NeighbourState, NeighbourUpdate, PortInfo};
use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{Credentials, Given, Kind, Name, Op, Outcome, Owner};
use perhop_packet::PortId;
use perhop_routerfile::RouterFile;
use perhop_units::Duration;
use perhop_wire::{MacAddr, checksum, dissect};
use serde_json::{Value, json};

/// The router of the demonstration.
const EDGE: &str = include_str!("../../../examples/edge.toml");
/// Frames and changes of one input.
const MAX_STEPS: usize = 200;
/// Buffers of the router: few, so that their exhaustion is seen too.
const BUFFERS: usize = 128;
/// Connections it remembers: fewer than an input can begin, so that a full table is seen too.
const CONNECTIONS: u32 = 64;

fn name(s: &str) -> Name {
    Name::new(s).expect("legal")
}

fn put(kind: Kind, n: &str, spec: Value) -> Op {
    Op::put(Given::read(kind, name(n), spec, None))
}

fn commit(router: &mut VirtualRouter, owner: Owner, id: u128, ops: Vec<Op>) {
    let reply = router.submit(Credentials::ADMIN, transaction(owner, id, ops)).expect("an answer");
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
}

/// An edge router between 10.0.0.0/24 and 10.1.0.0/24 (and IPv6 alike). Of the hosts there only number 2 is known.
fn edge() -> VirtualRouter {
    let (file, diagnostics) = RouterFile::read("edge.toml", EDGE);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let mut router =
        VirtualRouter::with_connections(EdgePort::of_objects(&file.objects), CONNECTIONS, BUFFERS, 1)
            .expect("the edge graph builds");
    let info = |last, addresses: [&str; 2]| PortInfo {
        mac: MacAddr([2, 0, 0, 0, 0, last]),
        mtu: 1500,
        addresses: addresses.iter().map(|a| a.parse().expect("a network")).collect(),
        ..PortInfo::default()
    };
    let ports =
        vec![info(1, ["10.0.0.1/24", "2001:db8:0::1/64"]), info(2, ["10.1.0.1/24", "2001:db8:1::1/64"])];
    let change = router.control().planner_mut().port_change(ports);
    router.apply_world(change);
    let known = [(0, "10.0.0.2"), (0, "2001:db8:0::2"), (1, "10.1.0.2"), (1, "2001:db8:1::2")];
    let update = |(port, ip): (u16, &str)| NeighbourUpdate {
        port: PortId(port),
        ip: ip.parse().expect("an address"),
        state: NeighbourState::Reachable(MacAddr([2, 0, 0, 0, 1, port as u8])),
    };
    let change = router.control().planner_mut().neighbour_change(known.map(update).to_vec());
    router.apply_world(change);
    let op = Op::replace_owned(&RouterFile::KINDS, file.objects.clone());
    commit(&mut router, Owner::File, 1, vec![op]);
    let routes = [
        ("to-lan", json!({ "dest": "10.0.0.0/24", "port": "lan" })),
        ("to-wan", json!({ "dest": "10.1.0.0/24", "port": "wan" })),
        ("to-lan6", json!({ "dest": "2001:db8:0::/64", "port": "lan" })),
        ("to-wan6", json!({ "dest": "2001:db8:1::/64", "port": "wan" })),
    ];
    commit(&mut router, Owner::Cli, 2, routes.map(|(n, spec)| put(Kind::Route, n, spec)).to_vec());
    router
}

/// Gives a frame what random bytes never have: the router's Ethernet address and right lengths and checksums.
fn repair(frame: &mut [u8], port: u16) {
    if frame.len() < 34 {
        return;
    }
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, port as u8 + 1]);
    let len = (frame.len() - 14) as u16;
    match (frame[12], frame[13], frame[14] >> 4) {
        (0x08, 0x00, 4) => {
            let header_len = usize::from(frame[14] & 0x0f) * 4;
            if u16::from_be_bytes([frame[16], frame[17]]) > len {
                frame[16..18].copy_from_slice(&len.to_be_bytes());
            }
            if let Some(header) = frame.get_mut(14..14 + header_len).filter(|h| h.len() >= 20) {
                header[10..12].fill(0);
                let sum = checksum::of(header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
        }
        (0x86, 0xdd, 6) if len >= 40 && u16::from_be_bytes([frame[18], frame[19]]) > len - 40 => {
            frame[18..20].copy_from_slice(&(len - 40).to_be_bytes());
        }
        _ => {}
    }
}

/// A change of filters or classes, committed between two packets.
fn change(router: &mut VirtualRouter, what: u8, n: usize) {
    let delete = |kind, n| Op::Delete { kind, name: name(n), if_version: None, drain_ms: Some(50) };
    let filter = |n, spec| put(Kind::Filter, n, spec);
    let limit = json!({ "limit": { "packets": 1 + u32::from(what) } });
    let ops = match what % 6 {
        0 => vec![filter("udp", json!({ "priority": 10, "match": { "protocol": 17 }, "class": "ef" }))],
        1 => vec![filter("all", json!({ "priority": 90, "match": {}, "class": "best-effort" }))],
        2 => vec![delete(Kind::Filter, "udp"), delete(Kind::Filter, "all")],
        3 => vec![put(Kind::Class, "wan/extra", json!({ "port": "wan", "queue": limit }))],
        4 => vec![filter("extra", json!({ "priority": 20, "match": { "protocol": 6 }, "class": "extra" }))],
        _ => vec![delete(Kind::Filter, "extra"), delete(Kind::Class, "wan/extra")],
    };
    let request = transaction(Owner::Cli, 100 + n as u128, ops);
    let reply = router.submit(Credentials::ADMIN, request).expect("an answer");
    assert_eq!(reply.outcome == Outcome::Rejected, !reply.errors.is_empty());
}

/// What has left the router is well formed and went to one of its ports.
fn inspect(router: &mut VirtualRouter) {
    for sent in std::mem::take(&mut router.sent) {
        assert!(sent.port.0 < 2);
        assert!(dissect(sent.frame()).is_ok(), "{:?} left: {:02x?}", dissect(sent.frame()), sent.frame());
    }
    router.flow_events.clear();
}

/// Frames in any order at any time, between them changes: after every step each element's books balance, whatever leaves
/// is well formed, no packet is lost sight of, and in the end the router is empty.
pub fn forwarding(data: &[u8]) {
    let mut router = edge();
    let mut input = Input::new(data);
    let mut before: Vec<u8> = Vec::new();
    for n in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let kind = input.byte();
        let gap = [0, 1_000, 100_000, 20_000_000][usize::from(kind >> 4 & 3)];
        router.run_for(Duration(gap));
        let port = u16::from(kind & 1);
        match kind >> 6 {
            0 => change(&mut router, input.byte(), n),
            1 => {
                before = successor(&before);
                router.receive(PortId(port), &before);
            }
            _ => {
                let len = usize::from(input.byte()) * (1 + usize::from(kind >> 1 & 7));
                before = input.bytes(len).to_vec();
                before.resize(len, 0);
                if kind >> 6 == 3 {
                    repair(&mut before, port);
                }
                router.receive(PortId(port), &before);
            }
        }
        inspect(&mut router);
        if let Err(errors) = router.worker().check_conservation() {
            panic!("after step {n}: {errors:?}");
        }
    }
    router.run_for(Duration::from_secs(90));
    inspect(&mut router);
    if let Err(errors) = router.worker().check_conservation() {
        panic!("in the end: {errors:?}");
    }
    let driver = router.worker().driver();
    let held: Vec<(&str, u64)> = driver
        .ids()
        .map(|id| (driver.name(id), driver.element(id).map_or(0, |e| e.held())))
        .filter(|(_, held)| *held > 0)
        .collect();
    assert!(held.is_empty(), "still held after 90 s: {held:?}");
    router.pool().flush_thread_cache();
    let counters = router.pool().counters();
    assert_eq!((counters.leaked, counters.in_depot), (0, counters.capacity), "buffers are missing");
}
