//! Conservation, order, rates and changes, over seeds.

use super::world::{Flow, World, filter, mac};
use crate::support::{delete, put};
use perhop_abr::AbrPolicyId;
use perhop_model::{Kind, Op, Outcome};
use perhop_packet::PortId;
use perhop_units::{Duration, Instant};
use perhop_wire::MacAddr;
use perhop_wire::build::tcp4;
use perhop_wire::tcp::flags;
use rand::RngExt;
use serde_json::json;

/// Flows between all ports, `n` of them.
pub(super) fn flows(world: &mut World, ports: u16, n: u32) -> Vec<Flow> {
    let flow = |number| {
        let from = world.rng.random_range(0..ports);
        let to = (from + world.rng.random_range(1..ports)) % ports;
        let host = world.rng.random_range(0..1024);
        Flow { from, to, host, number, ip_len: world.rng.random_range(60..1500) }
    };
    (0..n).map(flow).collect()
}

/// A class on every port that takes everything, another in its place, and filters, profiles and rates of ports that come,
/// change and go.
pub(super) fn a_change(world: &mut World, round: u32) -> Vec<Op> {
    let mut ops = Vec::new();
    for port in 0..4 {
        let name = |round: u32| format!("p{port}/c{round}");
        let spec = json!({ "port": format!("p{port}"), "default": true, "queue": { "limit": { "packets": 4_000 } } });
        ops.push(put(Kind::Class, &name(round), spec));
        if round > 0 {
            ops.push(delete(Kind::Class, &name(round - 1)));
        }
    }
    let class = format!("c{round}");
    let port = world.rng.random_range(0..4);
    ops.push(filter("f", port, 1, json!({ "class": class, "profile": "p" })));
    let meter =
        json!({ "type": "token_bucket", "cir": 1_000_000_000u64 + u64::from(round), "cbs": 1_000_000 });
    ops.push(put(Kind::Profile, "p", json!({ "meter": meter })));
    ops
}

/// A default class on each of so many ports.
pub(super) fn a_class_each(ports: u16) -> Vec<Op> {
    let class = |p| put(Kind::Class, &format!("p{p}/c"), json!({ "port": format!("p{p}"), "default": true }));
    (0..ports).map(class).collect()
}

/// Members of a world with four ports step in any order, flows send, everything changes every so many turns, and whatever else
/// a turn has happens. Nothing is lost, overtaken or left unanswered.
pub(super) fn churn(
    world: &mut World,
    seed: u64,
    change_every: u32,
    mut also: impl FnMut(&mut World, &[Flow], u32),
) {
    let first = a_change(world, 0);
    world.commit(first);
    let flows = flows(world, 4, 60);
    let (mut open, mut round) = (Vec::new(), 1);
    for turn in 0..2_500 {
        // Fewer than fit into one ring, so that no order of steps may lose any.
        if world.inside() < 900 {
            for _ in 0..world.rng.random_range(0..12) {
                let flow = flows[world.rng.random_range(0..flows.len())];
                world.arrive(flow);
            }
        }
        for _ in 0..world.rng.random_range(0..12) {
            world.step();
        }
        world.now += Duration(world.rng.random_range(0..20_000));
        if turn % change_every == 0 {
            let ops = a_change(world, round);
            open.push(world.request(ops));
            round += 1;
        }
        also(world, &flows, turn);
    }
    world.run_until(world.now + Duration::from_secs(3));
    for request in open {
        let reply = world.reply(request).expect("every transaction is answered");
        assert_eq!(reply.outcome, Outcome::Committed, "seed {seed}: {:?}", reply.errors);
    }
    assert!(world.sent.len() > 4_000 && world.counter("steer", "steered") > 1_000, "seed {seed}");
    assert_eq!(world.drops(), Default::default(), "seed {seed}");
    world.assert_conserved();
    world.assert_in_order();
}

#[test]
fn in_whatever_order_workers_step_nothing_is_lost_or_reordered_also_while_everything_changes() {
    for seed in 0..6u64 {
        let workers = 2 + (seed % 3) as usize;
        churn(&mut World::new(workers, &[0; 4], seed), seed, 50, |_, _, _| ());
    }
}

#[test]
fn a_ring_that_is_full_drops_for_a_reason_and_everything_is_still_in_the_books() {
    let mut world = World::new(2, &[0, 0], 3);
    let flows = flows(&mut world, 2, 40);
    for _ in 0..8_000 {
        let flow = flows[world.rng.random_range(0..flows.len())];
        world.arrive(flow);
    }
    world.settle();
    assert!(world.drops()["ring_full"] > 100, "{:?}", world.drops());
    world.assert_conserved();
    world.assert_in_order();
}

/// Offers each flow `rate` bit/s in packets of its size until `end`, and serves every timer in time.
fn offer(world: &mut World, flows: &[(Flow, u64)], end: Instant) {
    let gap = |(flow, rate): &(Flow, u64)| u64::from(flow.ip_len) * 8_000_000_000 / rate;
    let begin = |(i, flow)| world.now + Duration(gap(flow) * i as u64 / flows.len() as u64);
    let mut due: Vec<Instant> = flows.iter().enumerate().map(begin).collect();
    while let Some((i, at)) = due.iter().copied().enumerate().min_by_key(|(_, at)| *at).filter(|d| d.1 < end)
    {
        world.run_until(at);
        world.arrive(flows[i].0);
        due[i] = at + Duration(gap(&flows[i]));
    }
    world.run_until(end);
}

/// IP bits per second of hosts with this high byte that left `port` between two instants.
fn rate(world: &World, flows: &[(Flow, u64)], high: u16, port: u16, from: Instant, to: Instant) -> u64 {
    let of = |number: u32| {
        flows.iter().find(|(f, _)| f.number == number).is_some_and(|(f, _)| f.host >> 8 == high)
    };
    let sent =
        world.sent.iter().filter(|o| o.port == PortId(port) && o.at >= from && o.at < to && of(o.flow));
    sent.map(|o| o.ip_len).sum::<u64>() * 8_000_000_000 / to.since(from).0
}

#[test]
fn a_class_whose_traffic_comes_from_all_workers_has_its_rate() {
    for seed in 0..2 {
        let mut world = World::new(4, &[0, 0, 0, 50_000_000], seed);
        let class = |name: &str, more: serde_json::Value| {
            let mut spec = json!({ "port": "p3", "queue": { "limit": { "packets": 400 } } });
            more.as_object().expect("keys").iter().for_each(|(k, v)| spec[k] = v.clone());
            put(Kind::Class, &format!("p3/{name}"), spec)
        };
        let mut ops = vec![
            class("gold", json!({ "guarantee": { "rate": 20_000_000 }, "ceiling": { "rate": 20_000_000 } })),
            class("slow", json!({ "ceiling": { "rate": 5_000_000 } })),
            class("rest", json!({ "default": true })),
        ];
        for port in 0..3 {
            ops.push(filter(&format!("g{port}"), port, 1, json!({ "class": "gold" })));
            ops.push(filter(&format!("s{port}"), port, 2, json!({ "class": "slow" })));
        }
        world.commit(ops);
        // Of each kind 48 flows, from three ports, which four workers have.
        let mut flows = Vec::new();
        for number in 0..144u32 {
            let high = (number / 48) as u16;
            let host = high << 8 | (number % 48) as u16;
            let flow = Flow { from: (number % 3) as u16, to: 3, host, number, ip_len: 700 };
            flows.push((flow, [40_000_000, 30_000_000, 10_000_000][usize::from(high)] / 48));
        }
        let (begin, end) = (world.now + Duration::from_millis(200), world.now + Duration::from_millis(700));
        offer(&mut world, &flows, end);
        let within = |kind: u16, wanted: u64| {
            let got = rate(&world, &flows, kind, 3, begin, end);
            // What the tree gives it, at frame length.
            let wanted = wanted * 700 / 714;
            assert!(got.abs_diff(wanted) * 50 <= wanted, "seed {seed}: {got} of {wanted} bit/s");
        };
        within(1, 20_000_000);
        within(2, 5_000_000);
        within(0, 25_000_000);
        assert!(world.counter("queue_p3", "handed_over") * 2 > world.sent.len() as u64, "from other workers");
        world.run_until(end + Duration::from_secs(2));
        world.assert_conserved();
        world.assert_in_order();
    }
}

#[test]
fn a_profile_reached_from_all_workers_lets_through_what_it_allows_and_no_less() {
    const CIR: u64 = 40_000_000;
    const CBS: u64 = 6_000;
    let mut world = World::new(4, &[0; 4], 9);
    let meter = json!({ "type": "token_bucket", "cir": CIR, "cbs": CBS });
    let mut ops = vec![put(Kind::Profile, "p", json!({ "meter": meter, "red": { "do": "drop" } }))];
    ops.extend((0..3).map(|port| filter(&format!("f{port}"), port, 0, json!({ "profile": "p" }))));
    world.commit(ops);
    let flow =
        |number: u32| Flow { from: (number % 3) as u16, to: 3, host: number as u16, number, ip_len: 500 };
    let flows: Vec<(Flow, u64)> = (0..60).map(|n| (flow(n), 2 * CIR / 60)).collect();
    let begin = world.now;
    offer(&mut world, &flows, begin + Duration::from_millis(500));
    assert!((0..4).all(|m| world.members[m].worker().flows().is_some_and(|f| f.flow_counters().created > 5)));
    let span = Duration::from_millis(10);
    for n in 1..50 {
        let (from, to) = (begin + Duration(span.0 * n), begin + Duration(span.0 * (n + 1)));
        let bytes: u64 = world.sent.iter().filter(|o| o.at >= from && o.at < to).map(|o| o.ip_len).sum();
        let allowed = CIR / 8 / 100;
        assert!(bytes <= allowed + CBS, "{bytes} in window {n}");
        // 2 %, and the packet that did not quite fit.
        assert!(bytes + 500 >= allowed * 98 / 100, "{bytes} in window {n}");
    }
    world.run_until(begin + Duration::from_secs(2));
    world.assert_conserved();
}

/// The way to a class and the class itself change together: were a packet sorted by one generation and queued by another,
/// it would find no class of its own.
#[test]
fn no_packet_is_sorted_by_one_generation_and_queued_by_another() {
    for seed in 0..6 {
        let mut world = World::new(3, &[0; 3], seed);
        let change = |round: u32| {
            let mut ops = vec![
                put(Kind::Class, &format!("p2/c{round}"), json!({ "port": "p2" })),
                put(Kind::Class, "p2/unused", json!({ "port": "p2", "default": true })),
            ];
            ops.extend(
                (0..2).map(|p| filter(&format!("f{p}"), p, 0, json!({ "class": format!("c{round}") }))),
            );
            if round > 0 {
                ops.push(delete(Kind::Class, &format!("p2/c{}", round - 1)));
            }
            ops
        };
        world.commit(change(0));
        let mut round = 0;
        for turn in 0..1_500 {
            if world.inside() < 500 {
                for _ in 0..world.rng.random_range(0..8) {
                    let number = world.rng.random_range(0..40);
                    let flow =
                        Flow { from: (number % 2) as u16, to: 2, host: number as u16, number, ip_len: 100 };
                    world.arrive(flow);
                }
            }
            for _ in 0..world.rng.random_range(0..10) {
                world.step();
            }
            world.now += Duration(1_000);
            if turn % 20 == 0 {
                round += 1;
                world.request(change(round));
            }
        }
        world.run_until(world.now + Duration::from_secs(2));
        let page = world.counter("queue_p2", "default_leaf");
        assert!(world.sent.len() > 1_500, "seed {seed}");
        assert_eq!((page, world.drops()), (0, Default::default()), "seed {seed}");
        world.assert_in_order();
        world.assert_conserved();
    }
}

/// However its flows are spread, a policy divides what it has between all of them.
#[test]
fn a_policy_of_the_rate_control_divides_its_rate_between_the_flows_of_all_workers() {
    const FLOWS: u16 = 40;
    let mut world = World::new(4, &[0; 2], 5);
    world.commit(vec![put(Kind::AbrPolicy, "all", json!({ "rate": 8_000_000 }))]);
    for round in 0..4u32 {
        for flow in 0..FLOWS {
            let segment = tcp4([10, 0, 0, 9], [10, 1, 0, 9]).ports(2_000 + flow, 80);
            let segment = segment.macs(MacAddr([2, 0, 0, 0, 3, 1]), mac(0)).flags(flags::ACK);
            let frame = segment.seq_ack(1 + round * 500, 1).payload(&[7; 500]).build();
            world.frame(0, &frame);
            world.settle();
            let answer = tcp4([10, 1, 0, 9], [10, 0, 0, 9]).ports(80, 2_000 + flow).flags(flags::ACK);
            let answer =
                answer.macs(MacAddr([2, 0, 0, 0, 3, 1]), mac(1)).seq_ack(1, 501 + round * 500).window(60_000);
            world.frame(1, &answer.build());
        }
        world.run_until(world.now + Duration::from_millis(5));
    }
    let seen = world.members.iter().filter_map(|m| m.worker().abr());
    let seen: Vec<_> = seen.map(|abr| abr.policy_counters(AbrPolicyId(0))).collect();
    assert!(seen.iter().all(|c| c.flows > 2), "every worker has some: {seen:?}");
    assert_eq!(seen.iter().map(|c| c.flows).sum::<u32>(), u32::from(FLOWS));
    assert!(seen.iter().all(|c| c.share_bps == 8_000_000 / u64::from(FLOWS)), "{seen:?}");
}
