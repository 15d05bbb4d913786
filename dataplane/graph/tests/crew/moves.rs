//! Buckets of flows that go from one member to another.

use super::rules::{a_class_each, churn, flows};
use super::world::{Flow, World, filter};
use crate::support::put;
use perhop_graph::router::{BalanceReport, Balancer, BucketMove, MOST_CONNECTIONS};
use perhop_model::Kind;
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use rand::RngExt;
use serde_json::json;
use std::collections::BTreeMap;

/// Packets that members know of each flow, by the port that the flow's packets come from: from all members that know it.
fn known(world: &World) -> BTreeMap<u16, Vec<u64>> {
    let mut known: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
    for member in &world.members {
        let flows = member.worker().flows().expect("its graph has them");
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            let (rows, next) = flows.snapshot(world.now, at, usize::MAX);
            rows.iter().for_each(|row| known.entry(row.flow.src_port).or_default().push(row.packets));
            cursor = next;
        }
    }
    known
}

/// What members know is what came: each flow in one place, with every packet since its first.
pub(super) fn assert_known_once(world: &World) {
    let came: BTreeMap<u16, Vec<u64>> =
        world.packets().iter().map(|(flow, n)| (4000 + *flow as u16, vec![u64::from(*n)])).collect();
    assert_eq!(known(world), came);
}

/// Moves of buckets drawn from those that some of these flows have.
fn some_moves(world: &mut World, flows: &[Flow]) -> Vec<BucketMove> {
    let n = world.rng.random_range(1..20);
    let mut moves: Vec<BucketMove> = Vec::new();
    for _ in 0..n {
        let at = world.rng.random_range(0..flows.len());
        let bucket = world.bucket(flows[at]);
        let to = world.rng.random_range(0..world.members.len());
        if moves.iter().all(|m| m.bucket != bucket) {
            moves.push(BucketMove { bucket, from: world.placement.map().worker(bucket), to });
        }
    }
    moves
}

#[test]
fn in_whatever_order_workers_step_nothing_is_lost_reordered_or_forgotten_when_buckets_move() {
    for seed in 0..8u64 {
        let workers = 2 + (seed % 3) as usize;
        let mut world = World::adaptive(workers, &[0; 4], seed);
        let mut relocations = Vec::new();
        churn(&mut world, seed, 60, |world, flows, turn| {
            if turn % 7 == 0 {
                let moves = some_moves(world, flows);
                relocations.push(world.relocate(moves));
            }
        });
        assert!(relocations.iter().all(|relocation| relocation.is_over()), "seed {seed}");
        assert!(
            relocations.iter().map(|r| r.connections()).sum::<u64>() > 50,
            "seed {seed}: some have moved"
        );
        assert_known_once(&world);
        let made = world.packets().len() as u64;
        assert_eq!(world.counter("flows", "created"), made, "seed {seed}: none was made again");
        let gone = ["connections_handed_over", "connections_taken_over"].map(|c| world.counter("flows", c));
        assert_eq!(gone[0], gone[1], "seed {seed}");
    }
}

#[test]
fn verdicts_go_along() {
    let mut world = World::adaptive(2, &[0; 2], 4);
    world.commit(vec![
        put(Kind::Class, "p1/c", json!({ "port": "p1", "default": true })),
        filter("f", 0, 0, json!({ "class": "c" })),
    ]);
    let flows: Vec<Flow> =
        (0..50).map(|number| Flow { from: 0, to: 1, host: 7, number, ip_len: 100 }).collect();
    flows.iter().for_each(|flow| world.arrive(*flow));
    world.settle();
    let before = world.counter("flows", "classified");
    for round in 0..4 {
        let moves: Vec<BucketMove> = (0..256)
            .map(|bucket| BucketMove { bucket, from: world.placement.map().worker(bucket), to: round % 2 })
            .collect();
        let relocation = world.relocate(moves);
        world.settle();
        assert!(
            relocation.connections() > 10 && (0..256).all(|b| world.placement.map().worker(b) == round % 2)
        );
        flows.iter().for_each(|flow| world.arrive(*flow));
        world.settle();
    }
    assert_eq!((before, world.counter("flows", "classified")), (50, 50));
    world.assert_conserved();
}

#[test]
fn what_cannot_go_whole_stays() {
    let mut world = World::adaptive(2, &[0; 2], 1);
    world.commit(vec![put(Kind::Class, "p1/c", json!({ "port": "p1", "default": true }))]);
    // More connections in a bucket than may go at a time, and another bucket with one.
    let mut flows: Vec<Flow> = Vec::new();
    let flow = |number: u32, host| Flow { from: 0, to: 1, host, number, ip_len: 60 };
    let crowded = world.bucket(flow(0, 0));
    let mut tried = 0u32;
    while flows.len() <= MOST_CONNECTIONS as usize {
        let next = flow(tried % 50_000, (tried / 50_000) as u16);
        flows.extend((world.bucket(next) == crowded).then_some(next));
        tried += 1;
    }
    let other = (1..).map(|n| flow(n, 9)).find(|f| world.bucket(*f) != crowded).expect("one of many");
    for part in flows.chunks(500) {
        part.iter().for_each(|flow| world.arrive(*flow));
        world.settle();
    }
    world.arrive(other);
    world.settle();
    let moves = |world: &World| {
        let from = |bucket| world.placement.map().worker(bucket);
        [crowded, world.bucket(other)].map(|bucket| BucketMove {
            bucket,
            from: from(bucket),
            to: 1 - from(bucket),
        })
    };
    let wanted = moves(&world);
    let relocation = world.relocate(wanted.to_vec());
    world.settle();
    assert_eq!(relocation.moves(), [(wanted[0], false), (wanted[1], true)]);
    assert_eq!(relocation.connections(), 1);
    // A packet that waits for its neighbour's address would be overtaken.
    let [_, back] = moves(&world);
    world.gateway(1, false);
    world.arrive(other);
    world.settle();
    assert_eq!(world.inside(), 1);
    let relocation = world.relocate(vec![back]);
    world.settle();
    assert_eq!(relocation.moves(), [(back, false)]);
    world.gateway(1, true);
    assert_eq!(world.inside(), 0);
    let relocation = world.relocate(vec![back]);
    world.settle();
    assert_eq!(relocation.moves(), [(back, true)]);
    world.assert_conserved();
    world.assert_in_order();
}

#[test]
fn objects_that_keep_something_of_flows_are_refused() {
    for (adaptive, workers) in [(false, 2), (true, 1), (true, 2)] {
        let mut world =
            if adaptive { World::adaptive(workers, &[0; 2], 1) } else { World::new(workers, &[0; 2], 1) };
        let sla = json!({ "prefixes": ["10.0.0.0/8"], "rate": 1_000_000, "burst": 10_000, "shared_pct": 50 });
        let policy = json!({ "rate": 1_000_000 });
        for (kind, spec) in [(Kind::Sla, sla), (Kind::AbrPolicy, policy)] {
            let reply = world.submit(vec![put(kind, "x", spec)]);
            let codes: Vec<Code> = reply.errors.iter().map(|e| e.code).collect();
            let expected: &[Code] = if adaptive && workers > 1 { &[Code::Unsupported] } else { &[] };
            assert_eq!(codes, expected, "{:?}", reply.errors);
        }
    }
}

/// Offers `loads[i]` packets of flow `i` in turns until `end`, and lets the load be balanced.
fn balance(world: &mut World, balancer: &mut Balancer, flows: &[(Flow, u32)], end: Instant) {
    while world.now < end {
        for (flow, packets) in flows {
            world.arrive_all(*flow, *packets);
        }
        let next = world.now + Duration::from_millis(20);
        world.run_until(next);
        world.balance(balancer);
    }
    world.settle();
}

/// A crew with a load of which worker 0 has four fifths, after `seconds`.
fn skewed(workers: usize, seed: u64, tenths: u64) -> (World, BalanceReport, u64) {
    let mut world = World::adaptive(workers, &[0; 4], seed);
    world.commit(a_class_each(4));
    let flows = flows(&mut world, 4, 150);
    let heavy = |world: &World, flow: &Flow| world.placement.map().worker(world.bucket(*flow)) == 0;
    let flows: Vec<(Flow, u32)> = flows
        .into_iter()
        .map(|flow| (flow, if heavy(&world, &flow) { 4 * workers as u32 - 4 } else { 1 }))
        .collect();
    let mut balancer = Balancer::new(&world.placement, world.now).expect("it is adaptive");
    let end = world.now + Duration::from_millis(100 * tenths);
    balance(&mut world, &mut balancer, &flows, end);
    let early = balancer.report().moves;
    balance(&mut world, &mut balancer, &flows, end + Duration::from_secs(2));
    (world, balancer.report(), early)
}

#[test]
fn a_skewed_load_is_evened_out_and_then_left_alone() {
    for seed in 0..3 {
        let workers = 2 + seed as usize;
        let (world, report, early) = skewed(workers, seed, 30);
        let loads: Vec<u64> = report.workers.iter().map(|(_, packets)| *packets).collect();
        let (sum, most) = (loads.iter().sum::<u64>(), loads.iter().max().copied().expect("some"));
        // The most loaded is within a tenth of an even part, which no placement is better than.
        assert!(most * workers as u64 * 10 <= sum * 11, "seed {seed}: {report:?}");
        assert!(report.moves > 5 && report.stayed == 0, "seed {seed}: {report:?}");
        assert_eq!(report.moves, early, "seed {seed}: an even load moves nothing");
        assert_eq!(report.workers.iter().map(|(buckets, _)| buckets).sum::<u32>(), 256);
        world.assert_conserved();
        world.assert_in_order();
        assert_known_once(&world);
        // The same seed gives the same moves.
        if seed == 0 {
            assert_eq!(skewed(workers, seed, 30).1, report);
        }
    }
}

#[test]
fn a_light_load_is_not_worth_a_stop() {
    let mut world = World::adaptive(2, &[0; 2], 1);
    let all = flows(&mut world, 2, 40);
    let one = all.iter().filter(|f| world.placement.map().worker(world.bucket(**f)) == 0);
    let one: Vec<(Flow, u32)> = one.map(|flow| (*flow, 1)).collect();
    let mut balancer = Balancer::new(&world.placement, world.now).expect("it is adaptive");
    let end = world.now + Duration::from_secs(3);
    balance(&mut world, &mut balancer, &one, end);
    assert_eq!((balancer.report().stops, world.placement.map().worker(0)), (0, 0));
    assert!(Balancer::new(&World::new(2, &[0; 2], 1).placement, world.now).is_none());
}
