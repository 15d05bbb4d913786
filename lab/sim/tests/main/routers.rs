//! Perhop routers in the simulator.

use crate::net::*;
use perhop_measure::{Membership, Recording, StreamRecord, Toward};
use perhop_quality::Codec;
use perhop_scenario::*;
use perhop_sim::{Options, SimError, run};
use perhop_units::{Duration, Instant, Rate};

const EDGE: &str = r#"
[router]
name = "edge"

[[port]]
name = "core"

[[class]]
name = "ef"
port = "core"
guarantee = "30 %"
tier = 0
queue = "20 ms"

[[class]]
name = "rest"
port = "core"
guarantee = "70 %"
default = true
queue = "100 ms"

[detector]
class = "ef"
packets = 10
within = "1 s"
idle = "30 s"
dscp = "EF"
calls = 20
"#;

/// Calls and greedy transfers over 5 Mbit/s and 20 ms; the router before the link is `kind`.
fn congested(kind: NodeKind) -> Scenario {
    let mut s = dumbbell(2, Rate::from_mbit(5), Duration::from_millis(20), 100, 30);
    s.nodes[0].kind = kind;
    s.warm_up = Duration::from_secs(5);
    s.duration = Duration::from_secs(25);
    let stop = Duration::from_secs(30);
    let voice = TrafficKind::Voice {
        calls: 10,
        codec: Codec::G711U,
        spacing: Duration::ZERO,
        silence_suppression: None,
    };
    s.traffic.push(Traffic { both: true, ..traffic("voip", vec![pair(0)], stop, voice) });
    let bulk = TrafficKind::Bulk { count: 4, size: None, spacing: Duration::ZERO, tcp: Tcp::default() };
    s.traffic.push(traffic("bulk", vec![pair(1)], stop, bulk));
    s
}

fn router(text: &str) -> NodeKind {
    NodeKind::Router(RouterConfig { origin: "edge.toml".into(), text: text.into() })
}

fn calls(recording: &Recording) -> impl Iterator<Item = &StreamRecord> {
    let down = |of: &Membership| of.traffic == 0 && of.toward == Toward::Second;
    recording.streams.iter().filter(move |stream| down(&stream.of))
}

/// Lost packets of the window, and the longest delay in ms.
fn harm(recording: &Recording) -> (usize, f64) {
    // The last ones are still on their way when the run ends.
    let window = recording.window.0..recording.window.1 - Duration::from_secs(1);
    let packets: Vec<_> =
        calls(recording).flat_map(|s| &s.packets).filter(|p| window.contains(&p.sent)).collect();
    let lost = packets.iter().filter(|p| p.arrived == Instant::FAR_FUTURE).count();
    let arrived = packets.iter().filter(|p| p.arrived != Instant::FAR_FUTURE);
    let longest = arrived.map(|p| p.arrived.since(p.sent).as_nanos()).max().unwrap_or(0);
    (lost, longest as f64 / 1e6)
}

#[test]
fn a_router_protects_calls_that_a_plain_queue_drops_and_delays() {
    let simulate =
        |kind| run(&congested(kind), &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
    let (plain, perhop) = (simulate(NodeKind::Forwarder), simulate(router(EDGE)));
    let (lost, longest) = harm(&plain);
    assert!(lost > 50 && longest > 100.0, "{lost} lost, {longest} ms");
    let (lost, longest) = harm(&perhop);
    // 20 ms, one packet of 1,514 B in front (2.4 ms), the calls' own packets, and the outer links.
    assert!(lost == 0 && longest < 27.0, "{lost} lost, {longest} ms");
    let busy = |r: &Recording| r.links[0].busy.as_secs_f64() / 25.0;
    assert!(busy(&plain) > 0.99 && busy(&perhop) > 0.99, "{} {}", busy(&plain), busy(&perhop));
    let names: Vec<&str> = perhop.links[0].queues.iter().map(|q| q.name.as_str()).collect();
    assert!(names.contains(&"ef") && names.contains(&"rest"), "{names:?}");
    assert!(perhop.links[0].drops["queue_full"] > 0);
}

#[test]
fn a_port_that_takes_its_rate_from_its_link_follows_it() {
    let mut s = congested(router(EDGE));
    let change = |at, rate| Change {
        at: Duration::from_secs(at),
        rate: Some(Rate::from_mbit(rate)),
        delay: None,
        loss: None,
        up: None,
    };
    s.links[0].ways[0].changes = vec![change(10, 3), change(20, 8)];
    let recording = run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
    let (lost, longest) = harm(&recording);
    assert!(lost == 0 && longest < 29.0, "{lost} lost, {longest} ms");
    // Bins of 300 ms: bits a second well inside each step.
    let rate = |second: usize| {
        let bins = &recording.links[0].bins[second * 10 / 3..(second + 3) * 10 / 3];
        bins.iter().sum::<u64>() as f64 * 8.0 / (bins.len() as f64 * 0.3) / 1e6
    };
    for (second, mbit) in [(6, 5.0), (15, 3.0), (26, 8.0)] {
        assert!((rate(second) / mbit - 1.0).abs() < 0.02, "{} Mbit/s at {second} s", rate(second));
    }
}

#[test]
fn a_bad_router_file_is_told_with_its_position() {
    let broken = EDGE.replace("guarantee = \"70 %\"", "guarantee = \"seventy\"");
    match run(&congested(router(&broken)), &Options::default(), |_| true) {
        Err(SimError::RouterFile { node, diagnostics }) => {
            assert_eq!(node, "left");
            assert!(diagnostics.contains("edge.toml:18:13"), "{diagnostics}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    let stray = EDGE
        .replace("name = \"core\"", "name = \"nowhere\"")
        .replace("port = \"core\"", "port = \"nowhere\"");
    let error = run(&congested(router(&stray)), &Options::default(), |_| true).map(|_| ());
    assert!(matches!(&error, Err(SimError::Router { why, .. }) if why.contains("\"nowhere\"")), "{error:?}");
}

#[test]
fn a_discipline_of_the_data_plane_stands_before_a_link() {
    let mut s = congested(NodeKind::Forwarder);
    s.links[0].ways[0].discipline = Discipline::Element(
        "Shaper(discipline = red, min = 30 packets, max = 90 packets, max_p = 10 %)".into(),
    );
    let recording = run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
    let core = &recording.links[0];
    assert!(core.drops.get("red_early").is_some_and(|n| *n > 10), "{:?}", core.drops);
    assert!(core.busy.as_secs_f64() / 25.0 > 0.95, "{:?}", core.busy);
    s.links[0].ways[0].discipline = Discipline::Element("Shapper(discipline = red)".into());
    let error = run(&s, &Options::default(), |_| true).map(|_| ());
    assert!(matches!(&error, Err(SimError::Discipline { link, .. }) if link == "core"), "{error:?}");
}
