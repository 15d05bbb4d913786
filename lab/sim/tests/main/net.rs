//! Networks built in code, for tests.

use perhop_scenario::*;
use perhop_units::{Bytes, Dscp, Duration, QueueLimit, Rate};
use std::net::Ipv4Addr;

/// A scenario without nodes.
pub fn empty(seconds: u64) -> Scenario {
    Scenario {
        id: "test".into(),
        title: "test".into(),
        label: None,
        why: String::new(),
        source: None,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(seconds),
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
    let address = Ipv4Addr::new(10, 0, (i / 250) as u8, (i % 250) as u8 + 1);
    scenario.nodes.push(Node { name: name.into(), kind, address });
    NodeIndex(i)
}

pub fn way(rate: Option<Rate>, delay: Duration, packets: u32) -> Way {
    Way { rate, delay, queue: QueueLimit::Packets(packets), ..Way::default() }
}

pub fn link(scenario: &mut Scenario, name: &str, ends: [NodeIndex; 2], way: Way) -> LinkIndex {
    scenario.links.push(Link { name: name.into(), ends, ways: [way.clone(), way] });
    LinkIndex(scenario.links.len() - 1)
}

/// `n` senders and receivers around one link; the outer links are ten times as fast and without delay.
pub fn dumbbell(n: usize, rate: Rate, delay: Duration, packets: u32, seconds: u64) -> Scenario {
    let mut s = empty(seconds);
    let left = node(&mut s, "left", NodeKind::Forwarder);
    let right = node(&mut s, "right", NodeKind::Forwarder);
    link(&mut s, "core", [left, right], way(Some(rate), delay, packets));
    let fast = Some(Rate(rate.0 * 10));
    for i in 0..n {
        let a = node(&mut s, &format!("a{i}"), NodeKind::Host);
        let b = node(&mut s, &format!("b{i}"), NodeKind::Host);
        link(&mut s, &format!("la{i}"), [a, left], way(fast, Duration::ZERO, 10_000));
        link(&mut s, &format!("lb{i}"), [right, b], way(fast, Duration::ZERO, 10_000));
    }
    s
}

/// Hosts of pair `i` of a dumbbell.
pub fn pair(i: usize) -> (NodeIndex, NodeIndex) {
    (NodeIndex(2 + 2 * i), NodeIndex(3 + 2 * i))
}

pub fn traffic(name: &str, pairs: Vec<(NodeIndex, NodeIndex)>, stop: Duration, kind: TrafficKind) -> Traffic {
    Traffic {
        name: name.into(),
        pairs,
        both: false,
        start: Duration::ZERO,
        stop,
        dscp: Dscp::default(),
        reply_dscp: Dscp::default(),
        kind,
    }
}

pub fn constant(rate: Rate, size: u64) -> TrafficKind {
    TrafficKind::Constant { count: 1, rate, size: Bytes(size) }
}

pub fn newreno() -> Tcp {
    Tcp {
        congestion: "newreno".into(),
        sack: false,
        timestamps: false,
        mss: 1460,
        initial_window: 2,
        ..Tcp::default()
    }
}
