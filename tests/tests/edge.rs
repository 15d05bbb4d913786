//! The demo's router file under virtual time: calls through a flooded uplink.

use crate::support::{LAN, WAN, commit, mac, port, put, router_of};
use perhop_graph::router::{EdgeOptions, VirtualRouter, edge_graph};
use perhop_model::{Kind, Op, Outcome, Owner};
use perhop_units::{Dscp, Duration, Instant, Rate};
use perhop_wire::{build, dissect};
use std::collections::BTreeMap;

const EDGE: &str = include_str!("../../examples/edge.toml");

fn rtp(call: u16, seq: u16) -> Vec<u8> {
    let ssrc = 0xabcd_0000 + u32::from(call);
    let payload = crate::support::rtp(8, seq, u32::from(seq) * 160, ssrc, &[0; 160]);
    build::udp4([10, 0, 0, 2], [10, 1, 0, 2])
        .macs(mac(0x12), mac(1))
        .ports(20_000 + 2 * call, 30_000 + 2 * call)
        .payload(&payload)
        .build()
}

fn flood(n: u16) -> Vec<u8> {
    build::udp4([10, 0, 0, 2], [10, 1, 0, 2])
        .macs(mac(0x12), mac(1))
        .ports(9, 9000 + n % 4)
        .payload_len(1400)
        .build()
}

/// Ten G.711 calls start into a 16 Mbit/s flood on a 9.9 Mbit/s uplink. From the tenth packet on nothing is lost and
/// nothing waits longer than one full-size frame behind it plus the other calls' packets.
#[test]
fn calls_survive_a_flood_without_marks() {
    let mut router = router_of(EDGE);
    let mut sent_at: BTreeMap<(u16, u16), Instant> = BTreeMap::new();
    let mut got: BTreeMap<(u16, u16), Duration> = BTreeMap::new();
    let mut utilised = 0u64;
    let start = router.now();
    let flood_gap = 1428 * 8 * 1_000_000_000 / 16_000_000u64;
    let (mut next_flood, mut floods) = (start.0, 0u16);
    for step in 0..3000u64 {
        let now = Instant(start.0 + step * 1_000_000);
        while next_flood <= now.0 {
            router.run_until(Instant(next_flood));
            router.receive(LAN, &flood(floods));
            floods = floods.wrapping_add(1);
            next_flood += flood_gap;
        }
        router.run_until(now);
        for call in 0..10u16 {
            let (phase, n) = (step % 20, (step / 20) as u16);
            if phase == u64::from(call) * 2 && step > 200 {
                sent_at.insert((call, n), router.now());
                assert!(router.receive(LAN, &rtp(call, n)));
            }
        }
        for sent in std::mem::take(&mut router.sent) {
            assert_eq!(sent.port, WAN);
            utilised += sent.frame().len() as u64;
            let layout = dissect(sent.frame()).expect("well formed");
            assert_eq!(sent.frame()[8 + layout.l3_offset as usize], 63, "TTL is one less");
            if layout.dst_port >= 30_000 {
                let call = (layout.dst_port - 30_000) / 2;
                let at = layout.payload_offset as usize;
                let seq = u16::from_be_bytes([sent.frame()[at + 2], sent.frame()[at + 3]]);
                got.insert((call, seq), sent.at.since(sent_at[&(call, seq)]));
                let dscp = Dscp::from_octet(layout.tos);
                let first = sent_at.keys().find(|(c, _)| *c == call).expect("sent").1;
                assert_eq!(dscp == Dscp::EF, seq >= first + 9, "marked from the tenth packet on");
            }
        }
    }
    assert_eq!(router.flow_events.len(), 10);
    let first_seq: BTreeMap<u16, u16> =
        (0..10).map(|c| (c, sent_at.keys().find(|k| k.0 == c).expect("sent").1)).collect();
    let late: Vec<_> = sent_at
        .iter()
        .filter(|((c, n), at)| *n >= first_seq[c] + 9 && at.0 + 100_000_000 < router.now().0)
        .map(|(k, _)| got.get(k).copied())
        .collect();
    assert!(late.len() > 1000);
    assert!(late.iter().all(Option::is_some), "nothing is lost after detection");
    let worst = late.iter().flatten().max().expect("not empty");
    // One 1,442-byte frame in progress and nine other calls' packets of 214 bytes: 2.73 ms at 9.9 Mbit/s.
    assert!(*worst <= Duration::from_micros(2_730), "{worst:?}");
    let seconds = router.now().since(start).as_secs_f64();
    let share = utilised as f64 * 8.0 / 9.9e6 / seconds;
    assert!((0.97..=1.001).contains(&share), "utilisation {share}");
    router.worker().check_conservation().expect("books balance");
}

/// Classes on every one of 64 ports come into force: staging spends its budget on edits, not on ports.
#[test]
fn a_router_with_many_ports_takes_its_classes() {
    let ports: Vec<_> = (0..64).map(|i| port(&format!("p{i}"), 10_000_000)).collect();
    let mut router = VirtualRouter::new(ports.clone(), 1024, 1).expect("the edge graph builds");
    let mut ops: Vec<_> = ports
        .iter()
        .map(|p| put(Kind::Port, &p.name, serde_json::to_value(&p.spec).expect("plain data")))
        .collect();
    for p in &ports {
        for class in 0..5 {
            ops.push(put(
                Kind::Class,
                &format!("{}/c{class}", p.name),
                serde_json::json!({ "port": p.name }),
            ));
        }
    }
    let reply = commit(&mut router, Owner::File, 1, ops);
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
}

/// A graph's text names the rate a port had when it was written; the object's rate stays in force.
#[test]
fn a_replaced_graph_keeps_the_rate_that_the_port_has_now() {
    let mut router = router_of(EDGE);
    let ports = router.control().planner().ports().to_vec();
    let text = edge_graph(&ports, &EdgeOptions::exact(16_384));
    let mut spec = ports[1].spec.clone();
    spec.rate = Rate(5_000_000);
    let spec = serde_json::to_value(&spec).expect("plain data");
    commit(&mut router, Owner::File, 7, vec![put(Kind::Port, "wan", spec)]);
    let rate = |router: &mut VirtualRouter| router.worker().egress(WAN).map(|e| e.tree().link().rate.0);
    assert_eq!(rate(&mut router), Some(5_000_000));
    let reply = commit(&mut router, Owner::File, 8, vec![Op::ReplaceGraph { text, reset: vec![] }]);
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    assert_eq!(rate(&mut router), Some(5_000_000));
}
