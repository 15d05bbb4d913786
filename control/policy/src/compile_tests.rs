use super::*;
use crate::validate::{faults, from_toml};
use perhop_model::Kind;
use perhop_units::Share;

const POLICY: &str = r#"
[[router]]
name = "edge-1"
[[router.port]]
name = "wan"
rate = "10 Mbit/s"
[[router.port]]
name = "lan"
[[router]]
name = "core"
[[router.port]]
name = "wan"

[[class]]
name = "all"
ports = ["*/wan"]
guarantee = "40 %"
[[class]]
name = "voice"
ports = ["*/wan"]
parent = "all"
guarantee = "2 Mbit/s"
queue = "30 ms"
[[class]]
name = "rest"
ports = ["edge-1/wan"]
default = true

[[filter]]
name = "calls"
class = "voice"
match = { protocol = "udp", dst_ports = "16384-32767" }
[[filter]]
name = "lan"
routers = ["edge-1", "core"]
class = "voice"
match = { in_port = "lan", dscp = "EF" }

[[profile]]
name = "gold"
meter = { type = "trtcm", cir = "1 Mbit/s", cbs = "15 kB", pir = "2 Mbit/s", pbs = "15 kB" }
yellow = { do = "mark", dscp = "AF12" }
red = "demote"
[[profile.filter]]
name = "web"
match = { protocol = "tcp", dst_ports = 443 }
[[profile.filter]]
name = "six"
match = { dst = "2001:db8::/32" }
class = "voice"
[[profile]]
name = "plain"

[[sla]]
name = "gold"
rate = "5 Mbit/s"
profile = "gold"
[[sla]]
name = "bare"
rate = "1 Mbit/s"
profile = "plain"

[[subscriber]]
name = "ann"
sla = "gold"
prefixes = ["10.0.0.0/30", "2001:db8:1::/64"]
router = "edge-1"
port = "lan"
[[subscriber]]
name = "bob"
sla = "bare"
"#;

fn policy() -> Policy {
    let (policy, diagnostics) = from_toml("p.toml", POLICY);
    policy.unwrap_or_else(|| panic!("{diagnostics}"))
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn names(wanted: &Wanted, kind: Kind) -> Vec<&str> {
    wanted.keys().filter(|key| key.kind == kind).map(|key| key.name.as_str()).collect()
}

#[test]
fn a_router_gets_what_is_its_own() {
    let policy = policy();
    let edge = objects(&policy, &name("edge-1"), []);
    assert_eq!(names(&edge, Kind::Class), ["wan/all", "wan/rest", "wan/voice"]);
    assert_eq!(names(&edge, Kind::Sla), ["user/ann"]);
    assert_eq!(names(&edge, Kind::Profile), ["user/ann"]);
    // A filter for each address that its destination allows.
    let filters = ["policy/calls", "policy/lan", "user/ann/six", "user/ann/web", "user/ann/web/1"];
    assert_eq!(names(&edge, Kind::Filter), filters);
    let core = objects(&policy, &name("core"), []);
    assert_eq!(names(&core, Kind::Class), ["wan/all", "wan/voice"]);
    assert_eq!(names(&core, Kind::Filter), ["policy/calls"], "it has no port lan");
    assert_eq!(objects(&policy, &name("other"), []).len(), 0);
}

#[test]
fn objects_say_what_the_policy_says() {
    let wanted = objects(&policy(), &name("edge-1"), []);
    let spec = |kind, own: &str| wanted[&Key { kind, name: name(own) }].clone();
    let Spec::Class(voice) = spec(Kind::Class, "wan/voice") else { panic!("a class") };
    assert_eq!((voice.port.as_str(), voice.parent), ("wan", Some(name("wan/all"))));
    assert_eq!((voice.logical, voice.guarantee), (Some(name("voice")), Share::Rate(Rate::from_mbit(2))));
    let Spec::Profile(gold) = spec(Kind::Profile, "user/ann") else { panic!("a profile") };
    assert_eq!(gold.red, ColorAction::Class { class: name("rest"), dscp: Some(Dscp::default()) });
    let Spec::Filter(web) = spec(Kind::Filter, "user/ann/web/1") else { panic!("a filter") };
    assert_eq!(web.matches.in_port, Some(name("lan")));
    assert_eq!(web.matches.src, Some("2001:db8:1::/64".parse().expect("a prefix")));
    assert_eq!((web.profile, web.tier), (Some(name("user/ann")), PROFILE_TIER));
    let Spec::Filter(calls) = spec(Kind::Filter, "policy/calls") else { panic!("a filter") };
    assert!(web.tier < calls.tier, "what a profile says of a flow counts first");
}

#[test]
fn a_session_goes_before_where_a_subscriber_always_is_and_rates_before_the_contract() {
    let present = Present {
        port: name("wan"),
        prefixes: vec!["10.9.0.1/32".parse().expect("a prefix")],
        sla: name("bare"),
        rates: Rates { up: Some(Rate::from_mbit(1)), down: Some(Rate::from_mbit(3)) },
    };
    let wanted = objects(&policy(), &name("edge-1"), [(&name("ann"), &present)]);
    assert_eq!(names(&wanted, Kind::Profile), ["user/ann", "user/ann/up"]);
    let Spec::Sla(sla) = &wanted[&Key { kind: Kind::Sla, name: name("user/ann") }] else { panic!("an sla") };
    assert_eq!((sla.rate, &sla.prefixes), (Rate::from_mbit(3), &present.prefixes));
    let own: Vec<&str> =
        names(&wanted, Kind::Filter).into_iter().filter(|name| name.starts_with("user")).collect();
    assert_eq!(own, ["user/ann/all", "user/ann/up"]);
}

#[test]
fn a_policy_is_the_same_in_json() {
    let policy = policy();
    let json = policy.to_json();
    let read = Policy::from_json(&json).expect("it is one");
    assert_eq!(read, policy);
    assert_eq!(read.to_json(), json, "octet by octet");
    assert!(faults(&read).is_empty());
    assert!(Policy::from_json("{\"routes\": {}}").is_err());
    let unsound = json.replace("\"tier\": 15", "\"tier\": 16");
    let faults = faults(&Policy::from_json(&unsound).expect("it has the form of one"));
    assert_eq!(faults.len(), 3);
    assert_eq!(faults[0].to_string(), "class \"all\": tier is out of range; allowed: 0 to 15");
}

#[test]
fn subscribers_are_the_same_in_a_table() {
    use crate::model::{LineFault, add_subscribers, subscribers_as_table};
    let mut policy = policy();
    let table = subscribers_as_table(&policy);
    let before = policy.clone();
    assert_eq!(add_subscribers(&mut policy, table.as_bytes()), Ok(2));
    assert_eq!(policy, before);
    let broken = "name,sla,prefixes,router,port\n\"a,gold,,,\n";
    assert!(add_subscribers(&mut policy, broken.as_bytes()).is_err());
    let broken = "name,sla,prefixes,router,port\na b,gold,,,\nc,gold,10.0.0.0/40,,\nd,gold,,edge-1,\ne,gold\nf,gold,,,\nf,gold,,,\n";
    let errors = add_subscribers(&mut policy, broken.as_bytes()).expect_err("broken");
    let found: Vec<_> = errors.iter().map(|error| (error.line, error.fault)).collect();
    let wanted = [
        (2, LineFault::Name("name")),
        (3, LineFault::Prefix),
        (4, LineFault::Half),
        (5, LineFault::Form),
        (7, LineFault::Twice),
    ];
    assert_eq!(found, wanted);
    assert_eq!(policy, before, "nothing of it is taken");
    assert_eq!(add_subscribers(&mut policy, b"name,sla\n").expect_err("no head")[0].fault, LineFault::Head);
}
