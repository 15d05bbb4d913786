//! TCP connections that are followed: what their logs say, against what the network must do to them.

use crate::net::*;
use perhop_measure::{Recording, groups::groups};
use perhop_scenario::*;
use perhop_sim::{Options, run};
use perhop_units::{Duration, Instant, Rate};

const MS: u64 = 1_000_000;

fn simulate(scenario: &Scenario) -> Recording {
    run(scenario, &Options::default(), |_| true).expect("it runs")
}

/// Transfers over a link of so many kbit/s and 100 ms each way, through 64 KiB of window.
fn transfers(kbit: u64, count: u16, access_delay: (Duration, Duration), receive_buffer: u64) -> Scenario {
    let mut s = dumbbell(1, Rate::from_kbit(kbit), Duration::from_millis(100), 1000, 30);
    let tcp = Tcp {
        delayed_ack: None,
        window_scaling: false,
        // Otherwise the time-out comes so near to a round trip that never changes that a single wait exceeds it.
        min_rto: Duration::from_secs(1),
        receive_buffer: perhop_units::Bytes(receive_buffer),
        ..newreno()
    };
    let kind = TrafficKind::Bulk {
        count,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay,
        tcp,
    };
    s.traffic.push(traffic("bulk", vec![pair(0)], Duration::from_secs(30), kind));
    s.probes.segments = vec![0];
    s
}

/// What each segment took beyond the latency of its path, ns.
fn excess(recording: &Recording, connection: usize, latency: u64) -> Vec<u64> {
    let log = recording.connections[connection].segments.as_ref().expect("it is followed");
    let covered = log.segments().iter().filter(|segment| segment.covered != Instant::FAR_FUTURE);
    covered.map(|segment| segment.covered.since(segment.sent).as_nanos() - latency).collect()
}

#[test]
fn an_idle_path_adds_the_time_on_its_lines_and_nothing_else() {
    // Two segments a round trip: at 10 Mbit/s, and ten times as fast beside it, the second waits for the first.
    let s = transfers(10_000, 1, (Duration::ZERO, Duration::ZERO), 2 * 1460);
    let recording = simulate(&s);
    let excess = excess(&recording, 0, 200 * MS);
    // A frame of 1514 B takes 1211.2 µs on the core and 121.1 µs on either line beside it, an acknowledgement of 54 B 43.2
    // and 4.3 µs: 1505.3 µs; a second one 1211.2 µs more if both left together, and 4.3 µs if that was behind the last
    // acknowledgement of the handshake.
    let (least, most) = (*excess.iter().min().expect("segments"), *excess.iter().max().expect("segments"));
    assert!((1_505_000..1_506_000).contains(&least), "{least}");
    assert!(most < 1_506_000 + 1_211_200 + 4_400, "{most}");
    let record = &recording.connections[0];
    let log = record.segments.as_ref().expect("it is followed");
    assert!(log.again().is_empty() && log.segments().len() > 250);
    // What was read is what was counted, and what was acknowledged but for what is on its way.
    let reads = record.reads.as_ref().expect("they are followed");
    assert_eq!(reads.bytes(Instant::ZERO, Instant::FAR_FUTURE), record.bytes);
    assert_eq!(reads.bytes(recording.window.0, recording.window.1), record.window_bytes);
}

#[test]
fn access_delays_are_spread_evenly_and_count_twice() {
    let access = (Duration::from_millis(10), Duration::from_millis(40));
    let s = transfers(10_000, 4, access, 2 * 1460);
    let recording = simulate(&s);
    for (i, access) in [10, 20, 30, 40].into_iter().enumerate() {
        let latency = (200 + 2 * access) * MS;
        let least = excess(&recording, i, latency).into_iter().min().expect("segments");
        assert!((1_505_000..1_506_000).contains(&least), "{i}: {least}");
        // Two segments a round trip.
        let round_trip = latency as f64 + 1.5e6;
        let bytes = recording.connections[i].bytes as f64;
        let expected = 2.0 * 1460.0 * (30e9 / round_trip - 1.5);
        assert!((bytes / expected - 1.0).abs() < 0.02, "{i}: {bytes} {expected}");
    }
    let group = &groups(&s, &[recording])[0];
    let delay = group.esdl_ms.as_ref().expect("segments");
    assert!(delay.mean > 1.5 && delay.max < 8.0, "{delay:?}");
}

#[test]
fn a_full_queue_shows_as_delay_and_its_losses_as_retransmissions() {
    // 40 segments of buffer over 25 of the path at 1.5 Mbit/s. Of these 39 are on their way, because what a segment is
    // acknowledged by leaves before the segment is read, and 14 of them wait, 8.07 ms each, once slow start is over.
    let mut s = transfers(1_500, 1, (Duration::ZERO, Duration::ZERO), 40 * 1460);
    s.warm_up = Duration::from_secs(5);
    s.duration = Duration::from_secs(25);
    let recording = simulate(&s);
    let result = groups(&s, std::slice::from_ref(&recording));
    let delay = result[0].esdl_ms.as_ref().expect("segments");
    // The window takes 39 · 8.0747 ms in all; 200 are the path's.
    assert!((delay.mean - (39.0 * 8.074_7 - 200.0)).abs() < 0.1, "{delay:?}");
    assert_eq!(result[0].retransmits.map(|again| again.count), Some(0));
    // Ten packets of queue lose some; what is sent again is what the sender itself counts.
    for link in s.links.iter_mut().take(1) {
        link.ways[0].queue = perhop_units::QueueLimit::Packets(10);
    }
    s.warm_up = Duration::ZERO;
    s.duration = Duration::from_secs(30);
    let recording = simulate(&s);
    let again = groups(&s, std::slice::from_ref(&recording))[0].retransmits.expect("followed");
    assert!(again.count > 0);
    assert_eq!(Some(again.count), recording.connections[0].retransmits);
}
