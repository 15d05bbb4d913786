//! From what a run saw to the figures and series of the report.

use crate::dataplane::RouterKind;
use crate::options::DemoOptions;
use crate::run::{DETECTION_PACKETS, RunOutcome};
use crate::tap::{KINDS, TapCounts};
use crate::udp::CALLEE_PORT;
use perhop_quality::{CallQuality, CallRecord, Distribution, Playout, QualityPool, Scoring};
use perhop_report::{
    Connections, GroupResult, LinkResult, NamedSeries, QueueMs, RunData, RunSeries, ScenarioResult, Series,
    TimeMark,
};
use perhop_units::{Duration, Instant};

/// Name of the link in results.
pub(crate) const UPLINK: &str = "uplink";
/// The playout buffer that calls are scored with: an adaptive one, as telephones have it.
pub(crate) const SCORING: Scoring = Scoring {
    playout: Playout::Adaptive { depth: Duration::from_millis(40), window: Duration::from_secs(1) },
    concealment: true,
};
/// After the calls' start the link must be loaded; utilisation counts from the flood's start plus this.
const WARM_UP: Duration = Duration::from_secs(1);

/// From the first packet of each call to its recognition, by call; `None` where the router recognised none.
pub(crate) fn detection_offsets(perhop: &RunOutcome) -> Vec<Option<Duration>> {
    let offset = |(i, begin): (usize, &Instant)| {
        let port = CALLEE_PORT + 2 * i as u16;
        perhop.observed.detected.get(&port).map(|at| at.since(*begin))
    };
    perhop.begins.iter().enumerate().map(offset).collect()
}

/// Figures and series of one run. `offsets` says when each call counts as detected, in both runs alike.
pub(crate) fn data(outcome: &RunOutcome, options: &DemoOptions, offsets: &[Option<Duration>]) -> RunData {
    let interval = options.codec.packet_interval();
    let fallback = interval.saturating_mul(DETECTION_PACKETS);
    let from: Vec<Instant> = outcome
        .begins
        .iter()
        .enumerate()
        .map(|(i, begin)| *begin + offsets.get(i).copied().flatten().unwrap_or(fallback))
        .collect();
    let mut result = ScenarioResult {
        scenario: "demo".into(),
        mode: "netns".into(),
        seed: options.seed,
        repetitions: 1,
        sim_s: outcome.timeline.quiet.as_secs_f64(),
        wall_s: Some(outcome.timeline.quiet.as_secs_f64()),
        machine_warnings: outcome.machine.warnings(),
        ..ScenarioResult::default()
    };
    result.groups.extend(call_groups("calls", outcome, options, None));
    result.groups.extend(call_groups("calls_after_detection", outcome, options, Some(&from)));
    result.groups.push(bulk_group(outcome));
    result.groups.push(flood_group(outcome));
    result.links.push(link(outcome, options));
    let missing = offsets.iter().filter(|o| o.is_none()).count();
    if outcome.kind == RouterKind::Perhop && missing > 0 {
        result.warnings.push(format!(
            "{missing} of {} calls were not recognised; they count as detected after {DETECTION_PACKETS} packets",
            outcome.begins.len()
        ));
    }
    let first = from.iter().min().copied().unwrap_or(outcome.epoch);
    let last = from.iter().max().copied().unwrap_or(outcome.epoch);
    let mark = |at, label: &str| TimeMark { at, label: label.to_owned() };
    let marks = vec![
        mark(outcome.timeline.flood_start, "flood"),
        mark(first.since(outcome.epoch), "first call found"),
        mark(last.since(outcome.epoch), "last call found"),
    ];
    RunData { name: outcome.kind.name().to_owned(), result, series: series(outcome), marks }
}

/// The group in the congested direction and `.up`, `.down` beside it. `from` leaves out what was sent before it.
fn call_groups(
    name: &str,
    outcome: &RunOutcome,
    options: &DemoOptions,
    from: Option<&[Instant]>,
) -> Vec<GroupResult> {
    let group = |name: String, records: &[CallRecord]| {
        let qualities: Vec<CallQuality> = records
            .iter()
            .enumerate()
            .filter_map(|(i, record)| match from {
                Some(from) => record.from_instant(*from.get(i)?, &SCORING),
                None => record.whole(&SCORING),
            })
            .collect();
        let pool: QualityPool = qualities.iter().collect();
        // RTP, UDP and IP headers over the payload, at the time that speech takes.
        let ip_bytes = f64::from(options.codec.payload_bytes() + 12 + 28);
        let spoken_s =
            pool.sent as f64 / records.len().max(1) as f64 * options.codec.packet_interval().as_secs_f64();
        let kbps = (spoken_s > 0.0).then(|| pool.received as f64 * ip_bytes * 8.0 / spoken_s / 1e3);
        let group = GroupResult::of_calls(name, &pool);
        match kbps {
            Some(kbps) => group.with_throughput(&[kbps]),
            None => group,
        }
    };
    let up = group(name.to_owned(), &outcome.up);
    vec![
        up.clone(),
        GroupResult { name: format!("{name}.up"), ..up },
        group(format!("{name}.down"), &outcome.down),
    ]
}

fn bulk_group(outcome: &RunOutcome) -> GroupResult {
    // Over the whole time that the transfers were open: one that starves counts as starving.
    let seconds = outcome.timeline.end.as_secs_f64();
    let rates: Vec<f64> = outcome.bulk.iter().map(|t| t.bytes() as f64 * 8.0 / seconds / 1e3).collect();
    let total = rates.iter().sum();
    let group = GroupResult { connections: Some(Connections::of(&rates)), ..GroupResult::named("bulk") };
    group.with_throughput(&[total])
}

fn flood_group(outcome: &RunOutcome) -> GroupResult {
    let delays = Distribution::from_nanos(outcome.flood.delays_ns().to_vec());
    let group = GroupResult::of_datagrams("flood", outcome.flood_sent, &delays);
    let seconds = (outcome.timeline.end - outcome.timeline.flood_start).as_secs_f64();
    let overhead = f64::from(perhop_traffic::UDP_IPV4_OVERHEAD) * outcome.flood.received() as f64;
    let kbps = (outcome.flood.bytes() as f64 + overhead) * 8.0 / seconds / 1e3;
    if outcome.flood_sent > 0 { group.with_throughput(&[kbps]) } else { group }
}

fn link(outcome: &RunOutcome, options: &DemoOptions) -> LinkResult {
    let (bytes, span) = loaded(outcome, options);
    let capacity = options.rate.bits_per_sec() as f64 * span.as_secs_f64();
    LinkResult {
        name: UPLINK.into(),
        utilisation_pct: (capacity > 0.0).then(|| bytes as f64 * 8.0 / capacity * 100.0),
        drops: outcome.observed.drops.clone(),
        queue_ms: queue_ms(outcome),
    }
}

/// Bytes that left the link while it had more than enough to carry, and how long that was.
fn loaded(outcome: &RunOutcome, options: &DemoOptions) -> (u64, Duration) {
    let t = &outcome.timeline;
    let from = WARM_UP.min(t.calls_start - t.flood_start) + t.flood_start + options.delay;
    outcome.tap.frame_bytes_between(from, t.end + options.delay)
}

/// How long packets waited in the router for the link, while there were calls.
fn queue_ms(outcome: &RunOutcome) -> Option<QueueMs> {
    let waits = outcome.observed.queues.as_ref()?.waits.get("wan")?;
    let (from, until) = (outcome.epoch + outcome.timeline.calls_start, outcome.epoch + outcome.timeline.end);
    let inside = waits.iter().filter(|(came, waited)| (from..until).contains(&Instant(came + waited)));
    let waits = Distribution::from_nanos(inside.map(|(_, waited)| *waited).collect());
    Some(QueueMs { p50: waits.percentile_ms(50.0)?, p99: waits.percentile_ms(99.0)?, max: waits.max_ms()? })
}

type Changes = Vec<(u32, u64)>;

/// Backlogs in bytes of the router's queues towards the link, by the queue's class.
fn backlogs(recording: &perhop_engine::Recording) -> impl Iterator<Item = (&str, &Changes)> {
    recording.series.iter().filter_map(|(name, changes)| {
        let class = name.strip_prefix("wan/")?.strip_suffix(".backlog_bytes")?;
        Some((class, changes))
    })
}

/// The value at every sample, from where it changed.
fn samples(changes: &[(u32, u64)], count: u32) -> impl Iterator<Item = u64> + '_ {
    let mut next = changes.iter().peekable();
    let mut value = 0;
    (0..count).map(move |sample| {
        while let Some((_, v)) = next.next_if(|(at, _)| *at <= sample) {
            value = *v;
        }
        value
    })
}

fn series(outcome: &RunOutcome) -> RunSeries {
    let mut series = RunSeries::of_calls(outcome.epoch, &outcome.up);
    let bin = TapCounts::BIN;
    for (name, bits) in KINDS.iter().zip(&outcome.tap.bits) {
        let mut line = Series::new(bin);
        for (i, bits) in bits.iter().enumerate() {
            line.record(bin.saturating_mul(i as u64), *bits as f64);
        }
        series.throughput_bits.push(NamedSeries { name: (*name).to_owned(), series: line });
    }
    if let Some(recording) = &outcome.observed.queues {
        let interval = Duration(recording.interval_ns.max(1));
        for (name, changes) in backlogs(recording) {
            let mut line = Series::new(interval.max(Duration::from_millis(10)));
            for (i, bytes) in samples(changes, recording.samples).enumerate() {
                let at = Instant(recording.start_ns) + interval.saturating_mul(i as u64);
                if at >= outcome.epoch {
                    line.record(at.since(outcome.epoch), bytes as f64);
                }
            }
            series.queue_bytes.push(NamedSeries { name: name.to_owned(), series: line });
        }
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_of_changes_becomes_a_value_at_every_sample() {
        let values: Vec<u64> = samples(&[(1, 5), (1, 6), (4, 0)], 6).collect();
        assert_eq!(values, [0, 6, 6, 6, 0, 0]);
    }
}
