//! What a leaf's queue is changes by transactions while packets wait in it.

use super::{WAN, World, class, put, wire};
use perhop_elements::schedule::ClassView;
use perhop_model::{Credentials, Kind, Outcome};
use perhop_packet::{DropReason, PortId};
use perhop_reason::Code;
use perhop_units::Duration;
use perhop_wire::{Ecn, build::udp4};
use serde_json::{Value, json};

fn queue(kind: &Value) -> perhop_model::Op {
    let queue = json!({"limit": {"packets": 2000}, "kind": kind});
    put(Kind::Class, "rest", json!({"port": "wan", "default": true, "queue": queue}))
}

fn rest<T>(world: &mut World, of: impl Fn(&ClassView<'_>) -> T) -> T {
    let egress = world.router.worker().egress(WAN).expect("it has a queue");
    of(&egress.tree().iter().find(|c| c.name == "rest").expect("the class"))
}

/// Packets of a flow each, numbered, all able to carry marks.
fn send(world: &mut World, numbers: std::ops::Range<u32>, flows: u32) {
    for n in numbers {
        let flow = (1000 + n % flows) as u16;
        let frame = udp4([10, 0, 0, 1], [10, 0, 0, 2]).ports(flow, 9).ecn(Ecn::Ect0);
        let frame = frame.payload(&n.to_be_bytes()).ip_len(1000).build();
        assert!(world.router.receive(PortId(0), &frame));
    }
}

/// Queues of every kind that find no packet too late and no queue too long.
fn patient() -> Vec<Value> {
    let late = json!({"target": 1_000_000_000, "interval": 10_000_000_000u64});
    let never = json!({"min_ppm": 999_998, "max_ppm": 1_000_000, "max_p_ppm": 1});
    let with = |flows: u32| {
        let mut spec = late.clone();
        spec["flows"] = flows.into();
        json!({"fq_codel": spec})
    };
    vec![
        json!("fifo"),
        json!({"codel": late}),
        with(16),
        json!({"wred": {"green": never, "yellow": never, "red": never}}),
        with(700),
        json!({"pie": {"target": 1_000_000_000, "max_burst": 60_000_000_000u64}}),
        json!({"red": {"min_ppm": 999_999, "max_ppm": 1_000_000, "max_p_ppm": 1, "ecn": false}}),
        json!({"blue": {}}),
        json!({"wfq": {"flows": 32, "by_precedence": true}}),
        json!({"wfq": {}}),
    ]
}

/// Every kind becomes every other one, with packets inside and packets on their way.
#[test]
fn a_queue_of_any_kind_becomes_one_of_any_other_and_every_flow_stays_whole_and_in_order() {
    const FLOWS: u32 = 5;
    let kinds = patient();
    let mut world = World::new();
    world.commit(vec![queue(&kinds[0])]);
    world.replace_graph(&wire("q"));
    let mut next = 0;
    for from in 0..kinds.len() {
        for to in 0..kinds.len() {
            for kind in [&kinds[from], &kinds[to]] {
                // The line sends a packet in 8 ms: three times as many come, and then all leave.
                send(&mut world, next..next + 9, FLOWS);
                next += 9;
                let waiting = rest(&mut world, |c| c.backlog_packets);
                world.commit(vec![queue(kind)]);
                assert_eq!(rest(&mut world, |c| c.backlog_packets), waiting, "{kind}");
                world.router.run_for(Duration::from_millis(25));
            }
            world.router.run_for(Duration::from_millis(150));
        }
    }
    world.router.run_for(Duration::from_secs(5));
    let numbers: Vec<u32> = world.router.sent.iter().map(|s| number(s.frame())).collect();
    assert_eq!(numbers.len(), next as usize, "nothing is lost");
    for flow in 0..FLOWS {
        let of_flow: Vec<u32> = numbers.iter().copied().filter(|n| n % FLOWS == flow).collect();
        assert!(of_flow.is_sorted(), "flow {flow}: {of_flow:?}");
    }
    let counters = rest(&mut world, |c| c.counters);
    assert_eq!((counters.packets, counters.dropped_bytes), (u64::from(next), 0));
}

fn number(frame: &[u8]) -> u32 {
    frame[42..46].try_into().map_or(0, u32::from_be_bytes)
}

/// A standing queue: each kind acts by marks, all of which are counted, and marks do not get lost with their queue.
#[test]
fn marks_and_early_drops_are_counted_with_the_class_through_changes_of_kind() {
    let hasty = [
        json!({"codel": {"target": 1_000_000, "interval": 10_000_000}}),
        json!({"fq_codel": {"target": 1_000_000, "interval": 10_000_000}}),
        json!({"pie": {"target": 1_000_000, "update": 1_000_000, "max_burst": 0, "mark_below_ppm": 1_000_000}}),
        json!({"wred": {"green": {"min_ppm": 1, "max_ppm": 20_000, "max_p_ppm": 500_000},
                        "yellow": {"min_ppm": 1, "max_ppm": 20_000, "max_p_ppm": 500_000},
                        "red": {"min_ppm": 1, "max_ppm": 20_000, "max_p_ppm": 500_000}, "ecn": true}}),
        json!({"red": {"min_ppm": 1, "max_ppm": 20_000, "max_p_ppm": 500_000, "ecn": true}}),
    ];
    let mut world = World::new();
    world.commit(vec![queue(&json!("fifo"))]);
    world.replace_graph(&wire("q"));
    let (mut next, mut before) = (0, 0);
    for kind in &hasty {
        world.commit(vec![queue(kind)]);
        for _ in 0..60 {
            send(&mut world, next..next + 3, 1);
            next += 3;
            world.router.run_for(Duration::from_millis(10));
        }
        let marked = rest(&mut world, |c| c.counters.marked);
        assert!(marked > before, "{kind} marks");
        before = marked;
    }
    world.commit(vec![queue(&json!("fifo"))]);
    world.router.run_for(Duration::from_secs(20));
    let c = rest(&mut world, |c| c.counters);
    let seen = world.router.sent.iter().filter(|s| s.frame()[15] & 3 == 3).count() as u64;
    let lost = c.dropped_early + c.dropped_queue_full;
    assert_eq!((c.marked, c.packets + lost), (seen, u64::from(next)));
    let driver = world.router.worker().driver();
    let dropped = |r: DropReason| {
        driver.ids().map(|n| driver.counters(n).map_or(0, |c| c.drops[r.index()])).sum::<u64>()
    };
    let early =
        [DropReason::RedEarly, DropReason::RedForced, DropReason::CoDel, DropReason::Blue, DropReason::Pie]
            .map(dropped);
    assert_eq!((c.dropped_early, c.dropped_queue_full), (early.iter().sum(), dropped(DropReason::QueueFull)));
}

#[test]
fn flow_queues_of_a_port_are_bounded_and_the_class_too_many_is_named() {
    let mut world = World::new();
    let flows = |name: &str, flows: u32| {
        let kind = json!({"fq_codel": {"flows": flows}});
        let queue = json!({"limit": {"packets": 100}, "kind": kind});
        put(Kind::Class, name, json!({"port": "wan", "queue": queue}))
    };
    // Sixteen of the largest are all there may be.
    world.commit((0..16).map(|n| flows(&format!("c{n:02}"), 65_536)).collect());
    let transaction = world.transaction(vec![flows("d", 1), class("rest", 1)]);
    let reply = world.router.submit(Credentials::ADMIN, transaction).expect("answered");
    assert_eq!(reply.outcome, Outcome::Rejected);
    let error = &reply.errors[0];
    assert_eq!((error.code, error.path.as_str()), (Code::LimitReached, "class/d.queue.kind.fq_codel.flows"));
    assert_eq!((error.limit, error.free), (Some(1 << 20), Some(0)));
}
