//! What a state must satisfy: ranges, references, ownership of references, capacity. Pure; judges the final state and
//! reports every error.

mod abr;
mod fields;
mod queues;
mod references;
mod schedulers;
mod tree;

pub use schedulers::{
    MAX_RULED_CLASSES, foreign_goals, idle_fields, is_flat, leaf_fields, needs_rate, unknown_fields,
};
pub use tree::{
    Trees, implied_defaults, port_queue, port_rate, port_scheduler, reshaped_ports, touched_ports,
};

use super::store::Draft;
use perhop_model::{ErrorItem, Key, Kind};
use perhop_reason::Code;
use perhop_units::Rate;
use std::collections::{BTreeMap, BTreeSet};

/// Largest Ethernet frame without FCS on a port with the usual MTU, in bytes.
pub const FRAME_MTU: u64 = 1514;
/// Deepest class.
pub const MAX_DEPTH: usize = 8;
/// Most policies of the TCP rate control unless [`Limits`] say otherwise.
pub const ABR_POLICIES: usize = 1_024;

/// Most objects of each kind a router takes, and what it keeps for those who ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Classes on all ports.
    pub classes: usize,
    /// Filters.
    pub filters: usize,
    /// Profiles.
    pub profiles: usize,
    /// Contracts, routes, allocations: each.
    pub others: usize,
    /// Policies of the TCP rate control: each new flow is compared with all of them at the worst.
    pub abr_policies: usize,
    /// Owners whose fences and answers are kept; `file`, `cli` and `agent` have a place whatever the others do. One that
    /// has no object, and committed and claimed nothing for ten minutes, is forgotten when another needs its place. Hits
    /// are counted as `owners`.
    pub owners: usize,
    /// Bytes of answers kept for one owner: [`super::KEPT_EACH`] each, and what their results and errors take in a
    /// compact form, alike ones once. One answer more may overstep it. Refusals and what is older than ten minutes give
    /// way; commits of ten minutes that need more are `overload`, counted as `kept_bytes`.
    pub kept_bytes_each: usize,
    /// Bytes of answers kept for all owners together; twice as many at the worst, because every owner has an even share
    /// whatever others use.
    pub kept_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            classes: 1_000_000,
            filters: 1_000_000,
            profiles: 1_000_000,
            others: 100_000,
            abr_policies: ABR_POLICIES,
            owners: 4_096,
            kept_bytes_each: 128 << 20,
            kept_bytes: 1 << 30,
        }
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
        self.errors.push(ErrorItem { op: self.op, path, ..super::whole(code, message) });
        let last = self.errors.len() - 1;
        &mut self.errors[last]
    }

    /// A rate from `least` bit/s to [`Rate::MOST`].
    fn rate(&mut self, field: &str, rate: Rate, least: u64) {
        self.range(field, rate, least, Rate::MOST.0);
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
}

/// Checks `draft`. `ops` names the operation that an object's errors belong to. All changed objects are checked on
/// their own; what depends on several objects (references, capacity, modes) is checked for the whole state wherever a
/// change can have touched it. O(n log n) in objects.
pub fn validate(draft: &Draft<'_>, ops: &BTreeMap<Key, usize>, limits: &Limits) -> Vec<ErrorItem> {
    let mut errors = validate_partly(draft, ops, &BTreeSet::new());
    if draft.touches(&[Kind::Port, Kind::Class, Kind::Allocation]) {
        tree::trees(draft, ops, &mut errors);
    }
    if draft.touches(&[Kind::Port]) {
        port_modes(draft, ops, &mut errors);
    }
    counts(draft, limits, &mut errors);
    errors
}

/// As [`validate`], for a draft in which the objects of `broken` are not as they are meant to be: no error is
/// reported that mending them might mend, so nothing about sums.
pub fn validate_partly(
    draft: &Draft<'_>,
    ops: &BTreeMap<Key, usize>,
    broken: &BTreeSet<Key>,
) -> Vec<ErrorItem> {
    let mut errors = Vec::new();
    for (key, entry) in draft.changes() {
        let Some(entry) = entry else { continue };
        let mut at = At { key, op: ops.get(key).copied(), errors: &mut errors };
        fields::own_fields(&mut at, &entry.spec);
    }
    references::references(draft, ops, broken, &mut errors);
    errors
}

fn port_modes(draft: &Draft<'_>, ops: &BTreeMap<Key, usize>, errors: &mut Vec<ErrorItem>) {
    let mut first: Option<(&Key, &perhop_model::PortSpec)> = None;
    let mut devices: BTreeMap<&str, &Key> = BTreeMap::new();
    for (key, entry) in draft.of_kind(Kind::Port) {
        let perhop_model::Spec::Port(p) = &*entry.spec else { continue };
        let mut at = At { key, op: ops.get(key).copied(), errors };
        let device = p.device_of(key.name.as_str());
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
            Kind::Profile => limits.profiles,
            Kind::Detector => 1,
            Kind::Port => 256,
            Kind::AbrPolicy => limits.abr_policies,
            _ => limits.others,
        };
        let n = draft.count(kind);
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
