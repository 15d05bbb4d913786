//! What a state must satisfy: ranges, references, ownership of references, capacity. Pure; judges the final state and
//! reports every error.

use super::store::{Draft, Entry};
use perhop_model::{
    ClassSpec, ColorAction, DetectorSpec, ErrorItem, FilterSpec, Key, Kind, MeterSpec, Name, PortSpec,
    ProfileSpec, QueueKind, QueueSpec, RouteKind, RouteSpec, SlaSpec, Spec,
};
use perhop_reason::Code;
use perhop_units::{Duration, QueueLimit, Rate, Share};
use std::collections::{BTreeMap, BTreeSet};

/// Largest Ethernet frame without FCS on a port with the usual MTU, in bytes.
pub const FRAME_MTU: u64 = 1514;
/// Deepest class.
pub const MAX_DEPTH: usize = 8;

/// Most objects of each kind a router takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Classes on all ports.
    pub classes: usize,
    /// Filters.
    pub filters: usize,
    /// Profiles, contracts, routes: each.
    pub others: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { classes: 100_000, filters: 100_000, others: 100_000 }
    }
}

/// Collects errors at an object.
struct At<'a> {
    key: &'a Key,
    op: Option<usize>,
    errors: &'a mut Vec<ErrorItem>,
}

impl At<'_> {
    fn error(&mut self, field: &str, code: Code, message: String) -> &mut ErrorItem {
        let path = if field.is_empty() {
            format!("{}/{}", self.key.kind, self.key.name)
        } else {
            format!("{}/{}.{field}", self.key.kind, self.key.name)
        };
        self.errors.push(ErrorItem {
            op: self.op,
            path,
            code,
            message,
            value: None,
            allowed: None,
            limit: None,
            free: None,
        });
        let last = self.errors.len() - 1;
        &mut self.errors[last]
    }

    fn range<T: Into<u64> + Copy>(&mut self, field: &str, value: T, min: u64, max: u64) {
        let v: u64 = value.into();
        if v < min || v > max {
            let item =
                self.error(field, Code::OutOfRange, format!("{field} = {v} is outside {min} to {max}"));
            item.value = Some(v.into());
            item.allowed = Some(format!("{min} to {max}"));
        }
    }

    /// An object reference: it must exist, and belong to the same owner or be shared.
    fn reference(&mut self, draft: &Draft<'_>, me: &Entry, field: &str, kind: Kind, name: &Name) {
        match draft.find(&Key { kind, name: name.clone() }) {
            None => {
                self.error(field, Code::BadReference, format!("there is no {kind} {:?}", name.as_str()));
            }
            Some(e) if e.owner != me.owner && !e.spec.shared() => {
                self.error(
                    field,
                    Code::BadReference,
                    format!("{kind} {:?} belongs to {} and is not shared", name.as_str(), e.owner),
                );
            }
            Some(_) => {}
        }
    }

    fn logical(&mut self, classes: &Logical<'_>, field: &str, name: &Name) {
        if !classes.names.contains(name.as_str()) {
            self.error(
                field,
                Code::BadReference,
                format!("no class of any port has the logical name {:?}", name.as_str()),
            );
        }
    }
}

/// Logical class names of a draft.
struct Logical<'a> {
    names: BTreeSet<&'a str>,
}

/// Checks `draft`. `ops` names the operation that an object's errors belong to. All changed objects are checked on
/// their own; what depends on several objects (references, capacity, modes) is checked for the whole state wherever a
/// change can have touched it. O(objects) with a small constant.
pub fn validate(draft: &Draft<'_>, ops: &BTreeMap<Key, usize>, limits: &Limits) -> Vec<ErrorItem> {
    let mut errors = Vec::new();
    let touched: BTreeSet<Kind> = draft.changes().keys().map(|k| k.kind).collect();
    let logical = Logical { names: draft.classes().map(|(n, c, _)| c.logical_name(n)).collect() };

    for (key, entry) in draft.changes() {
        let Some(entry) = entry else { continue };
        let mut at = At { key, op: ops.get(key).copied(), errors: &mut errors };
        own_fields(&mut at, &entry.spec);
    }
    // References may break by a change of what they name, so every referring object is looked at.
    for kind in Kind::ALL {
        for (key, entry) in draft.of_kind(kind) {
            let changed = draft.changes().contains_key(key);
            if changed || refers_to_any(&entry.spec, &touched) {
                let op = ops.get(key).copied();
                let before = errors.len();
                let mut at = At { key, op, errors: &mut errors };
                references(&mut at, draft, &logical, entry);
                if !changed {
                    blame_the_deletion(draft, ops, key, &mut errors[before..]);
                }
            }
        }
    }
    if touched.contains(&Kind::Port) || touched.contains(&Kind::Class) || touched.contains(&Kind::Allocation)
    {
        trees(draft, ops, &mut errors);
        port_modes(draft, ops, &mut errors);
    }
    counts(draft, limits, &mut errors);
    errors
}

/// An unchanged object lost what it refers to: the deletion is at fault, with `in_use`.
fn blame_the_deletion(draft: &Draft<'_>, ops: &BTreeMap<Key, usize>, victim: &Key, errors: &mut [ErrorItem]) {
    for item in errors.iter_mut().filter(|e| e.code == Code::BadReference) {
        let culprit =
            draft.changes().iter().find(|(k, _)| item.message.contains(&format!("{:?}", k.name.as_str())));
        item.message = format!("{victim} refers to it: {}", item.message);
        item.code = Code::InUse;
        if let Some((key, _)) = culprit {
            item.op = ops.get(key).copied();
            item.path = format!("{}/{}", key.kind, key.name);
        }
    }
}

fn refers_to_any(spec: &Spec, touched: &BTreeSet<Kind>) -> bool {
    let has = |k| touched.contains(&k);
    match spec {
        Spec::Port(_) => false,
        Spec::Class(_) => has(Kind::Port) || has(Kind::Class) || has(Kind::Sla),
        Spec::Profile(_) | Spec::Detector(_) | Spec::Allocation(_) => has(Kind::Class) || has(Kind::Port),
        Spec::Filter(_) => has(Kind::Class) || has(Kind::Sla) || has(Kind::Profile) || has(Kind::Port),
        Spec::Sla(_) => false,
        Spec::Route(_) => has(Kind::Port),
    }
}

fn own_fields(at: &mut At<'_>, spec: &Spec) {
    match spec {
        Spec::Port(p) => port(at, p),
        Spec::Class(c) => class(at, c),
        Spec::Profile(p) => profile(at, p),
        Spec::Filter(f) => filter(at, f),
        Spec::Sla(s) => sla(at, s),
        Spec::Route(r) => route(at, r),
        Spec::Detector(d) => detector(at, d),
        Spec::Allocation(a) => {
            if a.guarantee.is_none() && a.ceiling.is_none() {
                at.error(
                    "",
                    Code::OutOfRange,
                    "an allocation needs a guarantee, a ceiling or both".to_owned(),
                );
            }
        }
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
    if p.rate != 0 {
        at.range("rate", p.rate, 8_000, 1_000_000_000_000);
    }
    if p.device.len() > 15 || p.device.contains('/') || p.device.contains(char::is_whitespace) {
        at.error("device", Code::OutOfRange, format!("{:?} is not an interface name", p.device));
    }
    if let Some(q) = &p.queue {
        queue(at, q, Rate(p.rate));
    }
}

fn queue(at: &mut At<'_>, q: &QueueSpec, rate: Rate) {
    match q.limit {
        QueueLimit::Packets(n) => at.range("queue.limit", n, 1, 1_000_000),
        QueueLimit::Bytes(n) => at.range("queue.limit", n, FRAME_MTU, 1 << 32),
        QueueLimit::Time(ns) => {
            at.range("queue.limit", ns, 1_000, Duration::from_secs(60).as_nanos());
            let bytes = rate.bytes_in(Duration(ns)).get();
            if rate.0 > 0 && bytes < FRAME_MTU {
                let item = at.error(
                    "queue.limit",
                    Code::OutOfRange,
                    format!(
                        "{ns} ns at {} bit/s is {bytes} bytes, less than one frame of {FRAME_MTU}",
                        rate.0
                    ),
                );
                item.value = Some(ns.into());
                item.limit = Some(rate.time_for(perhop_units::Bytes(FRAME_MTU)).as_nanos());
            }
        }
    }
    if let QueueKind::Red { min_ppm, max_ppm, max_p_ppm, .. } = q.kind {
        at.range("queue.kind.max_ppm", max_ppm, 1, 1_000_000);
        at.range("queue.kind.min_ppm", min_ppm, 0, u64::from(max_ppm.saturating_sub(1)));
        at.range("queue.kind.max_p_ppm", max_p_ppm, 1, 1_000_000);
    }
}

fn share(at: &mut At<'_>, field: &str, s: Share) {
    if let Share::Ppm(p) = s {
        at.range(field, p, 0, 1_000_000);
    }
}

fn class(at: &mut At<'_>, c: &ClassSpec) {
    at.range("weight", c.weight, 1, 1_000_000);
    at.range("tier", c.tier, 0, 15);
    share(at, "guarantee", c.guarantee);
    if let Some(s) = c.ceiling {
        share(at, "ceiling", s);
        if matches!(s, Share::Rate(0) | Share::Ppm(0)) {
            at.error("ceiling", Code::OutOfRange, "a ceiling of 0 would let nothing pass".to_owned());
        }
    }
    for (field, burst) in [("burst", c.burst), ("ceiling_burst", c.ceiling_burst)] {
        if burst != 0 {
            at.range(field, burst, 2 * FRAME_MTU, 1 << 30);
        }
    }
}

fn profile(at: &mut At<'_>, p: &ProfileSpec) {
    match p.meter {
        MeterSpec::None => {}
        MeterSpec::TokenBucket { cir, cbs } => {
            at.range("meter.cir", cir, 1, 1 << 40);
            at.range("meter.cbs", cbs, 1500, 1 << 30);
        }
        MeterSpec::Srtcm { cir, cbs, ebs, .. } => {
            at.range("meter.cir", cir, 1, 1 << 40);
            at.range("meter.cbs", cbs, 0, 1 << 30);
            at.range("meter.ebs", ebs, 0, 1 << 30);
            if cbs.max(ebs) < 1500 {
                at.error(
                    "meter",
                    Code::OutOfRange,
                    "one of cbs and ebs must hold a packet of 1500 B".to_owned(),
                );
            }
        }
        MeterSpec::Trtcm { cir, cbs, pir, pbs, .. } => {
            at.range("meter.cir", cir, 1, 1 << 40);
            at.range("meter.pir", pir, cir, 1 << 40);
            at.range("meter.cbs", cbs, 1500, 1 << 30);
            at.range("meter.pbs", pbs, 1500, 1 << 30);
        }
    }
}

fn filter(at: &mut At<'_>, f: &FilterSpec) {
    let m = &f.matches;
    if let (Some(a), Some(b)) = (m.src, m.dst)
        && a.addr().is_ipv4() != b.addr().is_ipv4()
    {
        at.error("match", Code::OutOfRange, format!("{a} and {b} are of different families"));
    }
    for (field, net) in [("match.src", m.src), ("match.dst", m.dst)] {
        if let Some(net) = net.filter(|n| n.trunc() != *n) {
            let item = at.error(field, Code::OutOfRange, format!("{net} has bits beyond its prefix length"));
            item.allowed = Some(net.trunc().to_string());
        }
    }
    for (field, r) in [("match.src_ports", m.src_ports), ("match.dst_ports", m.dst_ports)] {
        let Some(r) = r else { continue };
        if r.first > r.last {
            at.error(field, Code::OutOfRange, format!("the range {} to {} is empty", r.first, r.last));
        }
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
    at.range("rate", s.rate, 1_000, 1 << 40);
    if s.burst != 0 {
        at.range("burst", s.burst, 1500, 1 << 30);
    }
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
    at.range("within", d.within, 10_000_000, Duration::from_secs(60).as_nanos());
    at.range("idle", d.idle, Duration::from_secs(1).as_nanos(), Duration::from_secs(3600).as_nanos());
    if let Some(r) = d.rate {
        at.range("rate", r, 8_000, 1 << 40);
    }
}

fn references(at: &mut At<'_>, draft: &Draft<'_>, logical: &Logical<'_>, me: &Entry) {
    match &*me.spec {
        Spec::Port(_) | Spec::Sla(_) => {}
        Spec::Class(c) => {
            at.reference(draft, me, "port", Kind::Port, &c.port);
            if let Some(p) = &c.parent {
                at.reference(draft, me, "parent", Kind::Class, p);
            }
            if let Some(s) = &c.sla {
                at.reference(draft, me, "sla", Kind::Sla, s);
            }
        }
        Spec::Profile(p) => {
            for (field, action) in [("green", &p.green), ("yellow", &p.yellow), ("red", &p.red)] {
                if let ColorAction::Class { class, .. } = action {
                    at.logical(logical, &format!("{field}.class"), class);
                }
            }
        }
        Spec::Filter(f) => {
            if let Some(c) = &f.class {
                at.logical(logical, "class", c);
            }
            if let Some(s) = &f.sla {
                at.reference(draft, me, "sla", Kind::Sla, s);
            }
            if let Some(p) = &f.profile {
                at.reference(draft, me, "profile", Kind::Profile, p);
            }
            if let Some(p) = &f.matches.in_port {
                at.reference(draft, me, "match.in_port", Kind::Port, p);
            }
        }
        Spec::Route(r) => {
            if let Some(p) = &r.port {
                at.reference(draft, me, "port", Kind::Port, p);
            }
        }
        Spec::Detector(d) => {
            at.logical(logical, "class", &d.class);
            for (i, p) in d.in_ports.iter().enumerate() {
                at.reference(draft, me, &format!("in_ports[{i}]"), Kind::Port, p);
            }
        }
        Spec::Allocation(a) => at.reference(draft, me, "class", Kind::Class, &a.class),
    }
}

/// Guarantee of a class in bit/s, allocation included: the rate its children's shares refer to.
pub fn guarantee(draft: &Draft<'_>, name: &Name, depth: usize) -> u64 {
    let Some(Spec::Class(c)) = find(draft, Kind::Class, name) else { return 0 };
    let allocated = draft.of_kind(Kind::Allocation).find_map(|(_, e)| match &*e.spec {
        Spec::Allocation(a) if a.class == *name => a.guarantee,
        _ => None,
    });
    if let Some(rate) = allocated {
        return rate;
    }
    match (c.guarantee, &c.parent) {
        (Share::Rate(r), _) => r,
        (share, Some(parent)) if depth < MAX_DEPTH => share.of(Rate(guarantee(draft, parent, depth + 1))).0,
        (share, _) => share.of(port_rate(draft, &c.port)).0,
    }
}

/// Rate of a port; 0 = unlimited.
pub fn port_rate(draft: &Draft<'_>, name: &Name) -> Rate {
    match find(draft, Kind::Port, name) {
        Some(Spec::Port(p)) => Rate(p.rate),
        _ => Rate::ZERO,
    }
}

fn find<'d>(draft: &'d Draft<'_>, kind: Kind, name: &Name) -> Option<&'d Spec> {
    draft.find(&Key { kind, name: name.clone() }).map(|e| &*e.spec)
}

fn trees(draft: &Draft<'_>, ops: &BTreeMap<Key, usize>, errors: &mut Vec<ErrorItem>) {
    let mut sums: BTreeMap<(&Name, Option<&Name>), u64> = BTreeMap::new();
    let mut defaults: BTreeMap<&Name, &Name> = BTreeMap::new();
    let mut leaves: BTreeMap<(&Name, Option<&Name>, &str), &Name> = BTreeMap::new();
    let parents: BTreeSet<&Name> = draft.classes().filter_map(|(_, c, _)| c.parent.as_ref()).collect();
    for (name, c, _) in draft.classes() {
        let key = Key { kind: Kind::Class, name: name.clone() };
        let mut at = At { key: &key, op: ops.get(&key).copied(), errors };
        let rate = port_rate(draft, &c.port);
        if rate.0 == 0 && matches!(c.guarantee, Share::Ppm(p) if p > 0) && c.parent.is_none() {
            at.error(
                "guarantee",
                Code::OutOfRange,
                format!("a share needs a rate, and port {:?} has none", c.port.as_str()),
            );
        }
        let is_leaf = !parents.contains(name);
        if let Some(p) = &c.parent {
            if let Some(Spec::Class(parent)) = find(draft, Kind::Class, p)
                && parent.port != c.port
            {
                at.error(
                    "parent",
                    Code::BadReference,
                    format!("class {:?} is on port {:?}", p.as_str(), parent.port.as_str()),
                );
            }
            if depth_of(draft, name).is_none() {
                at.error(
                    "parent",
                    Code::BadReference,
                    format!("the chain of parents is a circle or deeper than {MAX_DEPTH}"),
                );
                continue;
            }
        }
        if is_leaf {
            queue(&mut at, &c.queue, rate);
            let slot = (&c.port, c.sla.as_ref(), c.logical_name(name));
            if let Some(other) = leaves.insert(slot, name) {
                at.error(
                    "logical",
                    Code::Exists,
                    format!("class {:?} has the same logical name on this port", other.as_str()),
                );
            }
        }
        if c.default {
            if !is_leaf {
                at.error("default", Code::OutOfRange, "only a leaf can be the default".to_owned());
            }
            if let Some(other) = defaults.insert(&c.port, name) {
                at.error(
                    "default",
                    Code::Exists,
                    format!("class {:?} is the default of this port already", other.as_str()),
                );
            }
        }
        let g = guarantee(draft, name, 0);
        if let Some(ceiling) = c.ceiling.map(|s| s.of(rate).0).filter(|c| *c > 0 && *c < g) {
            let item = at.error(
                "ceiling",
                Code::OutOfRange,
                format!("ceiling = {ceiling} bit/s is below the guarantee of {g} bit/s"),
            );
            item.limit = Some(g);
        }
        *sums.entry((&c.port, c.parent.as_ref())).or_default() += g;
    }
    for ((port, parent), sum) in sums {
        let whole = parent.map_or_else(|| port_rate(draft, port).0, |p| guarantee(draft, p, 0));
        if sum <= whole || (parent.is_none() && whole == 0) {
            continue;
        }
        over_capacity(draft, ops, errors, port, parent, sum, whole);
    }
}

/// The guarantees below a node exceed it: every class changed there is told, or the node itself when none was.
fn over_capacity(
    draft: &Draft<'_>,
    ops: &BTreeMap<Key, usize>,
    errors: &mut Vec<ErrorItem>,
    port: &Name,
    parent: Option<&Name>,
    sum: u64,
    whole: u64,
) {
    let children = draft
        .classes()
        .filter(|(_, c, _)| c.port == *port && c.parent.as_ref() == parent)
        .map(|(n, _, _)| Key { kind: Kind::Class, name: n.clone() })
        .filter(|k| draft.changes().contains_key(k));
    let mut keys: Vec<Key> = children.collect();
    if keys.is_empty() {
        keys.push(match parent {
            Some(p) => Key { kind: Kind::Class, name: p.clone() },
            None => Key { kind: Kind::Port, name: port.clone() },
        });
    }
    for key in keys {
        let mine = guarantee(draft, &key.name, 0);
        let what = parent.map_or_else(|| format!("port {port}"), |p| format!("class {p}"));
        let mut at = At { key: &key, op: ops.get(&key).copied(), errors };
        let item = at.error(
            "guarantee",
            Code::NoCapacity,
            format!("the guarantees inside {what} add up to {sum} bit/s, more than its {whole} bit/s"),
        );
        item.value = Some(mine.into());
        item.limit = Some(whole);
        item.free = Some(whole.saturating_sub(sum.saturating_sub(mine)));
    }
}

fn depth_of(draft: &Draft<'_>, name: &Name) -> Option<usize> {
    let mut current = name.clone();
    for depth in 0..MAX_DEPTH {
        match find(draft, Kind::Class, &current) {
            Some(Spec::Class(ClassSpec { parent: Some(p), .. })) => current = p.clone(),
            _ => return Some(depth),
        }
    }
    None
}

fn port_modes(draft: &Draft<'_>, ops: &BTreeMap<Key, usize>, errors: &mut Vec<ErrorItem>) {
    let mut first: Option<(&Key, &PortSpec)> = None;
    let mut devices: BTreeMap<&str, &Key> = BTreeMap::new();
    for (key, entry) in draft.of_kind(Kind::Port) {
        let Spec::Port(p) = &*entry.spec else { continue };
        let mut at = At { key, op: ops.get(key).copied(), errors };
        let device = if p.device.is_empty() { key.name.as_str() } else { &p.device };
        if let Some(other) = devices.insert(device, key) {
            at.error("device", Code::Exists, format!("port {:?} uses {device} already", other.name.as_str()));
        }
        match first {
            Some((other, f)) if f.mode != p.mode => {
                at.error(
                    "mode",
                    Code::OutOfRange,
                    format!("all ports have one mode, and port {:?} has another", other.name.as_str()),
                );
            }
            Some(_) => {}
            None => first = Some((key, p)),
        }
    }
}

fn counts(draft: &Draft<'_>, limits: &Limits, errors: &mut Vec<ErrorItem>) {
    for kind in draft.changes().keys().map(|k| k.kind).collect::<BTreeSet<_>>() {
        let limit = match kind {
            Kind::Class => limits.classes,
            Kind::Filter => limits.filters,
            Kind::Detector => 1,
            Kind::Port => 256,
            _ => limits.others,
        };
        let n = draft.of_kind(kind).count();
        if n > limit {
            errors.push(ErrorItem {
                op: None,
                path: kind.name().to_owned(),
                code: Code::LimitReached,
                message: format!("{n} objects of kind {kind} are more than the limit of {limit}"),
                value: Some((n as u64).into()),
                allowed: None,
                limit: Some(limit as u64),
                free: Some(0),
            });
        }
    }
}
