//! Traffic groups of a result.
//!
//! A traffic of several pairs gives `name1`, `name2` … and `name` for all; one in both directions gives `name.down` and
//! `name.up`, and `name` is `name.down`: the direction in which the file's first host sends. `total` is the
//! throughput of every traffic while all of it sends. Datagrams count when they were sent inside the window; their
//! throughput is what arrived in as long a time as the traffic sends inside the window, which begins later by the smallest
//! delay of the stream. Connections count data that arrived inside the window. What a
//! probe counts of each stream after its first packets is `name_after_PROBE`.

use crate::recording::{Membership, PacketRecord, Recording, StreamRecord};
use crate::sections::{Sections, common_part};
use crate::selection::{Measured, Selection, first_direction, payload_kbps, selections};
use crate::transport;
use perhop_quality::{CallQuality, CallRecord, Distribution, QualityPool, Received, Scoring};
use perhop_report::result::{Connections, GroupResult, JitterMs};
use perhop_scenario::figures::{self, TOTAL};
use perhop_scenario::{Paths, Scenario};
use perhop_units::{Duration, Instant};

/// All groups over all repetitions.
pub fn groups(scenario: &Scenario, recordings: &[Recording]) -> Vec<GroupResult> {
    let paths = Paths::of(scenario);
    let mut groups: Vec<GroupResult> = selections(scenario)
        .into_iter()
        .map(|(name, of)| group(&name, (scenario, &paths), of, recordings))
        .collect();
    if figures::has_total(scenario) {
        groups.push(total(scenario, recordings));
    }
    groups
}

/// Throughput of all traffic in its first direction, over the part of the window in which all of it sends: sums of rates
/// over different times could exceed what a link carries.
fn total(scenario: &Scenario, recordings: &[Recording]) -> GroupResult {
    let sums: Vec<f64> = recordings.iter().map(|recording| total_kbps(scenario, recording)).collect();
    GroupResult::named(TOTAL).with_throughput(&sums)
}

fn total_kbps(scenario: &Scenario, recording: &Recording) -> f64 {
    let part = common_part(scenario, recording.window);
    let sections = Sections::of(scenario);
    let first = |of: &Membership| first_direction(of.traffic, &scenario.traffic[of.traffic]).has(of);
    let streams = recording.streams.iter().filter(|stream| first(&stream.of));
    let connections = recording.connections.iter().filter(|c| first(&c.of));
    let bytes = streams.map(|stream| arrived_bytes(stream, part)).sum::<u64>()
        + connections.map(|c| sections.sum(&c.sections, part)).sum::<u64>();
    kbps(bytes, part.1.since(part.0))
}

fn group(
    name: &str,
    (scenario, paths): (&Scenario, &Paths),
    selection: Selection,
    recordings: &[Recording],
) -> GroupResult {
    let measured = Measured::by(scenario, selection);
    let streams = || {
        recordings.iter().flat_map(move |recording| {
            let streams = recording.streams.iter().filter(move |stream| selection.has(&stream.of));
            streams.map(move |stream| (selection.part_of(measured.of(recording), stream), stream))
        })
    };
    let mut group = if streams().any(|(_, stream)| stream.codec.is_some()) {
        GroupResult::of_calls(name, &pool(streams(), &scenario.probes.scoring))
    } else if streams().next().is_some() {
        datagrams(name, streams())
    } else {
        let mut group = connections(name, recordings, (selection, measured));
        transport::add(&mut group, (scenario, paths), (selection, measured), recordings);
        group
    };
    let kbps: Vec<f64> =
        recordings.iter().map(|r| throughput_kbps(scenario, r, (selection, measured))).collect();
    group = group.with_throughput(&kbps);
    group
}

/// The calls of a group, scored.
pub(crate) fn pool<'a>(
    streams: impl Iterator<Item = ((Instant, Instant), &'a StreamRecord)>,
    scoring: &Scoring,
) -> QualityPool {
    let part =
        |(window, stream): ((Instant, Instant), _)| call_record(stream)?.part(window.0, window.1, scoring);
    let calls: Vec<CallQuality> = streams.filter_map(part).collect();
    calls.iter().collect()
}

/// A stream as the record of a call; `None` if it is none.
pub fn call_record(stream: &StreamRecord) -> Option<CallRecord> {
    let mut record = CallRecord::new(stream.codec?);
    for (index, packet) in stream.packets.iter().enumerate() {
        let index = index as u32;
        record.sent(index, packet.sent);
        if packet.arrived != Instant::FAR_FUTURE {
            let (rtp_timestamp, sent, arrived) = (packet.rtp_timestamp, packet.sent, packet.arrived);
            record.received(Received { index, rtp_timestamp, sent, arrived });
        }
    }
    Some(record)
}

fn datagrams<'a>(
    name: &str,
    streams: impl Iterator<Item = ((Instant, Instant), &'a StreamRecord)>,
) -> GroupResult {
    let mut sent = 0;
    let mut delays = Vec::new();
    let (mut sum, mut most, mut received) = (0.0, 0.0_f64, 0_u64);
    for (window, stream) in streams {
        let mut before: Option<i64> = None;
        let inside = stream.packets.iter().filter(|p| p.sent >= window.0 && p.sent < window.1);
        for packet in inside {
            sent += 1;
            let Some(delay) = packet.delay_ns() else { continue };
            received += 1;
            if let Some(before) = before {
                let difference = delay.abs_diff(before) as f64 / 1e6;
                sum += difference;
                most = most.max(difference);
            }
            before = Some(delay);
            delays.push(delay);
        }
    }
    let jitter = (received > 0).then(|| JitterMs { mean: sum / received as f64, max: most });
    let delay = Distribution::from_signed_nanos(delays);
    GroupResult { jitter_ms: jitter, ..GroupResult::of_datagrams(name, sent, &delay) }
}

fn connections(
    name: &str,
    recordings: &[Recording],
    (selection, measured): (Selection, Measured),
) -> GroupResult {
    let mut rates = Vec::new();
    for recording in recordings {
        let of_group = recording.connections.iter().filter(|c| selection.has(&c.of));
        rates.extend(of_group.filter_map(|c| payload_kbps(recording, c, measured)));
    }
    GroupResult { connections: Some(Connections::of(&rates)), ..GroupResult::named(name) }
}

/// IP bits of a selection in kbit/s in one repetition.
fn throughput_kbps(
    scenario: &Scenario,
    recording: &Recording,
    (selection, measured): (Selection, Measured),
) -> f64 {
    let traffic = &scenario.traffic[selection.traffic];
    let (from, until) = measured.of(recording);
    let streams = || recording.streams.iter().filter(|stream| selection.has(&stream.of));
    if streams().next().is_some() {
        let begin = Instant(traffic.start.as_nanos()).max(from);
        let end = Instant(traffic.stop.as_nanos()).min(until);
        let parts = || streams().map(|stream| (selection.part_of((begin, end.max(begin)), stream), stream));
        let begin = parts().map(|(part, _)| part.0).min().unwrap_or(begin);
        let bytes = parts().map(|(part, stream)| arrived_bytes(stream, part)).sum();
        return kbps(bytes, end.since(begin));
    }
    let connections = recording.connections.iter().filter(|c| selection.has(&c.of));
    let sections = Sections::of(scenario);
    let bytes = match measured {
        Measured::Window => connections.map(|c| c.window_ip_bytes).sum(),
        Measured::Part(..) => connections.map(|c| sections.sum(&c.sections, (from, until))).sum(),
    };
    kbps(bytes, until.since(from))
}

/// IP bytes that arrived in a part of the time, which begins and ends later by the smallest delay of the stream: so long
/// what is sent is on its way over an idle path. No line carries more in that time than in any other as long.
fn arrived_bytes(stream: &StreamRecord, part: (Instant, Instant)) -> u64 {
    let path = stream.packets.iter().filter_map(PacketRecord::delay_ns).min().unwrap_or(0);
    let later = |at: Instant| Instant(at.as_nanos().saturating_add_signed(path));
    let (begin, end) = (later(part.0), later(part.1));
    let inside = stream.packets.iter().filter(|p| p.arrived >= begin && p.arrived < end);
    inside.map(|p| u64::from(p.len)).sum()
}

fn kbps(bytes: u64, time: Duration) -> f64 {
    if time == Duration::ZERO { 0.0 } else { bytes as f64 * 8.0 / time.as_secs_f64() / 1e3 }
}
