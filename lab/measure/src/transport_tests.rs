use super::*;
use crate::groups::groups;
use crate::tests::{MS, recording, scenario, traffic};
use crate::{Membership, ReadLog, SegmentLog};
use perhop_scenario::{Change, Phase, Probes, TrafficKind};
use perhop_units::Rate;

const LIMIT: Duration = Duration::from_millis(30);

/// Two parallel connections over a link of 100 ms there and 50 ms back, that are followed.
fn followed(access: (u64, u64)) -> Scenario {
    let access_delay = (Duration::from_millis(access.0), Duration::from_millis(access.1));
    let tcp = Tcp { share: Some(Rate::from_kbit(16)), ..Tcp::default() };
    let kind = TrafficKind::Bulk {
        count: 2,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay,
        tcp,
    };
    let mut scenario = scenario(vec![traffic("tcp", false, 1, kind)]);
    scenario.links[0].ways[0].delay = Duration::from_millis(100);
    scenario.links[0].ways[1].delay = Duration::from_millis(50);
    scenario.probes = Probes { segments: vec![0], delay_limits: vec![LIMIT], ..Probes::default() };
    scenario
}

/// A connection with segments of 1,000 B, first sent and first covered at these times in ms, and reads of as many bytes.
pub(crate) fn connection(slot: u16, segments: &[(u64, u64)], reads: &[(u64, u64)]) -> ConnectionRecord {
    let of = Membership { traffic: 0, pair: 0, toward: Toward::Second };
    let (mut log, mut read) = (SegmentLog::default(), ReadLog::default());
    for (place, (sent, _)) in (0..).zip(segments) {
        log.sent(Instant(sent * MS), place * 1000, 1000);
    }
    for (place, (_, covered)) in (1..).zip(segments) {
        log.acknowledged(Instant(covered * MS), place * 1000);
    }
    reads.iter().for_each(|(at, bytes)| read.read(Instant(at * MS), *bytes));
    let inside = reads.iter().filter(|(at, _)| (1000..3000).contains(at));
    ConnectionRecord {
        slot,
        window_bytes: inside.map(|(_, bytes)| bytes).sum(),
        reads: Some(read),
        segments: Some(log),
        ..ConnectionRecord::new(of, Instant::ZERO)
    }
}

fn group(scenario: &Scenario, connections: Vec<ConnectionRecord>, name: &str) -> GroupResult {
    let recording = Recording { connections, ..recording() };
    let found = groups(scenario, &[recording]).into_iter().find(|group| group.name == name);
    found.unwrap_or_else(|| panic!("no group {name}"))
}

#[test]
fn delay_of_a_segment_is_what_it_took_beyond_its_path() {
    let scenario = followed((0, 0));
    // Excess 10, 20 and 60 ms; one was sent before the window of 1 s to 3 s, one was never acknowledged.
    let first = connection(0, &[(900, 2000), (1000, 1160), (1100, 1270)], &[]);
    let mut second = connection(1, &[(2000, 2210)], &[]);
    if let Some(log) = &mut second.segments {
        log.sent(Instant(2100 * MS), 1000, 500);
        log.sent(Instant(2200 * MS), 0, 1000);
        log.sent(Instant(3000 * MS), 0, 1000);
    }
    let group = group(&scenario, vec![first, second], "tcp");
    let esdl = group.esdl_ms.expect("segments");
    // Mean 30; squares 400 + 100 + 900 over 2.
    assert_eq!((esdl.mean, esdl.max), (30.0, 60.0));
    assert!((esdl.stdev.expect("three") - 700.0_f64.sqrt()).abs() < 1e-9);
    // At or above 30 ms: the third alone.
    assert!((esdl.over_pct["30"] - 100.0 / 3.0).abs() < 1e-9);
    let sdl = group.sdl_ms.expect("segments");
    assert_eq!((sdl.mean, sdl.max, sdl.over_pct.len()), (130.0, 160.0, 0));
    // Four were first sent inside the window, one again; the other retransmission is behind it.
    let again = group.retransmits.expect("segments");
    assert_eq!((again.count, again.share_pct), (1, Some(20.0)));
}

#[test]
fn the_share_at_a_limit_counts_what_is_exactly_there() {
    let scenario = followed((0, 0));
    let at_limit = connection(0, &[(1000, 1180), (2000, 2179)], &[]);
    let esdl = group(&scenario, vec![at_limit], "tcp").esdl_ms.expect("segments");
    assert_eq!((esdl.over_pct["30"], esdl.max), (50.0, 30.0));
}

#[test]
fn the_path_of_a_connection_has_its_access_delay_twice_and_changes() {
    let mut scenario = followed((5, 15));
    // The first connection is 5 ms from its host's link, the last 15 ms: 160 and 180 ms there and back.
    let slots = [connection(0, &[(1000, 1170)], &[]), connection(1, &[(1000, 1190)], &[])];
    let esdl = group(&scenario, slots.to_vec(), "tcp").esdl_ms.expect("segments");
    assert_eq!((esdl.mean, esdl.max), (10.0, 10.0));
    // From 2 s on the way there takes 40 ms more.
    let change = Change {
        at: Duration::from_secs(2),
        rate: None,
        delay: Some(Duration::from_millis(140)),
        loss: None,
        up: None,
    };
    scenario.links[0].ways[0].changes.push(change);
    let both = connection(0, &[(1999, 2169), (2000, 2210)], &[]);
    let esdl = group(&scenario, vec![both], "tcp").esdl_ms.expect("segments");
    assert_eq!((esdl.mean, esdl.max), (10.0, 10.0));
}

#[test]
fn a_sliding_rate_is_sampled_when_data_are_read() {
    let mut scenario = followed((0, 0));
    scenario.duration = Duration::from_secs(9);
    scenario.probes.phases =
        vec![Phase { name: "late".into(), from: Duration::from_secs(6), until: Duration::from_secs(9) }];
    // 1,000 B in 5 s are 1.6 kbit/s. At 1 s and 2 s: 1,000 and 3,000 B; at 6 s the read of 1 s has just left: 3,000 B; at
    // 6.999 s as much and 1,000 B more.
    let reads = [(1000, 1000), (2000, 2000), (6000, 1000), (6999, 1000), (9000, 9000)];
    let mut steady = recording();
    steady.window.1 = Instant(9000 * MS);
    steady.connections = vec![connection(0, &[], &reads)];
    let groups = groups(&scenario, &[steady]);
    let of = |name: &str| {
        let group = groups.iter().find(|group| group.name == name).expect("a group");
        group.goodput_5s_kbps.expect("samples")
    };
    // 1.6, 4.8, 4.8, 6.4: mean 4.4, squares 7.84 + 0.16 + 0.16 + 4.
    let whole = of("tcp");
    assert!((whole.mean - 4.4).abs() < 1e-9 && (whole.stdev - (12.16_f64 / 3.0).sqrt()).abs() < 1e-9);
    assert_eq!(whole.stdev, whole.stdev_max);
    // In the phase the last two: the window looks back before it.
    let late = of("tcp@late");
    assert!((late.mean - 5.6).abs() < 1e-9 && (late.stdev - 1.28_f64.sqrt()).abs() < 1e-9);
}

#[test]
fn rates_and_shares_are_those_of_each_connection() {
    let mut scenario = followed((0, 20));
    scenario.probes.phases =
        vec![Phase { name: "end".into(), from: Duration::from_secs(2), until: Duration::from_secs(3) }];
    // 2,000 and 4,000 B in the 2 s of the window: 8 and 16 kbit/s of a share of 16; in its second half 8 kbit/s each.
    let two = || {
        vec![
            connection(0, &[], &[(500, 7000), (1000, 1000), (2000, 1000), (3000, 5000)]),
            connection(1, &[], &[(1500, 3000), (2500, 1000)]),
        ]
    };
    let whole = group(&scenario, two(), "tcp");
    let goodput = whole.goodput_kbps.expect("rates");
    assert_eq!((goodput.mean, goodput.min, goodput.max), (12.0, 8.0, 16.0));
    assert!((goodput.stdev.expect("two") - 32.0_f64.sqrt()).abs() < 1e-9);
    let used = whole.utilisation_pct.expect("a share");
    assert_eq!((used.mean, used.min, used.max), (75.0, 50.0, 100.0));
    // The slot with the longer path has more of it.
    assert!((used.latency_r.expect("both vary") - 1.0).abs() < 1e-9);
    // (8 + 16)² / (2 · (64 + 256))
    assert_eq!(whole.connections.and_then(|c| c.jain), Some(0.9));
    let end = group(&scenario, two(), "tcp@end");
    assert_eq!(
        (end.goodput_kbps.expect("rates").mean, end.connections.and_then(|c| c.jain)),
        (8.0, Some(1.0))
    );
}

#[test]
fn what_is_not_followed_has_no_figures() {
    let mut scenario = followed((0, 0));
    scenario.probes.phases =
        vec![Phase { name: "end".into(), from: Duration::from_secs(2), until: Duration::from_secs(3) }];
    let of = Membership { traffic: 0, pair: 0, toward: Toward::Second };
    let plain = || vec![ConnectionRecord { window_bytes: 1000, ..ConnectionRecord::new(of, Instant::ZERO) }];
    let whole = group(&scenario, plain(), "tcp");
    assert_eq!(whole.goodput_kbps.map(|g| g.mean), Some(4.0));
    assert!(whole.goodput_5s_kbps.is_none() && whole.esdl_ms.is_none() && whole.sdl_ms.is_none());
    assert_eq!((whole.retransmits, group(&scenario, plain(), "tcp@end").goodput_kbps), (None, None));
}

#[test]
fn what_only_the_kernel_counts_is_of_whole_lives() {
    let mut scenario = followed((0, 0));
    let phase = |name: &str, from| Phase {
        name: name.into(),
        from: Duration::from_secs(from),
        until: Duration::from_secs(3),
    };
    scenario.probes.phases = vec![phase("all", 0), phase("end", 2)];
    let of = Membership { traffic: 0, pair: 0, toward: Toward::Second };
    let again = |opened, count| ConnectionRecord {
        retransmits: Some(count),
        reads: Some(ReadLog::default()),
        ..ConnectionRecord::new(of, Instant(opened))
    };
    let two = || vec![again(0, 3), again(100 * MS, 4)];
    let all = group(&scenario, two(), "tcp@all").retransmits.expect("counted");
    assert_eq!((all.count, all.share_pct), (7, None));
    assert_eq!(group(&scenario, two(), "tcp@end").retransmits, None);
}

#[test]
fn the_figures_of_a_connection_are_those_of_a_group_of_one() {
    let scenario = followed((0, 20));
    let segments = [(1000, 1160), (1100, 1270)];
    let one = connection(1, &segments, &[(1000, 1000), (2000, 3000)]);
    let recording = Recording { connections: vec![one.clone()], ..recording() };
    let selection = Selection::default();
    let flows =
        flows(&scenario, &Paths::of(&scenario), ("tcp", selection, Measured::Window), (3, &recording));
    let group = group(&scenario, vec![one], "tcp");
    let [flow] = flows.as_slice() else { panic!("one connection: {flows:?}") };
    assert_eq!((flow.repetition, flow.number, flow.latency_ms), (3, 1, Some(190.0)));
    assert_eq!(flow.goodput_kbps, group.goodput_kbps.map(|g| g.mean));
    assert_eq!(flow.utilisation_pct, group.utilisation_pct.map(|u| u.mean));
    assert_eq!(flow.sliding_kbps, group.goodput_5s_kbps.map(|s| (s.mean, s.stdev)));
    assert_eq!(flow.esdl_ms.map(|d| (d[0], d[2])), group.esdl_ms.map(|d| (d.mean, d.max)));
    assert_eq!((flow.segments, flow.retransmits), (Some(2), Some(0)));
}
