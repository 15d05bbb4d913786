use crate::details::directory;
use crate::experiment::{Configuration, Experiment};
use crate::recording::*;
use crate::tests::{MS, cbr, of, recording, scenario, stream, traffic};
use perhop_quality::Codec;
use perhop_report::details::QueueInterval;
use perhop_scenario::{Change, Expect, Target, TrafficKind};
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
        of: of(1, 1, Toward::Second),
        opened: Instant::ZERO,
        first_byte: None,
        ended: None,
        bytes: 1460,
        failed: false,
        bins: vec![3000],
        window_bytes: 1460,
        window_ip_bytes: 1500,
        retransmits: None,
        trace: vec![sample(5, u64::MAX), sample(15, 4000)],
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
