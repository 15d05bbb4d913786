//! Words for the policy of the TCP rate control that a flow falls under.

use super::Step;
use super::conditions::Conditioned;
use crate::router::describe::Described;
use ipnet::IpNet;
use perhop_flows::Explanation as FlowsSay;
use perhop_model::{AbrFloor, AbrMatch, AbrPolicySpec, Kind, Name, PortRange};
use perhop_units::Rate;
use perhop_wire::protocol;
use std::net::IpAddr;

/// What is compared, as the packet leaves the conditioner.
pub(super) struct Data<'a> {
    pub(super) described: &'a Described,
    pub(super) packet: &'a Conditioned,
    pub(super) filter: Option<&'a Name>,
    pub(super) sla: Option<&'a Name>,
}

/// The policy of the flow whose data the packet carries: of `policies`, in the order in which they are compared, the
/// first that matches. `None` for what is no TCP segment, and where there is no policy.
pub(super) fn step<'a>(
    policies: impl IntoIterator<Item = (&'a Name, &'a AbrPolicySpec)>,
    data: &Data<'_>,
    flows: &FlowsSay,
) -> Option<Step> {
    let layout = &data.described.layout;
    let mut policies = policies.into_iter().peekable();
    policies.peek()?;
    if layout.protocol != protocol::TCP || layout.l4_offset == 0 || !flows.ip {
        return None;
    }
    Some(match policies.find(|(_, p)| data.matches(&p.matches)) {
        None => Step::new("abr", "no policy covers data this way: its windows are left alone"),
        Some((name, p)) => words(name, p),
    })
}

fn words(name: &Name, p: &AbrPolicySpec) -> Step {
    let says = match p.rate {
        Rate::ZERO => format!("{name}: data this way is watched, not limited"),
        rate => format!(
            "{name}: its live flows share {rate} equally, kept by the windows of their acknowledgments"
        ),
    };
    let mut step = Step::new("abr", says)
        .object(Kind::AbrPolicy, name)
        .fact("name", name.as_str())
        .fact("rate", p.rate.0)
        .fact("peak", p.peak.0);
    if p.rate > Rate::ZERO {
        if p.peak > Rate::ZERO {
            step = step.detail(format!("none gets more than {}", p.peak));
        }
        step = step.detail(match p.floor {
            AbrFloor::Clamp => "below one segment a round trip it gets one (floor-limited)",
            AbrFloor::Pace => "below one segment a round trip its acknowledgments are held",
        });
    }
    step
}

impl Data<'_> {
    fn matches(&self, m: &AbrMatch) -> bool {
        let l = &self.described.layout;
        is(m.class.as_ref().map(Name::as_str), self.packet.class.as_deref())
            && is(m.sla.as_ref(), self.sla)
            && is(m.filter.as_ref(), self.filter)
            && (m.dscp.is_empty() || m.dscp.contains(&self.packet.dscp))
            && inside(m.src, self.described.src)
            && inside(m.dst, self.described.dst)
            && within(m.src_ports, l.src_port)
            && within(m.dst_ports, l.dst_port)
    }
}

fn is<T: PartialEq>(wanted: Option<T>, found: Option<T>) -> bool {
    wanted.is_none() || wanted == found
}

fn inside(net: Option<IpNet>, address: IpAddr) -> bool {
    net.is_none_or(|net| net.contains(&address))
}

fn within(range: Option<PortRange>, port: u16) -> bool {
    range.is_none_or(|r| (r.first..=r.last).contains(&port))
}
