//! Agents beside routers in namespaces, against the load they must follow and against the simulator.

use super::*;
use perhop_bandwidth::AgentFile;
use perhop_measure::AgentRecord;
use perhop_measure::agents::agents;

/// A class that an agent looks after, and the rest.
const ROUTER: &str = r#"
[router]
name = "near"

[[port]]
name = "core"

[[port]]
name = "la"
trust_dscp = true

[[class]]
name = "calls"
port = "core"
dscp = [46]
tier = 0
queue = "100 packets"

[[class]]
name = "rest"
port = "core"
tier = 2
default = true
"#;

/// An interval of 100 ms, so that a load is followed within a second or two.
const AGENT: &str = r#"
[broker]
delay = "10 ms"

[[class]]
name = "calls"
least = "64 kbit/s"
most = "5 Mbit/s"
initial = "280 kbit/s"
interval = "100 ms"
intervals = 3
law = "threshold"
increase = 1.2
decrease = 0.8
lower = "70 %"
upper = "90 %"
"#;

fn scenario(router: &str, agent: &str) -> Scenario {
    let (file, diagnostics) = AgentFile::read("agent.toml", agent);
    let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
    let near = RouterConfig {
        origin: "near.toml".into(),
        text: router.into(),
        agent: Some(file),
        changes: Vec::new(),
    };
    dumbbell(NodeKind::Router(near), way(Rate::from_mbit(10), 5, 100), 500, 5500)
}

/// What the class had at an instant of the run, ms, bit/s.
fn allocated(record: &AgentRecord, at_ms: u64) -> u64 {
    let before = record.allocations.iter().take_while(|(at, _)| at.as_nanos() <= at_ms * 1_000_000);
    before.last().expect("an initial allocation").1
}

#[test]
fn an_allocation_follows_steps_of_the_load_as_in_the_simulator() {
    if !may_run("an_allocation_follows") {
        return;
    }
    let mut s = scenario(ROUTER, AGENT);
    let steps = [200, 1000, 200].map(|kbit| (Duration::from_secs(2), Rate::from_kbit(kbit))).to_vec();
    let staircase =
        TrafficKind::Staircase { steps, size: Bytes(250), repeat: false, start_within: Duration::ZERO };
    traffic(&mut s, "calls", 46, staircase);
    let Some(recording) = recorded(&s) else { return };
    let [record] = &recording.agents[..] else { panic!("{:?}", recording.agents) };
    assert_eq!(record.class, "calls");
    // In force before the first packet.
    assert_eq!(record.allocations[0], (Instant::ZERO, 280_000));
    // Between 70 and 90 % are used once it has settled, measured to a packet in 300 ms.
    for (at_ms, kbit) in [(1_900, 200.0), (3_900, 1000.0), (5_900, 200.0)] {
        let share = kbit * 1e3 / allocated(record, at_ms) as f64;
        assert!((0.65..0.95).contains(&share), "{share} of the allocation at {at_ms} ms");
    }
    let counted = record.after.asked - record.before.asked;
    assert!(record.after.increases >= 7 && record.after.decreases >= 6 && counted >= 13, "{record:?}");
    // The climb begins at the foot: 800 kbit/s too much for a second at the most, of which 200 kbit wait.
    let packets = between(&recording.streams[0], 2_900, 5_900);
    let got = packets.iter().copied().filter(arrived).count();
    assert_eq!(got, packets.len(), "what comes when the climb is over is carried");

    let simulated = perhop_sim::run(&s, &perhop_sim::Options::default(), |_| true).unwrap();
    let [ours, theirs] = [&recording, &simulated].map(|r| agents(std::slice::from_ref(r)).remove(0));
    for (name, ours, theirs) in [
        ("allocated", ours.allocated_kbps, theirs.allocated_kbps),
        ("efficiency", ours.efficiency_pct, theirs.efficiency_pct),
        ("estimate", ours.estimate_pct, theirs.estimate_pct),
        ("requests", ours.requests_per_s, theirs.requests_per_s),
    ] {
        let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
        assert!((ours / theirs - 1.0).abs() < 0.15, "{name}: {ours} instead of {theirs}");
    }
}

#[test]
fn a_class_that_the_router_does_not_have_is_told_of_in_both_worlds() {
    if !may_run("a_class_that_the_router_does_not_have") {
        return;
    }
    let mut s = scenario(ROUTER, &AGENT.replace("\"calls\"", "\"callz\""));
    s.duration = Duration::from_millis(500);
    let said = |recording: &Recording| {
        recording.warnings.iter().any(|w| w == "router \"near\": its agent found no class \"callz\"")
    };
    let Some(recording) = recorded(&s) else { return };
    assert!(said(&recording), "{:?}", recording.warnings);
    let simulated = perhop_sim::run(&s, &perhop_sim::Options::default(), |_| true).unwrap();
    assert!(said(&simulated), "{:?}", simulated.warnings);
}
