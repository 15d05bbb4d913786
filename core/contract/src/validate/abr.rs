//! What a policy of the TCP rate control must satisfy on its own: ranges.

use super::At;
use super::fields::{ports, prefixes};
use perhop_model::{AbrLatency, AbrPolicySpec};
use perhop_reason::Code;
use perhop_units::{Duration, Rate};
use std::collections::BTreeSet;

/// Slowest rate that a policy may name, in bit/s.
const MIN_RATE: u64 = 1_000;
/// Largest shift of a window (RFC 7323, section 2.3).
const MAX_SHIFT: u64 = 14;
/// Weights in parts per million.
const WHOLE: u64 = 1_000_000;

pub(super) fn policy(at: &mut At<'_>, p: &AbrPolicySpec) {
    condition(at, p);
    for (field, rate) in [("rate", p.rate), ("min", p.min), ("peak", p.peak)] {
        if rate != Rate::ZERO {
            at.rate(field, rate, MIN_RATE);
        }
    }
    if p.peak != Rate::ZERO && p.min > p.peak {
        let why = format!("min = {} bit/s is above the peak of {} bit/s", p.min.0, p.peak.0);
        let item = at.error("min", Code::OutOfRange, why);
        item.value = Some(p.min.0.into());
        item.limit = Some(p.peak.0);
    }
    at.range("weight", p.weight, 1, 1_000_000);
    latency(at, p.latency);
    if let Some(shift) = p.assume_shift {
        at.range("assume_shift", shift, 0, MAX_SHIFT);
    }
    at.range("overhead", p.overhead, 0, 256);
    let idle = (Duration::from_millis(100).as_nanos(), Duration::from_secs(3_600).as_nanos());
    at.range("idle", p.idle, idle.0, idle.1);
}

fn condition(at: &mut At<'_>, p: &AbrPolicySpec) {
    let m = &p.matches;
    prefixes(at, m.src, m.dst);
    for (field, range) in [("match.src_ports", m.src_ports), ("match.dst_ports", m.dst_ports)] {
        range.into_iter().for_each(|range| ports(at, field, range));
    }
    let mut seen = BTreeSet::new();
    for (i, dscp) in m.dscp.iter().enumerate() {
        if !seen.insert(dscp) {
            at.error(&format!("match.dscp[{i}]"), Code::Exists, format!("{dscp} is listed twice"));
        }
    }
}

fn latency(at: &mut At<'_>, latency: AbrLatency) {
    let hour = Duration::from_secs(3_600).as_nanos();
    match latency {
        AbrLatency::Average { up_ppm, down_ppm } => {
            at.range("latency.up_ppm", up_ppm, 1, WHOLE);
            at.range("latency.down_ppm", down_ppm, 1, WHOLE);
        }
        AbrLatency::Timed { up, down_ppm } => {
            at.range("latency.up", up, Duration::from_secs(1).as_nanos(), hour);
            at.range("latency.down_ppm", down_ppm, 1, WHOLE);
        }
        AbrLatency::Minimum { window } => {
            at.range("latency.window", window, Duration::from_millis(100).as_nanos(), hour);
        }
    }
}
