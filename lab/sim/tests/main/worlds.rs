use crate::net::*;
use perhop_scenario::*;
use perhop_sim::{Options, run};
use perhop_units::{Bytes, Duration, Instant, Rate};

fn simulate(scenario: &Scenario, seed: u64) -> perhop_measure::Recording {
    run(scenario, &Options { seed, ..Options::default() }, |_| true).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_lone_packet_takes_wire_time_and_delay_of_each_link() {
    let mut s = dumbbell(1, Rate::from_mbit(10), Duration::from_millis(20), 100, 2);
    let stop = Duration::from_secs(1);
    s.traffic.push(traffic("cbr", vec![pair(0)], stop, constant(Rate::from_kbit(10), 1000)));
    let recording = simulate(&s, 1);
    let packets = &recording.streams[0].packets;
    assert_eq!(packets.len(), 2, "10 kbit/s in packets of 8,000 bit");
    // 1,014 bytes over 100, 10 and 100 Mbit/s, rounded down to ns a link.
    let expected = 81_120 + 811_200 + 81_120 + 20_000_000;
    for packet in packets {
        assert_eq!(packet.arrived.since(packet.sent).as_nanos(), expected);
    }
}

#[test]
fn overload_loses_what_the_line_cannot_carry_and_waits_as_long_as_the_queue_is() {
    let mut s = dumbbell(1, Rate::from_mbit(1), Duration::ZERO, 20, 11);
    s.traffic.push(traffic(
        "cbr",
        vec![pair(0)],
        Duration::from_secs(10),
        constant(Rate::from_mbit(2), 1236),
    ));
    let recording = simulate(&s, 1);
    let packets = &recording.streams[0].packets;
    let arrived = packets.iter().filter(|p| p.arrived != Instant::FAR_FUTURE).count();
    // 10 ms a packet on the line: about 1,000 in 10 s and the 20 that wait at the end.
    assert_eq!(packets.len(), 2023);
    assert!((1019..=1022).contains(&arrived), "{arrived}");
    let longest = packets.iter().filter(|p| p.arrived != Instant::FAR_FUTURE);
    let longest = longest.map(|p| p.arrived.since(p.sent).as_nanos()).max().unwrap_or(0);
    // 20 in the queue and itself, the two outer links 1 ms each; the packet on the line may be nearly finished.
    assert!((210_000_000..=222_000_000).contains(&longest), "{longest}");
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).expect("the core");
    assert_eq!(core.drops["queue_full"] as usize, packets.len() - arrived);
    assert!(core.queues[0].bytes.iter().map(|[_, most, _]| *most).max() >= Some(20 * 1250));
}

#[test]
fn one_transfer_fills_the_link() {
    let mut s = dumbbell(1, Rate::from_mbit(10), Duration::from_millis(10), 100, 20);
    s.warm_up = Duration::from_secs(5);
    s.duration = Duration::from_secs(15);
    let stop = Duration::from_secs(20);
    let kind = TrafficKind::Bulk {
        count: 1,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay: (Duration::ZERO, Duration::ZERO),
        tcp: newreno(),
    };
    s.traffic.push(traffic("bulk", vec![pair(0)], stop, kind));
    let recording = simulate(&s, 1);
    let bits = recording.connections[0].window_ip_bytes as f64 * 8.0 / 15.0;
    // All of the link but the Ethernet header.
    let most = 1e7 * 1500.0 / 1514.0;
    assert!(bits > most * 0.995 && bits < most * 1.001, "{bits}");
    let core = &recording.links[0];
    assert!(core.busy.as_secs_f64() > 14.9, "{:?}", core.busy);
}

#[test]
fn a_sized_transfer_ends_and_web_users_fetch_pages() {
    let mut s = dumbbell(2, Rate::from_mbit(10), Duration::from_millis(5), 100, 60);
    let stop = Duration::from_secs(60);
    let bulk = TrafficKind::Bulk {
        count: 3,
        size: Some(Bytes(1_000_000)),
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay: (Duration::ZERO, Duration::ZERO),
        tcp: Tcp::default(),
    };
    s.traffic.push(traffic("bulk", vec![pair(0)], stop, bulk));
    let web = TrafficKind::Web {
        count: 20,
        think: (Duration::ZERO, Duration::from_secs(12)),
        size: Bytes(10_000),
        persistent_objects: None,
        tcp: newreno(),
    };
    s.traffic.push(traffic("www", vec![pair(1)], stop, web));
    let recording = simulate(&s, 1);
    let (bulk, web): (Vec<_>, Vec<_>) = recording.connections.iter().partition(|c| c.of.traffic == 0);
    assert_eq!(bulk.len(), 3);
    for transfer in &bulk {
        assert_eq!(transfer.bytes, 1_000_000);
        assert!(transfer.ended.is_some() && !transfer.failed);
    }
    // 20 users, 6 s of thinking and little more: about 190 pages in 60 s.
    let fetched = web.iter().filter(|c| c.ended.is_some()).count();
    assert!((150..=210).contains(&fetched), "{fetched} of {}", web.len());
    assert!(web.iter().all(|c| !c.failed));
}

#[test]
fn the_same_seed_gives_the_same_recording_and_another_seed_another() {
    let mut s = dumbbell(3, Rate::from_mbit(5), Duration::from_millis(20), 30, 20);
    s.links[0].ways[0].loss = perhop_units::Probability(1 << 25);
    let stop = Duration::from_secs(20);
    let kind = TrafficKind::Files { count: 5, size: Bytes(300_000), tcp: Tcp::default() };
    s.traffic.push(traffic("files", vec![pair(0), pair(1)], stop, kind));
    let voice = TrafficKind::Voice {
        calls: 10,
        codec: perhop_quality::Codec::G711U,
        spacing: Duration::ZERO,
        silence_suppression: None,
    };
    s.traffic.push(Traffic { both: true, ..traffic("voip", vec![pair(2)], stop, voice) });
    let text = |seed| format!("{:?}", simulate(&s, seed));
    let first = text(7);
    assert_eq!(first, text(7));
    assert_ne!(first, text(8));
}

#[test]
fn what_is_on_its_way_at_the_end_is_not_lost() {
    let mut s = dumbbell(1, Rate::from_mbit(10), Duration::from_millis(500), 100, 5);
    s.traffic.push(traffic(
        "cbr",
        vec![pair(0)],
        Duration::from_secs(5),
        constant(Rate::from_kbit(800), 1000),
    ));
    let recording = simulate(&s, 1);
    assert_eq!(recording.streams[0].packets.len(), 500);
    assert!(recording.streams[0].packets.iter().all(|p| p.arrived != Instant::FAR_FUTURE));
    // Line time and bytes behind the end do not count: 100 packets a second of 1,014 bytes.
    let core = &recording.links[0];
    assert!(core.wire_bytes <= 500 * 1014 && core.busy.as_secs_f64() < 0.41, "{core:?}");
}

#[test]
fn what_a_source_numbers_while_its_host_is_stopped_was_never_sent() {
    let mut s = dumbbell(1, Rate::from_mbit(2), Duration::from_millis(10), 100, 10);
    let voice = TrafficKind::Voice {
        calls: 3,
        codec: perhop_quality::Codec::G711U,
        spacing: Duration::ZERO,
        silence_suppression: None,
    };
    s.traffic.push(traffic("voip", vec![pair(0)], Duration::from_secs(9), voice));
    for (at, kind) in [(3, FaultKind::Stop), (5, FaultKind::Restart)] {
        s.faults.push(Fault { at: Duration::from_secs(at), node: pair(0).0, kind });
    }
    let recording = simulate(&s, 1);
    assert_eq!(recording.streams.len(), 3);
    for stream in &recording.streams {
        // 50 packets a second in 3 s and in 4 s.
        assert!((349..=351).contains(&stream.packets.len()), "{}", stream.packets.len());
        for packet in &stream.packets {
            let delay = packet.arrived.since(packet.sent).as_millis_f64();
            assert!((10.0..16.0).contains(&delay), "{delay} ms");
        }
        assert_eq!(stream.duplicates, 0);
    }
}

#[test]
fn what_comes_to_a_stopped_host_or_forwarder_is_lost_on_the_link_that_brought_it() {
    // The core's record is the first; that of the receiver's link, first direction, the fifth.
    for (node, record) in [(NodeIndex(1), 0), (pair(0).1, 4)] {
        let mut s = dumbbell(1, Rate::from_mbit(2), Duration::from_millis(10), 100, 10);
        let kind = constant(Rate::from_mbit(1), 1000);
        s.traffic.push(traffic("cbr", vec![pair(0)], Duration::from_secs(9), kind));
        for (at, kind) in [(3, FaultKind::Stop), (5, FaultKind::Restart)] {
            s.faults.push(Fault { at: Duration::from_secs(at), node, kind });
        }
        let recording = simulate(&s, 1);
        let missing =
            recording.streams[0].packets.iter().filter(|p| p.arrived == Instant::FAR_FUTURE).count() as u64;
        assert!((249..=251).contains(&missing), "125 a second: {missing}");
        assert_eq!(recording.links[record].drops, [("port_down".to_owned(), missing)].into());
        let elsewhere = recording.links.iter().enumerate().filter(|(i, _)| *i != record);
        assert!(elsewhere.clone().all(|(_, link)| link.drops.is_empty()));
    }
}

/// Packets of the one stream, those of them that did not arrive, and the drops of the core.
fn overloaded(rate: Rate, seconds: u64) -> (usize, usize, u64, Vec<String>) {
    let mut s = dumbbell(1, rate, Duration::ZERO, 500, seconds);
    let kind = constant(Rate(rate.0 * 2), 1500);
    s.traffic.push(traffic("cbr", vec![pair(0)], Duration::from_secs(seconds), kind));
    let recording = simulate(&s, 1);
    let packets = &recording.streams[0].packets;
    let missing = packets.iter().filter(|p| p.arrived == Instant::FAR_FUTURE).count();
    let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).expect("the core");
    (packets.len(), missing, core.drops.values().sum(), recording.warnings)
}

#[test]
fn only_what_was_dropped_is_lost_however_long_the_queue_is_at_the_end() {
    // 500 packets of 12 ms: 6 s on their way at the end.
    let (sent, missing, dropped, warnings) = overloaded(Rate::from_mbit(1), 20);
    assert!((3333..=3335).contains(&sent) && dropped > 1000, "{sent} sent, {dropped} dropped");
    assert_eq!((missing as u64, warnings), (dropped, Vec::new()));
    // 500 packets of 121 ms: one minute, which nobody waits for.
    let (sent, missing, dropped, warnings) = overloaded(Rate::from_kbit(100), 200);
    assert_eq!(missing as u64, dropped);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let aside: usize = warnings[0].split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    // In 30 s the line takes 247 of the 501.
    assert!((250..=256).contains(&aside) && warnings[0].contains("30 s after the end"), "{warnings:?}");
    assert!((3332..=3335).contains(&(sent + aside)), "{sent} and {aside}");
}

#[test]
fn programs_that_do_not_run_are_told() {
    let mut s = dumbbell(1, Rate::from_mbit(1), Duration::ZERO, 10, 1);
    s.programs.push(Program {
        name: "daemon".into(),
        node: pair(0).0,
        command: vec!["true".into()],
        at: None,
        start: Duration::ZERO,
        stop: None,
        expect: FinalState::Exit(0),
    });
    assert_eq!(simulate(&s, 1).warnings, ["programs run on real kernels only; left out: daemon"]);
}

#[test]
fn reasons_that_expected_values_may_name_are_those_of_the_data_plane() {
    let names: Vec<String> = (0..).map_while(perhop_packet::DropReason::name_of_index).collect();
    for reason in perhop_scenario::figures::DROP_REASONS {
        assert!(names.iter().any(|name| name == reason), "{reason}");
    }
}

/// One transfer with `tcp` over `mbit` Mbit/s and 100 ms there and back, with so many packets of queue.
fn transfer(mbit: u64, queue: u32, tcp: Tcp) -> perhop_measure::Recording {
    let mut s = dumbbell(1, Rate::from_mbit(mbit), Duration::from_millis(50), queue, 10);
    let kind = TrafficKind::Bulk {
        count: 1,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay: (Duration::ZERO, Duration::ZERO),
        tcp,
    };
    s.traffic.push(traffic("bulk", vec![pair(0)], Duration::from_secs(10), kind));
    simulate(&s, 1)
}

#[test]
fn window_scaling_is_a_choice_of_its_own() {
    let mbit = |window_scaling| {
        let tcp = Tcp { timestamps: false, window_scaling, ..Tcp::default() };
        transfer(20, 1000, tcp).connections[0].window_ip_bytes as f64 * 8.0 / 10.0 / 1e6
    };
    // 65,535 bytes a round-trip time of 100 ms, and the headers of 1,448 bytes of each.
    let most = 65_535.0 * 8.0 / 0.1 / 1e6 * 1500.0 / 1448.0;
    let (without, with) = (mbit(false), mbit(true));
    assert!((4.0..=most).contains(&without) && with > 10.0, "{without} and {with} Mbit/s");
}

#[test]
fn cubic_leaves_slow_start_before_the_queue_is_full_unless_told() {
    let lost = |slow_start| {
        let recording = transfer(10, 150, Tcp { slow_start, ..Tcp::default() });
        recording.links[0].drops.get("queue_full").copied().unwrap_or(0)
    };
    let (standard, hystart) = (lost(SlowStart::Standard), lost(SlowStart::HyStart));
    assert!(standard > 50 && hystart < standard / 4, "{standard} and {hystart} lost");
    assert_eq!(Tcp::default().slow_start, SlowStart::HyStart);
}
