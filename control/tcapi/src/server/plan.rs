//! What a message comes to in the router: objects of its client.

use super::room::Within;
use crate::wire::{Alternative, Direction, FlowId, Refusal, Request, Reservation, Scope, ServiceClass};
use perhop_model::{
    AllocationSpec, ColorAction, FilterMatch, FilterSpec, Key, Kind, MaskedByte, MeterSpec, Name, Object, Op,
    PortRange, ProfileSpec, Spec,
};
use perhop_reason::Code;
use perhop_units::{Bytes, Duration, Rate};
use serde_json::json;
use std::collections::BTreeMap;

/// Least burst, in packets of Ethernet; and in time.
const LEAST_BURST: (u64, Duration) = (2 * 1_514, Duration::from_millis(20));

/// A reservation that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    /// Logical class.
    pub(super) logical: Name,
    /// Port by which it leaves; empty = any.
    pub(super) egress: String,
    pub(super) amount: Reservation,
    pub(super) shape: Shape,
}

/// What it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A profile, one for the opposite direction where it is of both, and so many filters.
    PerFlow { filters: u16, both: bool },
    /// An allocation of a class.
    Aggregate,
}

impl Flow {
    /// The classes in which it takes room: an aggregate takes its own, which the router looks after.
    pub(super) fn within(&self) -> Option<Within<'_>> {
        matches!(self.shape, Shape::PerFlow { .. })
            .then(|| Within { logical: self.logical.as_str(), egress: &self.egress })
    }
}

/// Name of the main object of a flow.
fn object_name(client: &Name, flow: FlowId) -> Name {
    Name::new(&format!("tcapi/{client}/{flow}"))
        .expect("clients' names are short enough, and of such characters")
}

/// Name of the profile of the opposite direction.
fn opposite_name(client: &Name, flow: FlowId) -> Name {
    Name::new(&format!("tcapi/{client}/{flow}/opposite"))
        .expect("clients' names are short enough, and of such characters")
}

fn filter_name(client: &Name, flow: FlowId, number: u16) -> Name {
    Name::new(&format!("tcapi/{client}/{flow}/{number}"))
        .expect("clients' names are short enough, and of such characters")
}

/// The client of an object's name; `None` if it is none of a client's.
pub(super) fn client_of(name: &Name) -> Option<Name> {
    let (client, _) = name.as_str().strip_prefix("tcapi/")?.split_once('/')?;
    Name::new(client).ok()
}

/// The flow of an object's name; `None` if it is the main object of none of this client's.
pub(super) fn flow_of(client: &Name, name: &Name) -> Option<FlowId> {
    let rest = name.as_str().strip_prefix("tcapi/")?.strip_prefix(client.as_str())?.strip_prefix('/')?;
    match rest.strip_prefix('x') {
        None => rest.parse().ok().map(FlowId::Number),
        Some(hex) => u128::from_str_radix(hex, 16).ok().map(|n| FlowId::Opaque(n.to_be_bytes())),
    }
}

/// The objects of a flow.
pub(super) fn keys(client: &Name, id: FlowId, flow: &Flow) -> Vec<Key> {
    match flow.shape {
        Shape::Aggregate => vec![Key { kind: Kind::Allocation, name: object_name(client, id) }],
        Shape::PerFlow { filters, .. } => {
            let filter = |number| Key { kind: Kind::Filter, name: filter_name(client, id, number) };
            let profiles = profiles(client, id, flow).map(|name| Key { kind: Kind::Profile, name });
            profiles.chain((0..filters).map(filter)).collect()
        }
    }
}

fn profiles(client: &Name, id: FlowId, flow: &Flow) -> impl Iterator<Item = Name> + use<> {
    let both = matches!(flow.shape, Shape::PerFlow { both: true, .. });
    let opposite = both.then(|| opposite_name(client, id));
    std::iter::once(object_name(client, id)).chain(opposite)
}

fn ttl_ms(lifetime_s: Option<u32>) -> Option<u64> {
    lifetime_s.filter(|s| *s > 0).map(|s| u64::from(s) * 1_000)
}

fn refuse(code: Code, why: impl Into<String>) -> Refusal {
    Refusal::new(code, why)
}

/// The logical class that a message means.
fn logical(class: &ServiceClass, numbers: &BTreeMap<u16, Name>) -> Result<Name, Refusal> {
    if class.name.is_empty() {
        let found = numbers.get(&class.number).cloned();
        let why = || refuse(Code::BadReference, format!("class number {} has no name here", class.number));
        return found.ok_or_else(why);
    }
    Name::new(&class.name).map_err(|_| refuse(Code::BadReference, format!("{:?} is no class", class.name)))
}

fn rate(amount: &Reservation) -> Result<Rate, Refusal> {
    let range = 1..=Rate::MOST.0;
    let is_in = range.contains(&amount.rate_bps)
        && (amount.peak_bps == 0 || (amount.rate_bps..=Rate::MOST.0).contains(&amount.peak_bps));
    let why = || refuse(Code::OutOfRange, "a rate is 1 bit/s to 1 Tbit/s, and a peak not below it");
    if is_in { Ok(Rate(amount.rate_bps)) } else { Err(why()) }
}

/// Holds packets to an amount: what is beyond it is red, or yellow where there is a peak.
fn meter(amount: &Reservation) -> Result<MeterSpec, Refusal> {
    let cir = rate(amount)?;
    let (packets, time) = LEAST_BURST;
    let least = packets.max(cir.bytes_in(time).0);
    let burst = |given: u32| if given == 0 { Bytes(least) } else { Bytes(u64::from(given)) };
    let cbs = burst(amount.burst_bytes);
    Ok(match amount.peak_bps {
        0 => MeterSpec::TokenBucket { cir, cbs },
        peak => {
            let pbs = Bytes(u64::from(amount.max_packet).max(packets));
            MeterSpec::Trtcm { cir, cbs, pir: Rate(peak), pbs, aware: false }
        }
    })
}

/// As a merge patch, whatever meter there is.
fn meter_patch(amount: &Reservation) -> Result<serde_json::Value, Refusal> {
    Ok(match meter(amount)? {
        MeterSpec::Trtcm { cir, cbs, pir, pbs, .. } => {
            json!({ "meter": { "type": "trtcm", "cir": cir, "cbs": cbs, "pir": pir, "pbs": pbs } })
        }
        MeterSpec::TokenBucket { cir, cbs } => json!({ "meter": {
            "type": "token_bucket", "cir": cir, "cbs": cbs, "pir": null, "pbs": null, "aware": null,
        } }),
        _ => json!({}),
    })
}

fn matches(alternative: &Alternative, scope: &Scope) -> Result<FilterMatch, Refusal> {
    let range = |(first, last)| PortRange { first, last };
    let dscp = match alternative.tos {
        Some((_, mask)) if mask & 3 != 0 => {
            return Err(refuse(Code::Unsupported, "the two bits of ECN cannot be compared"));
        }
        Some((value, mask)) => Some(MaskedByte { value: value >> 2, mask: mask >> 2 }),
        None => None,
    };
    let in_port = match scope.ingress.as_str() {
        "" => None,
        name => {
            Some(Name::new(name).map_err(|_| refuse(Code::BadReference, format!("{name:?} is no port")))?)
        }
    };
    Ok(FilterMatch {
        in_port,
        src: alternative.src,
        dst: alternative.dst,
        protocol: alternative.protocol,
        src_ports: alternative.src_ports.map(range),
        dst_ports: alternative.dst_ports.map(range),
        dscp,
        ..FilterMatch::default()
    })
}

fn turned(alternative: &Alternative) -> Alternative {
    Alternative {
        src: alternative.dst,
        dst: alternative.src,
        src_ports: alternative.dst_ports,
        dst_ports: alternative.src_ports,
        ..*alternative
    }
}

/// What a new reservation is made of. `aggregate` finds the object of a class on a port.
///
/// # Errors
/// It cannot be made.
pub(super) fn create(
    client: &Name,
    request: &Request,
    numbers: &BTreeMap<u16, Name>,
    aggregate: impl FnOnce(&str, &str) -> Option<Name>,
) -> Result<(Flow, Vec<Op>), Refusal> {
    let missing = |what: &str| refuse(Code::Malformed, format!("{what} is missing"));
    let class = request.class.as_ref().ok_or_else(|| missing("the class"))?;
    let amount = request.reservation.ok_or_else(|| missing("the amount"))?;
    let logical = logical(class, numbers)?;
    let rate = rate(&amount)?;
    let scope = request.scope.clone().unwrap_or_default();
    let ttl_ms = ttl_ms(request.lifetime_s);
    if request.filter.is_empty() {
        if scope.egress.is_empty() || !scope.ingress.is_empty() || request.direction == Direction::Both {
            let why =
                "an aggregate, which has no filter, is of one port, by which it leaves, and of one direction";
            return Err(refuse(Code::Unsupported, why));
        }
        let found = aggregate(logical.as_str(), &scope.egress);
        let why = || refuse(Code::BadReference, format!("port {} has no class {logical}", scope.egress));
        let class = found.ok_or_else(why)?;
        let spec = AllocationSpec { class, guarantee: Some(rate), ceiling: None, shared: false };
        let name = object_name(client, request.flow);
        let op = Op::put(Object { name, spec: Spec::Allocation(spec), ttl_ms });
        return Ok((Flow { logical, egress: scope.egress, amount, shape: Shape::Aggregate }, vec![op]));
    }
    let both = request.direction == Direction::Both;
    if both && !(scope.ingress.is_empty() && scope.egress.is_empty()) {
        let why = "a reservation of both directions is of all ports: leave the scope out, or make two";
        return Err(refuse(Code::Unsupported, why));
    }
    let green = class.dscp.map_or(ColorAction::Pass, |dscp| ColorAction::Mark { dscp });
    let meter = meter(&amount)?;
    let profile = |name: Name| {
        let (yellow, red) = (ColorAction::Drop, ColorAction::Drop);
        let spec = ProfileSpec { meter, green: green.clone(), yellow, red, shared: false };
        Op::put(Object { name, spec: Spec::Profile(spec), ttl_ms })
    };
    let shape = Shape::PerFlow { filters: (request.filter.len() as u16) << u16::from(both), both };
    let flow = Flow { logical, egress: scope.egress.clone(), amount, shape };
    let names: Vec<Name> = profiles(client, request.flow, &flow).collect();
    let mut ops: Vec<Op> = names.iter().cloned().map(profile).collect();
    let mut numbers = 0_u16..;
    for (direction, profile) in names.iter().enumerate() {
        for alternative in &request.filter {
            let alternative = if direction == 0 { *alternative } else { turned(alternative) };
            let filter = FilterSpec {
                matches: matches(&alternative, &scope)?,
                class: Some(flow.logical.clone()),
                profile: Some(profile.clone()),
                ..FilterSpec::default()
            };
            let name = filter_name(client, request.flow, numbers.next().unwrap_or_default());
            ops.push(Op::put(Object { name, spec: Spec::Filter(filter), ttl_ms }));
        }
    }
    Ok((flow, ops))
}

/// What another amount, life time or both of a reservation come to.
///
/// # Errors
/// Something else is asked for, or nothing.
pub(super) fn modify(client: &Name, flow: &Flow, request: &Request) -> Result<(Flow, Vec<Op>), Refusal> {
    if request.class.is_some() || request.scope.is_some() || !request.filter.is_empty() {
        let why = "only amount and life time can be changed: release it, and request another";
        return Err(refuse(Code::Unsupported, why));
    }
    let mut ops = Vec::new();
    let mut next = flow.clone();
    if let Some(amount) = request.reservation {
        rate(&amount)?;
        next.amount = amount;
        let (kind, fields) = match flow.shape {
            Shape::Aggregate => (Kind::Allocation, json!({ "guarantee": amount.rate_bps })),
            Shape::PerFlow { .. } => (Kind::Profile, meter_patch(&amount)?),
        };
        let patch = |name| Op::Patch { kind, name, fields: fields.clone(), if_version: None };
        ops.extend(profiles(client, request.flow, flow).map(patch));
    }
    match (ttl_ms(request.lifetime_s), ops.is_empty()) {
        (None, true) => return Err(refuse(Code::Malformed, "nothing is to be changed")),
        (None, false) => {}
        (Some(ttl_ms), true) => {
            ops.push(Op::Renew { keys: Some(keys(client, request.flow, flow)), ttl_ms });
        }
        // A key may be named once in a transaction.
        (Some(_), false) => {
            let why = "amount and life time are changed by two messages, one after the other";
            return Err(refuse(Code::Unsupported, why));
        }
    }
    Ok((next, ops))
}

/// What the end of a reservation comes to.
pub(super) fn release(client: &Name, id: FlowId, flow: &Flow) -> Vec<Op> {
    let delete = |key: Key| Op::Delete { kind: key.kind, name: key.name, if_version: None, drain_ms: None };
    keys(client, id, flow).into_iter().map(delete).collect()
}
