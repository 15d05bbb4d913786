use crate::details::directory;
use crate::experiment::{Configuration, Experiment};
use crate::recording::*;
use crate::tests::{MS, bins, cbr, of, recording, scenario, stream, traffic};
use perhop_quality::Codec;
use perhop_report::details::QueueInterval;
use perhop_scenario::{Change, Expect, Fault, FaultKind, NodeIndex, Target, TrafficKind};
use perhop_units::{Duration, Instant, Rate};

fn experiment(recordings: Vec<Recording>) -> Experiment {
    let voice = TrafficKind::Voice {
        calls: 1,
        codec: Codec::G711U,
        spacing: Duration::ZERO,
        silence_suppression: None,
    };
    let mut scenario = scenario(vec![traffic("voip", true, 1, voice), traffic("cbr", false, 2, cbr())]);
    scenario.links[0].ways[0].changes.push(Change {
        at: Duration::from_secs(2),
        rate: Some(Rate::from_kbit(500)),
        delay: None,
        loss: None,
        up: None,
    });
    let expect = |mode: Option<&str>, source: &str| Expect {
        metric: "voip.loss_pct".into(),
        target: Some(Target::AtMost(1.0)),
        published: Some(9.72),
        source: Some(source.into()),
        depends: Vec::new(),
        every: false,
        mode: mode.map(str::to_owned),
    };
    scenario.expect = vec![expect(Some("netns"), "elsewhere"), expect(None, "table 8.3")];
    Experiment {
        mode: "sim".into(),
        seed: 1,
        changed: Vec::new(),
        product: Configuration { scenario, recordings },
        variants: Vec::new(),
    }
}

#[test]
fn series_sum_up_to_what_was_recorded() {
    let mut r = recording();
    r.streams.push(stream(
        of(0, 0, Toward::Second),
        Some(Codec::G711U),
        &[Some(50), None, Some(54), Some(900)],
    ));
    r.streams.push(stream(of(1, 1, Toward::Second), None, &[Some(3)]));
    let directory = directory(&experiment(vec![r]), [], "a - b".into(), None);
    let product = &directory.configurations[0];
    let voip = product.first_series("voip").expect("a series");
    // 3 s in bins of 300 ms; sent from 1 s on, in the bin that begins at 0.9 s.
    assert_eq!((voip.bin, voip.bins.len()), (Duration::from_millis(300), 10));
    let bin = voip.bins[3];
    assert_eq!((bin.sent, bin.lost), (4, 1));
    let [least, mean, most] = bin.delay_ms.expect("three arrived");
    assert_eq!((least, most), (50.0, 900.0));
    assert!((mean - (50.0 + 54.0 + 900.0) / 3.0).abs() < 1e-9);
    // Two packets of 800 bit arrived in that bin, one in that of 1.93 s.
    assert!((voip.bins[3].throughput_kbps - 1600.0 / 300.0).abs() < 1e-9);
    assert!((voip.bins[6].throughput_kbps - 800.0 / 300.0).abs() < 1e-9);
    let total = product.first_series("total").expect("a series");
    assert!((total.bins[3].throughput_kbps - 2400.0 / 300.0).abs() < 1e-9);
    assert!(product.series.iter().all(|s| s.group != "voip.down"));
}

#[test]
fn variation_is_beyond_the_smallest_delay_of_the_stream() {
    let mut r = recording();
    r.streams.push(stream(of(1, 0, Toward::Second), None, &[Some(10), Some(14), Some(11)]));
    r.streams.push(stream(of(1, 1, Toward::Second), None, &[Some(110), Some(112)]));
    let directory = directory(&experiment(vec![r]), [], String::new(), None);
    let figures = directory.configurations[0].pooled("cbr").expect("figures");
    // Beyond: 0, 4, 1 and 0, 2.
    assert_eq!(figures.variation_ms, Some([1.0, 4.0, 4.0, 4.0]));
    assert_eq!((figures.rtp_jitter_ms, figures.psqm_surrogate()), (None, None), "no call");
}

#[test]
fn calls_have_rtp_jitter_pairs_and_a_distribution() {
    let mut r = recording();
    // Packets 10 ms apart whose time stamps say 10 ms: a difference of 16 ms moves the estimate by 1 ms.
    r.streams.push(stream(of(0, 0, Toward::Second), Some(Codec::G711U), &[Some(10), Some(26)]));
    let directory = directory(&experiment(vec![r]), [], String::new(), None);
    let product = &directory.configurations[0];
    let figures = product.pooled("voip").expect("figures");
    assert_eq!(figures.rtp_jitter_ms.map(|j| j.1), Some(1.0));
    assert_eq!(figures.psqm_surrogate(), Some(0.4));
    assert_eq!(product.pairs[0].points, [(10.0, 26.0)]);
    assert_eq!(product.delays[0].points, [(10.0, 0.5), (26.0, 1.0)]);
    assert_eq!(product.each("voip").count(), 1);
}

#[test]
fn sources_go_with_the_expected_values_of_this_world_and_changes_are_marked() {
    let directory = directory(
        &experiment(vec![recording()]),
        [("link.core.rate".to_owned(), "1 Mbit/s".to_owned())],
        "a - b".into(),
        Some(1.5),
    );
    assert_eq!(directory.result.expect.len(), 1);
    assert_eq!(directory.about.expect_sources, [Some("table 8.3".to_owned())]);
    let marks: Vec<(f64, &str)> = directory.about.marks.iter().map(|m| (m.at_s, m.label.as_str())).collect();
    assert_eq!(marks, [(1.0, "measurement"), (2.0, "core at 500 kbit/s")]);
    assert_eq!((directory.result.wall_s, directory.machine.wall_s), (Some(1.5), Some(1.5)));
}

#[test]
fn quiet_queues_are_left_out_and_connections_traced_by_pair() {
    let mut r = recording();
    let series = |name: &str, bytes| QueueSeries {
        name: name.into(),
        interval: Duration::from_millis(10),
        bytes: vec![[0, bytes, 0]; 3],
        drops: vec![0; 3],
        borrows: Vec::new(),
    };
    r.links.push(LinkRecord {
        link: 0,
        way: 0,
        queues: vec![series("voice", 0), series("rest", 9)],
        ..LinkRecord::default()
    });
    let sample = |at, threshold| ConnectionSample {
        at: Instant(at * MS),
        window: 2920,
        threshold,
        round_trip: Duration::ZERO,
        acknowledged: 1460,
    };
    r.connections.push(ConnectionRecord {
        bytes: 1460,
        bins: bins(&[3000]),
        window_bytes: 1460,
        window_ip_bytes: 1500,
        trace: vec![sample(5, u64::MAX), sample(15, 4000)],
        ..ConnectionRecord::new(of(1, 1, Toward::Second), Instant::ZERO)
    });
    let directory = directory(&experiment(vec![r]), [], String::new(), None);
    let product = &directory.configurations[0];
    assert_eq!(product.queues.len(), 1);
    assert_eq!(product.queues[0].queue, "rest");
    assert_eq!(product.queues[0].intervals[0], QueueInterval { bytes: [0, 9, 0], drops: 0, borrowed: None });
    assert_eq!(product.connections.len(), 1, "once, not under the name of all pairs again");
    assert_eq!(product.connections[0].group, "cbr2");
    let thresholds: Vec<Option<u64>> = product.connections[0].samples.iter().map(|s| s.threshold).collect();
    assert_eq!(thresholds, [None, Some(4000)]);
    assert_eq!(product.connections[0].samples[0].round_trip_ms, None);
    // 3,000 B in 300 ms.
    assert_eq!(product.first_series("cbr2").expect("a series").bins[0].throughput_kbps, 80.0);
}

#[test]
fn delays_between_clocks_that_differ_keep_their_sign_and_a_warning_names_the_clocks() {
    let mut r = recording();
    let mut late = stream(of(1, 0, Toward::Second), None, &[Some(6), Some(6), Some(6)]);
    for (behind, packet) in (0..).map(|n| n * 5 * MS).zip(&mut late.packets) {
        packet.arrived = Instant(packet.arrived.as_nanos() - behind);
    }
    r.streams.push(late);
    let mut drifting = experiment(vec![r]);
    assert!(drifting.result().warnings.is_empty());
    let kind = FaultKind::ClockDrift { ppm: 1000 };
    drifting.product.scenario.faults.push(Fault { at: Duration::ZERO, node: NodeIndex(0), kind });
    let directory = directory(&drifting, [], String::new(), None);
    let cbr = &directory.configurations[0].pooled("cbr").expect("figures").result;
    let delay = cbr.delay_ms.expect("they arrived");
    assert_eq!((delay.min, delay.mean, delay.p50, delay.max), (-4.0, 1.0, 1.0, 6.0));
    let bin = directory.configurations[0].first_series("cbr1").expect("a series").bins[3];
    assert_eq!(bin.delay_ms, Some([-4.0, 1.0, 6.0]));
    let warnings = &directory.result.warnings;
    assert_eq!(warnings.len(), 2, "one of each traffic: {warnings:?}");
    assert!(warnings[1].contains("clocks of a and b differ: delays of cbr"), "{warnings:?}");
}

#[test]
fn a_program_that_ends_otherwise_is_a_target_missed_and_the_figures_stand() {
    let mut r = recording();
    r.streams.push(stream(of(1, 0, Toward::Second), None, &[Some(6)]));
    r.programs.push(ProgramFailure {
        program: "loser".into(),
        expected: "exit code 0".into(),
        found: "it ended with exit code 3".into(),
    });
    let directory = directory(&experiment(vec![r.clone(), r]), [], String::new(), None);
    let judged = directory.result.expect.last().expect("two");
    assert_eq!(directory.result.expect.len(), 2, "once for all repetitions");
    assert_eq!((judged.metric.as_str(), judged.ok), ("program.loser", Some(false)));
    assert_eq!(judged.target.as_deref(), Some("exit code 0"));
    assert!(directory.result.warnings[0].contains("but it ended with exit code 3"));
    assert!(directory.configurations[0].pooled("cbr").is_some());
}

#[test]
fn what_figures_do_not_show_of_traffic_is_told() {
    let mut r = recording();
    let connection = |failed| ConnectionRecord {
        failed,
        bins: bins(&[]),
        ..ConnectionRecord::new(of(0, 0, Toward::Second), Instant::ZERO)
    };
    r.connections = [true, false, false, true].map(connection).to_vec();
    r.streams.push(StreamRecord { duplicates: 3, ..stream(of(1, 0, Toward::Second), None, &[Some(6)]) });
    r.unopened.insert(1, 7);
    r.foreign = 2;
    let mut all = experiment(vec![r.clone(), r.clone()]);
    let scenario = all.product.scenario.clone();
    all.variants.push(("baseline".into(), Configuration { scenario, recordings: vec![r] }));
    let warnings = all.result().warnings;
    let of_product = [
        "4 of 8 connections of voip failed",
        "14 connections of cbr were not opened: it had opened as many as one application may",
        "6 datagrams of cbr arrived more than once; they count once",
        "4 datagrams that arrived were no traffic's",
    ];
    assert_eq!(warnings[..4], of_product);
    assert_eq!(warnings[4], "2 of 4 connections of voip failed in variant baseline");
    assert_eq!(warnings.len(), 8, "{warnings:?}");
}

/// A machine that was short of processors makes figures worse, so it has to answer for what is missed and only for that.
#[test]
fn a_starved_machine_takes_the_verdict_from_missed_targets_alone() {
    let with = |starved: bool, saturated: bool, delays: &[Option<u64>]| {
        let mut r = recording();
        r.streams.push(stream(of(0, 0, Toward::Second), Some(Codec::G711U), delays));
        r.starved = starved.then(|| "it waited".to_owned());
        r.saturated = saturated.then(|| "it was full".to_owned());
        directory(&experiment(vec![r]), [], "a - b".into(), None).machine.saturated
    };
    let (whole, holed) = ([Some(50), Some(50), Some(50)], [Some(50), None, Some(50)]);
    assert_eq!(with(true, false, &whole), None);
    assert_eq!(with(true, false, &holed).as_deref(), Some("it waited"));
    assert_eq!(with(false, false, &holed), None);
    assert_eq!(with(false, true, &whole).as_deref(), Some("it was full"));
    assert_eq!(with(true, true, &holed).as_deref(), Some("it was full"));
}

#[test]
fn a_warning_names_its_repetition_unless_all_have_it() {
    let mut recordings = vec![recording(), recording()];
    recordings.iter_mut().for_each(|r| r.warnings.push("always".into()));
    recordings[1].machine_warnings.push("late".into());
    let result = experiment(recordings.clone()).result();
    assert!(result.warnings.contains(&"always".to_owned()), "{:?}", result.warnings);
    assert!(
        result.machine_warnings.contains(&"repetition 2: late".to_owned()),
        "{:?}",
        result.machine_warnings
    );
    recordings.remove(0);
    let result = experiment(recordings).result();
    assert!(result.machine_warnings.contains(&"late".to_owned()), "{:?}", result.machine_warnings);
}

#[test]
fn how_busy_the_machine_was_is_told_of_every_repetition() {
    let runs = |recordings| directory(&experiment(recordings), [], String::new(), None).machine.runs;
    let busy = |pct: u32| Recording { machine: Some(format!("CPU {pct} % busy")), ..recording() };
    assert_eq!(runs(vec![busy(4)]), ["product: CPU 4 % busy"]);
    let each = ["product, repetition 1: CPU 4 % busy", "product, repetition 2: CPU 9 % busy"];
    assert_eq!(runs(vec![busy(4), busy(9)]), each);
    assert!(runs(vec![recording()]).is_empty(), "the simulator depends on no machine");
}
