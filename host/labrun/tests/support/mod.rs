//! Networks built in code.
#![allow(dead_code, reason = "not every test uses all")]

use perhop_scenario::*;
use perhop_units::{Bytes, Dscp, Duration, QueueLimit, Rate};
use std::net::Ipv4Addr;

/// Whether namespaces can be made here; says loudly when not, and fails where they are required.
pub fn may_run(name: &str) -> bool {
    if perhop_netlink::is_privileged_for_net() {
        return true;
    }
    let why = "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`";
    eprintln!("SKIPPED {name}: {why}");
    let required =
        std::env::var("PERHOP_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item == "netns"));
    assert!(!required, "{name} is required by PERHOP_REQUIRE but cannot run: {why}");
    false
}

pub fn empty(warm_up_ms: u64, ms: u64) -> Scenario {
    Scenario {
        id: "test".into(),
        label: None,
        title: "test".into(),
        why: String::new(),
        source: None,
        warm_up: Duration::from_millis(warm_up_ms),
        duration: Duration::from_millis(ms),
        repetitions: 1,
        seed: 1,
        nodes: Vec::new(),
        links: Vec::new(),
        traffic: Vec::new(),
        faults: Vec::new(),
        programs: Vec::new(),
        reservations: Vec::new(),
        probes: Probes::default(),
        expect: Vec::new(),
        variants: Vec::new(),
    }
}

pub fn node(scenario: &mut Scenario, name: &str, kind: NodeKind) -> NodeIndex {
    let i = scenario.nodes.len();
    let address = Ipv4Addr::new(10, 0, 0, i as u8 + 1);
    scenario.nodes.push(Node { name: name.into(), kind, address });
    NodeIndex(i)
}

pub fn way(rate: Rate, delay_ms: u64, packets: u32) -> Way {
    let delay = Duration::from_millis(delay_ms);
    Way { rate: Some(rate), delay, queue: QueueLimit::Packets(packets), ..Way::default() }
}

pub fn link(scenario: &mut Scenario, name: &str, ends: [NodeIndex; 2], way: Way) -> LinkIndex {
    scenario.links.push(Link { name: name.into(), ends, ways: [way.clone(), way] });
    LinkIndex(scenario.links.len() - 1)
}

/// Two hosts, one on each side of the link `core` between `near` and a forwarder. Nodes: near, far, a, b.
pub fn dumbbell(near: NodeKind, core: Way, warm_up_ms: u64, ms: u64) -> Scenario {
    let mut s = empty(warm_up_ms, ms);
    let near = node(&mut s, "near", near);
    let far = node(&mut s, "far", NodeKind::Forwarder);
    link(&mut s, "core", [near, far], core);
    let a = node(&mut s, "a", NodeKind::Host);
    let b = node(&mut s, "b", NodeKind::Host);
    link(&mut s, "la", [a, near], Way::default());
    link(&mut s, "lb", [far, b], Way::default());
    s
}

/// Traffic from host a to host b of a dumbbell, the whole run long.
pub fn traffic(scenario: &mut Scenario, name: &str, dscp: u8, kind: TrafficKind) {
    let dscp = Dscp::new(dscp).expect("a code point");
    scenario.traffic.push(Traffic {
        name: name.into(),
        pairs: vec![(NodeIndex(2), NodeIndex(3))],
        both: false,
        start: Duration::ZERO,
        stop: scenario.length(),
        dscp,
        reply_dscp: dscp,
        kind,
    });
}

pub fn constant(rate: Rate, size: u64) -> TrafficKind {
    TrafficKind::Constant { count: 1, rate, size: Bytes(size) }
}

pub fn bulk(count: u16, congestion: &str) -> TrafficKind {
    let tcp = Tcp { congestion: congestion.into(), ..Tcp::default() };
    TrafficKind::Bulk {
        count,
        size: None,
        spacing: Duration::from_millis(50),
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay: (Duration::ZERO, Duration::ZERO),
        tcp,
    }
}
