//! Scenarios on this machine's kernel, against what must follow from the links' figures.
//!
//! Needs root or a user namespace that the process is in already; without, it says so and skips, and with `netns` in
//! `PERHOP_REQUIRE` the skip is a failure. Where the machine was too busy to be a network, the recording says so and
//! nothing is asserted of its figures.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test may panic"
)]

mod agents;
mod kernel_tcp;
mod support;

use perhop_labrun::scenario::{NetnsOptions, run};
use perhop_measure::{LinkRecord, PacketRecord, Recording, StreamRecord};
use perhop_scenario::*;
use perhop_units::{Bytes, Duration, Instant, Rate};
use std::sync::{Mutex, PoisonError};
use support::*;

/// One network at a time: the machine is small.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a scenario; `None` when the machine was no network.
fn recorded(scenario: &Scenario) -> Option<Recording> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recording = run(scenario, &NetnsOptions::default(), |_| true).unwrap_or_else(|e| panic!("{e}"));
    for warning in recording.warnings.iter().chain(&recording.machine_warnings) {
        eprintln!("warning: {warning}");
    }
    if let Some(why) = recording.saturated.as_ref().or(recording.starved.as_ref()) {
        eprintln!("SKIPPED: {why}");
        return None;
    }
    Some(recording)
}

fn arrived(packet: &&PacketRecord) -> bool {
    packet.arrived != Instant::FAR_FUTURE
}

/// Packets sent inside a part of the run, ms.
fn between(stream: &StreamRecord, from: u64, until: u64) -> Vec<&PacketRecord> {
    let inside = from * 1_000_000..until * 1_000_000;
    stream.packets.iter().filter(|p| inside.contains(&p.sent.as_nanos())).collect()
}

fn delays_ms(packets: &[&PacketRecord]) -> Vec<f64> {
    let got = packets.iter().copied().filter(arrived);
    let mut delays: Vec<f64> = got.map(|p| p.arrived.since(p.sent).as_millis_f64()).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

#[test]
fn a_constant_stream_takes_delay_and_serialisation_of_the_link_and_loses_nothing() {
    if !may_run("a_constant_stream") {
        return;
    }
    let mut s = dumbbell(NodeKind::Forwarder, way(Rate::from_mbit(10), 20, 100), 500, 1500);
    traffic(&mut s, "cbr", 0, constant(Rate::from_kbit(400), 1000));
    let Some(recording) = recorded(&s) else { return };
    let stream = &recording.streams[0];
    let packets = between(stream, 0, 1900);
    assert!(packets.len() >= 90, "{}", packets.len());
    let delays = delays_ms(&packets);
    assert_eq!(delays.len(), packets.len(), "nothing is lost");
    // 1,014 bytes at 10 Mbit/s behind 20 ms.
    let expected = 20.811;
    assert!(delays[0] >= expected - 0.01, "{delays:?}");
    assert!(median(&delays) < expected + 3.0, "{}", median(&delays));
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).unwrap();
    // 1.5 s of 50 packets a second.
    assert!((74..=77).contains(&(core.wire_bytes / 1014)), "{}", core.wire_bytes);
    assert!(core.drops.is_empty(), "{:?}", core.drops);
}

#[test]
fn overload_loses_what_the_line_cannot_carry() {
    if !may_run("overload") {
        return;
    }
    let mut s = dumbbell(NodeKind::Forwarder, way(Rate::from_mbit(2), 5, 20), 1000, 2000);
    traffic(&mut s, "cbr", 0, constant(Rate::from_mbit(3), 986));
    let Some(recording) = recorded(&s) else { return };
    // The last packets may be on their way.
    let packets = between(&recording.streams[0], 1000, 2800);
    let got = packets.iter().copied().filter(arrived).count();
    let loss = 100.0 - got as f64 * 100.0 / packets.len() as f64;
    // Frames of 1,000 bytes: 2 Mbit/s carry 250 a second of the 380.3 that come.
    let expected = 100.0 - 250.0 / (3e6 / 986.0 / 8.0) * 100.0;
    assert!((loss - expected).abs() < 2.0, "{loss} % instead of {expected} %");
    let delays = delays_ms(&packets);
    // A full queue of 20 packets and the packet itself, 4 ms each, and the delay.
    assert!((84.0..92.0).contains(&median(&delays)), "{}", median(&delays));
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).unwrap();
    assert!(core.busy.as_secs_f64() > 1.96 && core.busy.as_secs_f64() < 2.04, "{:?}", core.busy);
    let dropped = core.drops["queue_full"] as f64 / 2.0;
    assert!((dropped - 130.3).abs() < 10.0, "{dropped} a second");
    assert!(core.queues[0].bytes.iter().map(|[_, most, _]| *most).max() >= Some(19_000));
}

#[test]
fn what_an_emulator_loses_is_the_links_with_its_reason() {
    if !may_run("what_an_emulator_loses") {
        return;
    }
    let mut core = way(Rate::from_mbit(10), 5, 100);
    core.discipline = Discipline::Element("Emulator(- : loss 10%)".into());
    let mut s = dumbbell(NodeKind::Forwarder, core, 0, 2000);
    traffic(&mut s, "cbr", 0, constant(Rate::from_mbit(2), 1000));
    let Some(recording) = recorded(&s) else { return };
    let packets = between(&recording.streams[0], 0, 1950);
    let missing = packets.iter().filter(|p| !arrived(p)).count() as i64;
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).unwrap();
    let lost = core.drops.get("emulated_loss").copied().unwrap_or(0) as i64;
    assert!(lost > 20 && (missing - lost).abs() <= 12, "{missing} missing, {:?}", core.drops);
}

#[test]
fn what_queues_at_the_end_is_not_lost() {
    if !may_run("what_queues_at_the_end") {
        return;
    }
    // 300 packets of 8 ms: 2.4 s on their way at the end.
    let mut s = dumbbell(NodeKind::Forwarder, way(Rate::from_mbit(1), 5, 300), 0, 3000);
    traffic(&mut s, "cbr", 0, constant(Rate::from_mbit(3), 986));
    let Some(recording) = recorded(&s) else { return };
    let packets = &recording.streams[0].packets;
    let missing = packets.iter().filter(|p| !arrived(p)).count() as i64;
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).unwrap();
    let dropped = core.drops["queue_full"] as i64;
    // Drops are counted by samples of 10 ms, in which 4 packets come.
    assert!((missing - dropped).abs() <= 8, "{missing} missing, {dropped} dropped");
}

#[test]
fn one_reno_transfer_fills_the_link() {
    if !may_run("one_reno_transfer") {
        return;
    }
    let mut s = dumbbell(NodeKind::Forwarder, way(Rate::from_mbit(10), 10, 50), 1500, 2500);
    traffic(&mut s, "bulk", 0, bulk(1, "newreno"));
    s.probes.connections = vec![0];
    let Some(recording) = recorded(&s) else { return };
    let connection = &recording.connections[0];
    let mbit = connection.window_ip_bytes as f64 * 8.0 / 2.5e6;
    assert!((9.0..10.05).contains(&mbit), "{mbit}");
    assert!(connection.window_bytes < connection.window_ip_bytes && !connection.failed);
    assert_eq!(connection.bins.iter().last().map(|(bin, _)| bin), Some(13), "4 s in bins of 300 ms");
    assert!(connection.retransmits.is_some() && connection.trace.len() > 100);
    assert!(connection.first_byte.unwrap() >= Instant(30_000_000), "a handshake and one way");
}

/// Two classes: what is marked EF first, the rest behind it.
const TWO_CLASSES: &str = r#"
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
guarantee = "1500 kbit/s"

[[class]]
name = "rest"
port = "core"
tier = 2
guarantee = "3 Mbit/s"
default = true
"#;

fn router(text: &str) -> NodeKind {
    NodeKind::Router(RouterConfig {
        origin: "near.toml".into(),
        text: text.into(),
        ..RouterConfig::default()
    })
}

#[test]
fn a_router_with_two_classes_protects_calls_from_a_transfer() {
    if !may_run("a_router") {
        return;
    }
    let mut s = dumbbell(router(TWO_CLASSES), way(Rate::from_mbit(5), 10, 100), 1000, 2000);
    traffic(&mut s, "bulk", 0, bulk(3, "cubic"));
    traffic(&mut s, "calls", 46, constant(Rate::from_kbit(200), 200));
    let Some(recording) = recorded(&s) else { return };
    let packets = between(&recording.streams[0], 1000, 2900);
    let delays = delays_ms(&packets);
    assert_eq!(delays.len(), packets.len(), "no call packet is lost");
    // The way, and at most a packet of the transfer on the line of the router and on that of the link.
    assert!(median(&delays) < 10.4 + 5.0 + 3.0, "{delays:?}");
    let bits: u64 = recording.connections.iter().map(|c| c.window_ip_bytes).sum::<u64>() * 8;
    let mbit = bits as f64 / 2e6;
    assert!((4.0..4.9).contains(&mbit), "{mbit}");
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).unwrap();
    let rest = core.queues.iter().find(|q| q.name == "rest").unwrap();
    assert!(rest.bytes.iter().any(|[_, most, _]| *most > 5_000), "the queue is the class's");
}

#[test]
fn guarantees_give_way_to_a_link_that_is_slower_than_their_sum() {
    if !may_run("guarantees_give_way") {
        return;
    }
    // 1 and 3 Mbit/s fit into 5, not into 2: there they are 0.5 and 1.5 Mbit/s.
    let mut core = way(Rate::from_mbit(5), 10, 100);
    for (at, mbit) in [(700, 2), (2000, 5)] {
        let at = Duration::from_millis(at);
        let rate = Some(Rate::from_mbit(mbit));
        core.changes.push(Change { at, rate, delay: None, loss: None, up: None });
    }
    let mut s = dumbbell(router(TWO_CLASSES), core, 500, 2500);
    traffic(&mut s, "bulk", 0, bulk(3, "cubic"));
    traffic(&mut s, "calls", 46, constant(Rate::from_kbit(200), 200));
    let Some(recording) = recorded(&s) else { return };
    let delays = delays_ms(&between(&recording.streams[0], 1000, 1950));
    assert!(delays.len() >= 115, "{} of 118 call packets", delays.len());
    // 10 ms, and a packet of the transfer on the line of the router and on that of the link: 6 ms each at 2 Mbit/s.
    assert!(median(&delays) < 10.9 + 12.2 + 3.0, "{delays:?}");
    let rate = |from_ms: usize, to_ms: usize| {
        let bins = &recording.links[0].bins[from_ms / 300..to_ms / 300];
        bins.iter().sum::<u64>() as f64 * 8.0 / (bins.len() as f64 * 0.3) / 1e6
    };
    assert!((rate(900, 1800) - 2.0).abs() < 0.15, "{} Mbit/s while it is slow", rate(900, 1800));
    assert!(rate(2400, 3000) > 3.5, "{} Mbit/s when it is back", rate(2400, 3000));
}

#[test]
fn a_change_of_rate_holds_from_its_time() {
    if !may_run("a_change_of_rate") {
        return;
    }
    let mut core = way(Rate::from_mbit(4), 5, 10);
    let at = Duration::from_millis(1000);
    core.changes.push(Change { at, rate: Some(Rate::from_mbit(1)), delay: None, loss: None, up: None });
    let at = Duration::from_millis(1900);
    core.changes.push(Change { at, rate: Some(Rate::from_mbit(4)), delay: None, loss: None, up: None });
    let mut s = dumbbell(NodeKind::Forwarder, core, 0, 2000);
    traffic(&mut s, "cbr", 0, constant(Rate::from_mbit(2), 986));
    let Some(recording) = recorded(&s) else { return };
    let stream = &recording.streams[0];
    let before = between(stream, 100, 950);
    assert_eq!(delays_ms(&before).len(), before.len(), "4 Mbit/s carry 2");
    let after = between(stream, 1200, 1850);
    let share = delays_ms(&after).len() as f64 / after.len() as f64;
    assert!((share - 0.5 * 986.0 / 1000.0).abs() < 0.05, "{share}");
    // Drops are counted over the change that follows them.
    let lost = stream.packets.iter().filter(|p| !arrived(p)).count() as i64;
    let dropped: u64 = recording.links[0].drops.values().sum();
    assert!((lost - dropped as i64).abs() <= 12, "{lost} lost, {dropped} dropped, a queue on the way");
}

/// Delay and loss of a stream, and the throughput of a transfer in Mbit/s.
fn figures(recording: &Recording) -> (f64, f64, f64) {
    let window = recording.window.0.as_nanos() / 1_000_000..recording.window.1.as_nanos() / 1_000_000 - 200;
    let packets = between(&recording.streams[0], window.start, window.end);
    let delays = delays_ms(&packets);
    let loss = 100.0 - delays.len() as f64 * 100.0 / packets.len() as f64;
    let seconds = recording.window.1.since(recording.window.0).as_secs_f64();
    let bits = recording.connections.iter().map(|c| c.window_ip_bytes).sum::<u64>() as f64 * 8.0;
    (delays.iter().sum::<f64>() / delays.len() as f64, loss, bits / seconds / 1e6)
}

#[test]
fn simulation_and_namespaces_agree() {
    if !may_run("simulation_and_namespaces") {
        return;
    }
    let mut s = dumbbell(router(TWO_CLASSES), way(Rate::from_mbit(6), 15, 60), 1500, 3000);
    traffic(&mut s, "bulk", 0, bulk(2, "newreno"));
    traffic(&mut s, "calls", 46, constant(Rate::from_kbit(320), 400));
    let Some(recording) = recorded(&s) else { return };
    let (delay, loss, mbit) = figures(&recording);
    let simulated = perhop_sim::run(&s, &perhop_sim::Options::default(), |_| true).unwrap();
    let (sim_delay, sim_loss, sim_mbit) = figures(&simulated);
    let all = format!("{delay} {sim_delay} ms, {loss} {sim_loss} %, {mbit} {sim_mbit} Mbit/s");
    eprintln!("namespaces and simulation: {all}");
    assert!((delay - sim_delay).abs() < 3.0, "{all}");
    assert!((loss - sim_loss).abs() < 1.0, "{all}");
    assert!((mbit / sim_mbit - 1.0).abs() < 0.1, "{all}");
    // Both count the same things of the link, in the same order.
    let (ours, theirs) = (&recording.links[0], &simulated.links[0]);
    assert_eq!((ours.link, ours.way), (theirs.link, theirs.way));
    assert!(
        (ours.busy.as_secs_f64() - theirs.busy.as_secs_f64()).abs() < 0.15,
        "{:?} {:?}",
        ours.busy,
        theirs.busy
    );
    assert_eq!(recording.streams[0].packets.len(), simulated.streams[0].packets.len());
    // Calls wait for a packet on the line, transfers for all that is before them: packets' waits, not the queue's length.
    let quantiles = |link: &LinkRecord| {
        let mut waits = link.waits_ns.clone();
        waits.sort_unstable();
        [10, 50, 95].map(|pct| waits[waits.len() * pct / 100] as f64 / 1e6)
    };
    let (here, there) = (quantiles(ours), quantiles(theirs));
    eprintln!(
        "waits of {} and {} packets: {here:?} {there:?} ms",
        ours.waits_ns.len(),
        theirs.waits_ns.len()
    );
    assert!(here.iter().zip(&there).all(|(a, b)| (a - b).abs() < 3.0 + b * 0.15), "{here:?} {there:?}");
}

fn program(name: &str, command: &[&str], stop: Option<u64>, expect: FinalState) -> Program {
    Program {
        name: name.into(),
        node: NodeIndex(2),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        at: None,
        start: Duration::from_millis(50),
        stop: stop.map(Duration::from_millis),
        expect,
    }
}

#[test]
fn programs_run_in_their_node_and_their_end_is_checked() {
    if !may_run("programs") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let out = std::env::temp_dir().join(format!("perhop-programs-{}", std::process::id()));
    let options = NetnsOptions { out: Some(out.clone()), ..NetnsOptions::default() };
    let mut s = dumbbell(NodeKind::Forwarder, Way::default(), 0, 600);
    s.programs.push(program("devices", &["cat", "/proc/thread-self/net/dev"], None, FinalState::Exit(0)));
    s.programs.push(program("sleeper", &["sleep", "60"], Some(300), FinalState::Running));
    run(&s, &options, |_| true).unwrap();
    let devices = std::fs::read_to_string(out.join("devices.out")).unwrap();
    assert!(devices.contains("la:") && !devices.contains("lb:"), "{devices}");
    s.programs.push(program("loser", &["sh", "-c", "echo why >&2; exit 3"], None, FinalState::Exit(0)));
    let recording = run(&s, &options, |_| true).unwrap();
    assert_eq!(recording.programs.len(), 1, "the others ended as they should: {:?}", recording.programs);
    let ended = &recording.programs[0];
    assert_eq!((ended.program.as_str(), ended.expected.as_str()), ("loser", "exit code 0"));
    assert!(ended.found.contains("exit code 3"), "{ended:?}");
    assert!(!recording.links.is_empty(), "the result stands");
    assert_eq!(std::fs::read_to_string(out.join("loser.err")).unwrap(), "why\n");
    s.programs = vec![program("nobody", &["/no/such/program"], None, FinalState::Any)];
    let recording = run(&s, &options, |_| true).unwrap();
    let failed = &recording.programs[0];
    assert!(failed.program == "nobody" && failed.found.contains("did not start"), "{failed:?}");
    assert!(!recording.links.is_empty(), "the figures are kept");
    std::fs::remove_dir_all(&out).unwrap();
}

#[test]
fn what_cannot_be_built_is_told_by_name_and_a_stop_ends_early() {
    if !may_run("what_cannot_be_built") {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = perhop_netlink::Netlink::open().unwrap().links().unwrap();
    let options = NetnsOptions::default();
    let mut s = dumbbell(NodeKind::Forwarder, way(Rate::from_mbit(10), 1, 10), 0, 5000);
    traffic(&mut s, "bulk", 0, bulk(1, "carrier-pigeon"));
    let error = run(&s, &options, |_| true).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(
        error.to_string().contains("\"bulk\"") && error.to_string().contains("carrier-pigeon"),
        "{error}"
    );
    s.traffic.clear();
    s.links[1].ways[0].discipline = Discipline::Element("Nonsense(3)".into());
    let error = run(&s, &options, |_| true).unwrap_err();
    assert!(error.to_string().contains("\"la\"") && error.to_string().contains("Nonsense"), "{error}");
    assert_eq!(error.exit_code(), 2);
    s.links[1].ways[0] = Way::default();
    let recording = run(&s, &options, |at| at < Duration::from_millis(300)).unwrap();
    assert!(recording.warnings[0].contains("stopped after"), "{:?}", recording.warnings);
    assert!(recording.window.1 < Instant(2_000_000_000));
    assert_eq!(perhop_netlink::Netlink::open().unwrap().links().unwrap(), before, "nothing stays behind");
}

#[test]
fn a_node_that_stops_is_silent_until_it_starts_again() {
    if !may_run("a_node_that_stops") {
        return;
    }
    let mut s = dumbbell(NodeKind::Forwarder, way(Rate::from_mbit(10), 5, 50), 0, 2400);
    traffic(&mut s, "down", 0, constant(Rate::from_kbit(400), 1000));
    traffic(&mut s, "files", 0, TrafficKind::Files { count: 1, size: Bytes(20_000), tcp: Tcp::default() });
    s.traffic[0].both = true;
    let fault = |ms, node, kind| Fault { at: Duration::from_millis(ms), node: NodeIndex(node), kind };
    s.faults = vec![
        fault(0, 3, FaultKind::ClockDrift { ppm: 100_000 }),
        fault(600, 3, FaultKind::Stop),
        fault(1200, 3, FaultKind::Restart),
        fault(1800, 1, FaultKind::Stop),
    ];
    let Some(recording) = recorded(&s) else { return };
    let (down, up) = (&recording.streams[0], &recording.streams[1]);
    // The clock of host b runs a tenth fast, so its instants are 1.1 times those of the run.
    let lost = |stream: &StreamRecord, from, until| {
        let packets = between(stream, from, until);
        (packets.len(), packets.len() - packets.iter().copied().filter(arrived).count())
    };
    assert_eq!(lost(down, 50, 550).1, 0);
    let (sent, gone) = lost(down, 620, 1170);
    assert!(sent > 20 && gone == sent, "{gone} of {sent} lost while the host is down");
    assert_eq!(lost(down, 1250, 1750).1, 0);
    let (sent, gone) = lost(down, 1830, 2300);
    assert!(sent > 15 && gone == sent, "{gone} of {sent} lost behind the stopped forwarder");
    assert_eq!(between(up, 700, 1300).len(), 0, "a stopped host sends nothing");
    // 50 packets a second for 0.6 s, and some segments: on the link to the host, and on the two to the forwarder.
    for (link, way) in [(2, 0), (0, 0), (2, 1)] {
        let record = recording.links.iter().find(|l| (l.link, l.way) == (link, way)).unwrap();
        let lost = record.drops.get("port_down").copied().unwrap_or(0);
        assert!((20..=80).contains(&lost), "{lost} on link {link}, direction {way}");
    }
    let again = between(up, 1340, 1900);
    assert!(again.len() > 20);
    // Numbered on while the host was down, and found all the same: 6 ms, and what its clock gained or lost meanwhile.
    assert!(delays_ms(&again).len() == again.len() && up.duplicates == 0, "{again:?}");
    let late = between(down, 1500, 1750);
    let shown = late[0].arrived.as_nanos() as f64 / late[0].sent.as_nanos() as f64;
    assert!((shown - 1.1).abs() < 0.01, "{shown}");
    assert!(recording.connections.iter().any(|c| c.ended.is_some()));
    assert!(recording.connections.iter().any(|c| c.failed));
}

#[test]
fn a_stopped_router_sends_nothing_of_what_it_holds() {
    if !may_run("a_stopped_router") {
        return;
    }
    let queue = "[[port]]\nname = \"core\"\n[[class]]\nname = \"rest\"\nport = \"core\"\ndefault = true\nqueue = \"3 s\"\n";
    let mut s = dumbbell(router(queue), way(Rate::from_mbit(1), 20, 100), 0, 2600);
    traffic(&mut s, "cbr", 0, constant(Rate::from_mbit(2), 1000));
    let fault = |ms, kind| Fault { at: Duration::from_millis(ms), node: NodeIndex(0), kind };
    s.faults = vec![fault(1000, FaultKind::Stop), fault(1800, FaultKind::Restart)];
    let Some(recording) = recorded(&s) else { return };
    let packets = &recording.streams[0].packets;
    let arrived = |from: u64, to: u64| {
        let ms = from..to;
        packets.iter().filter(|p| ms.contains(&(p.arrived.as_nanos() / 1_000_000))).count()
    };
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).expect("the core");
    assert!(
        core.drops.get("port_down").is_some_and(|lost| *lost > 50),
        "its queue was lost: {:?}",
        core.drops
    );
    // Half a second waits when it stops, and would take as long to leave.
    assert!(arrived(500, 1000) > 40 && arrived(1060, 1800) == 0, "{}", arrived(1060, 1800));
    assert!(arrived(1850, 2600) > 60, "{}", arrived(1850, 2600));
}

#[test]
fn calls_both_ways_and_web_users_through_a_discipline() {
    if !may_run("calls_both_ways") {
        return;
    }
    let mut core = way(Rate::from_mbit(4), 10, 60);
    core.discipline =
        Discipline::Element("Shaper(discipline = red, min = 10 packets, max = 40 packets)".into());
    let mut s = dumbbell(NodeKind::Forwarder, core, 500, 2500);
    let calls = TrafficKind::Voice {
        calls: 3,
        codec: perhop_quality::Codec::G711U,
        spacing: Duration::from_millis(7),
        silence_suppression: None,
    };
    traffic(&mut s, "voip", 46, calls);
    s.traffic[0].both = true;
    let think = (Duration::from_millis(10), Duration::from_millis(100));
    let tcp = Tcp { congestion: "reno".into(), ..Tcp::default() };
    let web = TrafficKind::Web { count: 3, think, size: Bytes(5_000), persistent_objects: Some(4), tcp };
    // Users are at b: the data go from a to b.
    traffic(&mut s, "www", 0, web);
    let Some(recording) = recorded(&s) else { return };
    assert_eq!(recording.streams.len(), 6);
    for stream in &recording.streams {
        assert!(stream.codec.is_some() && stream.packets.len() > 100 && stream.packets[1].rtp_timestamp > 0);
        let lost = stream.packets.iter().filter(|p| !arrived(p)).count();
        assert!(lost * 20 < stream.packets.len(), "{lost} of {}", stream.packets.len());
    }
    let ended = recording.connections.iter().filter(|c| c.ended.is_some()).count();
    assert!(ended >= 5, "{ended} of {} connections ended", recording.connections.len());
    for connection in recording.connections.iter().filter(|c| c.ended.is_some() && !c.failed) {
        let on_the_way = connection.bins.total();
        assert!(connection.bytes > 0 && on_the_way > connection.bytes, "{connection:?}");
    }
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).unwrap();
    assert!(core.busy.as_secs_f64() > 0.1 && core.wire_bytes > 50_000, "{core:?}");
}
