//! A thousand transactions on a saturated link: what a change does not name is neither lost nor reordered (law 5).

use crate::support::{LAN, WAN, commit, connect, delete, mac, name, port, put, state_bytes, transaction};
use perhop_graph::router::{EdgeOptions, VirtualRouter, edge_graph};
use perhop_model::{Credentials, Kind, Op, Outcome, Owner};
use perhop_units::Duration;
use perhop_wire::{build, dissect};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::json;
use std::collections::BTreeSet;

const STABLE_CLASSES: u16 = 8;
const CHURN_CLASSES: u16 = 4;
const FLOWS_PER_CLASS: u16 = 25;
/// Packets each flow keeps in the router: every class is backlogged, none overflows.
const OUTSTANDING: u32 = 4;
const BASE_PORT: u16 = 10_000;

/// One flow: a closed loop, so that the link is saturated and no queue overflows.
#[derive(Clone, Debug, Default)]
struct Flow {
    sent: u32,
    /// Highest sequence number that has left, plus one.
    next: u32,
    /// Numbers below `next` that have not left yet.
    missing: BTreeSet<u32>,
    received: u32,
    /// Times a packet was overtaken, counting a run of late packets once.
    episodes: u32,
    late: bool,
    /// Changes that moved the flow to another class.
    moves: u32,
}

struct World {
    router: VirtualRouter,
    flows: Vec<Flow>,
    rng: Pcg64Mcg,
    /// Class each churn flow group is sent to now; `None` = the default class.
    churn: Vec<Option<u16>>,
    /// Churn classes that exist.
    exists: BTreeSet<u16>,
    extra_filters: BTreeSet<u16>,
    next_txn: u128,
    counters: u32,
}

fn flow_frame(flow: u16, seq: u32, size: usize) -> Vec<u8> {
    let mut payload = vec![0u8; size];
    payload[..4].copy_from_slice(&seq.to_be_bytes());
    build::udp4([10, 0, 0, 2], [10, 1, 0, 2])
        .macs(mac(0x12), mac(1))
        .ports(5_000, BASE_PORT + flow)
        .payload(&payload)
        .build()
}

fn class_spec(weight: u32, guarantee: u64) -> serde_json::Value {
    json!({ "port": "wan", "weight": weight, "guarantee": { "rate": guarantee },
            "queue": { "limit": { "packets": 1000 } } })
}

/// The filter that sends one group of 25 flows to a class.
fn group_filter(group: u16, class: &str) -> Op {
    let first = BASE_PORT + group * FLOWS_PER_CLASS;
    let ports = json!({ "first": first, "last": first + FLOWS_PER_CLASS - 1 });
    let spec = json!({ "priority": 100 + group, "class": class,
                       "match": { "protocol": 17, "dst_ports": ports } });
    put(Kind::Filter, &format!("group{group}"), spec)
}

impl World {
    fn new(seed: u64) -> Self {
        let ports = vec![port("lan", 0), port("wan", 100_000_000)];
        let mut router = VirtualRouter::new(ports.clone(), 65_536, seed).expect("the edge graph builds");
        let mut ops: Vec<Op> = ports
            .iter()
            .map(|p| put(Kind::Port, &p.name, serde_json::to_value(&p.spec).expect("plain data")))
            .collect();
        for class in 0..STABLE_CLASSES {
            ops.push(put(Kind::Class, &format!("wan/s{class}"), class_spec(1 + u32::from(class), 1_000_000)));
            ops.push(group_filter(class, &format!("s{class}")));
        }
        let rest = json!({ "port": "wan", "default": true, "queue": { "limit": { "packets": 1000 } } });
        ops.push(put(Kind::Class, "wan/rest", rest));
        let reply = commit(&mut router, Owner::File, 1, ops);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
        connect(&mut router);
        let groups = STABLE_CLASSES + CHURN_CLASSES;
        let mut world = Self {
            router,
            flows: vec![Flow::default(); usize::from(groups * FLOWS_PER_CLASS)],
            rng: Pcg64Mcg::seed_from_u64(seed),
            churn: vec![None; usize::from(CHURN_CLASSES)],
            exists: BTreeSet::new(),
            extra_filters: BTreeSet::new(),
            next_txn: 100,
            counters: 0,
        };
        for _ in 0..OUTSTANDING {
            for flow in 0..world.flows.len() as u16 {
                world.send(flow);
            }
        }
        world
    }

    fn send(&mut self, flow: u16) {
        let state = &mut self.flows[usize::from(flow)];
        let frame = flow_frame(flow, state.sent, 40 + usize::from(flow) * 3);
        state.sent += 1;
        assert!(self.router.receive(LAN, &frame), "the pool is large enough");
    }

    /// Books what has left and keeps every flow's number of packets inside constant.
    fn collect(&mut self, refill: bool) {
        for sent in std::mem::take(&mut self.router.sent) {
            assert_eq!(sent.port, WAN);
            let layout = dissect(sent.frame()).expect("well formed");
            let flow = layout.dst_port - BASE_PORT;
            let at = layout.payload_offset as usize;
            let seq = u32::from_be_bytes(sent.frame()[at..at + 4].try_into().expect("four bytes"));
            let f = &mut self.flows[usize::from(flow)];
            f.received += 1;
            if seq >= f.next {
                f.missing.extend(f.next..seq);
                f.next = seq + 1;
                f.late = false;
            } else {
                assert!(f.missing.remove(&seq), "flow {flow} packet {seq} left twice");
                f.episodes += u32::from(!f.late);
                f.late = true;
            }
            drop(sent);
            if refill {
                self.send(flow);
            }
        }
    }

    /// A random change, and whether it must be refused.
    fn change(&mut self) -> (Vec<Op>, bool) {
        if self.rng.random_range(0..10) == 0 {
            return (self.invalid(), true);
        }
        let c = self.rng.random_range(0..CHURN_CLASSES);
        let group = STABLE_CLASSES + c;
        let class = format!("wan/c{c}");
        let ops = match self.rng.random_range(0..9) {
            0 | 1 if !self.exists.contains(&c) => {
                self.exists.insert(c);
                self.moved(c, Some(c));
                vec![
                    put(Kind::Class, &class, class_spec(5, 2_000_000)),
                    group_filter(group, &format!("c{c}")),
                ]
            }
            0 | 1 => {
                self.exists.remove(&c);
                self.moved(c, None);
                vec![delete(Kind::Class, &class), delete(Kind::Filter, &format!("group{group}"))]
            }
            2 if self.exists.contains(&c) => {
                let (weight, rate) = (self.rng.random_range(1..50), self.rng.random_range(0..4) * 1_000_000);
                vec![put(Kind::Class, &class, class_spec(weight, rate))]
            }
            3 => {
                let n = self.rng.random_range(0..200);
                self.extra_filters.insert(n);
                let spec =
                    json!({ "priority": n, "match": { "dst": format!("192.0.{n}.0/24") }, "class": "rest" });
                vec![put(Kind::Filter, &format!("extra{n}"), spec)]
            }
            4 => match self.extra_filters.pop_first() {
                Some(n) => vec![delete(Kind::Filter, &format!("extra{n}"))],
                None => vec![put(Kind::Profile, "p", json!({}))],
            },
            5 => {
                let rate = self.rng.random_range(1..9) * 1_000_000;
                let spec = json!({ "prefixes": ["198.51.100.0/24"], "rate": rate, "policy": "demote" });
                vec![put(Kind::Sla, "customer", spec)]
            }
            6 => {
                let cir = self.rng.random_range(1..9) * 1_000_000;
                let meter = json!({ "type": "token_bucket", "cir": cir, "cbs": 10_000 });
                vec![put(Kind::Profile, "customer", json!({ "meter": meter }))]
            }
            7 => {
                let packets = self.rng.random_range(3..20);
                vec![put(Kind::Detector, "rtp", json!({ "class": "rest", "packets": packets }))]
            }
            _ => vec![self.graph()],
        };
        (ops, false)
    }

    fn moved(&mut self, churn: u16, to: Option<u16>) {
        let at = usize::from(churn);
        if self.churn[at] != to {
            self.churn[at] = to;
            let first = usize::from((STABLE_CLASSES + churn) * FLOWS_PER_CLASS);
            for f in &mut self.flows[first..first + usize::from(FLOWS_PER_CLASS)] {
                f.moves += 1;
            }
        }
    }

    /// The same graph with a counter more or less in the middle.
    fn graph(&mut self) -> Op {
        self.counters = (self.counters + 1) % 3;
        let ports = self.router.control().planner().ports().to_vec();
        let mut text = edge_graph(&ports, &EdgeOptions::exact(16_384));
        let mut chain = "flows".to_owned();
        for i in 0..self.counters {
            text.push_str(&format!("count{i} :: Counter();\n"));
            chain.push_str(&format!(" -> count{i}"));
        }
        text = text.replace("flows -> condition", &format!("{chain} -> condition"));
        Op::ReplaceGraph { text, reset: vec![] }
    }

    fn invalid(&mut self) -> Vec<Op> {
        match self.rng.random_range(0..5) {
            0 => vec![put(Kind::Class, "wan/greedy", class_spec(1, 99_000_000))],
            1 => vec![delete(Kind::Class, "wan/s0")],
            2 => vec![put(Kind::Filter, "lost", json!({ "class": "nowhere" }))],
            3 => vec![put(Kind::Class, "wan/c0", json!({ "port": "wan", "wieght": 3 }))],
            _ => vec![Op::ReplaceGraph { text: "a :: Nothing(); a -> b;".to_owned(), reset: vec![] }],
        }
    }
}

#[test]
fn a_thousand_transactions_under_saturation_harm_nothing_they_do_not_name() {
    let moves = changes_under_saturation(20_261_121, 1_000);
    assert!(moves > 500, "{moves} moves put rule 5 to the test");
}

/// The same with one seed after the other, for as many seconds as `PERHOP_SOAK_SECONDS` says (one seed without it).
#[test]
#[allow(clippy::disallowed_methods, reason = "a soak ends by the clock")]
fn soak_changes_under_saturation() {
    let seconds = std::env::var("PERHOP_SOAK_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let start = std::time::Instant::now();
    let mut seed = 1;
    loop {
        changes_under_saturation(seed, 300);
        seed += 1;
        if start.elapsed() >= std::time::Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{} seeds", seed - 1);
}

/// Random transactions on a saturated link; checks law 5 for every flow and gives the number of moved flows.
fn changes_under_saturation(seed: u64, transactions: u32) -> u32 {
    println!("seed {seed}");
    let mut w = World::new(seed);
    let (mut committed, mut rejected) = (0u32, 0u32);
    let mut busy = 0u64;
    let start = w.router.now();
    while committed + rejected < transactions {
        w.router.run_for(Duration::from_micros(700));
        busy += w.router.sent.iter().map(|s| s.frame().len() as u64).sum::<u64>();
        w.collect(true);
        let (ops, refuse) = w.change();
        let before = refuse.then(|| state_bytes(&mut w.router));
        w.next_txn += 1;
        let t = transaction(Owner::Api(name("churn")), w.next_txn, ops.clone());
        let request = w.router.request(Credentials::ADMIN, forced(t));
        // Packets pass between the slices of a change.
        while w.router.step() {
            w.collect(true);
        }
        let reply = w.router.reply(request).expect("answered once settled");
        assert_eq!(reply.outcome == Outcome::Rejected, refuse, "{ops:?}: {:?}", reply.errors);
        if let Some(before) = before {
            assert_eq!(before, state_bytes(&mut w.router), "a refused transaction leaves no trace");
            rejected += 1;
        } else {
            committed += 1;
        }
        w.router.worker().check_conservation().expect("books balance");
    }
    let seconds = w.router.now().since(start).as_secs_f64();
    let utilisation = busy as f64 * 8.0 / 100e6 / seconds;
    w.router.run_for(Duration::from_millis(500));
    w.collect(false);
    assert!(rejected >= transactions / 20, "{rejected} refused");
    assert!(utilisation > 0.99, "the link was saturated: {utilisation}");
    let stable = usize::from(STABLE_CLASSES * FLOWS_PER_CLASS);
    println!("{}", counters(&mut w.router));
    for (i, f) in w.flows.iter().enumerate() {
        assert_eq!(f.received, f.sent, "flow {i} lost packets");
        if i < stable {
            assert_eq!(f.episodes, 0, "flow {i} was reordered and no change named it");
        } else {
            assert!(f.episodes <= f.moves, "flow {i}: {} overtakings in {} moves", f.episodes, f.moves);
        }
    }
    w.flows[stable..].iter().map(|f| f.moves).sum()
}

/// Churn touches classes of the file too where the draw says so: by force, as an admin may.
fn forced(mut t: perhop_model::Transaction) -> perhop_model::Transaction {
    t.force = true;
    t
}

/// Every element's counters, for a failing test's output.
fn counters(router: &mut VirtualRouter) -> String {
    let driver = router.worker().driver();
    let mut text = String::new();
    for id in driver.ids() {
        let mut counters: Vec<(String, u64)> = Vec::new();
        driver.report(id, &mut counters);
        counters.retain(|(_, n)| *n > 0);
        text.push_str(&format!("{}: {counters:?}\n", driver.name(id)));
    }
    text
}
