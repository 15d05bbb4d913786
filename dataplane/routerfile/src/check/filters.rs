//! Filters that can never match or do nothing.

use super::Checker;
use crate::Declared;
use crate::read::Declarations;
use perhop_model::{FilterMatch, FilterSpec, MaskedByte, Name, PortMode, PortRange};
use std::collections::{BTreeSet, HashMap};

/// Pairs of filters compared at most; identical ones are found beyond that too.
const MAX_PAIRS: usize = 4_000_000;

/// The fields of a condition.
const FIELDS: [&str; 10] =
    ["in_port", "vlan", "src", "dst", "protocol", "src_ports", "dst_ports", "dscp", "tcp_flags", "fragment"];

pub(super) fn check(c: Checker<'_>, declared: &Declarations) {
    let mut order: Vec<&Declared<FilterSpec>> = declared.filters.iter().filter(|f| readable(c, f)).collect();
    order.sort_by_key(|f| (f.spec.tier, f.spec.priority));
    let mut same: HashMap<&FilterMatch, usize> = HashMap::new();
    let mut pairs = 0;
    for (i, filter) in order.iter().enumerate() {
        let m = &filter.spec.matches;
        let mut hidden_by = same.get(m).copied();
        if hidden_by.is_none() && pairs < MAX_PAIRS {
            pairs += i;
            hidden_by = order[..i].iter().position(|earlier| covers(&earlier.spec.matches, m));
        }
        match hidden_by {
            Some(first) => {
                let identical = if order[first].spec.matches == *m { "the same" } else { "more" };
                let message = format!("never matches: an earlier filter matches {identical}");
                let d = c
                    .warning(filter.at, "match", message)
                    .value("")
                    .hint("the first match decides. Move it up or remove it");
                c.push_with(d, order[first].at, "match", "the earlier filter is here");
            }
            None => {
                same.insert(m, i);
            }
        }
    }
    // All ports have the same mode.
    if declared.ports.iter().all(|port| port.spec.mode == PortMode::Route) {
        for filter in declared.filters.iter().filter(|f| f.spec.matches.vlan.is_some_and(|vlan| vlan > 0)) {
            let d = c.warning(
                filter.at,
                "match.vlan",
                "has no packets: tagged frames are not routed, they are dropped",
            );
            c.push(d.hint("Use mode = \"bridge\", or a VLAN interface of Linux as the device of a port"));
        }
    }
    let named: BTreeSet<&Name> = declared.abr.iter().filter_map(|p| p.spec.matches.filter.as_ref()).collect();
    for filter in declared.filters.iter().filter(|f| !named.contains(&f.name)) {
        let s = &filter.spec;
        let nothing = s.class.is_none() && s.sla.is_none() && s.profile.is_none() && s.realtime.is_none();
        let sound = ["class", "sla", "profile", "realtime"].iter().all(|f| c.sound(filter.at, f));
        if nothing && sound {
            let d = c.warning(filter.at, "", "chooses nothing");
            c.push(d.hint(
                "what it matches is treated as if no filter matched. Give it a class, a profile or an sla",
            ));
        }
    }
}

fn readable(c: Checker<'_>, filter: &Declared<FilterSpec>) -> bool {
    c.sound(filter.at, "tier") && FIELDS.iter().all(|f| c.sound(filter.at, &format!("match.{f}")))
}

/// Whether every packet that matches `b` also matches `a`, field by field.
fn covers(a: &FilterMatch, b: &FilterMatch) -> bool {
    equal(&a.in_port, &b.in_port)
        && equal(&a.vlan, &b.vlan)
        && within(&a.src, &b.src, |a, b| a.contains(b))
        && within(&a.dst, &b.dst, |a, b| a.contains(b))
        && equal(&a.protocol, &b.protocol)
        && within(&a.src_ports, &b.src_ports, holds)
        && within(&a.dst_ports, &b.dst_ports, holds)
        && within(&a.dscp, &b.dscp, compares_less)
        && within(&a.tcp_flags, &b.tcp_flags, compares_less)
        && equal(&a.fragment, &b.fragment)
}

/// Whether what `a` asks for holds wherever `b` does.
pub(super) fn within<T>(a: &Option<T>, b: &Option<T>, inside: impl Fn(&T, &T) -> bool) -> bool {
    match (a, b) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(a), Some(b)) => inside(a, b),
    }
}

pub(super) fn equal<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
    within(a, b, |a, b| a == b)
}

pub(super) fn holds(a: &PortRange, b: &PortRange) -> bool {
    a.first <= b.first && b.last <= a.last
}

fn compares_less(a: &MaskedByte, b: &MaskedByte) -> bool {
    a.mask & b.mask == a.mask && b.value & a.mask == a.value
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::Dscp;

    #[test]
    fn a_wider_condition_covers_a_narrower_one() {
        let any = FilterMatch::default();
        let udp = FilterMatch { protocol: Some(17), ..any.clone() };
        let port = FilterMatch { dst_ports: Some(PortRange { first: 10, last: 20 }), ..udp.clone() };
        let inner = FilterMatch { dst_ports: Some(PortRange { first: 12, last: 20 }), ..udp.clone() };
        assert!(covers(&any, &port) && covers(&udp, &port) && covers(&port, &inner) && covers(&udp, &udp));
        assert!(!covers(&port, &udp) && !covers(&inner, &port));
        let net = |s: &str| FilterMatch { src: s.parse().ok(), ..FilterMatch::default() };
        assert!(
            covers(&net("10.0.0.0/8"), &net("10.1.0.0/16"))
                && !covers(&net("10.1.0.0/16"), &net("10.0.0.0/8"))
        );
        let dscp =
            |value, mask| FilterMatch { dscp: Some(MaskedByte { value, mask }), ..FilterMatch::default() };
        assert!(covers(&dscp(0x28, 0x38), &dscp(Dscp::EF.get(), 63)));
        assert!(!covers(&dscp(0x20, 0x38), &dscp(Dscp::EF.get(), 63)));
    }
}
