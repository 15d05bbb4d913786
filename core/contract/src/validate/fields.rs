//! What an object must satisfy on its own: ranges.

use super::queues::queue_kind;
use super::{At, FRAME_MTU, abr};
use ipnet::IpNet;
use perhop_model::{
    AdmissionMethod, AdmissionSpec, AllocationSpec, ClassSpec, DEVICE_NAMES, DetectorSpec, FilterSpec,
    MeterSpec, PortRange, PortSpec, ProfileSpec, QueueSpec, RouteKind, RouteSpec, SlaSpec, Spec,
    is_device_name,
};
use perhop_reason::Code;
use perhop_units::{Bytes, Duration, QueueLimit, Rate, Share};
use std::collections::BTreeSet;

/// Checks one object's ranges.
pub(super) fn own_fields(at: &mut At<'_>, spec: &Spec) {
    match spec {
        Spec::Port(p) => port(at, p),
        Spec::Class(c) => class(at, c),
        Spec::Profile(p) => profile(at, p),
        Spec::Filter(f) => filter(at, f),
        Spec::Sla(s) => sla(at, s),
        Spec::Route(r) => route(at, r),
        Spec::Detector(d) => detector(at, d),
        Spec::Allocation(a) => allocation(at, a),
        Spec::AbrPolicy(p) => abr::policy(at, p),
    }
}

fn port(at: &mut At<'_>, p: &PortSpec) {
    if !(-64..=256).contains(&p.overhead) {
        let item = at.error(
            "overhead",
            Code::OutOfRange,
            format!("overhead = {} bytes is outside -64 to 256", p.overhead),
        );
        item.allowed = Some("-64 to 256".to_owned());
    }
    at.range("minimum_frame", p.minimum_frame, 0, FRAME_MTU);
    if p.rate != Rate::ZERO {
        at.rate("rate", p.rate, 8_000);
    }
    if !p.device.is_empty() && !is_device_name(&p.device) {
        let why = format!("{:?} is not an interface name", p.device);
        at.error("device", Code::OutOfRange, why).allowed = Some(DEVICE_NAMES.to_owned());
    }
    if let Some(q) = &p.queue {
        queue(at, q, p.rate);
    }
}

pub(super) fn queue(at: &mut At<'_>, q: &QueueSpec, rate: Rate) {
    match q.limit {
        QueueLimit::Packets(n) => at.range("queue.limit", n, 1, 1_000_000),
        QueueLimit::Bytes(n) => at.range("queue.limit", n, FRAME_MTU, 1 << 32),
        QueueLimit::Time(ns) => {
            at.range("queue.limit", ns, 1_000, Duration::from_secs(60).as_nanos());
            let bytes = rate.bytes_in(ns).get();
            // Nobody asked for the default, and a queue holds two frames whatever its time.
            let asked = q.limit != QueueSpec::default().limit;
            if asked && rate.0 > 0 && bytes < FRAME_MTU {
                let item = at.error(
                    "queue.limit",
                    Code::OutOfRange,
                    format!(
                        "{} ns at {} bit/s is {bytes} bytes, less than one frame of {FRAME_MTU}",
                        ns.0, rate.0
                    ),
                );
                item.value = Some(ns.0.into());
                item.limit = Some(rate.time_for(Bytes(FRAME_MTU)).as_nanos());
            }
        }
    }
    queue_kind(at, &q.kind);
}

fn share(at: &mut At<'_>, field: &str, s: Share) {
    match s {
        Share::Ppm(p) => at.range(field, p, 0, 1_000_000),
        Share::Rate(r) => at.rate(field, r, 0),
    }
}

fn class(at: &mut At<'_>, c: &ClassSpec) {
    at.range("weight", c.weight, 1, 1_000_000);
    at.range("tier", c.tier, 0, 15);
    share(at, "guarantee", c.guarantee);
    if let Some(s) = c.ceiling {
        share(at, "ceiling", s);
        if s.is_zero() {
            at.error("ceiling", Code::OutOfRange, "a ceiling of 0 would let nothing pass".to_owned());
        }
    }
    for (field, burst) in [("burst", c.burst), ("ceiling_burst", c.ceiling_burst)] {
        if burst != Bytes(0) {
            at.range(field, burst, 2 * FRAME_MTU, 1 << 30);
        }
    }
}

fn profile(at: &mut At<'_>, p: &ProfileSpec) {
    match p.meter {
        MeterSpec::None => {}
        MeterSpec::TokenBucket { cir, cbs } => {
            at.rate("meter.cir", cir, 1);
            at.range("meter.cbs", cbs, 1500, 1 << 30);
        }
        MeterSpec::Srtcm { cir, cbs, ebs, .. } => {
            at.rate("meter.cir", cir, 1);
            at.range("meter.cbs", cbs, 0, 1 << 30);
            at.range("meter.ebs", ebs, 0, 1 << 30);
            if cbs.max(ebs) < Bytes(1500) {
                at.error(
                    "meter",
                    Code::OutOfRange,
                    "one of cbs and ebs must hold a packet of 1500 B".to_owned(),
                );
            }
        }
        MeterSpec::Trtcm { cir, cbs, pir, pbs, .. } => {
            at.rate("meter.cir", cir, 1);
            at.rate("meter.pir", pir, cir.0);
            at.range("meter.cbs", cbs, 1500, 1 << 30);
            at.range("meter.pbs", pbs, 1500, 1 << 30);
        }
        MeterSpec::Tswtcm { cir, pir, window } => {
            at.rate("meter.cir", cir, 1);
            at.rate("meter.pir", pir, cir.0);
            at.range("meter.window", window, 1_000_000, 60_000_000_000);
        }
    }
}

/// Prefixes of one condition: whole, and of one family.
pub(super) fn prefixes(at: &mut At<'_>, src: Option<IpNet>, dst: Option<IpNet>) {
    if let (Some(a), Some(b)) = (src, dst)
        && a.addr().is_ipv4() != b.addr().is_ipv4()
    {
        at.error("match", Code::OutOfRange, format!("{a} and {b} are of different families"));
    }
    for (field, net) in [("match.src", src), ("match.dst", dst)] {
        if let Some(net) = net.filter(|n| n.trunc() != *n) {
            let item = at.error(field, Code::OutOfRange, format!("{net} has bits beyond its prefix length"));
            item.allowed = Some(net.trunc().to_string());
        }
    }
}

/// A range of transport ports.
pub(super) fn ports(at: &mut At<'_>, field: &str, r: PortRange) {
    if r.first > r.last {
        at.error(field, Code::OutOfRange, format!("the range {} to {} is empty", r.first, r.last));
    }
}

fn filter(at: &mut At<'_>, f: &FilterSpec) {
    let m = &f.matches;
    prefixes(at, m.src, m.dst);
    for (field, r) in [("match.src_ports", m.src_ports), ("match.dst_ports", m.dst_ports)] {
        let Some(r) = r else { continue };
        ports(at, field, r);
        if !matches!(m.protocol, Some(6 | 17 | 132 | 136)) {
            at.error(field, Code::OutOfRange, "ports need protocol 6 (TCP) or 17 (UDP)".to_owned());
        }
    }
    if let Some(d) = m.dscp
        && (d.mask > 63 || d.value & !d.mask != 0)
    {
        at.error("match.dscp", Code::OutOfRange, "value must lie inside mask, mask inside 0x3f".to_owned());
    }
    if let Some(t) = m.tcp_flags {
        if t.value & !t.mask != 0 {
            at.error("match.tcp_flags", Code::OutOfRange, "value must lie inside mask".to_owned());
        }
        if m.protocol != Some(6) {
            at.error("match.tcp_flags", Code::OutOfRange, "TCP flags need protocol 6".to_owned());
        }
    }
    if let Some(v) = m.vlan {
        at.range("match.vlan", v, 0, 4094);
    }
}

fn sla(at: &mut At<'_>, s: &SlaSpec) {
    at.rate("rate", s.rate, 1_000);
    if s.burst != Bytes(0) {
        at.range("burst", s.burst, 1500, 1 << 30);
    }
    at.range("shared_pct", s.shared_pct, 0, 100);
    let mut seen = BTreeSet::new();
    for (i, net) in s.prefixes.iter().enumerate() {
        if net.trunc() != *net {
            let item = at.error(
                &format!("prefixes[{i}]"),
                Code::OutOfRange,
                format!("{net} has bits beyond its prefix length"),
            );
            item.allowed = Some(net.trunc().to_string());
        }
        if !seen.insert(net) {
            at.error(&format!("prefixes[{i}]"), Code::Exists, format!("{net} is listed twice"));
        }
    }
}

fn route(at: &mut At<'_>, r: &RouteSpec) {
    if r.dest.trunc() != r.dest {
        let item =
            at.error("dest", Code::OutOfRange, format!("{} has bits beyond its prefix length", r.dest));
        item.allowed = Some(r.dest.trunc().to_string());
    }
    if let Some(via) = r.via
        && via.is_ipv4() != r.dest.addr().is_ipv4()
    {
        at.error("via", Code::OutOfRange, format!("{via} and {} are of different families", r.dest));
    }
    match (r.kind, &r.port) {
        (RouteKind::Unicast, None) => {
            at.error("port", Code::OutOfRange, "a unicast route needs a port".to_owned());
        }
        (RouteKind::Unicast, Some(_)) | (_, None) => {}
        (_, Some(_)) => {
            at.error("port", Code::OutOfRange, "only a unicast route has a port".to_owned());
        }
    }
}

fn detector(at: &mut At<'_>, d: &DetectorSpec) {
    at.range("packets", d.packets, 3, 64);
    at.range("regular", d.regular.unwrap_or(d.packets), 3, d.packets.max(3).into());
    at.range("statistical_after", d.statistical_after, 15, 250);
    at.range("statistical_size", d.statistical_size, 40, 1500);
    at.range("statistical_rate", d.statistical_rate, 5, 1000);
    at.range("within", d.within, 10_000_000, Duration::from_secs(60).as_nanos());
    at.range("idle", d.idle, Duration::from_secs(1).as_nanos(), Duration::from_secs(3600).as_nanos());
    if let Some(r) = d.rate {
        at.rate("rate", r, 8_000);
    }
    if d.flow_rate != Rate::ZERO {
        at.rate("flow_rate", d.flow_rate, 8_000);
    }
    if let Some(a) = &d.admission {
        admission(at, a, d.idle);
    }
}

/// `idle` is the detector's.
fn admission(at: &mut At<'_>, a: &AdmissionSpec, idle: Duration) {
    let least = Duration::from_millis(100).as_nanos();
    if a.cap > Rate::ZERO || a.method == AdmissionMethod::Measured {
        at.rate("admission.cap", a.cap, 8_000);
    }
    at.range("admission.accept_pct", a.accept_pct, 1, 99);
    at.range("admission.drop_pct", a.drop_pct, u64::from(a.accept_pct) + 1, 100);
    let interval = (Duration::from_millis(10).as_nanos(), Duration::from_secs(60).as_nanos());
    at.range("admission.interval", a.interval, interval.0, interval.1);
    at.range("admission.windows", a.windows, 1, 1_000);
    at.range("admission.idle", a.idle, least, idle.0);
    if let Some(retry) = a.retry {
        at.range("admission.retry", retry, least, Duration::from_secs(3_600).as_nanos());
    }
    at.rate("admission.new_flow", a.new_flow, 0);
}

fn allocation(at: &mut At<'_>, a: &AllocationSpec) {
    if a.guarantee.is_none() && a.ceiling.is_none() {
        let why = "an allocation needs a guarantee, a ceiling or both".to_owned();
        at.error("", Code::OutOfRange, why);
    }
    at.rate("guarantee", a.guarantee.unwrap_or_default(), 0);
    at.rate("ceiling", a.ceiling.unwrap_or(Rate(1)), 1);
    if let (Some(g), Some(c)) = (a.guarantee, a.ceiling)
        && c < g
    {
        let item = at.error(
            "ceiling",
            Code::OutOfRange,
            format!("ceiling = {} bit/s is below the guarantee of {} bit/s", c.0, g.0),
        );
        item.limit = Some(g.0);
    }
}
