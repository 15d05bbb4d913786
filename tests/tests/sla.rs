//! The router file of several contracts under virtual time: fair turns, strict priority, and a contract that comes and
//! goes.

use crate::support::{LAN, WAN, commit, delete, exact, mac, name, put, router_of};
use perhop_graph::router::VirtualRouter;
use perhop_model::{Kind, Op, Outcome, Owner};
use perhop_units::{Dscp, Duration, Instant};
use perhop_wire::{build, dissect};
use serde_json::json;
use std::collections::BTreeMap;

const FILE: &str = include_str!("../../examples/sla.toml");

/// Last octets of the sources' networks.
const BAKERY: [u8; 4] = [192, 0, 2, 1];
const SCHOOL: [u8; 4] = [198, 51, 100, 1];
const THIRD: [u8; 4] = [203, 0, 113, 1];

/// A media flow of 1,000-byte packets.
#[derive(Clone, Copy)]
struct Media {
    src: [u8; 4],
    port: u16,
    every_us: u64,
}

fn media(src: [u8; 4], flows: u16, kbit: u64) -> Vec<Media> {
    (0..flows).map(|i| Media { src, port: 20_000 + 2 * i, every_us: 8_000_000 / kbit }).collect()
}

/// What arrived of one source with the code point of real-time traffic.
#[derive(Clone, Debug, Default)]
struct Got {
    packets: u64,
    bytes: u64,
    longest: Duration,
    reordered: u64,
}

struct World {
    router: VirtualRouter,
    now_us: u64,
    seq: BTreeMap<([u8; 4], u16), u16>,
    next: BTreeMap<([u8; 4], u16), u64>,
    last: BTreeMap<([u8; 4], u16), u16>,
    sent_at: BTreeMap<([u8; 4], u16, u16), Instant>,
}

impl World {
    fn new() -> Self {
        let empty = BTreeMap::new();
        let router = router_of(&exact(FILE));
        Self {
            now_us: router.now().0 / 1_000,
            router,
            seq: empty,
            next: BTreeMap::new(),
            last: BTreeMap::new(),
            sent_at: BTreeMap::new(),
        }
    }

    /// Sends `flows` and a flood of best effort beyond the link's rate for `ms`; what arrived with EF, by source.
    fn run(&mut self, ms: u64, flows: &[Media]) -> BTreeMap<[u8; 4], Got> {
        let mut got = BTreeMap::new();
        for _ in 0..ms * 4 {
            self.now_us += 250;
            self.router.run_until(Instant(self.now_us * 1_000));
            for flow in flows {
                let key = (flow.src, flow.port);
                // A flow that begins does so in its own time, so that flows do not march in step.
                let phase = u64::from(flow.port) * 617 % flow.every_us;
                let next = self.next.entry(key).or_insert(self.now_us + phase);
                if *next <= self.now_us {
                    *next += flow.every_us;
                    let seq = self.seq.entry(key).or_default();
                    *seq = seq.wrapping_add(1);
                    self.sent_at.insert((flow.src, flow.port, *seq), self.router.now());
                    assert!(self.router.receive(LAN, &rtp(flow, *seq)));
                }
            }
            if self.now_us.is_multiple_of(750) {
                let flood = build::udp4([10, 0, 0, 2], [10, 1, 0, 2]).macs(mac(0x12), mac(1));
                assert!(self.router.receive(LAN, &flood.ports(9, 9).payload_len(1_400).build()));
            }
            self.collect(&mut got);
        }
        got
    }

    fn collect(&mut self, got: &mut BTreeMap<[u8; 4], Got>) {
        for sent in std::mem::take(&mut self.router.sent) {
            let frame = sent.frame();
            let layout = dissect(frame).expect("well formed");
            if sent.port != WAN || Dscp::from_octet(layout.tos) != Dscp::EF {
                continue;
            }
            let ip = layout.l3_offset as usize;
            let src: [u8; 4] = frame[ip + 12..ip + 16].try_into().expect("four bytes");
            let at = layout.payload_offset as usize;
            let seq = u16::from_be_bytes([frame[at + 2], frame[at + 3]]);
            let entry: &mut Got = got.entry(src).or_default();
            entry.packets += 1;
            entry.bytes += u64::from(layout.ip_len);
            let waited = sent.at.since(self.sent_at[&(src, layout.src_port, seq)]);
            entry.longest = entry.longest.max(waited);
            let last = self.last.insert((src, layout.src_port), seq);
            entry.reordered += u64::from(last.is_some_and(|l| l > seq));
        }
    }
}

fn rtp(flow: &Media, seq: u16) -> Vec<u8> {
    let ssrc = u32::from(flow.port) << 8 | u32::from(flow.src[0]);
    let payload = crate::support::rtp(96, seq, u32::from(seq) * 720, ssrc, &[0; 960]);
    build::udp4(flow.src, [10, 1, 0, 2])
        .macs(mac(0x12), mac(1))
        .ports(flow.port, flow.port + 10_000)
        .payload(&payload)
        .build()
}

fn kbit(got: &BTreeMap<[u8; 4], Got>, src: [u8; 4], ms: u64) -> f64 {
    got.get(&src).map_or(0.0, |g| g.bytes as f64 * 8.0 / ms as f64)
}

/// Both offer more than their half of the real-time class, the one much more than the other; a best-effort flood fills
/// the link.
#[test]
fn contracts_with_equal_weights_get_equal_shares_of_a_crowded_class() {
    let mut world = World::new();
    let flows = [media(BAKERY, 4, 1_000), media(SCHOOL, 2, 700)].concat();
    world.run(2_000, &flows);
    let got = world.run(4_000, &flows);
    let (bakery, school) = (kbit(&got, BAKERY, 4_000), kbit(&got, SCHOOL, 4_000));
    assert!((bakery - school).abs() <= 0.02 * bakery, "{bakery} and {school} kbit/s");
    // All that the class's ceiling leaves, which counts frames.
    let all = (bakery + school) * 1_014.0 / 1_000.0;
    assert!((1_960.0..=2_001.0).contains(&all), "{all} kbit/s");
}

/// Two contracts within their guarantees beside a flood, while a third one comes with more than there is, and goes again.
#[test]
fn a_contract_that_comes_and_goes_harms_nobody() {
    let mut world = World::new();
    let flows = [media(BAKERY, 2, 225), media(SCHOOL, 2, 225)].concat();
    world.run(2_000, &flows);
    let greedy = [flows.clone(), media(THIRD, 4, 900)].concat();
    let third = json!({
        "port": "wan", "parent": "realtime", "sla": "third", "guarantee": {"rate": 500_000}, "tier": 0,
        "queue": {"limit": {"packets": 100}},
    });
    let contract = json!({"prefixes": ["203.0.113.0/24"], "rate": 3_000_000, "dscp": 46, "policy": "demote"});
    let add = vec![put(Kind::Class, "third/ef", third), put(Kind::Sla, "third", contract)];
    let gone = vec![delete(Kind::Class, "third/ef"), delete(Kind::Sla, "third")];
    let mut before = world.run(2_000, &flows);
    for (id, ops) in [(10, add), (11, gone)] {
        let arrived = |got: &BTreeMap<[u8; 4], Got>, src| got.get(&src).cloned().unwrap_or_default();
        change(&mut world.router, id, ops);
        let after = world.run(3_000, &greedy);
        for src in [BAKERY, SCHOOL] {
            let (was, is) = (arrived(&before, src), arrived(&after, src));
            // Every packet of three seconds: two flows of 28.1 a second.
            assert!((167..=170).contains(&is.packets), "{src:?}: {} packets", is.packets);
            assert_eq!((was.reordered, is.reordered), (0, 0), "{src:?}");
            // One best-effort frame on the line; then, at the class's rate, a packet of each of its own flows and turns of
            // two packets of the other three queues.
            assert!(is.longest <= Duration::from_millis(34), "{src:?}: {}", is.longest);
        }
        if id == 10 {
            let rest = kbit(&after, THIRD, 3_000);
            assert!((1_000.0..=1_090.0).contains(&rest), "what the others leave: {rest} kbit/s");
        }
        before = after;
    }
}

fn change(router: &mut VirtualRouter, id: u128, ops: Vec<Op>) {
    let reply = commit(router, Owner::Cli, id, ops);
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
}

/// Two flows fit and a third does not; one is cancelled; without admission all are real-time again.
#[test]
fn admission_is_a_setting_of_the_running_router() {
    use perhop_flows::FlowEventKind::{self, Dropped, Refused};
    let mut world = World::new();
    let mut id = 20;
    let mut admission = |world: &mut World, fields: serde_json::Value| {
        let fields = json!({ "admission": fields });
        let patch = Op::Patch { kind: Kind::Detector, name: name("realtime"), fields, if_version: None };
        let reply = commit(&mut world.router, Owner::File, id, vec![patch]);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
        id += 1;
    };
    let happened = |world: &mut World, is: fn(&FlowEventKind) -> bool| {
        std::mem::take(&mut world.router.flow_events).iter().filter(|e| is(&e.kind)).count()
    };
    let flows = media(BAKERY, 3, 300);
    admission(&mut world, json!({"cap": 650_000, "drop_pct": 99, "new_flow": 300_000}));
    world.run(2_000, &flows);
    assert_eq!(happened(&mut world, |kind| matches!(kind, Refused(_))), 1);
    let carried = |world: &mut World| kbit(&world.run(3_000, &flows), BAKERY, 3_000);
    let two = carried(&mut world);
    assert!((595.0..=605.0).contains(&two), "{two} kbit/s");
    admission(&mut world, json!({"cancel": 1, "locked": true}));
    let one = carried(&mut world);
    assert!((295.0..=305.0).contains(&one), "{one} kbit/s");
    assert_eq!(happened(&mut world, |kind| matches!(kind, Dropped(_))), 1);
    admission(&mut world, json!(null));
    let all = carried(&mut world);
    assert!((895.0..=905.0).contains(&all), "{all} kbit/s");
    let reply = commit(
        &mut world.router,
        Owner::File,
        99,
        vec![put(
            Kind::Detector,
            "realtime",
            json!({"class": "ef", "admission": {"cap": 1, "accept_pct": 95}}),
        )],
    );
    let paths: Vec<_> = reply.errors.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(paths, ["detector/realtime.admission.cap", "detector/realtime.admission.drop_pct"]);
}
