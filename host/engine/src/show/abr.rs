//! Rows of the TCP rate control: its policies, and the flows that fall under them.

use super::{flow_text, identify};
use crate::report::Row;
use crate::router_forwarder::RawAbr;
use perhop_abr::{AbrPolicyId, FlowState, LimitedBy, PolicyCounters};
use perhop_contract::Control;
use perhop_flows::FlowTuple;
use perhop_graph::router::RouterPlanner;
use perhop_model::{Key, Kind, Name, Spec};

/// Kind of the row of a flow.
pub(crate) const FLOW: &str = "abr";

/// What the policies have done, and the flows if they are wanted.
pub(super) fn rows(control: &Control<RouterPlanner>, raw: &RawAbr, flows: bool, rows: &mut Vec<Row>) {
    let planner = control.planner();
    for (id, counters) in &raw.policies {
        rows.extend(planner.abr_policy_name(*id).map(|name| policy_row(control, name, counters)));
    }
    let name = |id: AbrPolicyId| planner.abr_policy_name(id).map_or("", Name::as_str);
    let flows = raw.flows.iter().filter(|_| flows);
    rows.extend(flows.map(|(state, tuple)| flow_row(name(state.policy), state, tuple.as_ref())));
}

fn policy_row(control: &Control<RouterPlanner>, name: &Name, c: &PolicyCounters) -> Row {
    let mut row = Row::new(Kind::AbrPolicy.name(), name.as_str());
    identify(control, Kind::AbrPolicy, name, &mut row);
    count_policy(&mut row, c);
    let key = Key { kind: Kind::AbrPolicy, name: name.clone() };
    if let Some(Spec::AbrPolicy(spec)) = control.objects().get(&key).map(|e| &*e.spec) {
        row.counters.insert("rate_bps".into(), spec.rate.0);
    }
    row
}

/// What a policy has done.
pub(crate) fn count_policy(row: &mut Row, c: &PolicyCounters) {
    for (name, value) in [
        ("flows", u64::from(c.flows)),
        ("share_bps", c.share_bps),
        ("packets", c.packets),
        ("bytes", c.bytes),
        ("rewritten", c.rewritten),
        ("floor_limited", c.floor_limited),
    ] {
        row.counters.insert(name.to_owned(), value);
    }
}

/// A flow by the direction of its data. Without its addresses, when its connection was forgotten by then, by its place.
pub(crate) fn flow_row(policy: &str, f: &FlowState, tuple: Option<&FlowTuple>) -> Row {
    let name = tuple.map_or_else(|| format!("tcp, place {}", f.slot), flow_text);
    let mut row = Row::new(FLOW, &name);
    row.id = u64::from(f.connection);
    let limited_by = match f.limited_by {
        LimitedBy::None => "none",
        LimitedBy::Receiver => "receiver",
        LimitedBy::Congestion => "congestion",
        LimitedBy::Abr => "abr",
        LimitedBy::Floor => "floor",
    };
    let live = if f.live { "yes" } else { "no" };
    let facts = [("policy", policy), ("limited_by", limited_by), ("live", live)];
    row.facts.extend(facts.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let (sender, receiver) = f.latency_us;
    for (name, value) in [
        ("rate_bps", f.rate_bps),
        ("latency_us", u64::from(sender) + u64::from(receiver)),
        ("latency_sender_us", u64::from(sender)),
        ("latency_receiver_us", u64::from(receiver)),
        ("window", u64::from(f.window)),
        ("credit", u64::from(f.credit)),
        ("mss", u64::from(f.mss)),
        ("rewritten", u64::from(f.rewritten)),
        ("retransmissions", u64::from(f.retransmissions)),
    ] {
        row.counters.insert(name.to_owned(), value);
    }
    row
}
