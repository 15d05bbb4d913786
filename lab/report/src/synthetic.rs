//! Results made up for the tests of this crate.

use crate::details::*;
use crate::directory::{About, Machine, ResultDirectory, TimedMark};
use crate::result::*;
use crate::transport::{ConnectionUse, Goodput, Retransmits, SegmentDelay, SlidingGoodput};
use perhop_units::Duration;

fn wave(i: usize, k: usize) -> f64 {
    ((i * 37 + k * 101) % 997) as f64 / 997.0
}

fn group(name: &str, k: usize, calls: bool) -> GroupFigures {
    let x = 1.0 + k as f64 / 8.0;
    GroupFigures {
        repetition: None,
        rtp_jitter_ms: calls.then_some((1.25 * x, 2.5)),
        variation_ms: calls.then_some([1.0, 2.0, 3.5, 4.0]),
        result: GroupResult {
            name: name.into(),
            sent: calls.then_some(45_000),
            received: calls.then_some(44_000),
            loss_pct: calls.then_some(2.25 * x),
            late_pct: calls.then_some(0.125 * x),
            delay_ms: calls.then_some(DelayMs {
                min: 30.5,
                mean: 34.0 * x,
                p50: 33.0,
                p99: 41.0,
                p999: 42.0,
                max: 43.5 * x,
            }),
            jitter_ms: calls.then_some(JitterMs { mean: 1.5, max: 9.0 }),
            throughput_kbps: Some(Throughput { mean: 1744.0 * x, stdev: Some(3.5) }),
            connections: (!calls).then_some(Connections { count: 20, jain: Some(0.875) }),
            mos: calls.then_some(Mos { mean: 4.25, min: 4.125 }),
            goodput_kbps: (!calls).then_some(Goodput { mean: 46.5 * x, stdev: None, min: 45.0, max: 48.5 }),
            utilisation_pct: (!calls).then_some(ConnectionUse {
                mean: 90.0,
                min: 85.5,
                max: 93.0,
                latency_r: Some(-0.25),
            }),
            goodput_5s_kbps: (!calls).then_some(SlidingGoodput { mean: 46.5, stdev: 2.5, stdev_max: 3.75 }),
            esdl_ms: (!calls).then_some(SegmentDelay {
                mean: 31.5,
                stdev: Some(19.5),
                max: 229.5,
                over_pct: [("117".to_owned(), 0.5), ("117.2".to_owned(), 0.25)].into(),
            }),
            sdl_ms: (!calls).then_some(SegmentDelay {
                mean: 481.5,
                stdev: None,
                max: 679.5,
                ..SegmentDelay::default()
            }),
            retransmits: (!calls).then_some(Retransmits { count: 3, share_pct: Some(0.125) }),
        },
    }
}

fn queue(seconds: usize, repetition: u32, k: usize) -> QueueTrace {
    let intervals = (0..seconds * 100).map(|i| {
        let least = (wave(i, k) * 90_000.0) as u32;
        QueueInterval {
            bytes: [least, least + 1500 * (i % 7) as u32, least + 700],
            drops: u32::from(i % 11 == 0),
            borrowed: k.is_multiple_of(2).then_some(i as u64 * 3),
        }
    });
    QueueTrace {
        link: "core".into(),
        way: 0,
        queue: format!("class{k}"),
        repetition,
        interval: Duration::from_millis(10),
        intervals: intervals.collect(),
    }
}

fn agent(repetition: Option<u32>) -> AgentFigures {
    let result = AgentResult {
        class: "realtime".into(),
        allocated_kbps: Some(1234.5),
        efficiency_pct: Some(71.25),
        estimate_pct: Some(83.5),
        requests_per_s: Some(0.125),
        not_granted_pct: None,
        congested_pct: Some(0.0),
        exceeded_pct: Some(2.5),
    };
    let counts = AgentCounts {
        increases: 31,
        decreases: 29,
        asked: 67,
        granted: 60,
        partial: 4,
        refused: 2,
        timed_out: 1,
    };
    AgentFigures { repetition, result, counts }
}

fn configuration(name: &str, seconds: usize, repetitions: u32, queues: usize) -> ConfigurationDetails {
    let names = [
        ("voip", true),
        ("video", true),
        ("www1", false),
        ("www2", false),
        ("www3", false),
        ("www", false),
        ("ftp1", false),
        ("ftp2", false),
        ("ftp", false),
        ("background", true),
    ];
    let mut details = ConfigurationDetails { name: name.into(), ..ConfigurationDetails::default() };
    for (k, (group_name, calls)) in names.into_iter().enumerate() {
        details.groups.push(group(group_name, k, calls));
        for repetition in 1..=repetitions {
            let figures = group(group_name, k + repetition as usize, calls);
            details.groups.push(GroupFigures { repetition: Some(repetition), ..figures });
            let bins = (0..seconds * 10 / 3).map(|i| GroupBin {
                throughput_kbps: 100.5 + wave(i, k) * 1000.0,
                sent: if calls { 300 } else { 0 },
                lost: if calls { i as u64 % 3 } else { 0 },
                delay_ms: calls.then(|| [30.0, 31.0 + wave(i, k), 45.0 + 10.0 * wave(i, k + 1)]),
            });
            // Six decimals, as files have.
            let bins = bins.map(|mut bin| {
                bin.throughput_kbps = round(bin.throughput_kbps);
                bin.delay_ms = bin.delay_ms.map(|d| d.map(round));
                bin
            });
            details.series.push(GroupSeries {
                group: group_name.into(),
                repetition,
                bin: Duration::from_millis(300),
                bins: bins.collect(),
            });
        }
        if calls {
            let curve = (0..500).map(|i| (30.0 + f64::from(i) / 8.0, f64::from(i + 1) / 500.0));
            details.delays.push(DelayCurve { group: group_name.into(), points: curve.collect() });
            let points =
                (0..2000).map(|i| (round(30.0 + wave(i, k) * 20.0), round(30.0 + wave(i + 1, k) * 20.0)));
            details.pairs.push(DelayPairs { group: group_name.into(), points: points.collect() });
        } else {
            let samples = (0..seconds * 100).map(|i| ConnectionState {
                at_s: i as f64 / 100.0,
                window: 2920 + (wave(i, k) * 60_000.0) as u64,
                threshold: (i > 100).then_some(30_000),
                round_trip_ms: (i > 0).then_some(60.5),
                acknowledged: i as u64 * 1460,
            });
            details.connections.push(ConnectionTrace {
                group: group_name.into(),
                repetition: 1,
                number: 1,
                samples: samples.collect(),
            });
        }
    }
    for repetition in 1..=repetitions {
        details.queues.extend((0..queues).map(|k| queue(seconds, repetition, k)));
    }
    details.flows.extend((1..=repetitions).map(|repetition| FlowFigures {
        group: "ftp".into(),
        repetition,
        number: 2,
        latency_ms: Some(900.5),
        goodput_kbps: Some(46.5),
        utilisation_pct: None,
        sliding_kbps: Some((46.5, 2.25)),
        esdl_ms: (repetition > 1).then_some([31.0, 19.5, 229.5]),
        segments: Some(512),
        retransmits: Some(0),
    }));
    let link = LinkResult {
        name: "core".into(),
        utilisation_pct: Some(98.5),
        drops: [("queue_full".to_owned(), 17), ("red_early".to_owned(), 4)].into(),
        queue_ms: Some(QueueMs { p50: 1.0, p99: 2.0, max: 3.0 }),
    };
    details.links.push(LinkFigures { repetition: None, result: link.clone() });
    for repetition in std::iter::once(None).chain((1..=repetitions).map(Some)) {
        details.agents.push(agent(repetition));
    }
    details.allocations.extend((1..=repetitions).map(|repetition| {
        let steps = (0..seconds * 200).map(|i| (i as f64 / 200.0, round(64.0 + wave(i, 3) * 2000.0)));
        AllocationTrace { class: "realtime".into(), repetition, steps: steps.collect() }
    }));
    details
        .links
        .extend((1..=repetitions).map(|i| LinkFigures { repetition: Some(i), result: link.clone() }));
    details
}

/// A directory of a run of so many seconds and repetitions with so many queues, product and baseline.
pub(crate) fn directory(seconds: usize, repetitions: u32, queues: usize) -> ResultDirectory {
    let product = configuration(PRODUCT, seconds, repetitions, queues);
    let baseline = configuration("baseline", seconds, repetitions, queues);
    let pooled = |c: &ConfigurationDetails| Variant {
        groups: c.groups.iter().filter(|g| g.repetition.is_none()).map(|g| g.result.clone()).collect(),
        links: c.links.iter().filter(|l| l.repetition.is_none()).map(|l| l.result.clone()).collect(),
        agents: c.agents.iter().filter(|a| a.repetition.is_none()).map(|a| a.result.clone()).collect(),
        admissions: Vec::new(),
        reserved: Vec::new(),
    };
    let expect = |metric: &str, target: Option<&str>, ok| Expectation {
        metric: metric.into(),
        ours: Some(34.0),
        half_width_95: Some(0.5),
        published: Some(34.14),
        target: target.map(str::to_owned),
        ok,
    };
    let top = pooled(&product);
    ResultDirectory {
        about: About {
            title: "Calls beside <transfers>".into(),
            why: "Two classes & nothing more.".into(),
            source: Some("Huttunen 2005".into()),
            topology: "a --- b\n".into(),
            warm_up_s: 1.0,
            settings: [("link.core.rate".to_owned(), "4 Mbit/s".to_owned())].into(),
            expect_sources: vec![Some("table 8.4".into()), None],
            marks: vec![TimedMark { at_s: 1.5, label: "core at 2 Mbit/s".into() }],
        },
        machine: Machine {
            wall_s: Some(0.5),
            saturated: None,
            warnings: vec!["CPU steal <1 %".into()],
            runs: vec!["product: CPU 4 % busy".into()],
        },
        result: ScenarioResult {
            scenario: "H-8.1.2".into(),
            mode: "sim".into(),
            seed: 7,
            repetitions,
            sim_s: seconds as f64,
            warnings: vec!["one thing".into()],
            groups: top.groups,
            links: top.links,
            agents: top.agents,
            variants: [("baseline".to_owned(), pooled(&baseline))].into(),
            expect: vec![
                expect("voip.delay_ms.mean", Some("<= 34.14"), Some(true)),
                expect("baseline.voip.loss_pct", None, None),
            ],
            ..ScenarioResult::default()
        },
        configurations: vec![product, baseline],
    }
}
