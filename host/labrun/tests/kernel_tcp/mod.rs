//! The kernel's TCP beside that of the simulator, on the same network: one flow over 20 Mbit/s, 20 ms each way, with a
//! queue of about the product of both.

use super::support::*;
use super::{ALONE, recorded};
use perhop_labrun::scenario::{NetnsOptions, run};
use perhop_measure::Recording;
use perhop_scenario::*;
use perhop_units::{Bytes, Duration, Instant, Rate};
use std::sync::PoisonError;

/// Loss events closer than this are one: about four round trips with the queue full.
const EPISODE_MS: u64 = 300;

/// What of a flow must be alike in both worlds.
#[derive(Debug)]
struct Dynamics {
    goodput_mbit: f64,
    round_trip_ms: f64,
    episodes: usize,
}

impl Dynamics {
    fn of(recording: &Recording) -> Self {
        let (from, until) = recording.window;
        let connection = &recording.connections[0];
        let seconds = until.since(from).as_secs_f64();
        let samples: Vec<f64> = connection
            .trace
            .iter()
            .filter(|sample| sample.at >= from && sample.at < until)
            .map(|sample| sample.round_trip.as_millis_f64())
            .collect();
        let core = recording.links.iter().find(|l| l.link == 0 && l.way == 0).unwrap();
        let queue = &core.queues[0];
        let interval_ms = queue.interval.as_nanos() / 1_000_000;
        let dropping =
            queue.drops.iter().zip(0..).filter(|(drops, _)| **drops > 0).map(|(_, i)| i * interval_ms);
        let mut last = None;
        let episodes =
            dropping.filter(|at| last.replace(*at).is_none_or(|last| at - last > EPISODE_MS)).count();
        Self {
            goodput_mbit: connection.window_bytes as f64 * 8.0 / seconds / 1e6,
            round_trip_ms: samples.iter().sum::<f64>() / samples.len() as f64,
            episodes,
        }
    }
}

fn one_flow(tcp: Tcp, warm_up_ms: u64, ms: u64) -> Scenario {
    let mut s = dumbbell(NodeKind::Forwarder, way(Rate::from_mbit(20), 20, 70), warm_up_ms, ms);
    let kind = TrafficKind::Bulk {
        count: 1,
        size: None,
        spacing: Duration::ZERO,
        at_once: 1,
        stagger: Duration::ZERO,
        access_delay: (Duration::ZERO, Duration::ZERO),
        tcp,
    };
    traffic(&mut s, "flow", 0, kind);
    s.probes.connections = vec![0];
    s
}

fn tcp(congestion: &str) -> Tcp {
    Tcp { congestion: congestion.into(), ..Tcp::default() }
}

fn is_alike(congestion: &str) {
    if !may_run(&format!("{congestion} beside the simulator")) {
        return;
    }
    let s = one_flow(tcp(congestion), 2000, 8000);
    let Some(recording) = recorded(&s) else { return };
    let kernel = Dynamics::of(&recording);
    let simulated = perhop_sim::run(&s, &perhop_sim::Options::default(), |_| true).unwrap();
    let ours = Dynamics::of(&simulated);
    let all = format!("{congestion}: kernel {kernel:?}, simulator {ours:?}");
    eprintln!("{all}");
    assert!((kernel.goodput_mbit / ours.goodput_mbit - 1.0).abs() <= 0.1, "{all}");
    assert!((kernel.round_trip_ms / ours.round_trip_ms - 1.0).abs() <= 0.15, "{all}");
    // The kernel's CUBIC may leave slow start without a loss.
    assert!(kernel.episodes.abs_diff(ours.episodes) <= 1, "{all}");
    assert!(ours.episodes >= 2, "{all}");
}

#[test]
fn reno_of_the_kernel_is_that_of_the_simulator() {
    is_alike("newreno");
}

#[test]
fn cubic_of_the_kernel_is_that_of_the_simulator() {
    is_alike("cubic");
}

#[test]
fn bbr_is_the_kernels_alone() {
    let s = one_flow(tcp("bbr"), 500, 1500);
    let why = perhop_sim::run(&s, &perhop_sim::Options::default(), |_| true).unwrap_err().to_string();
    assert!(why.contains("bbr") && why.contains("newreno and cubic"), "{why}");
    if !may_run("bbr") {
        return;
    }
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    if !known.split_whitespace().any(|name| name == "bbr") {
        eprintln!("SKIPPED bbr: this kernel has only {known}");
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let why = run(&s, &NetnsOptions::default(), |_| true).unwrap_err().to_string();
        assert!(why.contains("bbr") && why.contains("reno"), "{why}");
        return;
    }
    let Some(recording) = recorded(&s) else { return };
    let bbr = Dynamics::of(&recording);
    assert!((16.0..20.0).contains(&bbr.goodput_mbit), "{bbr:?}");
}

/// Initial window and segment size are those of routes; without time-stamps a segment has twelve bytes more room, which
/// shows that options are set too.
#[test]
fn the_kernel_takes_window_segment_size_and_options_from_the_scenario() {
    if !may_run("the_kernel_takes") {
        return;
    }
    for timestamps in [true, false] {
        let tcp = Tcp { initial_window: 3, mss: 1000, timestamps, sack: false, ..tcp("newreno") };
        let Some(recording) = recorded(&one_flow(tcp, 0, 400)) else { return };
        assert!(recording.warnings.is_empty(), "{:?}", recording.warnings);
        // Before the handshake the kernel shows ten segments of 536 bytes; until the queue overflows windows only grow.
        let early = recording.connections[0].trace.iter().filter(|s| s.at < Instant(200_000_000));
        let windows: Vec<u64> = early.map(|sample| sample.window).collect();
        assert_eq!(windows.iter().min(), Some(&3000), "timestamps {timestamps}: {windows:?}");
    }
}

/// A listening socket has one code point; the answer to a request must have that of its traffic all the same.
#[test]
fn a_connection_is_opened_in_the_class_of_its_traffic() {
    if !may_run("a_connection_is_opened") {
        return;
    }
    let mut s = dumbbell(super::router(super::TWO_CLASSES), way(Rate::from_mbit(5), 10, 100), 500, 1500);
    let files = || TrafficKind::Files { count: 2, size: Bytes(3000), tcp: tcp("newreno") };
    traffic(&mut s, "calls", 46, files());
    // Later in the file and so the one whose code point the listening socket has.
    traffic(&mut s, "rest", 0, files());
    traffic(&mut s, "flood", 0, constant(Rate::from_mbit(8), 1000));
    let Some(recording) = recorded(&s) else { return };
    let calls = recording.connections.iter().filter(|c| c.of.traffic == 0 && c.opened > Instant(500_000_000));
    let mut waits: Vec<f64> =
        calls.filter_map(|c| Some(c.first_byte?.since(c.opened).as_millis_f64())).collect();
    waits.sort_by(f64::total_cmp);
    assert!(waits.len() > 20, "{waits:?}");
    // Two round trips of 20 ms, beside a queue of 100 packets of 1.6 ms.
    assert!(super::median(&waits) < 60.0, "{waits:?}");
}
