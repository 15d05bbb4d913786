use super::*;
use crate::router::{EdgePort, VirtualRouter};
use perhop_elements::route::PortInfo;
use perhop_model::{Credentials, Given, Name, Op, Outcome, Owner, Transaction, TxnId};
use perhop_routerfile::RouterFile;
use perhop_units::Duration;
use perhop_wire::MacAddr;
use serde_json::json;

const FILE: &str = r#"
[[port]]
name = "lan"
trust_dscp = true
[[port]]
name = "wan"
rate = "10 Mbit/s"
[[class]]
name = "ef"
port = "wan"
guarantee = "2 Mbit/s"
ceiling = "2 Mbit/s"
tier = 0
queue = "20 ms"
dscp = ["CS5"]
[[class]]
name = "business"
port = "wan"
guarantee = "4 Mbit/s"
queue = "100 ms"
[[class]]
name = "best-effort"
port = "wan"
guarantee = "3 Mbit/s"
default = true
queue = "100 ms"
[[profile]]
name = "gold"
meter = { type = "token_bucket", cir = "1 Mbit/s", cbs = "10 kB" }
green = { do = "class", class = "business", dscp = "AF11" }
[[sla]]
name = "bakery"
prefixes = ["10.0.7.0/24"]
rate = "1 Mbit/s"
dscp = "AF21"
policy = "demote"
[[filter]]
name = "tills"
match = { in_port = "lan", src = "10.0.7.0/28", protocol = "tcp" }
profile = "gold"
[[route]]
name = "out"
dest = "10.1.0.0/16"
via = "10.9.0.1"
port = "wan"
[[route]]
name = "out6"
dest = "2001:db8:1::/48"
port = "wan"
[[route]]
name = "nowhere"
dest = "10.66.0.0/16"
kind = "blackhole"
[detector]
class = "ef"
dscp = "EF"
calls = 20
"#;

fn router() -> VirtualRouter {
    router_of(FILE)
}

fn router_of(text: &str) -> VirtualRouter {
    let (file, diagnostics) = RouterFile::read("test.toml", text);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let ports = EdgePort::of_objects(&file.objects);
    let mut router = VirtualRouter::new(ports, 1024, 1).expect("the default graph");
    let transaction = Transaction::new(
        TxnId([1; 16]),
        Owner::File,
        vec![Op::replace_owned(&RouterFile::KINDS, file.objects)],
    );
    let reply = router.submit(Credentials::ADMIN, transaction).expect("an answer");
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    let info = |last| PortInfo {
        mac: MacAddr([2, 0, 0, 0, 0, last]),
        mtu: 1500,
        addresses: Vec::new(),
        ..PortInfo::default()
    };
    // The described frame's own destination stands for port lan.
    let change = router.control().planner_mut().port_change(vec![info(2), info(3)]);
    router.apply_world(change);
    router
}

fn explain(router: &VirtualRouter, packet: &str) -> Explanation {
    let described = Described::parse(packet).unwrap_or_else(|e| panic!("{packet}: {e:?}"));
    let (control, worker) = router.halves();
    worker.explain(control, &described).expect("the port exists")
}

fn says<'e>(e: &'e Explanation, step: &str) -> &'e str {
    &e.step(step).unwrap_or_else(|| panic!("no step {step} in {e}")).says
}

#[test]
fn every_decision_in_the_order_of_the_data_plane() {
    let e = explain(&router(), "in=lan tcp 10.0.7.3:4000>10.1.0.2:443 len=1500");
    let order: Vec<&str> = e.steps.iter().map(|s| s.step.as_str()).collect();
    assert_eq!(
        order,
        [
            "port",
            "parse",
            "connection",
            "filters",
            "detection",
            "class",
            "profile",
            "contract",
            "marking",
            "route",
            "queue",
            "transmitter"
        ]
    );
    assert_eq!(says(&e, "filters"), "tills matches (tier 0, priority 10)");
    assert_eq!(says(&e, "profile"), "gold: token bucket of 1 Mbit/s, burst 10 kB: green within, red beyond");
    assert_eq!(says(&e, "contract"), "bakery (by source prefix): 1 Mbit/s");
    assert_eq!(says(&e, "marking"), "code point BE becomes AF21 within all rates");
    assert_eq!(says(&e, "route"), "10.1.0.0/16 of a route object: to 10.9.0.1 by wan");
    assert_eq!(says(&e, "queue"), "queue business", "green packets go where the profile says");
    assert_eq!(e.outcome, "sent by wan from queue business");
}

#[test]
fn a_recognised_flow_is_explained_as_such_and_nothing_changes() {
    let mut router = router();
    let words = |seq: u32| {
        format!(
            "in=lan udp [2001:db8::1]:5004>[2001:db8:1::2]:5004 rtp pt=0 ssrc=7 seq={seq} ts={}",
            seq * 160
        )
    };
    let before = explain(&router, &words(1));
    assert_eq!(says(&before, "detection"), "may be RTP: not decided by one packet");
    assert_eq!(before.outcome, "sent by wan from queue best-effort");
    for seq in 1..=12 {
        let d = Described::parse(&words(seq)).expect("a packet");
        router.receive(PortId(0), &d.frame);
        router.run_for(Duration::from_millis(20));
    }
    assert_eq!(router.flow_events.len(), 1);
    let after = explain(&router, &words(13));
    assert_eq!(says(&after, "detection"), "recognised");
    assert_eq!(says(&after, "class"), "ef (by real-time detection)");
    assert_eq!(says(&after, "policer"), "recognised flows share 2 Mbit/s in class ef");
    assert_eq!(says(&after, "marking"), "code point BE becomes EF within all rates");
    assert_eq!(after.outcome, "sent by wan from queue ef");
    assert_eq!(after.step("connection").map(|s| s.facts["packets"].clone()), Some(12.into()));
    assert_eq!(explain(&router, &words(13)), after, "a dry run changes nothing");
}

#[test]
fn shares_limits_and_admission_are_explained() {
    let mut router = router();
    let mut id = 2;
    let mut patch = |router: &mut VirtualRouter, kind, name: &str, fields| {
        let name = Name::new(name).expect("a name");
        let ops = vec![Op::Patch { kind, name, fields, if_version: None }];
        let transaction = Transaction::new(TxnId([id; 16]), Owner::File, ops);
        id += 1;
        let reply = router.submit(Credentials::ADMIN, transaction).expect("an answer");
        assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    };
    patch(&mut router, Kind::Sla, "bakery", json!({"shared_pct": 40}));
    let admission = json!({"admission": {"method": "measured", "cap": 80_000, "locked": true}});
    patch(&mut router, Kind::Detector, "realtime", admission);
    let words = |seq: u32| {
        let rtp = format!("rtp pt=0 ssrc=7 seq={seq} ts={}", seq * 160);
        format!("in=lan udp 10.0.7.40:5004>10.1.0.2:5004 {rtp}")
    };
    for seq in 1..=12 {
        let d = Described::parse(&words(seq)).expect("a packet");
        router.receive(PortId(0), &d.frame);
        router.run_for(Duration::from_millis(20));
    }
    let details = |e: &Explanation, step: &str| e.step(step).map(|s| s.details.clone()).unwrap_or_default();
    let refused = explain(&router, &words(13));
    assert_eq!(says(&refused, "detection"), "recognised, refused by admission");
    let accepts = "admission accepts flows below 90 % of 80 kbit/s (locked: none now), drops one above 95 %; packets \
                   of others are sent their ordinary way";
    assert_eq!(details(&refused, "detection"), [accepts]);
    assert_eq!(refused.outcome, "sent by wan from queue best-effort");
    patch(&mut router, Kind::Detector, "realtime", json!({"admission": null}));
    let all = explain(&router, &words(13));
    assert_eq!(says(&all, "detection"), "recognised");
    let shares = "40 % first come, first served; the rest shared equally by its live flows";
    assert!(details(&all, "contract").iter().any(|d| d == shares), "{all}");
    let each = "each has 4 Mbit/s: what is beyond goes to the default class, code point cleared";
    assert!(details(&all, "policer").iter().any(|d| d == each), "{all}");
}

#[test]
fn a_tcp_flow_is_told_the_policy_that_covers_its_data() {
    let mut router = router();
    let ask = |router: &VirtualRouter, packet: &str| {
        let e = explain(router, packet);
        e.step("abr").map(|s| (s.says.clone(), s.object.as_ref().map(|k| k.name.to_string())))
    };
    // Marked and moved by its profile before policies are compared.
    let till = "in=lan tcp 10.0.7.1:1024>10.1.0.2:443";
    assert_eq!(ask(&router, till), None, "no policy, nothing to say");
    let put = |name: &str, spec: Value| {
        Op::put(Given::read(Kind::AbrPolicy, Name::new(name).expect("a name"), spec, None))
    };
    let ops = vec![
        put("marked", json!({ "priority": 1, "match": { "class": "business", "dscp": [0] }, "rate": 9_000 })),
        put(
            "tills",
            json!({ "priority": 2, "match": { "class": "business", "filter": "tills", "sla": "bakery",
            "dscp": [10, 18] }, "rate": 2_000_000, "peak": 500_000 }),
        ),
        put(
            "up",
            json!({ "priority": 3, "match": { "dst": "10.1.0.0/16", "src_ports": { "first": 80, "last": 80 } } }),
        ),
    ];
    let reply = router.submit(Credentials::ADMIN, Transaction::new(TxnId([2; 16]), Owner::File, ops));
    assert_eq!(reply.expect("an answer").outcome, Outcome::Committed);
    let (says, object) = ask(&router, till).expect("a policy");
    assert!(says.starts_with("tills: its live flows share 2 Mbit/s equally"), "{says}");
    assert_eq!(object.as_deref(), Some("tills"));
    let step = explain(&router, till).step("abr").cloned().expect("a step");
    assert_eq!(step.details[0], "none gets more than 500 kbit/s");
    let (says, object) = ask(&router, "in=lan tcp 10.0.9.1:80>10.1.0.2:443").expect("a policy");
    assert_eq!((says.as_str(), object.as_deref()), ("up: data this way is watched, not limited", Some("up")));
    let (says, object) = ask(&router, "in=lan tcp 10.0.9.1:81>10.1.0.2:443").expect("a word on it");
    assert!(says.starts_with("no policy covers data this way") && object.is_none(), "{says}");
    assert_eq!(ask(&router, "in=lan udp 10.0.9.1:80>10.1.0.2:443"), None);
}

#[test]
fn what_is_not_forwarded_says_why() {
    let router = router();
    let outcome = |packet: &str| explain(&router, packet).outcome;
    assert_eq!(outcome("in=lan udp 10.0.0.1:1>10.66.0.1:2"), "dropped (route_rejects)");
    assert_eq!(outcome("in=lan udp 10.0.0.1:1>10.1.0.1:2 ttl=1"), "dropped (ttl_expired)");
    assert_eq!(outcome("in=lan udp 127.0.0.1:1>10.1.0.1:2"), "dropped (bad_source)");
    assert_eq!(outcome("in=lan udp 10.0.0.1:1>10.1.0.1:2 vlan=7"), "dropped (vlan_tag)");
    assert_eq!(outcome("in=lan udp 10.0.0.1:1>10.66.0.1:2 vlan=0"), "dropped (route_rejects)");
    assert_eq!(outcome("in=lan udp 10.0.0.1:1>224.0.0.5:2"), "handed to this machine");
    assert_eq!(outcome("in=lan udp [fe80::1]:1>[2001:db8:1::1]:2"), "dropped (bad_source)");
    assert_eq!(outcome("in=lan udp 10.0.0.1:1>192.0.2.1:2"), "dropped (no_route)");
    let d = Described::parse("in=lan udp 10.0.0.1:1>192.0.2.1:2").expect("a packet");
    let (control, worker) = router.halves();
    let probe = Probe::new(d, control).expect("the port exists").of_file_only();
    let e = Explanation::new(&probe, &worker.decide(&probe), control);
    assert_eq!(e.outcome, "depends on the kernel's routes; by wan from queue best-effort");
}

/// The explanation of the way is held against the element itself: what is said to be dropped is dropped for the same
/// reason, what is said to be sent leaves by that port.
#[test]
fn the_way_is_the_one_that_the_router_takes() {
    let packets = [
        "in=lan udp 10.0.0.1:1>10.1.0.1:2",
        "in=lan udp 10.0.0.1:1>10.66.0.1:2",
        "in=lan udp 10.0.0.1:1>10.1.0.1:2 ttl=1",
        "in=lan udp 127.0.0.1:1>10.1.0.1:2",
        "in=lan udp 10.0.0.1:1>127.0.0.1:2",
        "in=lan udp 169.254.0.1:1>10.1.0.1:2",
        "in=lan udp 10.0.0.1:1>169.254.0.1:2",
        "in=lan udp 0.0.0.0:1>255.255.255.255:2",
        "in=lan udp 10.0.0.1:1>239.0.0.1:2",
        "in=lan udp 10.0.0.1:1>10.1.0.1:2 vlan=7",
        "in=lan udp 10.0.0.1:1>192.0.2.1:2",
        "in=lan udp [fe80::1]:1>[2001:db8:1::1]:2",
        "in=lan udp [2001:db8::1]:1>[fe80::1]:2",
        "in=lan udp [::1]:1>[2001:db8:1::1]:2",
        "in=lan udp [2001:db8::1]:1>[::1]:2",
        "in=lan udp [ff02::1]:1>[2001:db8:1::1]:2",
        "in=lan udp [::]:1>[ff02::1]:2",
        "in=lan udp 10.0.0.1:1>10.1.0.1:2 len=1501 df",
    ];
    for packet in packets {
        let mut router = router();
        let said = explain(&router, packet).outcome;
        let d = Described::parse(packet).expect("a packet");
        assert!(router.receive(PortId(0), &d.frame), "{packet}");
        let driver = router.worker().driver();
        let route = driver.find("forward").expect("the default graph has it");
        let counters = driver.counters(route).expect("it exists");
        let dropped: Vec<String> = (0..counters.drops.len())
            .filter(|i| counters.drops[*i] > 0)
            .filter_map(perhop_packet::DropReason::name_of_index)
            .collect();
        let waiting = driver.element(route).map_or(0, |e| e.held());
        let took = match (dropped.as_slice(), waiting) {
            ([reason], _) => format!("dropped ({reason})"),
            // It waits for the neighbour's link address: it has a way.
            ([], 1) => "sent by wan from queue best-effort".to_owned(),
            _ => "handed to this machine".to_owned(),
        };
        assert_eq!(said, took, "{packet}");
    }
}

#[test]
fn objects_get_their_places_and_the_text_survives_json() {
    let mut e = explain(&router(), "in=lan tcp 10.0.7.3:4000>10.1.0.2:443");
    e.place(|key| Some(format!("test.toml: {key}")));
    let filters = e.step("filters").expect("there");
    assert_eq!(filters.position.as_deref(), Some("test.toml: filter \"tills\""));
    let json = serde_json::to_string(&e).expect("plain data");
    let back: Explanation = serde_json::from_str(&json).expect("the same shape");
    assert_eq!(back, e);
    assert!(e.to_string().starts_with("tcp 10.0.7.3:4000>10.1.0.2:443, BE, 200 B\n  port         lan"));
}

#[test]
fn a_class_is_told_in_the_words_of_its_scheduler() {
    let told = |scheduler: &str, class: &str| {
        let text = format!(
            "[[port]]\nname = \"lan\"\n[[port]]\nname = \"wan\"\nrate = \"10 Mbit/s\"\nscheduler = \"{scheduler}\"\n\
             [[class]]\nname = \"rest\"\nport = \"wan\"\ndefault = true\n{class}\n\
             [[route]]\ndest = \"0.0.0.0/0\"\nport = \"wan\"\n"
        );
        let e = explain(&router_of(&text), "in=lan udp 10.0.0.1:5>10.1.0.2:6");
        assert_eq!(says(&e, "detection"), "off: there is no detector");
        let queue = e.step("queue").expect("a step");
        let name = queue.facts.get("scheduler").and_then(|name| name.as_str()).unwrap_or("tree");
        assert_eq!(name, scheduler);
        queue.details.clone()
    };
    let rates = "guarantee = \"2 Mbit/s\"\nceiling = \"4 Mbit/s\"\nweight = 3";
    for (scheduler, class, expected) in [
        (
            "tree",
            rates,
            "guarantee 2 Mbit/s (burst 3076 B), ceiling 4 Mbit/s (burst 5 kB), tier 15, weight 3",
        ),
        (
            "hfsc",
            "guarantee = \"2 Mbit/s\"\nguarantee_first = { rate = \"4 Mbit/s\", time = \"10 ms\" }",
            "guarantee 2 Mbit/s, first 4 Mbit/s for 10 ms, ceiling the link, weight 1",
        ),
        (
            "htb",
            rates,
            "guarantee 2 Mbit/s (burst 3076 B), ceiling 4 Mbit/s (burst 5 kB), borrows at level 7, weight 3",
        ),
        ("wf2q", "weight = 3", "weight 3"),
        ("priority", "tier = 4", "tier 4, ceiling the link, weight 1"),
        ("cbq", "guarantee = \"2 Mbit/s\"", "guarantee 2 Mbit/s (burst 3076 B), borrows, served at level 7"),
        (
            "cbq",
            "guarantee = \"2 Mbit/s\"\nceiling = \"2 Mbit/s\"\ntier = 1",
            "guarantee 2 Mbit/s (burst 3076 B), does not borrow, served at level 1",
        ),
        ("hpd", "", "waits in proportion 1"),
        (
            "hpd",
            "delay = { proportion = 4, bound = \"20 ms\" }",
            "waits in proportion 4, waits at most 20 ms",
        ),
        ("jobs", "", "waits in proportion 1, loses in proportion 1"),
        (
            "jobs",
            "guarantee = \"1 Mbit/s\"\ndelay = { bound = \"20 ms\" }\nloss = { proportion = 2, bound = \"1 %\" }",
            "waits at most 20 ms, loses in proportion 2, loses at most 1 %, guarantee 1 Mbit/s",
        ),
    ] {
        assert_eq!(told(scheduler, class)[0], expected, "{scheduler}");
    }
    let red = "queue = { limit = \"60 ms\", red = { min = \"10 %\", max = \"50 %\" } }";
    assert_eq!(told("tree", red)[1], "limit 60 ms, RED (10 % to 50 % of the limit)");
    // Details are: what it has, which scheduler, which limit.
    assert_eq!(told("jobs", "")[2], "shares a limit of 100 ms, drop-tail");
    let own = "queue = { limit = \"20 packets\" }";
    assert_eq!(told("jobs", own)[2], "limit 20 packets of its own in a shared one of 100 ms, drop-tail");
}
