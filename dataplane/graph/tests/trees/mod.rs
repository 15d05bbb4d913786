//! Class trees of a whole router under changes: how much work a turn does, and what becomes of classes and packets when
//! classes or the graph around them go.

use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{Credentials, Kind, Mode, Name, Op, Outcome, Owner, PortSpec, Transaction, TxnId};
use perhop_packet::PortId;
use serde_json::{Value, json};

const WAN: PortId = PortId(1);
/// bit/s: a packet of 1,000 bytes at IP length takes 8.112 ms.
const RATE: u64 = 1_000_000;

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
        Transaction {
            txn_id: TxnId([self.next; 16]),
            owner: Owner::File,
            fence: 0,
            mode: Mode::Commit,
            if_revision: None,
            confirm_within_ms: None,
            note: None,
            force: false,
            ops,
        }
    }

    fn commit(&mut self, ops: Vec<Op>) {
        let transaction = self.transaction(ops);
        let reply = self.router.submit(Credentials::ADMIN, transaction).expect("answered");
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    }

    fn steps(&mut self) -> u64 {
        self.router.worker().egress(WAN).map_or(0, |e| e.tree().change_steps())
    }
}

fn put(kind: Kind, name: &str, spec: Value) -> Op {
    Op::Put { kind, name: Name::new(name).expect("a name"), spec, if_version: None, ttl_ms: None }
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
