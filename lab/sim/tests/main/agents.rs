//! Routers whose classes an agent allocates.

use crate::net::*;
use perhop_bandwidth::AgentFile;
use perhop_measure::Recording;
use perhop_scenario::*;
use perhop_sim::{Options, run};
use perhop_units::{Bytes, Dscp, Duration, Instant, Rate};

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

/// Three classes of real time for AF11, AF21 and AF31.
const THREE: &str = r#"
[[port]]
name = "core"

[[class]]
name = "a"
port = "core"
queue = "100 packets"
tier = 0

[[class]]
name = "b"
port = "core"
queue = "100 packets"
tier = 0

[[class]]
name = "c"
port = "core"
queue = "100 packets"
tier = 0

[[class]]
name = "rest"
port = "core"
default = true

[[filter]]
match = { dscp = "AF11" }
class = "a"

[[filter]]
match = { dscp = "AF21" }
class = "b"

[[filter]]
match = { dscp = "AF31" }
class = "c"
"#;

/// Datagrams of 500 B over a link of 10 Mbit/s in classes that an agent allocates up to 8 Mbit/s each: rate, and from when
/// until when, in seconds.
fn contended(loads: &[(u64, u64, u64)], seconds: u64) -> Scenario {
    let class = |name| {
        format!(
            "[[class]]\nname = \"{name}\"\nleast = \"64 kbit/s\"\nmost = \"8 Mbit/s\"\n[class.congestion]\n"
        )
    };
    let names = ["a", "b", "c"];
    let text: String = names.iter().take(loads.len()).map(class).collect();
    let (file, diagnostics) = AgentFile::read("agent.toml", &text);
    let agent = Some(file.unwrap_or_else(|| panic!("{diagnostics}")));
    let mut s = dumbbell(1, Rate::from_mbit(10), Duration::from_millis(1), 100, seconds);
    let (origin, text) = ("edge.toml".into(), THREE.into());
    s.nodes[0].kind = NodeKind::Router(RouterConfig { origin, text, agent, changes: Vec::new() });
    for ((i, (rate, start, stop)), dscp) in loads.iter().enumerate().zip([Dscp::AF11, Dscp::AF21, Dscp::AF31])
    {
        let load = traffic(names[i], vec![pair(0)], Duration::from_secs(*stop), constant(Rate(*rate), 500));
        s.traffic.push(Traffic { start: Duration::from_secs(*start), dscp, ..load });
    }
    s
}

/// In force for a class at a time, bit/s.
fn of_class(recording: &Recording, class: usize, at_s: u64) -> u64 {
    let at = Instant(at_s * 1_000_000_000);
    let before = recording.agents[class].allocations.iter().take_while(|(when, _)| *when <= at);
    before.last().expect("an initial one").1
}

/// Bits that arrived of a stream between two times, frames of 514 B.
fn arrived(recording: &Recording, stream: usize, from_s: u64, to_s: u64) -> u64 {
    let span = Instant(from_s * 1_000_000_000)..Instant(to_s * 1_000_000_000);
    let packets = &recording.streams[stream].packets;
    packets.iter().filter(|p| span.contains(&p.arrived)).count() as u64 * 514 * 8
}

/// What all classes want comes to 24 of 10 Mbit/s.
#[test]
fn classes_that_want_more_than_the_link_has_never_lock_each_other() {
    let recording = simulate(&contended(&[(7_000_000, 0, 20), (6_000_000, 2, 59), (500_000, 5, 59)], 60));
    let held = |at| (0..3).map(|class| of_class(&recording, class, at)).sum::<u64>();
    for at in 0..60 {
        assert!(held(at) <= 10_000_000, "{} at {at} s", held(at));
    }
    assert_eq!(recording.warnings, Vec::<String>::new(), "nothing was asked for that does not fit");
    // The first has what it came for, and the others share what it leaves until it goes.
    assert!(of_class(&recording, 0, 19) > 7_000_000);
    assert!(of_class(&recording, 1, 50) > 6_000_000 && of_class(&recording, 2, 50) > 500_000);
    let stream = recording.streams.iter().position(|stream| stream.of.traffic == 1).expect("it is recorded");
    let bits = arrived(&recording, stream, 45, 55);
    assert!(bits > 10 * 6_000_000, "{bits} of 6 Mbit/s and their headers arrived in 10 s");
}

#[test]
fn a_link_that_becomes_slower_takes_from_what_an_agent_allocated() {
    let mut s = contended(&[(6_000_000, 0, 60)], 60);
    let change = |at, rate| Change {
        at: Duration::from_secs(at),
        rate: Some(Rate::from_mbit(rate)),
        delay: None,
        loss: None,
        up: None,
    };
    s.links[0].ways[0].changes = vec![change(20, 4), change(40, 10)];
    let recording = simulate(&s);
    assert!(of_class(&recording, 0, 19) > 6_000_000);
    assert_eq!(of_class(&recording, 0, 22), 4_000_000);
    assert!(of_class(&recording, 0, 59) > 6_000_000);
    assert_eq!(recording.warnings, Vec::<String>::new());
}

#[test]
fn a_file_that_wants_more_for_itself_takes_from_what_an_agent_allocated() {
    let mut s = contended(&[(6_000_000, 0, 60)], 60);
    let NodeKind::Router(router) = &mut s.nodes[0].kind else { panic!("it is a router") };
    let text = THREE.replacen(
        "name = \"b\"\nport = \"core\"",
        "name = \"b\"\nport = \"core\"\nguarantee = \"5 Mbit/s\"",
        1,
    );
    let (at, origin) = (Duration::from_secs(20), "other.toml".into());
    router.changes.push(RouterChange { at, origin, text });
    let recording = simulate(&s);
    assert!(of_class(&recording, 0, 19) > 6_000_000);
    assert_eq!(of_class(&recording, 0, 22), 5_000_000);
    assert_eq!(recording.warnings, Vec::<String>::new());
}

/// The second class holds 2 of the 4 Mbit/s that the broker has before it asks for anything.
#[test]
fn a_broker_counts_what_classes_begin_with() {
    let mut s = contended(&[(6_000_000, 0, 30)], 30);
    let NodeKind::Router(router) = &mut s.nodes[0].kind else { panic!("it is a router") };
    let text = "[broker]\ndelay = \"0 s\"\ncapacity = \"4 Mbit/s\"\n[[class]]\nname = \"a\"\nleast = \"64 kbit/s\"\n\
                most = \"8 Mbit/s\"\ninitial = \"1 Mbit/s\"\n[class.congestion]\n[[class]]\nname = \"b\"\n\
                least = \"2 Mbit/s\"\nmost = \"8 Mbit/s\"\n";
    let (file, diagnostics) = AgentFile::read("agent.toml", text);
    router.agent = Some(file.unwrap_or_else(|| panic!("{diagnostics}")));
    let recording = simulate(&s);
    assert_eq!([0, 1].map(|class| of_class(&recording, class, 29)), [2_000_000, 2_000_000]);
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
        let kind = TrafficKind::Bulk {
            count: 8,
            size: None,
            at_once: 1,
            stagger: Duration::ZERO,
            access_delay: (Duration::ZERO, Duration::ZERO),
            spacing: Duration::from_millis(250),
            tcp: newreno(),
        };
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
