//! Tokens and counters stay with the object they belong to.

use super::Bench;
use crate::support::{delete, n, put};
use perhop_elements::police::ConditionCounters;
use perhop_model::{Kind, Op};
use perhop_units::Duration;
use serde_json::{Value, json};

const MANY: u8 = 200;

fn contract(prefix: u8, i: u8) -> Value {
    json!({"prefixes": [format!("10.{prefix}.{i}.0/24")], "rate": 8_000, "burst": 1500, "policy": "drop"})
}

fn profile() -> Value {
    json!({"meter": {"type": "token_bucket", "cir": 8_000, "cbs": 1500}, "red": {"do": "drop"}})
}

fn filter(prefix: u8, i: u8, profile: &str) -> Op {
    let matches = json!({"src": format!("10.{prefix}.{i}.0/24")});
    put(
        Kind::Filter,
        &format!("f{prefix}-{i:03}"),
        json!({"priority": u32::from(i), "class": "voice", "profile": profile, "match": matches}),
    )
}

/// Counters of a contract, then of a profile, by name.
fn counters(bench: &mut Bench, sla: &str, profile: &str) -> (ConditionCounters, ConditionCounters) {
    let (control, worker) = bench.router.halves();
    let (mut slas, mut profiles) = control.planner().conditioned();
    let sla = slas.find(|(name, _)| **name == n(sla)).expect("a contract").1;
    let profile = profiles.find(|(name, _)| **name == n(profile)).expect("a profile").1;
    let conditioner = worker.conditioner().expect("a conditioner");
    let found = (conditioner.sla_counters(sla), conditioner.profile_counters(profile));
    (found.0.expect("it has an entry"), found.1.expect("it has an entry"))
}

#[test]
fn what_takes_the_place_of_many_others_starts_fresh_and_what_is_replaced_goes_on() {
    let mut bench = Bench::new();
    let mut ops = vec![
        put(Kind::Class, "wan/voice", json!({"port": "wan"})),
        put(Kind::Class, "wan/rest", json!({"port": "wan", "default": true})),
        put(Kind::Sla, "stays", contract(9, 0)),
        put(
            Kind::Profile,
            "stays",
            json!({"meter": {"type": "token_bucket", "cir": 8_000, "cbs": 1500}, "red": {"do": "pass"}}),
        ),
        filter(9, 0, "stays"),
    ];
    for i in 0..MANY {
        let name = format!("a{i:03}");
        ops.push(put(Kind::Sla, &name, contract(0, i)));
        ops.push(put(Kind::Profile, &name, profile()));
        ops.push(filter(0, i, &name));
    }
    bench.commit(ops);
    // Every one is nearly out of tokens and has counted a packet.
    for i in 0..MANY {
        bench.send([10, 0, i, 1], [192, 0, 2, 1]);
    }
    bench.send([10, 9, 0, 1], [192, 0, 2, 1]);
    let (sla, profile_) = counters(&mut bench, "a000", "a000");
    assert_eq!((sla.colors.packets, profile_.colors.packets), ([1, 0, 0], [1, 0, 0]));

    let mut ops = vec![put(
        Kind::Sla,
        "stays",
        json!({"prefixes": ["10.9.0.0/24"], "rate": 9_000, "burst": 1500, "policy": "drop"}),
    )];
    for i in 0..MANY {
        let (old, new) = (format!("a{i:03}"), format!("b{i:03}"));
        ops.extend([Kind::Sla, Kind::Profile].map(|kind| delete(kind, &old)));
        ops.push(delete(Kind::Filter, &format!("f0-{i:03}")));
        ops.push(put(Kind::Sla, &new, contract(1, i)));
        ops.push(put(Kind::Profile, &new, profile()));
        ops.push(filter(1, i, &new));
    }
    bench.commit(ops);
    for i in 0..MANY {
        bench.send([10, 1, i, 1], [192, 0, 2, 1]);
    }
    for i in 0..MANY {
        let new = format!("b{i:03}");
        let (sla, profile) = counters(&mut bench, &new, &new);
        assert_eq!(sla.colors.packets, [1, 0, 0], "contract {new}: a full bucket and no history");
        assert_eq!(profile.colors.packets, [1, 0, 0], "profile {new}: a full bucket and no history");
    }
    // 500 B were left of each bucket, too few for another packet: neither was filled.
    bench.router.run_for(Duration::from_millis(100));
    bench.send([10, 9, 0, 1], [192, 0, 2, 1]);
    let (sla, profile) = counters(&mut bench, "stays", "stays");
    assert_eq!(profile.colors.packets, [1, 0, 1], "untouched, tokens and all");
    assert_eq!(sla.colors.packets, [1, 0, 1], "replaced, tokens and all");
}
