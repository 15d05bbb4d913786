//! Policies of the TCP rate control that can never matter, or not as they are meant.

use super::Checker;
use super::filters::{equal, holds, within};
use super::tree::Trees;
use crate::Declared;
use crate::read::Declarations;
use ipnet::IpNet;
use perhop_contract::ABR_POLICIES;
use perhop_model::{AbrMatch, AbrPolicySpec, Name};
use perhop_units::Rate;
use perhop_wire::protocol;

/// The fields of a condition.
const FIELDS: [&str; 8] = ["class", "sla", "filter", "dscp", "src", "dst", "src_ports", "dst_ports"];

pub(super) fn check(c: Checker<'_>, declared: &Declarations, trees: &Trees) {
    if too_many(c, &declared.abr) {
        return;
    }
    hidden(c, &declared.abr);
    for policy in &declared.abr {
        rates(c, policy);
        ports(c, policy, declared, trees);
        filter(c, policy, declared);
    }
}

/// As [`check`] on an end host; `shared`: a policy without a rate shares what the link has.
pub(super) fn check_host(c: Checker<'_>, policies: &[Declared<AbrPolicySpec>], shared: bool) {
    if too_many(c, policies) {
        return;
    }
    hidden(c, policies);
    for policy in policies.iter().filter(|_| !shared) {
        rates(c, policy);
    }
}

fn too_many(c: Checker<'_>, policies: &[Declared<AbrPolicySpec>]) -> bool {
    let Some(policy) = policies.get(ABR_POLICIES) else { return false };
    let message = format!("is one of {} policies", policies.len());
    c.push(c.error(policy.at, "", message).allowed(format!("at most {ABR_POLICIES} policies")));
    true
}

/// Whether nothing is wrong with a condition.
fn readable(c: Checker<'_>, policy: &Declared<AbrPolicySpec>) -> bool {
    c.sound(policy.at, "match") && FIELDS.iter().all(|f| c.sound(policy.at, &format!("match.{f}")))
}

/// Policies are compared in the order of the file.
fn hidden(c: Checker<'_>, policies: &[Declared<AbrPolicySpec>]) {
    let order: Vec<&Declared<AbrPolicySpec>> = policies.iter().filter(|p| readable(c, p)).collect();
    for (i, policy) in order.iter().enumerate() {
        let m = &policy.spec.matches;
        let Some(earlier) = order[..i].iter().find(|earlier| covers(&earlier.spec.matches, m)) else {
            continue;
        };
        let what = if earlier.spec.matches == *m { "the same" } else { "more" };
        let message = format!("never matches: an earlier policy matches {what}");
        let d = c.warning(policy.at, "match", message).value("");
        let d = d.hint("the first match decides. Move it up or remove it");
        c.push_with(d, earlier.at, "match", "the earlier policy is here");
    }
}

/// Whether `a` matches whatever `b` does.
fn covers(a: &AbrMatch, b: &AbrMatch) -> bool {
    let dscp = a.dscp.is_empty() || !b.dscp.is_empty() && b.dscp.iter().all(|d| a.dscp.contains(d));
    let net = |a: &IpNet, b: &IpNet| a.contains(b);
    dscp && equal(&a.class, &b.class)
        && equal(&a.sla, &b.sla)
        && equal(&a.filter, &b.filter)
        && within(&a.src, &b.src, net)
        && within(&a.dst, &b.dst, net)
        && within(&a.src_ports, &b.src_ports, holds)
        && within(&a.dst_ports, &b.dst_ports, holds)
}

fn rates(c: Checker<'_>, policy: &Declared<AbrPolicySpec>) {
    let AbrPolicySpec { rate, min, .. } = policy.spec;
    if !c.sound(policy.at, "rate") {
        return;
    }
    if !c.document.is_written(policy.at, "rate") {
        let d = c.warning(policy.at, "rate", "is missing: its flows are watched and not limited");
        c.push(d.hint("Add the rate that they share, or rate = \"0 bit/s\" if that is meant"));
    } else if rate > Rate::ZERO && min > rate && c.sound(policy.at, "min") {
        let d = c.warning(policy.at, "min", format!("is above the rate ({})", rate));
        c.push(d.hint("not even one flow gets it. Lower it, or raise the rate"));
    }
}

/// A rate that no port carries by which the flows may leave is never reached, so it limits nothing.
fn ports(c: Checker<'_>, policy: &Declared<AbrPolicySpec>, declared: &Declarations, trees: &Trees) {
    let rate = policy.spec.rate;
    let sound = c.sound(policy.at, "rate") && c.sound(policy.at, "match.class");
    if rate == Rate::ZERO || declared.incomplete || !sound {
        return;
    }
    let class = policy.spec.matches.class.as_ref();
    let has_class = |port: &Name| {
        let leaves = declared.classes.iter().zip(&trees.leaf).filter(|(_, leaf)| **leaf).map(|(d, _)| d);
        let mut here = leaves.filter(|d| d.spec.port == *port);
        class.is_none_or(|class| here.any(|d| d.spec.logical_name(&d.name) == class.as_str()))
    };
    let ways_out: Vec<_> = declared.ports.iter().filter(|p| has_class(&p.name)).collect();
    let limited =
        ways_out.iter().all(|p| p.spec.rate > Rate::ZERO && p.spec.rate < rate && c.sound(p.at, "rate"));
    let fastest = ways_out.iter().max_by_key(|p| p.spec.rate);
    if let Some(port) = fastest.filter(|_| limited) {
        let message = format!("is above the rate of port \"{}\" ({})", port.name, port.spec.rate);
        let d = c.warning(policy.at, "rate", message);
        c.push_with(
            d.hint(
                "the flows meet its queue before they reach their rate. Use a little less than the port's",
            ),
            port.at,
            "rate",
            "the port's rate is here",
        );
    }
}

/// A filter that TCP never matches.
fn filter(c: Checker<'_>, policy: &Declared<AbrPolicySpec>, declared: &Declarations) {
    let named = policy.spec.matches.filter.as_ref();
    let Some(filter) = named.and_then(|name| declared.filters.iter().find(|f| f.name == *name)) else {
        return;
    };
    if filter.spec.matches.protocol.is_some_and(|p| p != protocol::TCP) {
        let d = c.warning(policy.at, "match.filter", "matches no TCP, and windows are those of TCP");
        c.push_with(d, filter.at, "match.protocol", "its protocol is here");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::PortRange;
    use perhop_units::Dscp;

    #[test]
    fn a_wider_condition_covers_a_narrower_one() {
        let any = AbrMatch::default();
        let web = AbrMatch { src_ports: Some(PortRange { first: 80, last: 443 }), ..any.clone() };
        let tls = AbrMatch { src_ports: Some(PortRange { first: 443, last: 443 }), ..any.clone() };
        assert!(covers(&any, &web) && covers(&web, &tls) && covers(&tls, &tls));
        assert!(!covers(&web, &any) && !covers(&tls, &web));
        let marked = |list: &[Dscp]| AbrMatch { dscp: list.to_vec(), ..any.clone() };
        let (one, two) = (marked(&[Dscp::EF]), marked(&[Dscp::BE, Dscp::EF]));
        assert!(covers(&two, &one) && covers(&any, &one));
        assert!(!covers(&one, &two) && !covers(&one, &any));
    }
}
