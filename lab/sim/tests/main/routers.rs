//! Perhop routers in the simulator.

use crate::net::*;
use perhop_measure::{Membership, QueueSeries, Recording, StreamRecord, Toward};
use perhop_quality::Codec;
use perhop_scenario::*;
use perhop_sim::{Options, SimError, run};
use perhop_units::{Bytes, Duration, Instant, Rate};

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
    let bulk = TrafficKind::Bulk {
        count: 4,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay: (Duration::ZERO, Duration::ZERO),
        tcp: Tcp::default(),
    };
    s.traffic.push(traffic("bulk", vec![pair(1)], stop, bulk));
    s
}

fn router(text: &str) -> NodeKind {
    NodeKind::Router(RouterConfig {
        origin: "edge.toml".into(),
        text: text.into(),
        ..RouterConfig::default()
    })
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

/// What somebody writes first: a file with the rate of an Ethernet link, which takes 24 bytes a frame more than the frame has. The link's
/// own queue is long.
#[test]
fn calls_do_not_wait_behind_a_port_with_the_rate_of_its_ethernet_link() {
    let readme = include_str!("../../../../README.md");
    let (_, shown) =
        readme.split_once("<!-- router-file -->\n```toml\n").expect("the page has a router file");
    let (shown, _) = shown.split_once("```").expect("which ends");
    for text in [shown, include_str!("../../../../examples/edge.toml")] {
        let mut s = congested(router(text));
        s.nodes[1].kind = NodeKind::Forwarder;
        for (link, name) in s.links.iter_mut().zip(["wan", "lan"]) {
            link.name = name.into();
        }
        for way in &mut s.links[0].ways {
            (way.rate, way.overhead, way.queue) =
                (Some(Rate::from_mbit(10)), Bytes(24), perhop_units::QueueLimit::Packets(1_000));
        }
        let recording = run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
        let (lost, longest) = harm(&recording);
        assert!(lost == 0 && longest < 27.0, "{lost} lost, {longest} ms");
        let busy = recording.links[0].busy.as_secs_f64() / 25.0;
        assert!((0.985..0.995).contains(&busy), "a hundredth stays free: {busy}");
    }
}

/// Largest length of each queue before the first link over the whole run.
fn longest_queues(mut s: Scenario, interval: Duration) -> Vec<(String, u32)> {
    s.probes.queue_interval = interval;
    let recording = run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
    let most = |queue: &QueueSeries| queue.bytes.iter().map(|[_, most, _]| *most).max().unwrap_or(0);
    recording.links[0].queues.iter().map(|queue| (queue.name.clone(), most(queue))).collect()
}

#[test]
fn the_largest_queue_does_not_depend_on_how_often_one_looks() {
    let mut discipline = congested(NodeKind::Forwarder);
    discipline.links[0].ways[0].discipline =
        Discipline::Element("Hpd(voip bulk, delays = 1 8, dscp = EF -)".into());
    for s in [congested(router(EDGE)), discipline] {
        let often = longest_queues(s.clone(), Duration::from_millis(3));
        let seldom = longest_queues(s, Duration::from_secs(30));
        assert_eq!(often, seldom);
        assert!(often.len() >= 2 && often.iter().any(|(_, most)| *most > 20_000), "{often:?}");
    }
    // 100 ms of its 3.5 Mbit/s: it was full, so a packet more would not have fitted.
    let queues = longest_queues(congested(router(EDGE)), Duration::from_secs(1));
    let rest = queues.iter().find(|(name, _)| name == "rest").expect("a class").1;
    assert!((43_750 - 1_514..=43_750).contains(&rest), "{rest}");
}

/// A router without a detector that gets one at 15 s: its calls suffer before and never after the tenth packet.
#[test]
fn another_file_takes_the_place_of_a_routers_while_it_forwards() {
    let (plain, _) = EDGE.split_once("[detector]").expect("a detector");
    let mut s = congested(router(plain));
    s.warm_up = Duration::ZERO;
    s.duration = Duration::from_secs(30);
    let NodeKind::Router(config) = &mut s.nodes[0].kind else { panic!("a router") };
    let change = |at, text: &str| {
        let (at, origin) = (Duration::from_secs(at), "later.toml".to_owned());
        RouterChange { at, origin, text: text.to_owned() }
    };
    config.changes = vec![change(15, EDGE)];
    let mut recording = run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
    let at = |seconds: u64| Instant(seconds * 1_000_000_000);
    recording.window = (at(5), at(16));
    let (lost, longest) = harm(&recording);
    assert!(lost > 5 && longest > 50.0, "{lost} lost, {longest} ms");
    recording.window = (at(16), at(30));
    let (lost, longest) = harm(&recording);
    assert!(lost == 0 && longest < 27.0, "{lost} lost, {longest} ms");

    // A file that is none ends the run, with the reason.
    let NodeKind::Router(config) = &mut s.nodes[0].kind else { panic!("a router") };
    config.changes = vec![change(1, "[[class]]\nname = 1")];
    let error = run(&s, &Options::default(), |_| true).err();
    let told = matches!(&error, Some(SimError::RouterFile { diagnostics, .. }) if diagnostics.contains("later.toml:2"));
    assert!(told, "{error:?}");
}

/// Sixteen flows of 32 kbit/s and a cap that has room for five of them: the counters of the window are the router's.
#[test]
fn what_admission_decides_is_recorded_for_the_window() {
    let admission = "[detector.admission]\nmethod = \"measured\"\nretry = \"0 s\"\ncap = \"200 kbit/s\"\naccept_pct = 80\n\
                     new_flow = \"32 kbit/s\"\n";
    let mut s = dumbbell(1, Rate::from_mbit(5), Duration::from_millis(20), 100, 30);
    s.nodes[0].kind = router(&format!("{EDGE}{admission}"));
    let rates = vec![Rate::from_kbit(32)];
    let stay = (Duration::ZERO, Duration::ZERO);
    let kind = TrafficKind::Rtp { count: 16, rates, stay, size: perhop_units::Bytes(200) };
    s.traffic.push(traffic("calls", vec![pair(0)], Duration::from_secs(30), kind));
    let of = |s: &Scenario| {
        let recording = run(s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(recording.admissions.len(), 1);
        recording.admissions[0].clone()
    };
    let all = of(&s);
    assert_eq!((all.node.as_str(), all.offered, all.admitted, all.refused), ("left", 16, 5, 11));
    assert_eq!((all.dropped, all.intervals_over_cap), (0, 0));
    // 30 s of 0.8 s.
    assert!((36..=37).contains(&all.intervals), "{all:?}");
    s.warm_up = Duration::from_secs(20);
    s.duration = Duration::from_secs(10);
    let late = of(&s);
    assert_eq!((late.offered, late.admitted, late.refused), (0, 0, 0));
    assert!((12..=13).contains(&late.intervals), "{late:?}");
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

#[test]
fn a_router_without_a_file_forwards_as_a_forwarder_does() {
    let simulate = |kind| {
        let mut s = dumbbell(1, Rate::from_mbit(1), Duration::from_millis(20), 20, 10);
        s.nodes[0].kind = kind;
        let stop = Duration::from_secs(10);
        s.traffic.push(traffic("cbr", vec![pair(0)], stop, constant(Rate::from_mbit(2), 1000)));
        run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"))
    };
    let without = NodeKind::Router(RouterConfig::default());
    let (plain, router) = (simulate(NodeKind::Forwarder), simulate(without));
    let arrived = |r: &Recording| -> Vec<Instant> {
        r.streams.iter().flat_map(|s| &s.packets).map(|p| p.arrived).collect()
    };
    // The queue of the link is all the scheduling there is, in both.
    assert!(plain.links[0].drops["queue_full"] > 500, "{:?}", plain.links[0].drops);
    assert_eq!(router.links[0].drops, plain.links[0].drops);
    assert!(arrived(&router) == arrived(&plain));
}

#[test]
fn a_stopped_router_sends_nothing_of_what_it_holds() {
    let mut s = dumbbell(1, Rate::from_mbit(1), Duration::from_millis(20), 20, 12);
    s.nodes[0].kind = router(
        "[[port]]\nname = \"core\"\n[[class]]\nname = \"rest\"\nport = \"core\"\ndefault = true\nqueue = \"3 s\"\n",
    );
    let (stop, restart) = (Duration::from_secs(5), Duration::from_secs(9));
    let fault = |at, kind| Fault { at, node: NodeIndex(0), kind };
    s.faults = vec![fault(stop, FaultKind::Stop), fault(restart, FaultKind::Restart)];
    let end = Duration::from_secs(12);
    s.traffic.push(traffic("cbr", vec![pair(0)], end, constant(Rate::from_mbit(2), 1000)));
    // Whatever is lost is lost before the window ends.
    s.traffic[0].stop = Duration::from_millis(10_500);
    let recording = run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
    let packets = &recording.streams[0].packets;
    // 4 s of 250 packets a second came to the stopped router; three seconds of 123 a second were in its class.
    let (came, core) = (&recording.links[2], &recording.links[0]);
    assert_eq!((came.link, came.way, core.link, core.way), (1, 0, 0, 0));
    assert!((995..=1005).contains(&came.drops["port_down"]), "{:?}", came.drops);
    assert!((350..=375).contains(&core.drops["port_down"]), "{:?}", core.drops);
    let missing = packets.iter().filter(|p| p.arrived == Instant::FAR_FUTURE).count() as u64;
    let dropped: u64 = recording.links.iter().flat_map(|link| link.drops.values()).sum();
    assert_eq!(missing, dropped, "every loss has a place and a reason");
    let arrived = |from: u64, to: u64| {
        let ms = from..to;
        packets.iter().filter(|p| ms.contains(&(p.arrived.as_nanos() / 1_000_000))).count()
    };
    // Three seconds wait when it stops; only what is on the line still comes.
    assert!(arrived(4_000, 5_000) > 100 && arrived(5_050, 9_000) == 0, "{}", arrived(5_050, 9_000));
    // What comes behind the restart was sent behind the stop's queue: nothing of it is left.
    let old =
        packets.iter().filter(|p| p.arrived != Instant::FAR_FUTURE && p.arrived.as_nanos() > 9_000_000_000);
    assert!(old.clone().count() > 100 && old.map(|p| p.sent.as_nanos()).min() >= Some(8_990_000_000));
}

/// The router of [`congested`] with guarantees as rates, the calls' first.
fn absolute(calls: &str, rest: &str) -> String {
    EDGE.replace("\"30 %\"", &format!("\"{calls}\"")).replace("\"70 %\"", &format!("\"{rest}\""))
}

fn slower(at: u64, rate: Rate) -> Change {
    Change { at: Duration::from_secs(at), rate: Some(rate), delay: None, loss: None, up: None }
}

#[test]
fn guarantees_give_way_to_a_link_that_is_slower_than_their_sum_and_come_back() {
    // 2.4 + 2.4 of 5 Mbit/s fit at first. At 2 Mbit/s each gets 2 / 4.8 of its own, 1 Mbit/s, which is what ten calls
    // need: 214 bytes of frame every 20 ms, 856 kbit/s.
    let mut s = congested(router(&absolute("2.4 Mbit/s", "2.4 Mbit/s")));
    s.links[0].ways[0].changes = vec![slower(10, Rate::from_mbit(2)), slower(20, Rate::from_mbit(5))];
    let recording = run(&s, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
    let (lost, longest) = harm(&recording);
    // 20 ms, a packet of 1,514 B in front at 2 Mbit/s (6.1 ms), ten calls' packets at once (9.0 ms), the outer links.
    assert!(lost == 0 && longest < 37.0, "{lost} lost, {longest} ms");
    let rate = |second: usize| {
        let bins = &recording.links[0].bins[second * 10 / 3..(second + 3) * 10 / 3];
        bins.iter().sum::<u64>() as f64 * 8.0 / (bins.len() as f64 * 0.3) / 1e6
    };
    for (second, mbit) in [(6, 5.0), (15, 2.0), (26, 5.0)] {
        assert!((rate(second) / mbit - 1.0).abs() < 0.02, "{} Mbit/s at {second} s", rate(second));
    }
}

#[test]
fn a_rate_that_the_router_cannot_have_ends_the_run() {
    let mut s = congested(router(EDGE));
    // 20 ms at 500 kbit/s are 1,250 bytes.
    s.links[0].ways[0].changes = vec![slower(10, Rate::from_kbit(500))];
    match run(&s, &Options::default(), |_| true) {
        Err(SimError::RouterFile { node, diagnostics }) => {
            assert_eq!(node, "left");
            assert!(diagnostics.contains("less than a frame"), "{diagnostics}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}
