//! Policies of the TCP rate control: ranges, what they refer to, how many there are, how they are patched.

use super::desk::{Desk, api, delete, filter, patch, put, soft};
use perhop_contract::Limits;
use perhop_model::{Kind, Op, Outcome, Owner};
use perhop_reason::Code;
use perhop_units::Duration;
use serde_json::{Value, json};

fn policy(name: &str, spec: Value) -> Op {
    put(Kind::AbrPolicy, name, spec)
}

fn naming_filter(name: &str) -> Vec<Op> {
    vec![policy("p", json!({ "match": { "filter": name } }))]
}

#[test]
fn every_range_is_checked_and_all_errors_are_told() {
    let mut desk = Desk::furnished();
    let spec = json!({
        "match": {
            "dscp": [46, 10, 46], "src": "10.0.0.1/8", "dst": "2001:db8::/32",
            "src_ports": { "first": 9, "last": 1 }, "dst_ports": { "first": 9, "last": 8 },
        },
        "rate": 999, "weight": 0, "min": 4_000, "peak": 3_000, "latency": { "type": "average", "up_ppm": 0, "down_ppm": 1_000_001 },
        "assume_shift": 15, "overhead": 257, "idle": 99_999_999,
    });
    let errors = desk.refused(Owner::File, vec![policy("p", spec)]);
    let mut told: Vec<(Code, &str)> =
        errors.iter().map(|(_, code, path)| (*code, path.trim_start_matches("abr_policy/p."))).collect();
    told.sort_unstable_by_key(|(_, path)| *path);
    let range = Code::OutOfRange;
    let expected = [
        (range, "assume_shift"),
        (range, "idle"),
        (range, "latency.down_ppm"),
        (range, "latency.up_ppm"),
        (range, "match"),
        (Code::Exists, "match.dscp[2]"),
        (range, "match.dst_ports"),
        (range, "match.src"),
        (range, "match.src_ports"),
        (range, "min"),
        (range, "overhead"),
        (range, "rate"),
        (range, "weight"),
    ];
    assert_eq!(told, expected);
    for (latency, path) in [
        (json!({ "type": "timed", "up": 999_999_999 }), "latency.up"),
        (json!({ "type": "minimum", "window": 3_600_000_000_001_u64 }), "latency.window"),
    ] {
        let errors = desk.refused(Owner::File, vec![policy("p", json!({ "latency": latency }))]);
        assert_eq!(errors, [(Some(0), range, format!("abr_policy/p.{path}"))]);
    }
}

#[test]
fn the_ends_of_every_range_are_taken() {
    let mut desk = Desk::furnished();
    let least = json!({ "rate": 1_000, "weight": 1, "min": 1_000, "peak": 1_000, "assume_shift": 0, "overhead": 0,
        "idle": 100_000_000, "latency": { "type": "average", "up_ppm": 1, "down_ppm": 1 } });
    let most = json!({ "rate": 1_000_000_000_000_u64, "weight": 1_000_000, "peak": 1_000_000_000_000_u64,
        "assume_shift": 14, "overhead": 256, "idle": 3_600_000_000_000_u64,
        "latency": { "type": "timed", "up": 3_600_000_000_000_u64, "down_ppm": 1_000_000 } });
    // A flow without a peak may have any minimum.
    let free = json!({ "min": 5_000, "latency": { "type": "minimum", "window": 100_000_000 } });
    desk.commit(Owner::File, vec![policy("a", least), policy("b", most), policy("c", free)]);
}

#[test]
fn what_a_policy_names_must_be_there_and_stays_there() {
    let mut desk = Desk::furnished();
    let nothing = json!({ "match": { "class": "video", "sla": "shop", "filter": "web" } });
    let errors = desk.refused(Owner::File, vec![policy("p", nothing)]);
    let mut paths: Vec<&str> = errors.iter().map(|(_, _, path)| path.as_str()).collect();
    paths.sort_unstable();
    let expected = ["abr_policy/p.match.class", "abr_policy/p.match.filter", "abr_policy/p.match.sla"];
    assert_eq!(paths, expected);
    assert!(errors.iter().all(|(op, code, _)| (*op, *code) == (Some(0), Code::BadReference)));
    let everything = json!({ "match": { "class": "voice", "sla": "shop", "filter": "web" } });
    desk.commit(
        Owner::File,
        vec![
            policy("p", everything),
            put(Kind::Sla, "shop", json!({ "rate": 1_000_000 })),
            put(Kind::Filter, "web", filter("rest", 1)),
        ],
    );
    for (kind, name) in [(Kind::Filter, "web"), (Kind::Sla, "shop"), (Kind::Class, "wan/voice")] {
        let errors = desk.refused(Owner::File, vec![delete(kind, name)]);
        assert_eq!(errors, [(Some(0), Code::InUse, format!("{kind}/{name}"))]);
    }
    // A filter is replaced at will, and goes with the policy.
    desk.commit(Owner::File, vec![put(Kind::Filter, "web", filter("voice", 7))]);
    desk.commit(Owner::File, vec![delete(Kind::Filter, "web"), delete(Kind::AbrPolicy, "p")]);
}

#[test]
fn a_filter_of_another_owner_is_named_as_long_as_it_is_shared() {
    let mut desk = Desk::furnished();
    let web = |shared: bool| {
        let mut spec = filter("rest", 1);
        spec["shared"] = json!(shared);
        vec![put(Kind::Filter, "web", spec)]
    };
    desk.commit(api("a"), web(false));
    let errors = desk.refused(api("b"), naming_filter("web"));
    assert_eq!(errors, [(Some(0), Code::BadReference, "abr_policy/p.match.filter".to_owned())]);
    desk.commit(api("a"), web(true));
    desk.commit(api("b"), naming_filter("web"));
    assert_eq!(desk.refused(api("a"), web(false)), [(Some(0), Code::InUse, "filter/web".to_owned())]);
}

#[test]
fn a_soft_filter_that_a_policy_names_stays_until_the_policy_goes() {
    let mut desk = Desk::furnished();
    desk.commit(Owner::File, vec![soft(Kind::Filter, "web", filter("rest", 1), 1_000)]);
    desk.commit(Owner::File, naming_filter("web"));
    desk.pass(Duration::from_secs(2));
    assert!(desk.names(None).contains(&"filter:web".to_owned()));
    desk.commit(Owner::File, vec![delete(Kind::AbrPolicy, "p")]);
    desk.pass(Duration::from_secs(2));
    assert!(!desk.names(None).contains(&"filter:web".to_owned()));
}

#[test]
fn there_are_no_more_policies_than_the_limit() {
    let most = Limits::default().abr_policies;
    assert_eq!(most, 1_024);
    let mut desk = Desk::new();
    let policies = (0..=most).map(|i| policy(&format!("p{i}"), json!({ "rate": 1_000 })));
    let mut policies: Vec<Op> = policies.collect();
    let t = desk.txn(Owner::File, policies.clone());
    let reply = desk.run(t);
    assert_eq!(reply.outcome, Outcome::Rejected);
    let error = &reply.errors[0];
    assert_eq!((error.code, error.path.as_str()), (Code::LimitReached, "abr_policy"));
    assert_eq!((error.limit, error.free), (Some(1_024), Some(0)));
    policies.pop();
    desk.commit(Owner::File, policies);
    assert_eq!(desk.refused(api("a"), vec![policy("q", json!({}))])[0].1, Code::LimitReached);
}

#[test]
fn a_patch_of_the_latency_filter_to_another_kind_leaves_nothing_of_the_old_one() {
    let mut desk = Desk::furnished();
    desk.commit(Owner::File, vec![policy("p", json!({ "rate": 1_000_000 }))]);
    let latency = |desk: &mut Desk, fields: Value| {
        desk.commit(Owner::File, vec![patch(Kind::AbrPolicy, "p", json!({ "latency": fields }))]);
        desk.spec(Kind::AbrPolicy, "p")["latency"].clone()
    };
    let published = json!({ "type": "average", "up_ppm": 2_000, "down_ppm": 600_000 });
    assert_eq!(desk.spec(Kind::AbrPolicy, "p")["latency"], published);
    assert_eq!(
        latency(&mut desk, json!({ "up_ppm": 9 })),
        json!({ "type": "average", "up_ppm": 9, "down_ppm": 600_000 })
    );
    let minimum = json!({ "type": "minimum", "window": 10_000_000_000_u64 });
    assert_eq!(latency(&mut desk, json!({ "type": "minimum" })), minimum);
    assert_eq!(latency(&mut desk, Value::Null), published);
    assert_eq!(desk.spec(Kind::AbrPolicy, "p")["rate"], json!(1_000_000));
}
