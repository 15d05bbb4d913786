use crate::bins::Bins;
use crate::groups::groups;
use crate::judge::{figure, holds, is_excused, judge};
use crate::links::links;
use crate::recording::*;
use crate::sections::Sections;
use perhop_quality::{Codec, Playout, Scoring};
use perhop_report::result::{
    Connections, DelayMs, Expectation, GroupResult, JitterMs, LinkResult, Mos, QueueMs, ScenarioResult,
    Throughput, Variant,
};
use perhop_report::transport::{ConnectionUse, Goodput, Retransmits, SegmentDelay, SlidingGoodput};
use perhop_scenario::*;
use perhop_units::{Bytes, Dscp, Duration, Instant, Rate};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

pub(crate) fn scenario(traffic: Vec<Traffic>) -> Scenario {
    let node = |name: &str, last| Node {
        name: name.into(),
        kind: NodeKind::Host,
        address: Ipv4Addr::new(10, 0, 0, last),
    };
    let way = Way { rate: Some(Rate::from_mbit(1)), ..Way::default() };
    Scenario {
        id: "t".into(),
        title: String::new(),
        label: None,
        why: String::new(),
        source: None,
        warm_up: Duration::from_secs(1),
        duration: Duration::from_secs(2),
        repetitions: 1,
        seed: 1,
        nodes: vec![node("a", 1), node("b", 2)],
        links: vec![Link {
            name: "core".into(),
            ends: [NodeIndex(0), NodeIndex(1)],
            ways: [way.clone(), way],
        }],
        traffic,
        faults: Vec::new(),
        programs: Vec::new(),
        reservations: Vec::new(),
        probes: Probes::default(),
        expect: Vec::new(),
        variants: Vec::new(),
    }
}

pub(crate) fn traffic(name: &str, both: bool, pairs: usize, kind: TrafficKind) -> Traffic {
    Traffic {
        name: name.into(),
        pairs: vec![(NodeIndex(0), NodeIndex(1)); pairs],
        both,
        start: Duration::ZERO,
        stop: Duration::from_secs(3),
        dscp: Dscp::default(),
        reply_dscp: Dscp::default(),
        kind,
    }
}

pub(crate) fn cbr() -> TrafficKind {
    TrafficKind::Constant { count: 1, rate: Rate::from_kbit(8), size: Bytes(100) }
}

pub(crate) const MS: u64 = 1_000_000;

/// Packets sent every 10 ms from 1 s on, with these delays in ms; `None` is lost.
pub(crate) fn stream(of: Membership, codec: Option<Codec>, delays_ms: &[Option<u64>]) -> StreamRecord {
    let packets = delays_ms.iter().enumerate().map(|(i, delay)| {
        let sent = Instant(1000 * MS + i as u64 * 10 * MS);
        let arrived = delay.map_or(Instant::FAR_FUTURE, |ms| sent + Duration(ms * MS));
        PacketRecord { sent, arrived, len: 100, rtp_timestamp: i as u32 * 80 }
    });
    StreamRecord { packets: packets.collect(), ..StreamRecord::new(of, 0, codec) }
}

/// Bins from the start of the repetition on.
pub(crate) fn bins(sums: &[u64]) -> Bins {
    let mut bins = Bins::default();
    (0..).zip(sums).for_each(|(bin, sum)| bins.add(bin, *sum));
    bins
}

pub(crate) fn recording() -> Recording {
    Recording { window: (Instant(1000 * MS), Instant(3000 * MS)), ..Recording::default() }
}

pub(crate) fn of(traffic: usize, pair: usize, toward: Toward) -> Membership {
    Membership { traffic, pair, toward }
}

/// The first packets of each flow, not of all together, are left out of what counts after them, and of that alone.
#[test]
fn what_flows_send_after_their_first_packets_has_figures_of_its_own() {
    let call = TrafficKind::Voice {
        calls: 2,
        codec: Codec::G711U,
        spacing: Duration::ZERO,
        silence_suppression: None,
    };
    let mut s = scenario(vec![traffic("cbr", false, 1, cbr()), traffic("calls", true, 1, call)]);
    s.probes.after = vec![
        AfterPackets { name: "detection".into(), traffic: vec![1], packets: 3 },
        AfterPackets { name: "all".into(), traffic: vec![0, 1], packets: 9 },
    ];
    let mut r = recording();
    let early_loss = [None, Some(90), Some(90), Some(20), Some(20), Some(20)];
    r.streams.push(stream(of(0, 0, Toward::Second), None, &early_loss));
    for toward in [Toward::Second, Toward::First] {
        let late_loss = [Some(90), Some(90), Some(90), Some(20), None];
        r.streams.push(stream(of(1, 0, toward), Some(Codec::G711U), &early_loss));
        r.streams.push(stream(of(1, 0, toward), Some(Codec::G711U), &late_loss));
    }
    // Of a stream that begins before the window only what is in it counts, however many packets are left out.
    let mut long = stream(of(1, 0, Toward::Second), Some(Codec::G711U), &[Some(20); 120]);
    long.packets.iter_mut().for_each(|p| {
        (p.sent, p.arrived) = (Instant(p.sent.0 - 1000 * MS), Instant(p.arrived.0 - 1000 * MS));
    });
    r.streams.push(long);
    let groups = groups(&s, &[r]);
    let figures = |name: &str| {
        let group = groups.iter().find(|group| group.name == name).unwrap_or_else(|| panic!("no {name}"));
        (group.sent, group.received, group.delay_ms.map(|delay| delay.max))
    };
    assert_eq!(figures("calls"), (Some(31), Some(29), Some(90.0)));
    assert_eq!(figures("calls_after_detection"), (Some(25), Some(24), Some(20.0)));
    assert_eq!(figures("calls_after_detection.down"), figures("calls_after_detection"));
    assert_eq!(figures("calls_after_detection.up"), (Some(5), Some(4), Some(20.0)));
    assert_eq!(figures("calls_after_all.up"), (Some(0), Some(0), None), "no flow is as long");
    assert_eq!(figures("cbr_after_all"), (Some(0), Some(0), None));
    assert_eq!(figures("cbr"), (Some(6), Some(5), Some(90.0)));
    let delays =
        crate::details::details("product", &crate::Configuration { scenario: s, recordings: vec![] });
    assert!(delays.series.iter().all(|series| !series.group.contains("_after_")));
}

#[test]
fn average_jitter_is_the_sum_of_differences_over_packets_received() {
    // Huttunen 2005, equation 7.4: N − 1 terms over N.
    let s = scenario(vec![traffic("cbr", false, 1, cbr())]);
    let mut r = recording();
    let delays = [Some(10), Some(13), None, Some(11), Some(11)];
    r.streams.push(stream(of(0, 0, Toward::Second), None, &delays));
    let group = &groups(&s, &[r])[0];
    assert_eq!((group.sent, group.received, group.loss_pct), (Some(5), Some(4), Some(20.0)));
    let jitter = group.jitter_ms.expect("there are packets");
    assert_eq!((jitter.mean, jitter.max), ((3.0 + 2.0 + 0.0) / 4.0, 3.0));
    let delay = group.delay_ms.expect("there are packets");
    assert_eq!((delay.min, delay.mean, delay.max), (10.0, 11.25, 13.0));
    // Four packets of 800 bit in the 2 s of the window.
    assert_eq!(group.throughput_kbps.expect("bits came").mean, 1.6);
}

#[test]
fn both_directions_and_several_pairs_have_groups_of_their_own() {
    let voice = TrafficKind::Voice {
        calls: 1,
        codec: Codec::G711U,
        spacing: Duration::ZERO,
        silence_suppression: None,
    };
    let s = scenario(vec![traffic("voip", true, 1, voice), traffic("cbr", false, 2, cbr())]);
    let mut r = recording();
    r.streams.push(stream(of(0, 0, Toward::Second), Some(Codec::G711U), &[Some(50), None]));
    r.streams.push(stream(of(0, 0, Toward::First), Some(Codec::G711U), &[Some(20), Some(20)]));
    r.streams.push(stream(of(1, 0, Toward::Second), None, &[Some(1)]));
    r.streams.push(stream(of(1, 1, Toward::Second), None, &[Some(3), Some(3)]));
    let groups = groups(&s, &[r]);
    let names: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["voip", "voip.down", "voip.up", "cbr1", "cbr2", "cbr", "total"]);
    let loss: Vec<Option<f64>> = groups.iter().map(|g| g.loss_pct).collect();
    assert_eq!(loss[..3], [Some(50.0), Some(50.0), Some(0.0)]);
    assert!(groups[2].mos.expect("a call").mean > groups[1].mos.expect("a call").mean);
    assert_eq!([groups[3].received, groups[4].received, groups[5].received], [Some(1), Some(2), Some(3)]);
    assert_eq!(groups[6].sent, None, "what does not apply is null");
    // One packet of the call's first direction and three of the others.
    assert_eq!(groups[6].throughput_kbps.expect("bits came").mean, 4.0 * 0.4);
}

#[test]
fn throughput_is_what_arrives_in_the_time_and_no_more_than_the_line_carries() {
    let mut s = scenario(vec![traffic("cbr", false, 1, cbr())]);
    // Sends from 1 s to 2 s; 100 packets, 10 ms apart.
    s.traffic[0].stop = Duration::from_secs(2);
    let kbps = |delays: Vec<Option<u64>>| {
        let mut r = recording();
        r.streams.push(stream(of(0, 0, Toward::Second), None, &delays));
        let groups = groups(&s, &[r]);
        groups[0].throughput_kbps.expect("bits came").mean
    };
    assert_eq!(kbps(vec![Some(0); 100]), 80.0);
    assert_eq!(kbps(vec![Some(250); 100]), 80.0, "an idle path shows the nominal rate");
    // The line carries one packet in 20 ms: the nth waits n times 10 ms and half of them are still queued at the end.
    assert_eq!(kbps((0..100).map(|n| Some(5 + n * 10)).collect()), 40.0);
}

/// A path that gets 100 ms longer in mid-call: a buffer that stays as it was hears nothing after that.
#[test]
fn calls_are_scored_with_the_playout_buffer_of_the_scenario() {
    let call = TrafficKind::Voice {
        calls: 1,
        codec: Codec::G711U,
        spacing: Duration::ZERO,
        silence_suppression: None,
    };
    let mut s = scenario(vec![traffic("calls", false, 1, call)]);
    let delays: Vec<Option<u64>> = (0..100).map(|i| Some(if i < 50 { 20 } else { 120 })).collect();
    let mut r = recording();
    r.streams.push(stream(of(0, 0, Toward::Second), Some(Codec::G711U), &delays));
    let recordings = [r];
    let score = |s: &Scenario| groups(s, &recordings)[0].mos.expect("a call").mean;
    let adaptive = score(&s);
    let late = groups(&s, &recordings)[0].late_pct;
    s.probes.scoring = Scoring { playout: Playout::Fixed { depth: Playout::DEPTH }, ..Scoring::default() };
    assert!(score(&s) < 2.0 && adaptive > 3.9, "{} {adaptive}", score(&s));
    assert_eq!((late, groups(&s, &recordings)[0].late_pct), (Some(3.0), Some(50.0)));
}

#[test]
fn the_total_counts_while_all_traffic_sends() {
    // Calls in the second half of the window only, connections in all of it.
    let kind = TrafficKind::Bulk {
        count: 1,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay: (Duration::ZERO, Duration::ZERO),
        tcp: Tcp::default(),
    };
    let mut s = scenario(vec![traffic("cbr", false, 1, cbr()), traffic("bulk", false, 1, kind)]);
    s.traffic[0].start = Duration::from_secs(2);
    s.probes.phases =
        vec![Phase { name: "late".into(), from: Duration::from_millis(2500), until: Duration::from_secs(3) }];
    let mut r = recording();
    let mut late = stream(of(0, 0, Toward::Second), None, &[Some(1); 10]);
    for packet in &mut late.packets {
        packet.sent += Duration::from_secs(1);
        packet.arrived += Duration::from_secs(1);
    }
    r.streams.push(late);
    // 1,000 B every 400 ms: from 2 s to 3 s at 2, 2.4 and 2.8 s, and one of them from 2.5 s on.
    let sections = Sections::of(&s);
    let mut bulk = ConnectionRecord::new(of(1, 0, Toward::Second), Instant(0));
    for n in 0..8 {
        bulk.sections.add(sections.at(Instant(n * 400 * MS)), 1000);
    }
    bulk.window_ip_bytes = 5000;
    r.connections.push(bulk);
    // However wide the bins of the plots are, and wherever they begin and end.
    for bin_ms in [1, 400, 999, 60_000] {
        s.probes.throughput_bin = Duration::from_millis(bin_ms);
        let groups = groups(&s, std::slice::from_ref(&r));
        let kbps = |name: &str| {
            let group = groups.iter().find(|g| g.name == name).expect("the group");
            group.throughput_kbps.expect("bits came").mean
        };
        assert_eq!((kbps("cbr"), kbps("bulk"), kbps("bulk@late")), (8.0, 20.0, 16.0));
        assert_eq!(kbps("total"), 8.0 + 24.0);
    }
}

#[test]
fn connections_count_what_arrived_inside_the_window() {
    let kind = TrafficKind::Bulk {
        count: 2,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay: (Duration::ZERO, Duration::ZERO),
        tcp: Tcp::default(),
    };
    let s = scenario(vec![traffic("bulk", false, 1, kind)]);
    let connection = |opened, ended: Option<u64>, bytes| ConnectionRecord {
        ended: ended.map(|ms| Instant(ms * MS)),
        bytes,
        window_bytes: bytes,
        window_ip_bytes: bytes + 40,
        ..ConnectionRecord::new(of(0, 0, Toward::Second), Instant(opened * MS))
    };
    let mut r = recording();
    // 1,000 B in 1 s, 3,000 B in the 2 s of the window, and one that was over before it.
    r.connections =
        vec![connection(2000, None, 1000), connection(0, None, 3000), connection(0, Some(900), 0)];
    let group = &groups(&s, &[r])[0];
    let seen = group.connections.expect("connections");
    assert_eq!(seen.count, 2);
    let (a, b) = (8.0_f64, 12.0_f64);
    assert!((seen.jain.expect("bytes came") - (a + b) * (a + b) / (2.0 * (a * a + b * b))).abs() < 1e-12);
    // 4,120 IP bytes (the one before the window brought its headers' 40 only in this made-up record) over 2 s.
    assert_eq!(group.throughput_kbps.expect("bits came").mean, 4120.0 * 8.0 / 2.0 / 1e3);
}

#[test]
fn links_pool_their_repetitions() {
    let s = scenario(Vec::new());
    let repetition = |busy_ms, wait: u64| {
        let mut r = recording();
        r.links.push(LinkRecord {
            link: 0,
            way: 0,
            busy: Duration::from_millis(busy_ms),
            drops: BTreeMap::from([("queue_full".to_owned(), wait)]),
            waits_ns: vec![wait * MS],
            ..LinkRecord::default()
        });
        r
    };
    let links = links(&s, &[repetition(500, 2), repetition(1500, 4)]);
    assert_eq!(links[0].utilisation_pct, Some(50.0));
    assert_eq!(links[0].drops["queue_full"], 6);
    let queue = links[0].queue_ms.expect("waits");
    assert_eq!((queue.p50, queue.p99, queue.max), (2.0, 4.0, 4.0));
}

/// Neither has a figure of how it is used: what is lost is told wherever it was.
#[test]
fn links_without_a_limit_and_second_directions_appear_with_what_they_lost() {
    let mut s = scenario(Vec::new());
    s.links[0].ways[0].rate = None;
    let with = |way, lost: u64| {
        let drops =
            if lost > 0 { BTreeMap::from([("ttl_expired".to_owned(), lost)]) } else { BTreeMap::new() };
        LinkRecord { link: 0, way, drops, ..LinkRecord::default() }
    };
    let of = |first, second| {
        let r = Recording { links: vec![with(0, first), with(1, second)], ..recording() };
        let links = links(&s, &[r]).into_iter();
        links.map(|link| (link.name, link.drops.values().sum::<u64>())).collect::<Vec<_>>()
    };
    assert_eq!(of(0, 0), []);
    assert_eq!(of(3, 0), [("core".to_owned(), 3)]);
    assert_eq!(of(3, 4), [("core".to_owned(), 3), ("core.reverse".to_owned(), 4)]);
}

fn result(loss: f64) -> ScenarioResult {
    let group = |name: &str| GroupResult { loss_pct: Some(loss), ..GroupResult::named(name) };
    let link = LinkResult { name: "core".into(), utilisation_pct: Some(99.0), ..LinkResult::default() };
    let baseline = Variant { groups: vec![group("voip")], links: vec![link.clone()], ..Variant::default() };
    ScenarioResult {
        groups: vec![group("voip"), group("voip.up")],
        links: vec![link],
        variants: [("baseline".to_owned(), baseline)].into(),
        ..ScenarioResult::default()
    }
}

fn expect(metric: &str, target: Target) -> Expect {
    Expect {
        metric: metric.into(),
        target: Some(target),
        published: None,
        source: None,
        depends: vec!["link.core.rate".into()],
        every: false,
        mode: None,
    }
}

#[test]
fn figures_are_found_by_their_paths() {
    let result = result(1.5);
    for path in ["voip.loss_pct", "voip.up.loss_pct", "baseline.voip.loss_pct"] {
        assert_eq!(figure(&result, path), Some(1.5), "{path}");
    }
    for path in ["link.core.utilisation_pct", "baseline.link.core.utilisation_pct"] {
        assert_eq!(figure(&result, path), Some(99.0), "{path}");
    }
    assert_eq!(figure(&result, "link.core.drops.queue_full"), Some(0.0));
    for path in ["voip", "voip.delay_ms.mean", "video.loss_pct", "link.edge.utilisation_pct", "voip.nothing"]
    {
        assert_eq!(figure(&result, path), None, "{path}");
    }
    let psqm = figure(&result, "voip.psqm").expect("a loss");
    assert!((psqm - perhop_quality::psqm::surrogate(1.5)).abs() < 1e-12);
}

#[test]
fn every_figure_that_can_be_expected_is_found() {
    let delay =
        SegmentDelay { stdev: Some(1.0), over_pct: [("117.5".to_owned(), 3.0)].into(), ..Default::default() };
    let group = GroupResult {
        sent: Some(2),
        received: Some(1),
        loss_pct: Some(50.0),
        late_pct: Some(0.0),
        delay_ms: Some(DelayMs::default()),
        jitter_ms: Some(JitterMs::default()),
        throughput_kbps: Throughput::of(&[1.0, 2.0]),
        connections: Some(Connections::of(&[1.0])),
        mos: Some(Mos::default()),
        goodput_kbps: Goodput::of(&[1.0, 2.0]),
        utilisation_pct: ConnectionUse::of(&[(1.0, 2.0), (3.0, 4.0)]),
        goodput_5s_kbps: SlidingGoodput::of(&[(1.0, 2.0)]),
        esdl_ms: Some(delay.clone()),
        sdl_ms: Some(delay),
        retransmits: Some(Retransmits { count: 1, share_pct: Some(2.0) }),
        ..GroupResult::named("voip")
    };
    let queue_ms = Some(QueueMs { p50: 1.0, p99: 2.0, max: 3.0 });
    let link = LinkResult { queue_ms, ..result(1.0).links.remove(0) };
    let result = ScenarioResult { groups: vec![group], links: vec![link], ..ScenarioResult::default() };
    for name in figures::GROUP_FIGURES {
        assert!(figure(&result, &format!("voip.{name}")).is_some(), "{name}");
    }
    assert_eq!(figure(&result, "voip.esdl_ms.over_pct.117.5"), Some(3.0));
    assert_eq!(figure(&result, "voip.esdl_ms.over_pct.117"), None);
    for name in figures::LINK_FIGURES {
        assert!(figure(&result, &format!("link.core.{name}")).is_some(), "{name}");
    }
}

/// What the check of a scenario says that groups of a kind can have is what they have.
#[test]
fn groups_have_the_figures_of_their_content() {
    let voice = TrafficKind::Voice {
        calls: 1,
        codec: Codec::G711U,
        spacing: Duration::ZERO,
        silence_suppression: None,
    };
    let access_delay = (Duration::ZERO, Duration::from_millis(10));
    let tcp = Tcp { share: Some(Rate::from_kbit(8)), ..Tcp::default() };
    let bulk = TrafficKind::Bulk {
        count: 2,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay,
        tcp,
    };
    let kinds = [("voip", voice), ("cbr", cbr()), ("ftp", bulk)];
    let mut s = scenario(kinds.iter().map(|(name, kind)| traffic(name, false, 1, kind.clone())).collect());
    s.probes.segments = vec![2];
    // Two repetitions, so that there is a deviation.
    let one = |slot: u16| {
        let mut r = recording();
        r.streams.push(stream(of(0, 0, Toward::Second), Some(Codec::G711U), &[Some(50), Some(51)]));
        r.streams.push(stream(of(1, 0, Toward::Second), None, &[Some(1), Some(2)]));
        let (segments, bytes) = ([(1000, 1100), (1100, 1210)], u64::from(slot) + 1);
        let followed = crate::transport::tests::connection(slot, &segments, &[(1500, bytes), (2500, bytes)]);
        r.connections.push(ConnectionRecord { of: of(2, 0, Toward::Second), ..followed });
        r
    };
    let result = ScenarioResult { groups: groups(&s, &[one(0), one(1)]), ..ScenarioResult::default() };
    let contents = kinds.iter().map(|(name, kind)| (*name, figures::Content::of(kind)));
    for (name, content) in contents.chain([(figures::TOTAL, figures::Content::Sum)]) {
        for wanted in figures::GROUP_FIGURES {
            let found = figure(&result, &format!("{name}.{wanted}"));
            assert_eq!(found.is_some(), content.has(wanted), "{name}.{wanted} = {found:?}");
        }
    }
}

#[test]
fn a_target_that_depends_on_what_was_changed_is_not_judged() {
    let (result, each) = (result(1.5), [result(1.0), result(2.0)]);
    let at_most = expect("voip.loss_pct", Target::AtMost(1.5));
    let judged = judge(&at_most, &result, &each, &[]).0;
    assert_eq!((judged.ok, judged.target.as_deref()), (Some(true), Some("<= 1.5")));
    // 1 and 2: a deviation of the root of 1/2, over the root of two values, times 12.706 for one degree of freedom.
    assert!(judged.half_width_95.is_some_and(|half| (half - 6.353).abs() < 1e-9), "{judged:?}");
    assert_eq!(judge(&at_most, &result, &each[..1], &[]).0.half_width_95, None);
    let judged = |expect: &Expect, set: &str| judge(expect, &result, &each, &[set.to_owned()]).0.ok;
    // Times concern every target.
    for set in ["link.core.rate", "link.core", "duration", "warm_up"] {
        assert_eq!(judged(&at_most, set), None, "{set}");
    }
    for set in ["link.core.rates", "link.cor", "link.core.delay", "variants.baseline.link.core.rate"] {
        assert_eq!(judged(&at_most, set), Some(true), "{set}");
    }
    // A table stands for everything in it; what is set in a variant concerns figures of it.
    let link = Expect { depends: vec!["link.core".into(), "traffic".into()], ..at_most.clone() };
    for set in ["link.core.rate", "link.core.change[1].at", "link.core", "traffic.voip.calls"] {
        assert_eq!(judged(&link, set), None, "{set}");
    }
    assert_eq!(judged(&link, "link.core-2.rate"), Some(true));
    let baseline = Expect { metric: "baseline.voip.loss_pct - voip.loss_pct".into(), ..at_most.clone() };
    for set in ["variants.baseline.link.core.rate", "variants.baseline.set.link.core.rate"] {
        assert_eq!(judged(&baseline, set), None, "{set}");
    }
    assert_eq!(judged(&baseline, "variants.other.link.core.rate"), Some(true));
    let every = Expect { every: true, ..at_most };
    assert_eq!(judge(&every, &result, &each, &[]).0.ok, Some(false), "one repetition has 2.0");
    let missing = expect("video.loss_pct", Target::AtMost(1.0));
    assert_eq!(
        judge(&missing, &result, &each, &[]).0.ok,
        Some(false),
        "a figure that is not there holds nothing"
    );
}

#[test]
fn an_ordering_holds_only_if_the_spread_of_repetitions_bears_it_out() {
    let ordering = |metric: &str, target| Expect { depends: Vec::new(), ..expect(metric, target) };
    // Student's t for three values is 4.303: half the width of the interval is 4.303 / 3^½ = 2.484 deviations.
    let with = |loss: f64| {
        let mut made = result(loss);
        let group = |name: &str, loss| GroupResult { loss_pct: Some(loss), ..GroupResult::named(name) };
        made.groups.extend([group("zero", 0.0), group("one", 1.0)]);
        made
    };
    let judged = |expect: &Expect, losses: [f64; 3]| {
        judge(expect, &with(losses.iter().sum::<f64>() / 3.0), &losses.map(with), &[])
    };
    let metric = "voip.loss_pct - zero.loss_pct";
    let above = ordering(metric, Target::Above(0.0));
    // 1 ± 0.248, 1 ± 2.484.
    assert_eq!(judged(&above, [0.9, 1.0, 1.1]).0.ok, Some(true));
    let (straddles, why) = judged(&above, [0.0, 1.0, 2.0]);
    assert_eq!((straddles.ok, straddles.ours), (Some(false), Some(1.0)));
    assert!(why.is_some_and(|why| why.contains("undecided")
        && why.contains("1.000000 ± 2.484")
        && why.contains("> 0")));
    // What is on the wrong side is missed, not undecided; equal figures are not larger, but as large.
    assert_eq!(judged(&ordering(metric, Target::Below(0.0)), [0.9, 1.0, 1.1]).0.ok, Some(false));
    assert_eq!(judged(&ordering(metric, Target::Below(0.0)), [0.9, 1.0, 1.1]).1, None);
    assert_eq!(judged(&above, [0.0; 3]).0.ok, Some(false));
    assert_eq!(judged(&ordering(metric, Target::AtLeast(0.0)), [0.0; 3]).0.ok, Some(true));
    assert_eq!(judged(&ordering(metric, Target::AtLeast(0.0)), [0.0, 1.0, 2.0]).0.ok, Some(false));
    // A quotient is compared with 1.
    let quotient = ordering("voip.loss_pct / one.loss_pct", Target::Above(1.0));
    assert_eq!(judged(&quotient, [1.9, 2.0, 2.1]).0.ok, Some(true));
    assert_eq!(judged(&quotient, [1.0, 2.0, 3.0]).0.ok, Some(false));
    // No orderings: a limit of a lone figure, a tolerance, one repetition; every repetition is stricter than their mean.
    assert_eq!(judged(&ordering("voip.loss_pct", Target::Above(0.0)), [0.0, 1.0, 2.0]).0.ok, Some(true));
    assert_eq!(judged(&ordering(metric, Target::AtMost(1.5)), [0.0, 1.0, 2.0]).0.ok, Some(true));
    assert_eq!(judge(&above, &with(1.0), &[with(1.0)], &[]).0.ok, Some(true));
    assert_eq!(judged(&Expect { every: true, ..above.clone() }, [0.1, 1.0, 2.0]).0.ok, Some(true));
    // What is not judged is not undecided either.
    let set = ["duration".to_owned()];
    let each = [0.0, 1.0, 2.0].map(with);
    assert_eq!(judge(&above, &with(1.0), &each, &set), (Expectation { ok: None, ..straddles }, None));
}

#[test]
fn targets_hold_up_to_the_printed_digit() {
    assert!(holds(Target::AtMost(34.14), 34.140_000_4) && !holds(Target::AtMost(34.14), 34.1401));
    assert!(holds(Target::AtLeast(9515.0), 9515.0) && !holds(Target::AtLeast(9515.0), 9514.9));
    assert!(holds(Target::Within(1.0, 2.0), 2.0) && !holds(Target::Within(1.0, 2.0), 2.1));
    assert!(!holds(Target::Below(1.0), 1.0) && !holds(Target::Above(1.0), 1.0));
    assert!(holds(Target::Equal(0.0), 0.0) && !holds(Target::Equal(0.0), f64::NAN));
}

#[test]
fn a_largest_delay_is_excused_by_no_more_than_the_machine_stood_still() {
    let judged = |metric: &str, target, ours, stall_ms| {
        let judged = Expectation { ours: Some(ours), ok: Some(false), ..Expectation::default() };
        is_excused(&expect(metric, target), &judged, stall_ms)
    };
    let most = Target::AtMost(46.0);
    assert!(judged("voip.delay_ms.max", most, 50.0, 4.0));
    assert!(!judged("voip.delay_ms.max", most, 50.1, 4.0));
    assert!(!judged("voip.delay_ms.max", most, 46.1, 0.0), "the simulator never stands still");
    assert!(!judged("voip.delay_ms.mean", most, 47.0, 4.0));
    assert!(!judged("voip.loss_pct", Target::AtMost(0.0), 1.0, 4.0));
    assert!(!judged("voip.delay_ms.max", Target::AtLeast(46.0), 45.0, 4.0));
    assert!(!judged("voip.delay_ms.max / video.delay_ms.max", Target::AtMost(1.0), 2.0, 4.0));
}
