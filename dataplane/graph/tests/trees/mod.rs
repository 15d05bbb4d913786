//! Class trees of a whole router under changes: how much work a turn does, and what becomes of classes and packets when
//! classes or the graph around them go.

mod moves;
mod queues;
mod reverts;
mod weights;

use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{
    Credentials, EventKind, Given, Kind, Name, Op, Outcome, Owner, PortSpec, Transaction, TxnId,
};
use perhop_packet::PortId;
use perhop_units::Duration;
use perhop_wire::build::udp4;
use serde_json::{Value, json};

const WAN: PortId = PortId(1);
/// bit/s: a packet of 1,000 bytes at IP length takes 8.112 ms.
const RATE: u64 = 1_000_000;

/// A wire from `lan` to `wan` with the queue called `queue`.
fn wire(queue: &str) -> String {
    format!(
        "a :: FromPort(lan); {queue} :: Egress(wan, rate = 1 Mbit/s); b :: ToPort(wan); a -> {queue} -> b;"
    )
}

struct World {
    router: VirtualRouter,
    next: u8,
}

impl World {
    fn new() -> Self {
        let port = |name: &str| {
            let spec: PortSpec = serde_json::from_value(json!({"rate": RATE})).expect("a port");
            EdgePort { name: name.to_owned(), spec }
        };
        let router =
            VirtualRouter::new(vec![port("lan"), port("wan")], 4096, 1).expect("its own graph builds");
        let mut world = Self { router, next: 0 };
        let ports = ["lan", "wan"].map(|n| put(Kind::Port, n, json!({"rate": RATE})));
        world.commit(ports.to_vec());
        world
    }

    fn transaction(&mut self, ops: Vec<Op>) -> Transaction {
        self.next += 1;
        Transaction::new(TxnId([self.next; 16]), Owner::File, ops)
    }

    fn commit(&mut self, ops: Vec<Op>) {
        let transaction = self.transaction(ops);
        let reply = self.router.submit(Credentials::ADMIN, transaction).expect("answered");
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    }

    fn replace_graph(&mut self, text: &str) {
        self.commit(vec![Op::ReplaceGraph { text: text.to_owned(), reset: Vec::new() }]);
    }

    /// Packets of 1,000 bytes at IP length, numbered.
    fn send(&mut self, numbers: std::ops::Range<u32>) {
        for n in numbers {
            let frame = udp4([10, 0, 0, 1], [10, 0, 0, 2]).payload(&n.to_be_bytes()).ip_len(1000).build();
            assert!(self.router.receive(PortId(0), &frame));
        }
    }

    fn sent(&self) -> Vec<u32> {
        let number = |f: &[u8]| f[42..46].try_into().map(u32::from_be_bytes).expect("four bytes");
        self.router.sent.iter().map(|s| number(s.frame())).collect()
    }

    /// Classes that are gone, and what each of them lost, since the router began.
    fn drained(&mut self) -> Vec<(String, u64)> {
        let events = self.router.control().events().after(0, 10_000);
        let gone = |e: &perhop_model::Event| match &e.kind {
            EventKind::Drained { key, dropped } => Some((key.name.to_string(), *dropped)),
            _ => None,
        };
        events.iter().filter_map(gone).collect()
    }

    fn steps(&mut self) -> u64 {
        self.router.worker().egress(WAN).map_or(0, |e| e.tree().change_steps())
    }
}

fn put(kind: Kind, name: &str, spec: Value) -> Op {
    Op::put(Given::read(kind, Name::new(name).expect("a name"), spec, None))
}

fn class(name: &str, weight: u32) -> Op {
    put(Kind::Class, name, json!({"port": "wan", "weight": weight, "default": name == "rest"}))
}

fn delete(name: &str, drain_ms: u64) -> Op {
    Op::Delete {
        kind: Kind::Class,
        name: Name::new(name).expect("a name"),
        if_version: None,
        drain_ms: Some(drain_ms),
    }
}

#[test]
fn a_change_of_very_many_classes_is_seen_at_once_and_done_in_small_turns() {
    const CLASSES: u32 = 1_500;
    let mut world = World::new();
    let mut ops: Vec<Op> = (0..CLASSES).map(|n| class(&format!("c{n}"), 1)).collect();
    ops.push(class("rest", 1));
    world.commit(ops);
    // A third goes, a third changes, a third stays.
    let mut ops: Vec<Op> = (0..CLASSES / 3).map(|n| delete(&format!("c{n}"), 50)).collect();
    ops.extend((CLASSES / 3..2 * CLASSES / 3).map(|n| class(&format!("c{n}"), 5)));
    ops.extend((0..CLASSES / 3).map(|n| class(&format!("new{n}"), 1)));
    let transaction = world.transaction(ops);
    let request = world.router.request(Credentials::ADMIN, transaction);
    let map = |w: &mut World| w.router.worker().egress(WAN).expect("it has a queue").leaf_map().clone();
    let (mut tables, mut turns, mut most) = (vec![map(&mut world)], 0, 0);
    loop {
        let before = world.steps();
        if !world.router.step() {
            break;
        }
        turns += 1;
        most = most.max(world.steps() - before);
        let now = map(&mut world);
        if !tables.contains(&now) {
            tables.push(now);
        }
        let told = world.router.reply(request);
        let tree = world.router.worker().egress(WAN).expect("it has a queue").tree();
        let updated = tree.iter().filter(|c| c.params.weight == 5).count();
        let done = updated == CLASSES as usize / 3 && tree.classes() == CLASSES + 2;
        assert!(told.is_none() || done, "told when it is done, not before");
    }
    while world.router.step() {}
    assert!(world.router.reply(request).is_some_and(|r| r.outcome == Outcome::Committed));
    assert!(most <= 130 && turns > 1_500 / 64, "{most} steps in one of {turns} turns");
    assert_eq!(tables.len(), 2, "one table of leaves, then the other, and none between");
    assert_eq!(
        world.router.worker().egress(WAN).expect("it has a queue").tree().classes(),
        CLASSES + 2,
        "theirs, `rest` and the unused `default`"
    );
}

#[test]
fn a_removed_class_tells_how_many_of_its_packets_were_dropped() {
    let mut world = World::new();
    world.replace_graph(&wire("q"));
    world.commit(vec![class("rest", 1), class("old", 1)]);
    world.commit(vec![
        put(Kind::Class, "rest", json!({"port": "wan"})),
        put(Kind::Class, "old", json!({"port": "wan", "default": true})),
    ]);
    world.send(0..10);
    world.router.run_for(Duration::from_millis(1));
    world.commit(vec![delete("old", 20), class("rest", 1)]);
    assert_eq!(world.drained(), []);
    world.router.run_for(Duration::from_millis(500));
    let lost = 10 - world.sent().len() as u64;
    assert!((6..=8).contains(&lost), "20 ms are two or three packets: {lost} lost");
    assert_eq!(world.drained(), [("old".to_owned(), lost)]);
}

#[test]
fn classes_of_a_renamed_queue_drain_to_the_wire_and_are_told_of_with_what_they_lost() {
    let mut world = World::new();
    world.replace_graph(&wire("q"));
    world.commit(vec![class("gone", 1), class("rest", 1)]);
    world.commit(vec![
        put(Kind::Class, "gone", json!({"port": "wan", "default": true})),
        put(Kind::Class, "rest", json!({"port": "wan"})),
    ]);
    world.send(0..12);
    // The class goes, and then the queue it drains in takes another name.
    world.commit(vec![delete("gone", 60_000), class("rest", 1)]);
    world.replace_graph(&wire("p"));
    // New classes take slots that the old tree still uses, in a tree of their own.
    world.commit((0..5).map(|n| class(&format!("new{n}"), 1)).collect());
    world.send(100..110);
    world.router.run_for(Duration::from_millis(700));
    assert_eq!(world.drained(), [("gone".to_owned(), 0)]);
    let sent = world.sent();
    let old: Vec<u32> = sent.iter().copied().filter(|n| *n < 100).collect();
    assert_eq!(old, (0..12).collect::<Vec<_>>(), "what waited in the old queue leaves");
    assert_eq!(sent.iter().filter(|n| **n >= 100).count(), 10);
    // Two queues, one line: together they are no faster than it. (1,014 bytes a frame, one packet of overlap.)
    let last = world.router.sent.last().expect("some left").at.as_nanos();
    assert!(last >= 20 * 8_112_000, "22 packets left by {last} ns");
    let tree = world.router.worker().egress(WAN).expect("it has a queue").tree();
    assert!(tree.iter().all(|c| !c.draining), "no late word of the old tree touched the new one");
    assert_eq!(tree.iter().filter(|c| c.name.starts_with("new")).count(), 5);
    world.router.worker().check_conservation().expect("books balance");
}

#[test]
fn what_a_renamed_queue_cannot_send_in_time_is_counted_for_its_class() {
    let mut world = World::new();
    world.replace_graph(&wire("q"));
    world.commit(vec![
        put(
            Kind::Class,
            "gone",
            json!({"port": "wan", "default": true, "queue": {"limit": {"packets": 300}}}),
        ),
        put(Kind::Class, "rest", json!({"port": "wan"})),
    ]);
    // 1.6 s of packets; a replaced queue has a second.
    world.send(0..200);
    world.commit(vec![delete("gone", 60_000), class("rest", 1)]);
    world.replace_graph(&wire("p"));
    world.router.run_for(Duration::from_secs(2));
    let lost = 200 - world.sent().len() as u64;
    assert!((70..=80).contains(&lost), "{lost}");
    assert_eq!(world.drained(), [("gone".to_owned(), lost)]);
    world.router.worker().check_conservation().expect("books balance");
}

#[test]
fn a_class_of_a_port_without_a_queue_is_gone_at_once() {
    let mut world = World::new();
    world.commit(vec![class("gone", 1), class("rest", 1)]);
    world.replace_graph("a :: FromPort(lan); b :: ToPort(wan); a -> b;");
    world.commit(vec![delete("gone", 60_000)]);
    world.router.run_for(Duration::from_millis(1));
    assert_eq!(world.drained(), [("gone".to_owned(), 0)]);
}
