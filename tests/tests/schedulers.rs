//! Ports with other schedulers than the tree: what they promise, and what changes of them cost.

use crate::support::{LAN, WAN, commit, delete, exact, mac, put, router_of};
use perhop_graph::router::VirtualRouter;
use perhop_model::{Kind, Outcome, Owner};
use perhop_reason::Code;
use perhop_units::{Dscp, Duration, Instant};
use perhop_wire::{build, dissect};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const HFSC_FILE: &str = include_str!("../../examples/hfsc.toml");
/// Packets of EF that come at once.
const CALLS: u32 = 5;
const CODES: [Dscp; 4] = [Dscp::EF, Dscp::AF21, Dscp::AF11, Dscp::BE];

fn frame(dscp: Dscp, ip_len: u16, number: u32) -> Vec<u8> {
    let frame = build::udp4([10, 0, 0, 2], [10, 1, 0, 2]).macs(mac(0x12), mac(1)).ports(5000, 9).dscp(dscp);
    frame.payload(&number.to_be_bytes()).ip_len(ip_len).build()
}

/// Four classes, each with a code point of [`CODES`], without guarantees or ceilings.
fn flat(scheduler: &str) -> String {
    let class = |name: &str, more: &str| {
        format!("[[class]]\nname = \"{name}\"\nport = \"wan\"\nqueue = \"50 packets\"\n{more}\n")
    };
    format!(
        "[[port]]\nname = \"lan\"\ntrust_dscp = true\n[[port]]\nname = \"wan\"\nrate = \"10 Mbit/s\"\n\
         headroom = \"0 %\"\noverhead = 0\nscheduler = \"{scheduler}\"\n{}{}{}{}",
        class("a", "dscp = [\"EF\"]"),
        class("b", "dscp = [\"AF21\"]"),
        class("c", "dscp = [\"AF11\"]"),
        class("d", "default = true"),
    )
}

/// What left: when it began, code point, frame length, number.
type Left = (u64, u8, u64, u32);

struct World {
    router: VirtualRouter,
    start: u64,
    next: BTreeMap<(u64, usize), (u16, u64)>,
    came: Vec<u64>,
    left: Vec<Left>,
    transactions: u128,
}

impl World {
    /// Sources by class of [`CODES`]: IP length and kbit/s.
    fn new(text: &str, sources: &[(usize, u16, u64)]) -> Self {
        let router = router_of(text);
        let start = router.now().0;
        let next = sources.iter().map(|(class, len, kbit)| ((0, *class), (*len, *kbit))).collect();
        Self { router, start, next, came: Vec::new(), left: Vec::new(), transactions: 100 }
    }

    fn run_ms(&mut self, ms: u64) {
        let end = self.router.now().0 - self.start + ms * 1_000_000;
        while let Some(((at, class), (len, kbit))) = self.next.pop_first() {
            if at > end {
                self.next.insert((at, class), (len, kbit));
                break;
            }
            self.router.run_until(Instant(self.start + at));
            let number = self.came.len() as u32;
            // Calls come together, what else there is one by one.
            let packets = if class == 0 { CALLS } else { 1 };
            for n in 0..packets {
                let packet = frame(CODES[class], len, number + n);
                assert!(self.router.receive(LAN, &packet), "a buffer is free");
                self.came.push(self.start + at);
            }
            let gap = u64::from(len) * u64::from(packets) * 8_000_000 / kbit;
            self.next.insert((at + gap, class), (len, kbit));
            self.collect();
        }
        self.router.run_until(Instant(self.start + end));
        self.collect();
    }

    fn collect(&mut self) {
        for sent in std::mem::take(&mut self.router.sent).into_iter().filter(|s| s.port == WAN) {
            let f = sent.frame();
            let number = f[42..46].try_into().map_or(0, u32::from_be_bytes);
            self.left.push((sent.at.0, dissect(f).map_or(0, |l| l.tos >> 2), f.len() as u64, number));
        }
    }

    fn put(&mut self, kind: Kind, name: &str, spec: Value) {
        let op = if spec.is_null() { delete(kind, name) } else { put(kind, name, spec) };
        self.transactions += 1;
        let reply = commit(&mut self.router, Owner::File, self.transactions, vec![op]);
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    }

    /// kbit/s of each class since `from_ms`, frames.
    fn rates(&self, from_ms: u64) -> [u64; 4] {
        let from = self.start + from_ms * 1_000_000;
        let time = (self.router.now().0 - from) / 1_000_000;
        CODES.map(|code| {
            let mine = self.left.iter().filter(|(at, c, ..)| *at >= from && *c == code.get());
            mine.map(|(_, _, len, _)| len * 8).sum::<u64>() / time
        })
    }
}

fn near(got: u64, wanted: u64, what: &str) {
    assert!(got.abs_diff(wanted) * 100 <= wanted * 2, "{what}: {got} instead of {wanted} kbit/s");
}

/// Longest wait of a call's packet by its curve, ns.
const BOUND: u64 = CALLS as u64 * 214 * 8 * 200 + 1514 * 8 * 100;

#[test]
fn hfsc_keeps_the_delay_of_its_curve_and_shares_the_rest_by_weight_below_its_limits() {
    let mut world =
        World::new(&exact(HFSC_FILE), &[(0, 200, 900), (1, 1400, 9_000), (2, 1400, 9_000), (3, 1400, 9_000)]);
    world.run_ms(4_000);
    let [voice, web, backup, rest] = world.rates(500);
    // 9.04 of 10 Mbit/s are left; three fourths for the office, of which the web has two thirds.
    near(voice, 900 * 214 / 200, "voice");
    let left = 10_000 - voice;
    near(web, left * 3 / 4 * 2 / 3, "web");
    near(backup, left / 4, "backup");
    near(rest, left / 4, "rest");
    // The last of five packets is due after their time at 5 Mbit/s, and late by the largest frame.
    let longest =
        world.left.iter().filter(|l| l.1 == Dscp::EF.get()).map(|l| l.0 - world.came[l.3 as usize]).max();
    assert!(longest.is_some_and(|ns| ns <= BOUND), "{longest:?} of {BOUND} ns");
    // Alone with voice the backup stays below its limit.
    world.next.retain(|(_, class), _| [0, 2].contains(class));
    world.run_ms(3_000);
    near(world.rates(5_000)[2], 3_000, "the limit");
}

#[test]
fn without_its_first_piece_a_class_of_hfsc_waits_longer() {
    let text = exact(HFSC_FILE).replace("guarantee_first = { rate = \"5 Mbit/s\", time = \"5 ms\" }\n", "");
    let mut world = World::new(&text, &[(0, 200, 900), (1, 1400, 9_000), (2, 1400, 9_000), (3, 1400, 9_000)]);
    world.run_ms(4_000);
    let longest =
        world.left.iter().filter(|l| l.1 == Dscp::EF.get()).map(|l| l.0 - world.came[l.3 as usize]).max();
    assert!(longest.is_some_and(|ns| ns > 2 * BOUND), "{longest:?}");
}

#[test]
fn htb_gives_guarantees_then_lends_by_tier_up_to_ceilings() {
    let text = flat("htb")
        .replace(
            "dscp = [\"EF\"]",
            "dscp = [\"EF\"]\nguarantee = \"1 Mbit/s\"\nceiling = \"2 Mbit/s\"\ntier = 0",
        )
        .replace("dscp = [\"AF21\"]", "dscp = [\"AF21\"]\nguarantee = \"2 Mbit/s\"\ntier = 1")
        .replace("dscp = [\"AF11\"]", "dscp = [\"AF11\"]\nguarantee = \"3 Mbit/s\"\ntier = 1\nweight = 3");
    let flood = [(0, 1000, 9_000), (1, 1000, 20_000), (2, 1000, 20_000), (3, 1000, 9_000)];
    let mut world = World::new(&text, &flood);
    world.run_ms(4_000);
    // a has its ceiling; what is left of 8 beside 2 and 3 is lent to b and c in the proportion of their turns.
    let [a, b, c, d] = world.rates(1_000);
    near(a, 2_000, "a");
    near(b + c, 8_000, "b and c");
    near(b, 2_000 + 3_000 / 4, "b");
    near(c, 3_000 + 3_000 * 3 / 4, "c");
    assert!(d < 50, "nothing is left for d: {d}");
}

#[test]
fn wf2q_shares_by_weight() {
    let text = flat("wf2q")
        .replace("dscp = [\"EF\"]", "dscp = [\"EF\"]\nweight = 4000")
        .replace("dscp = [\"AF21\"]", "dscp = [\"AF21\"]\nweight = 3000")
        .replace("dscp = [\"AF11\"]", "dscp = [\"AF11\"]\nweight = 2000")
        .replace("default = true", "default = true\nweight = 1000");
    let flood = [(0, 1000, 9_000), (1, 1400, 9_000), (2, 300, 9_000), (3, 1000, 9_000)];
    let mut world = World::new(&text, &flood);
    world.run_ms(4_000);
    for (got, wanted) in world.rates(500).into_iter().zip([4_000, 3_000, 2_000, 1_000]) {
        near(got, wanted, "share");
    }
}

#[test]
fn the_first_level_goes_first_below_its_ceiling_and_a_level_is_shared_by_weight() {
    let text = flat("priority")
        .replace("dscp = [\"EF\"]", "dscp = [\"EF\"]\nceiling = \"2 Mbit/s\"\ntier = 0")
        .replace("dscp = [\"AF21\"]", "dscp = [\"AF21\"]\ntier = 3")
        .replace("dscp = [\"AF11\"]", "dscp = [\"AF11\"]\ntier = 3\nweight = 3");
    let flood = [(0, 1000, 9_000), (1, 1000, 20_000), (2, 1400, 20_000), (3, 1000, 9_000)];
    let mut world = World::new(&text, &flood);
    world.run_ms(4_000);
    let [a, b, c, d] = world.rates(1_000);
    near(a, 2_000, "the ceiling");
    near(b, 2_000, "a fourth of the rest");
    near(c, 6_000, "three fourths");
    assert_eq!(d, 0, "the last level starves");
    world.next.retain(|(_, class), _| *class == 3);
    world.run_ms(2_000);
    near(world.rates(5_000)[3], 9_000 * 1014 / 1000, "the last level alone");
}

/// Classes of [`CODES`] with guarantees of 2, 4, 3 and 1 Mbit/s; the first one borrows nothing.
fn shares() -> String {
    let text = flat("cbq").replace("default = true", "default = true\nguarantee = \"1 Mbit/s\"");
    [("EF", 2), ("AF21", 4), ("AF11", 3)].iter().fold(text, |text, (code, mbit)| {
        let ceiling = if *code == "EF" { "ceiling = \"2 Mbit/s\"\n" } else { "" };
        let dscp = format!("dscp = [\"{code}\"]");
        text.replace(&dscp, &format!("{dscp}\n{ceiling}guarantee = \"{mbit} Mbit/s\""))
    })
}

#[test]
fn cbq_keeps_shares_and_lends_what_is_not_used() {
    let flood = [(0, 1000, 9_000), (1, 1000, 9_000), (2, 1000, 9_000), (3, 1000, 9_000)];
    let mut world = World::new(&shares(), &flood);
    world.run_ms(4_000);
    for (got, wanted) in world.rates(500).into_iter().zip([2_000, 4_000, 3_000, 1_000]) {
        // The average of idle times is not exact: as far as the discipline's own tests go.
        assert!(got.abs_diff(wanted) * 100 <= wanted * 6, "{got} instead of {wanted} kbit/s");
    }
    world.next.retain(|(_, class), _| [0, 1].contains(class));
    world.run_ms(3_000);
    let [a, b, ..] = world.rates(5_000);
    assert!(a <= 2_100 && a > 1_700, "without borrowing: {a}");
    assert!(a + b > 9_900 || b > 9_000, "what is left over is lent: {a} and {b}");
}

/// Mean waits in ms of what left after `from_ms`, by class.
fn waits(world: &World, from_ms: u64) -> [f64; 4] {
    let from = world.start + from_ms * 1_000_000;
    CODES.map(|code| {
        let mine = world.left.iter().filter(|l| l.0 >= from && l.1 == code.get());
        let all: Vec<u64> = mine.map(|l| l.0 - world.came[l.3 as usize]).collect();
        all.iter().sum::<u64>() as f64 / all.len() as f64 / 1e6
    })
}

fn longest_call(world: &World) -> u64 {
    let calls = world.left.iter().filter(|l| l.1 == Dscp::EF.get());
    calls.map(|l| l.0 - world.came[l.3 as usize]).max().expect("there are calls")
}

#[test]
fn hpd_keeps_delays_in_proportion_and_below_bounds() {
    let text = flat("hpd")
        .replace("dscp = [\"EF\"]", "dscp = [\"EF\"]\ndelay = { proportion = 1000, bound = \"10 ms\" }")
        .replace("dscp = [\"AF11\"]", "dscp = [\"AF11\"]\ndelay.proportion = 2")
        .replace("default = true", "default = true\ndelay.proportion = 4");
    let flood = [(0, 200, 900), (1, 1000, 6_000), (2, 1000, 6_000), (3, 1000, 6_000)];
    let mut world = World::new(&text, &flood);
    world.run_ms(20_000);
    // From the beginning: who waited long then is made up for later.
    let [calls, b, c, d] = waits(&world, 0);
    assert!(longest_call(&world) <= 10_000_000, "{}", longest_call(&world));
    assert!(calls > 1.0, "they are not served before they must be: {calls}");
    assert!((c / b - 2.0).abs() < 0.2 && (d / c - 2.0).abs() < 0.2, "{b} {c} {d}");
}

#[test]
fn jobs_keeps_delays_and_losses_in_proportion_and_within_bounds() {
    let goals =
        |proportion: u32| format!("delay.proportion = {proportion}\nloss.proportion = {}", 4 / proportion);
    let text = flat("jobs")
        .replace("queue = \"50 packets\"\n", "")
        .replace("scheduler =", "queue = \"100 ms\"\nscheduler =")
        .replace("dscp = [\"EF\"]", "dscp = [\"EF\"]\ndelay.bound = \"10 ms\"\nloss.bound = \"0 %\"")
        .replace("dscp = [\"AF21\"]", &format!("dscp = [\"AF21\"]\n{}", goals(1)))
        .replace("dscp = [\"AF11\"]", &format!("dscp = [\"AF11\"]\n{}", goals(2)))
        .replace("default = true", &format!("default = true\n{}", goals(4)));
    let mut world = World::new(&text, &[(0, 200, 900), (1, 900, 4_000), (2, 1000, 4_000), (3, 1100, 4_000)]);
    world.run_ms(8_000);
    let [_, b, c, d] = waits(&world, 2_000);
    // Calls, which come five at a time, take the line for some milliseconds each time: the feedback is not at rest.
    assert!((c / b - 2.0).abs() < 0.6 && (d / c - 2.0).abs() < 0.6, "{b} {c} {d}");
    // Turns are by packets: two of the largest may go before.
    assert!(longest_call(&world) <= 10_000_000 + 2 * 1_211_200, "{}", longest_call(&world));
    let egress = world.router.worker().egress(WAN).expect("the port");
    let lost: BTreeMap<String, (u64, u64)> = egress
        .tree()
        .iter()
        .map(|c| {
            (
                c.name.to_owned(),
                (c.counters.dropped_queue_full + c.counters.dropped_early, c.counters.packets),
            )
        })
        .collect();
    assert_eq!(lost["a"].0, 0, "{lost:?}");
    let part = |class: &str| lost[class].0 as f64 / (lost[class].0 + lost[class].1) as f64;
    assert!(
        (part("b") / part("c") - 2.0).abs() < 0.3 && (part("c") / part("d") - 2.0).abs() < 0.3,
        "{lost:?}"
    );
}

/// Classes come, change and go, and the scheduler changes, twenty times a second: what is lost is lost to full queues and
/// removed classes, and every class that remains keeps its order.
#[test]
fn classes_and_schedulers_change_live_and_nothing_else_is_lost_or_reordered() {
    for seed in 0..8u64 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut below = |n: u64| random.next_u64() % n;
        let mut world = World::new(
            &flat("tree"),
            &[(0, 200, 1_500), (1, 1400, 4_000), (2, 700, 5_000), (3, 1000, 3_000)],
        );
        let names = ["hfsc", "htb", "wf2q", "tree", "priority", "cbq", "hpd", "jobs"];
        let mut scheduler = "tree";
        for _ in 0..60 {
            world.run_ms(below(100));
            let class = |n: usize, more: Value| {
                let mut spec = json!({"port": "wan", "dscp": [CODES[n].get()], "default": n == 3});
                if scheduler == "cbq" {
                    spec["guarantee"] = json!({"rate": 1_000_000});
                }
                for (key, value) in more.as_object().into_iter().flatten() {
                    spec[key] = value.clone();
                }
                spec
            };
            let guaranteed = ["tree", "hfsc", "htb", "cbq", "jobs"].contains(&scheduler);
            let limited = ["tree", "hfsc", "htb", "priority"].contains(&scheduler);
            let waits = ["hpd", "jobs"].contains(&scheduler);
            match below(6) {
                0 => {
                    // What the next one does not take goes before it comes.
                    if waits {
                        world.put(Kind::Class, "c", class(2, json!({})));
                    }
                    let port = |scheduler: &str| json!({"rate": 10_000_000, "scheduler": scheduler});
                    world.put(Kind::Port, "wan", port("tree"));
                    scheduler = names[below(8) as usize];
                    for (n, name) in ["a", "b", "c", "d"].iter().enumerate() {
                        let mut spec = json!({"port": "wan", "dscp": [CODES[n].get()], "default": n == 3});
                        if scheduler == "cbq" {
                            spec["guarantee"] = json!({"rate": 1_000_000});
                        }
                        world.put(Kind::Class, name, spec);
                    }
                    if scheduler == "cbq" {
                        (0..3).for_each(|n| world.put(Kind::Class, &format!("more{n}"), Value::Null));
                    }
                    world.put(Kind::Port, "wan", port(scheduler));
                }
                1 if guaranteed => {
                    let guarantee = json!({"rate": 100_000 + below(4_000_000)});
                    world.put(Kind::Class, "a", class(0, json!({"guarantee": guarantee})));
                }
                2 if limited => {
                    let ceiling = json!({"rate": 1_000_000 + below(8_000_000)});
                    let more = json!({"ceiling": ceiling, "weight": 1 + below(9), "tier": below(16)});
                    world.put(Kind::Class, "b", class(1, more));
                }
                3 if waits => {
                    let bound =
                        [Value::Null, json!(1_000_000 + below(50_000_000))][below(2) as usize].clone();
                    let delay = json!({"proportion": 1 + below(9), "bound": bound});
                    world.put(Kind::Class, "c", class(2, json!({"delay": delay})));
                }
                4 => {
                    let name = format!("more{}", below(3));
                    let mut more = json!({"port": "wan", "weight": 1 + below(9)});
                    if scheduler == "cbq" {
                        more["guarantee"] = json!({"rate": 100_000 + below(500_000)});
                    }
                    world.put(Kind::Class, &name, more);
                }
                _ => world.put(Kind::Class, &format!("more{}", below(3)), Value::Null),
            }
        }
        world.next.clear();
        world.run_ms(3_000);
        let egress = world.router.worker().egress(WAN).expect("the port");
        let held: u64 = egress.tree().iter().map(|c| c.backlog_packets).sum();
        assert_eq!(held, 0, "seed {seed}: everything leaves");
        let driver = world.router.worker().driver();
        let ids: Vec<_> = driver.ids().collect();
        let dropped: u64 =
            ids.iter().filter_map(|id| driver.counters(*id)).map(|c| c.drops.iter().sum::<u64>()).sum();
        assert_eq!(world.left.len() as u64 + dropped, world.came.len() as u64, "seed {seed}");
        assert!(world.left.len() > 2_000, "seed {seed}: {}", world.left.len());
        for code in CODES {
            let numbers: Vec<u32> = world.left.iter().filter(|l| l.1 == code.get()).map(|l| l.3).collect();
            assert!(numbers.is_sorted(), "seed {seed}: {code:?}");
        }
    }
}

#[test]
fn what_a_scheduler_cannot_do_is_refused_with_its_reason() {
    let refused = |text: &str, kind: Kind, name: &str, spec: Value| {
        let mut router = router_of(text);
        let reply = commit(&mut router, Owner::File, 9, vec![put(kind, name, spec)]);
        assert_eq!(reply.outcome, Outcome::Rejected);
        reply.errors.iter().map(|e| (e.code, e.path.clone())).collect::<Vec<_>>()
    };
    let class = |more: Value| {
        let mut spec = json!({"port": "wan"});
        spec.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        spec
    };
    let first =
        json!({"guarantee": {"rate": 1_000_000}, "guarantee_first": {"rate": 9_500_000, "time": 10_000_000}});
    let unsupported = |field: &str| vec![(Code::Unsupported, format!("class/x.{field}"))];
    assert_eq!(
        refused(&flat("wf2q"), Kind::Class, "x", class(json!({"guarantee": {"rate": 1}}))),
        unsupported("guarantee")
    );
    assert_eq!(
        refused(&flat("wf2q"), Kind::Class, "x", class(json!({"ceiling": {"rate": 9_000}}))),
        unsupported("ceiling")
    );
    assert_eq!(refused(&flat("htb"), Kind::Class, "x", class(first.clone())), unsupported("guarantee_first"));
    assert_eq!(
        refused(&flat("tree"), Kind::Class, "x", class(first.clone())),
        unsupported("guarantee_first")
    );
    let guarantee = json!({"guarantee": {"rate": 1_000_000}});
    assert_eq!(
        refused(&flat("priority"), Kind::Class, "x", class(guarantee.clone())),
        unsupported("guarantee")
    );
    assert_eq!(refused(&flat("hpd"), Kind::Class, "x", class(guarantee)), unsupported("guarantee"));
    let below = class(json!({"parent": "a"}));
    assert_eq!(refused(&flat("jobs"), Kind::Class, "x", below), unsupported("parent"));
    let other = json!({"guarantee": {"rate": 1_000_000}, "ceiling": {"rate": 2_000_000}, "default": true});
    let ceiling = vec![(Code::Unsupported, "class/d.ceiling".to_owned())];
    assert_eq!(refused(&shares(), Kind::Class, "d", class(other)), ceiling);
    let none = vec![(Code::OutOfRange, "class/x.guarantee".to_owned())];
    assert_eq!(refused(&shares(), Kind::Class, "x", class(json!({}))), none);
    let delay = class(json!({"delay": {"proportion": 2}}));
    assert_eq!(refused(&flat("tree"), Kind::Class, "x", delay), unsupported("delay"));
    let loss = class(json!({"loss": {"proportion": 2}}));
    assert_eq!(refused(&flat("hpd"), Kind::Class, "x", loss), unsupported("loss"));
    let ranges = class(json!({"delay": {"proportion": 0, "bound": 1}, "loss": {"bound_ppm": 1_000_001}}));
    let fields = ["delay.proportion", "delay.bound", "loss.bound_ppm"];
    let out_of_range: Vec<_> =
        fields.iter().map(|field| (Code::OutOfRange, format!("class/x.{field}"))).collect();
    assert_eq!(refused(&flat("jobs"), Kind::Class, "x", ranges), out_of_range);
    // Curves: 5 Mbit/s for 5 ms beside 9.5 Mbit/s for 10 ms are more than the line has.
    let too_much = refused(&exact(HFSC_FILE), Kind::Class, "x", class(first));
    assert_eq!(too_much, [(Code::NoCapacity, "class/x.guarantee_first".to_owned())]);
    // A line without a rate.
    let no_rate = refused(&flat("htb"), Kind::Port, "wan", json!({"scheduler": "htb"}));
    assert_eq!(no_rate, [(Code::OutOfRange, "port/wan.scheduler".to_owned())]);
    let mut router = router_of(&flat("htb"));
    let many = (0..60).map(|n| put(Kind::Class, &format!("n{n}"), json!({"port": "wan"}))).collect();
    let reply = commit(&mut router, Owner::File, 9, many);
    assert_eq!((reply.errors[0].code, reply.errors[0].limit), (Code::LimitReached, Some(63)));
    let few = (0..59).map(|n| put(Kind::Class, &format!("n{n}"), json!({"port": "wan"}))).collect();
    assert_eq!(commit(&mut router, Owner::File, 10, few).outcome, Outcome::Committed);
    router.run_for(Duration::from_secs(1));
    let weight = put(Kind::Class, "n7", json!({"port": "wan", "weight": 5}));
    assert_eq!(commit(&mut router, Owner::File, 11, vec![weight]).outcome, Outcome::Committed);
}
