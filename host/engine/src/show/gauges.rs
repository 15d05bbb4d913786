//! Which numbers of a row go up and down, or may: all others are counters, which only go on.

use crate::report::Row;
use perhop_model::CountersRow;

/// By kind of row. Elements name theirs themselves.
const GAUGES: [(&str, &[&str]); 14] = [
    ("port", &["rate_bps"]),
    (
        "class",
        &[
            "throttled_now",
            "backlog_packets",
            "backlog_bytes",
            "rate_bps",
            "packets_per_second",
            "wait_mean_us",
        ],
    ),
    ("element", &["held"]),
    ("detector", &["flows_admitted_now", "admitted_bps", "cap_bps", "locked"]),
    ("abr_policy", &["flows", "share_bps", "rate_bps"]),
    ("pool", &["capacity", "in_depot"]),
    ("driver", &["timer_late_p50_ns", "timer_late_p99_ns", "timer_late_max_ns", "survey_slice_max_ns"]),
    ("worker", &["buckets", "packets_per_second"]),
    ("flow", &["idle_ms", "confidence", "decided_at"]),
    (
        "call",
        &[
            "idle_ms",
            "confidence",
            "decided_at",
            // What comes late is not lost any more.
            "lost_before",
            "longest_run",
            "delay_mean_us",
            "delay_max_us",
            "jitter_us",
            "clock_hz",
        ],
    ),
    (
        "abr",
        &["rate_bps", "latency_us", "latency_sender_us", "latency_receiver_us", "window", "credit", "mss"],
    ),
    ("drop", &["last_hour"]),
    ("route", &["metric"]),
    ("delay", &["received_ns", "delay_ns", "bytes", "queue_packets", "burst_packets", "ahead_packets"]),
];

fn is_gauge(kind: &str, name: &str) -> bool {
    // What calls cost.
    (kind == "cost" && name.ends_with("_ps"))
        || GAUGES.iter().any(|(of, gauges)| *of == kind && gauges.contains(&name))
}

/// Says in a row which of its numbers are gauges, beside those that it names already.
pub(crate) fn name(row: &mut Row) {
    let gauges = row.counters.keys().filter(|name| is_gauge(&row.kind, name));
    row.gauges.extend(gauges.cloned());
}

/// The row with its counters alone: [`CountersRow`] has no place for gauges.
pub(super) fn without(mut row: Row) -> CountersRow {
    row.counters.retain(|name, _| !is_gauge(&row.kind, name));
    CountersRow { kind: row.kind, name: row.name, id: row.id, owner: row.owner, counters: row.counters }
}
