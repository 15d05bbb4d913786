//! What one direction of a link does and counts, when something happens to it.

use crate::net::*;
use perhop_measure::{LinkRecord, Recording};
use perhop_scenario::*;
use perhop_sim::{Options, run};
use perhop_units::{Duration, Instant, Probability, Rate};

fn simulate(scenario: &Scenario) -> Recording {
    run(scenario, &Options::default(), |_| true).unwrap_or_else(|e| panic!("{e}"))
}

/// Twice what a line of 1 Mbit/s carries, in frames of 10 ms each.
fn overload(packets: u32, seconds: u64) -> Scenario {
    let mut s = dumbbell(1, Rate::from_mbit(1), Duration::ZERO, packets, seconds);
    let stop = Duration::from_secs(seconds);
    s.traffic.push(traffic("cbr", vec![pair(0)], stop, constant(Rate::from_mbit(2), 1236)));
    s
}

fn core(recording: &Recording) -> &LinkRecord {
    recording.links.iter().find(|l| l.link == 0 && l.way == 0).expect("the core")
}

fn change(at: Duration) -> Change {
    Change { at, rate: None, delay: None, loss: None, up: None }
}

fn half() -> Probability {
    Probability(1 << 31)
}

/// The longest delay of those that arrived, s, and how many they are.
fn delays(recording: &Recording) -> (f64, usize) {
    let packets = recording.streams[0].packets.iter().filter(|p| p.arrived != Instant::FAR_FUTURE);
    let delays: Vec<f64> = packets.map(|p| p.arrived.since(p.sent).as_secs_f64()).collect();
    (delays.iter().copied().fold(0.0, f64::max), delays.len())
}

#[test]
fn a_queue_that_stands_when_the_window_begins_hides_no_line_time() {
    let mut s = overload(500, 30);
    (s.warm_up, s.duration) = (Duration::from_secs(20), Duration::from_secs(10));
    let recording = simulate(&s);
    let core = core(&recording);
    assert!((core.busy.as_secs_f64() - 10.0).abs() < 1e-6, "a saturated line: {:?}", core.busy);
    assert!((999..=1001).contains(&(core.wire_bytes / 1250)), "{}", core.wire_bytes);
}

#[test]
fn a_cut_takes_back_what_the_line_was_promised() {
    let mut s = overload(1000, 20);
    s.probes.throughput_bin = Duration::from_millis(100);
    let (down, up) = (Duration::from_secs(16), Duration::from_secs(17));
    s.links[0].ways[0].changes =
        vec![Change { up: Some(false), ..change(down) }, Change { up: Some(true), ..change(up) }];
    let recording = simulate(&s);
    let core = core(&recording);
    // All but the second without the link, and the way of the first packet.
    assert!((18.98..=19.0).contains(&core.busy.as_secs_f64()), "{:?}", core.busy);
    assert!((1897..=1900).contains(&(core.wire_bytes / 1250)), "{}", core.wire_bytes);
    let to_the_end: u64 = core.bins.iter().take(200).sum();
    assert!(core.wire_bytes - to_the_end <= 1250, "{to_the_end} of {}", core.wire_bytes);
    // What began at 16 s had come at 8 s; what came later never began.
    let longest = core.waits_ns.iter().copied().max().unwrap_or(0);
    assert!(longest < 8_100_000_000, "{longest}");
    let seen: u64 = core.queues[0].drops.iter().map(|n| u64::from(*n)).sum();
    assert_eq!(seen, core.drops.values().sum::<u64>());
    assert!(core.drops["port_down"] > 900, "{:?}", core.drops);
}

/// What waited had been promised the opportunities of the next 10 s.
#[test]
fn a_cut_gives_a_trace_its_opportunities_back() {
    let mut s = overload(1000, 20);
    let core = &mut s.links[0].ways[0];
    core.rate = None;
    core.trace = Some(DeliveryTrace { origin: "test".into(), opportunities_ms: vec![10] });
    let (down, up) = (Duration::from_secs(10), Duration::from_secs(11));
    core.changes = vec![Change { up: Some(false), ..change(down) }, Change { up: Some(true), ..change(up) }];
    let recording = simulate(&s);
    let after = recording.streams[0].packets.iter().filter(|p| p.sent >= Instant(up.as_nanos()));
    let first = after.map(|p| p.arrived.since(p.sent)).next().expect("packets");
    assert!(first < Duration::from_millis(25), "{first:?}");
}

/// All that is lost of a run, by reason and link.
fn losses(recording: &Recording) -> Vec<(usize, &str, u64)> {
    let links = recording.links.iter();
    links.flat_map(|l| l.drops.iter().map(|(reason, n)| (l.link, reason.as_str(), *n))).collect()
}

#[test]
fn what_a_discipline_loses_has_its_reason_whatever_is_probed() {
    for (discipline, reason) in [
        (Discipline::Element("Shaper(discipline = codel)".into()), "codel"),
        (Discipline::Element("Shaper(discipline = fq_codel)".into()), "codel"),
        (Discipline::Element("Emulator(- : loss 10%)".into()), "emulated_loss"),
    ] {
        let mut s = overload(100, 20);
        s.links[0].ways[0].discipline = discipline.clone();
        // The queue of another link is recorded.
        s.probes.links = vec![LinkIndex(1)];
        let recording = simulate(&s);
        let packets = &recording.streams[0].packets;
        let lost = packets.iter().filter(|p| p.arrived == Instant::FAR_FUTURE).count() as u64;
        let told = losses(&recording);
        assert!(
            lost > 100 && told.iter().any(|(link, r, n)| (*link, *r) == (0, reason) && *n > 50),
            "{told:?}"
        );
        // What still waits at the end may be dropped behind it.
        let sum: u64 = told.iter().map(|(_, _, n)| n).sum();
        assert!((lost - 100..=lost).contains(&sum), "{discipline:?}: {lost} lost, {told:?}");
    }
}

#[test]
fn a_way_too_long_for_the_time_to_live_says_so() {
    let mut s = empty(2);
    let mut before = node(&mut s, "a", NodeKind::Host);
    for i in 0..80 {
        let next = node(&mut s, &format!("n{i}"), NodeKind::Forwarder);
        link(&mut s, &format!("l{i}"), [before, next], way(None, Duration::ZERO, 100));
        before = next;
    }
    let b = node(&mut s, "b", NodeKind::Host);
    link(&mut s, "last", [before, b], way(None, Duration::ZERO, 100));
    s.traffic.push(traffic(
        "cbr",
        vec![(NodeIndex(0), b)],
        Duration::from_secs(2),
        constant(Rate::from_kbit(80), 100),
    ));
    let recording = simulate(&s);
    let sent = recording.streams[0].packets.len() as u64;
    // Each forwarder counts down from 64; the one that would leave none is the last, and the 64th link leads to it.
    assert_eq!(losses(&recording), [(63, "ttl_expired", sent)]);
}

/// Without a delay there is nothing to skip, so the line and its queue do the same.
#[test]
fn packets_that_overtake_wait_for_the_line_like_any_other() {
    for reorder in [Probability::ONE, half()] {
        let mut s = overload(10, 20);
        s.links[0].ways[0].changes =
            vec![Change { rate: Some(Rate::from_kbit(100)), ..change(Duration::from_secs(10)) }];
        let plain = simulate(&s);
        s.links[0].ways[0].reorder = reorder;
        let overtaking = simulate(&s);
        let (plain_core, core) = (core(&plain), core(&overtaking));
        assert_eq!((core.busy, core.wire_bytes), (plain_core.busy, plain_core.wire_bytes));
        assert_eq!((&core.drops, &core.bins), (&plain_core.drops, &plain_core.bins));
        assert_eq!(core.waits_ns, plain_core.waits_ns);
        assert_eq!(core.queues[0].bytes, plain_core.queues[0].bytes);
        assert_eq!(delays(&overtaking), delays(&plain));
    }
}

#[test]
fn packets_that_overtake_arrive_by_time() {
    let mut s = overload(10, 20);
    let way = &mut s.links[0].ways[0];
    (way.delay, way.reorder) = (Duration::from_millis(35), half());
    let recording = simulate(&s);
    let mut arrived: Vec<(Instant, usize)> =
        recording.streams[0].packets.iter().enumerate().map(|(i, p)| (p.arrived, i)).collect();
    arrived.retain(|(at, _)| *at != Instant::FAR_FUTURE);
    arrived.sort_unstable();
    let overtaken = arrived.windows(2).filter(|w| w[0].1 > w[1].1).count();
    assert!(overtaken > 300, "{overtaken} of {}", arrived.len());
    // 10 in the queue and one on the line, the delay, 1 ms on each outer link.
    let (longest, count) = delays(&recording);
    assert!(longest < 0.148 && (1990..=2012).contains(&count), "{longest} s, {count}");
}

#[test]
fn copies_wait_since_their_original_came_and_find_the_queue_full_too() {
    let mut s = dumbbell(1, Rate::from_mbit(10), Duration::ZERO, 100, 20);
    let stop = Duration::from_secs(20);
    s.traffic.push(traffic("cbr", vec![pair(0)], stop, constant(Rate::from_mbit(2), 1236)));
    s.links[0].ways[0].duplicate = half();
    let recording = simulate(&s);
    let longest = core(&recording).waits_ns.iter().copied().max().unwrap_or(0);
    assert_eq!(longest, 1_000_000, "a copy waits until its original has left");

    let mut s = overload(19, 20);
    s.links[0].ways[0].duplicate = Probability::ONE;
    let recording = simulate(&s);
    let most = core(&recording).queues[0].bytes.iter().map(|[_, most, _]| *most).max();
    assert_eq!(most, Some(19 * 1250));
}

/// Neighbouring seeds once gave the same draws: the second repetition of one was the first of the other.
#[test]
fn repetitions_of_neighbouring_seeds_differ() {
    let mut s = overload(50, 10);
    s.traffic[0].kind = constant(Rate::from_kbit(1100), 1236);
    let text = "Shaper(discipline = red, min = 5 packets, max = 15 packets)";
    s.links[0].ways[0].discipline = Discipline::Element(text.to_owned());
    let text = |seed, repetition| {
        let options = Options { seed, repetition, ..Options::default() };
        let recording = run(&s, &options, |_| true).unwrap_or_else(|e| panic!("{e}"));
        assert!(core(&recording).drops["red_early"] > 10);
        recording.streams[0].packets.iter().map(|p| p.arrived).collect::<Vec<_>>()
    };
    assert_eq!(text(2, 1), text(2, 1));
    assert_ne!(text(2, 1), text(3, 0));
    assert_ne!(text(2, 1), text(2, 0));
}

/// Full packets on an idle link wait for one opportunity, and as many pass as there are opportunities.
#[test]
fn an_opportunity_carries_a_full_packet() {
    let mut s = dumbbell(1, Rate::from_mbit(10), Duration::ZERO, 100, 10);
    let way = &mut s.links[0].ways[0];
    way.rate = None;
    way.trace = Some(DeliveryTrace { origin: "test".into(), opportunities_ms: vec![1] });
    let stop = Duration::from_secs(10);
    s.traffic.push(traffic("cbr", vec![pair(0)], stop, constant(Rate::from_mbit(2), 1500)));
    let (longest, _) = delays(&simulate(&s));
    assert!(longest <= 0.001_243, "an opportunity a ms, 121.12 µs on each outer link: {longest}");
    s.traffic[0].kind = constant(Rate::from_mbit(24), 1500);
    let (_, count) = delays(&simulate(&s));
    assert!((9_990..=10_102).contains(&count), "{count}");
}
