//! Reservations as objects of a router.

use super::item::Lived;
use perhop_agent::DomainFlow;
use perhop_model::{
    AllocationSpec, ColorAction, FilterSpec, Key, Kind, MeterSpec, Name, Object, ObjectState, Op,
    ProfileSpec, Spec,
};
use perhop_units::{Bytes, Duration, Instant};
use std::collections::BTreeMap;

/// Least burst: two packets of Ethernet, and what the rate carries in this time.
const LEAST_BURST: (Bytes, Duration) = (Bytes(2 * 1_514), Duration::from_millis(20));
/// Lives of objects that differ by less are the same.
const SLACK: Duration = Duration::from_millis(500);
/// How names of objects begin.
const PREFIX: &str = "reserved/";

/// A flow as the router has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Flow {
    objects: BTreeMap<Key, Spec>,
    /// When the first of them ends; none = never.
    until: Option<Instant>,
}

/// Whether an object is one of these.
pub(super) fn is_own(name: &Name) -> bool {
    name.as_str().starts_with(PREFIX)
}

/// The reservation of an object.
pub(super) fn flow_of(name: &Name) -> Option<u64> {
    name.as_str().strip_prefix(PREFIX)?.split('/').next()?.parse().ok()
}

fn named(id: u64, filter: Option<usize>) -> Name {
    let text = match filter {
        None => format!("{PREFIX}{id}"),
        Some(number) => format!("{PREFIX}{id}/{number}"),
    };
    Name::new(&text).expect("two numbers are short enough, and of such characters")
}

/// All objects of a flow.
fn objects(flow: &DomainFlow) -> BTreeMap<Key, Spec> {
    let profile = named(flow.id, None);
    let (least, time) = LEAST_BURST;
    let cbs = least.max(flow.bps.bytes_in(time));
    let green = flow.dscp.map_or(ColorAction::Pass, |dscp| ColorAction::Mark { dscp });
    let meter = MeterSpec::TokenBucket { cir: flow.bps, cbs };
    let (yellow, red) = (ColorAction::Drop, ColorAction::Drop);
    let spec = Spec::Profile(ProfileSpec { meter, green, yellow, red, shared: false });
    let filter = |(number, packets): (usize, &perhop_model::FilterMatch)| {
        let spec = FilterSpec {
            matches: packets.clone(),
            class: Some(flow.class.clone()),
            profile: Some(profile.clone()),
            realtime: Some(false),
            ..FilterSpec::default()
        };
        (Key { kind: Kind::Filter, name: named(flow.id, Some(number)) }, Spec::Filter(spec))
    };
    let filters = flow.packets.iter().enumerate().map(filter);
    std::iter::once((Key { kind: Kind::Profile, name: profile.clone() }, spec)).chain(filters).collect()
}

impl Flow {
    /// As it is once it is in force.
    pub(super) fn of(lived: &Lived) -> Self {
        Self { objects: objects(&lived.flow), until: Some(lived.until) }
    }

    /// An object of it that the router has.
    pub(super) fn found(&mut self, object: &ObjectState) {
        self.objects.insert(Key { kind: object.kind, name: object.name.clone() }, object.spec.clone());
        let until = object.expires_at_ns.map(Instant);
        self.until = match (self.until, until) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }

    /// Whether there is nothing to be done.
    pub(super) fn is_as(&self, wanted: &Lived) -> bool {
        self.lives_as(wanted) && self.objects == objects(&wanted.flow)
    }

    fn lives_as(&self, wanted: &Lived) -> bool {
        self.until.is_some_and(|until| until.0.abs_diff(wanted.until.0) <= SLACK.0)
    }
}

/// What brings a flow from what the router has to what it should have.
pub(super) fn change(now: Instant, id: u64, had: Option<&Flow>, wanted: Option<&Lived>) -> Vec<Op> {
    let delete =
        |key: &Key| Op::Delete { kind: key.kind, name: key.name.clone(), if_version: None, drain_ms: None };
    let Some(wanted) = wanted else {
        // Objects that are not known any more may still be there.
        let bare = || vec![Key { kind: Kind::Profile, name: named(id, None) }];
        return had
            .map_or_else(bare, |had| had.objects.keys().cloned().collect())
            .iter()
            .map(delete)
            .collect();
    };
    let ttl_ms = (wanted.until.since(now).as_nanos() / 1_000_000).max(1);
    let objects = objects(&wanted.flow);
    if had.is_some_and(|had| had.objects == objects) {
        return vec![Op::Renew { keys: Some(objects.into_keys().collect()), ttl_ms }];
    }
    let surplus = had.into_iter().flat_map(|had| had.objects.keys()).filter(|key| !objects.contains_key(key));
    let mut ops: Vec<Op> = surplus.map(delete).collect();
    ops.extend(
        objects.into_iter().map(|(key, spec)| Op::put(Object { name: key.name, spec, ttl_ms: Some(ttl_ms) })),
    );
    ops
}

/// What gives a class its share, or takes it away.
pub(super) fn allocate(class: &Name, share: Option<AllocationSpec>) -> Op {
    match share {
        Some(share) => Op::put(Object::new(class.clone(), Spec::Allocation(share))),
        None => Op::Delete { kind: Kind::Allocation, name: class.clone(), if_version: None, drain_ms: None },
    }
}
