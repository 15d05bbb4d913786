//! Routers whose classes an agent allocates.

use crate::net::*;
use perhop_agent::AgentFile;
use perhop_measure::Recording;
use perhop_scenario::*;
use perhop_sim::{Options, run};
use perhop_units::{Bytes, Duration, Instant, Rate};

const ROUTER: &str = r#"
[[port]]
name = "core"

[[class]]
name = "ef"
port = "core"
queue = "100 packets"
tier = 0

[[class]]
name = "rest"
port = "core"
default = true

[[filter]]
match = { protocol = "udp" }
class = "ef"
"#;

/// Datagrams of 256 B at a rate that changes at 30 s, over a class that an agent allocates.
fn stepping(agent: &str, first: u64, then: u64) -> Scenario {
    let (file, diagnostics) = AgentFile::read("agent.toml", agent);
    let agent = Some(file.unwrap_or_else(|| panic!("{diagnostics}")));
    let mut s = dumbbell(1, Rate::from_mbit(10), Duration::from_millis(1), 100, 60);
    let (origin, text) = ("edge.toml".into(), ROUTER.into());
    s.nodes[0].kind = NodeKind::Router(RouterConfig { origin, text, agent, changes: Vec::new() });
    for (at, rate) in [(0, first), (30, then)] {
        let size = Bytes(256);
        let kind = TrafficKind::Constant { count: 1, size, rate: Rate(rate) };
        let stop = Duration::from_secs(at + 30);
        s.traffic
            .push(Traffic { start: Duration::from_secs(at), ..traffic("udp", vec![pair(0)], stop, kind) });
    }
    s
}

fn simulate(scenario: &Scenario) -> Recording {
    run(scenario, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"))
}

/// In force at a time, bit/s.
fn allocated(recording: &Recording, at_s: u64) -> u64 {
    let at = Instant(at_s * 1_000_000_000);
    let before = recording.agents[0].allocations.iter().take_while(|(when, _)| *when <= at);
    before.last().expect("an initial one").1
}

#[test]
fn an_allocation_follows_the_load_up_and_down() {
    let agent = "[[class]]\nname = \"ef\"\nleast = \"64 kbit/s\"\nmost = \"8 Mbit/s\"\n[class.congestion]\n";
    let recording = simulate(&stepping(agent, 1_000_000, 200_000));
    // Frames count on links: 256 B of IP are 270 B. The law leaves a tenth free; changes of 50 kbit/s are too small.
    let used = |rate: f64| rate * 270.0 / 256.0;
    let at = allocated(&recording, 28) as f64;
    assert!(at > used(1.0e6) && at < used(1.0e6) / 0.9 * 1.15, "{at}");
    let at = allocated(&recording, 59) as f64;
    assert!(at > used(0.2e6) && at < used(0.2e6) / 0.9 + 60_000.0, "{at}");
    let record = &recording.agents[0];
    assert!(record.after.asked > 5 && record.after.asked == record.after.granted, "{:?}", record.after);
}

#[test]
fn what_the_class_is_granted_is_what_it_gets() {
    let agent = "[broker]\ncapacity = \"500 kbit/s\"\n[[class]]\nname = \"ef\"\nleast = \"64 kbit/s\"\n\
                 most = \"8 Mbit/s\"\n[class.congestion]\n";
    let recording = simulate(&stepping(agent, 1_000_000, 1_000_000));
    assert_eq!(allocated(&recording, 55), 500_000);
    // The ceiling holds although the link has room: 500 kbit/s for half a minute.
    let packets = &recording.streams[1].packets;
    let arrived = packets.iter().filter(|p| p.arrived != Instant::FAR_FUTURE).count() as u64;
    let bits = arrived * 270 * 8;
    assert!((14_000_000..=15_500_000).contains(&bits), "{bits}");
}

#[test]
fn equal_seeds_give_equal_agents() {
    let agent = "[broker]\nrefuse = \"30 %\"\nlose = \"10 %\"\n[[class]]\nname = \"ef\"\nleast = \"64 kbit/s\"\n\
                 most = \"8 Mbit/s\"\n";
    let scenario = stepping(agent, 1_000_000, 200_000);
    let of = |seed| {
        let options = Options { seed, ..Options::default() };
        run(&scenario, &options, |_| true).unwrap_or_else(|e| panic!("{e}")).agents[0].clone()
    };
    assert_eq!(of(1).allocations, of(1).allocations);
    assert_eq!(of(1).after, of(1).after);
    assert_ne!(of(1).allocations, of(2).allocations);
}

#[test]
fn what_happens_behind_the_window_does_not_count() {
    let agent = "[[class]]\nname = \"ef\"\nleast = \"2 Mbit/s\"\nmost = \"2 Mbit/s\"\n";
    let recording = simulate(&stepping(agent, 1_000_000, 200_000));
    let record = &recording.agents[0];
    let efficiency = record.after.efficiency.since(&record.before.efficiency);
    // 60 s, to the last interval of 0.8 s that ended in time; packets are waited for 2 s longer.
    let seconds = efficiency.allocated_nanobits as f64 / 1e9 / 2e6;
    assert!((59.2..=60.0).contains(&seconds), "{seconds}");
}
