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

/// Two groups of eight transfers over a satellite, which a link of a third of the rate carries for 20 s: R-7.4.2 and R-7.5
/// of the source in one.
const SHARED: &str = r#"
[[port]]
name = "core"

[[abr]]
name = "one"
match = { src = "10.0.0.3/32" }
rate = "100 kbit/s"
overhead = 14
local = true

[[abr]]
name = "three"
match = { src = "10.0.0.5/32" }
rate = "100 kbit/s"
weight = 3
overhead = 14
local = true
"#;

const SHARES: &str = r#"
[[link]]
name = "satellite"
port = "core"
utilisation = "98 %"

[[link.change]]
at = "60 s"
rate = "512 kbit/s"

[[link.change]]
at = "80 s"
rate = "1536 kbit/s"

[[abr]]
name = "one"

[[abr]]
name = "three"
"#;

#[test]
fn policies_share_a_link_by_weight_and_are_slower_before_it_is() {
    let (file, diagnostics) = AgentFile::read("agent.toml", SHARES);
    let agent = Some(file.unwrap_or_else(|| panic!("{diagnostics}")));
    let high = Rate::from_kbit(1_536);
    let mut s = dumbbell(2, high, Duration::from_millis(450), 30, 100);
    let (origin, text) = ("edge.toml".into(), SHARED.into());
    s.nodes[0].kind = NodeKind::Router(RouterConfig { origin, text, agent, changes: Vec::new() });
    let change = |at, rate| Change {
        at: Duration::from_secs(at),
        rate: Some(rate),
        delay: None,
        loss: None,
        up: None,
    };
    s.links[0].ways[0].changes = vec![change(60, Rate::from_kbit(512)), change(80, high)];
    for group in 0..2 {
        let kind =
            TrafficKind::Bulk { count: 8, size: None, spacing: Duration::from_millis(250), tcp: newreno() };
        s.traffic.push(traffic("bulk", vec![pair(group)], Duration::from_secs(100), kind));
    }
    let recording = simulate(&s);
    assert_eq!(recording.warnings, Vec::<String>::new());
    let at = |ms: u64| {
        let before = |rates: &[(Instant, u64)]| {
            let before = rates.iter().take_while(|(when, _)| when.as_nanos() <= ms * 1_000_000);
            before.last().expect("it has a rate").1
        };
        [0, 1].map(|i: usize| before(&recording.assignments[i].rates))
    };
    // 98 % of the link for 8 and 8 times 3, each rounded down; a second before it is slower and at most a look after it is
    // faster.
    let shares = |rate: u64| [1, 3].map(|weight| rate * 98 / 100 * weight / 4);
    let expected = [(50_000, 1_536_000), (59_001, 512_000), (79_999, 512_000), (80_250, 1_536_000)];
    for (ms, rate) in expected {
        let (has, should) = (at(ms), shares(rate));
        assert!(has.iter().zip(should).all(|(has, should)| has.abs_diff(should) <= 1), "{ms}: {has:?}");
    }
    // The start and what it loses is in it; how soon and how exactly flows settle is measured by the scenarios.
    let bytes = |traffic| -> u64 {
        recording.connections.iter().filter(|c| c.of.traffic == traffic).map(|c| c.bytes).sum()
    };
    let ratio = bytes(1) as f64 / bytes(0) as f64;
    assert!((2.5..=3.5).contains(&ratio), "{ratio}");
    let most = (80.0 * 1_536e3 + 20.0 * 512e3) / 8.0;
    let all = (bytes(0) + bytes(1)) as f64;
    assert!(all >= most * 0.75, "{all} of {most} bytes");
}
