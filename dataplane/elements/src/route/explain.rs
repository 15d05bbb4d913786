//! What a router would do with a packet, told without doing it.

use super::decide::Verdict;
use super::fib::{Found, NextHop};
use super::neighbours::Known;
use super::policy::Asked;
use super::route::{Route, destination, may_be_cut, without_tag};
use perhop_element::Reject;
use perhop_packet::{DropReason, Meta, PortId};
use perhop_wire::layout::decrement_ttl;
use perhop_wire::{Layout, MacAddr};

/// What a router would do with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What happens.
    pub verdict: Verdict,
    /// The route or rule that decided; none where addresses or the port decide.
    pub route: Option<Found>,
    /// The next hop chosen; also when TTL or MTU then forbid to forward.
    pub next_hop: Option<NextHop>,
    /// Its link address, if it is known; otherwise the packet would wait.
    pub link_address: Option<MacAddr>,
    /// Whether the packet would be cut.
    pub fragments: bool,
}

impl Route {
    /// What would happen to `frame` from `in_port`. Nothing is changed.
    pub fn explain(&self, frame: &[u8], layout: &Layout, in_port: PortId) -> Explanation {
        let s = &self.state;
        // A tag that names no VLAN is taken off before anything is decided.
        if let Some(untagged) = without_tag(layout)
            && let (Some(addresses), Some(rest)) = (frame.get(..12), frame.get(16..))
        {
            return self.explain(&[addresses, rest].concat(), &untagged, in_port);
        }
        let meta = Meta { layout: *layout, in_port, parsed: true, ..Meta::default() };
        let verdict = s.decider().decide(frame, &meta);
        let by_route = layout.ip_version != 0 && layout.vlan_tags == 0;
        let found = by_route.then(|| s.fib.find(&Asked::of(frame, &meta)));
        let route = found.filter(|found| found.dest.is_some() || found.rule.is_some());
        let bare = Explanation { verdict, route, next_hop: None, link_address: None, fragments: false };
        let Verdict::Hop(hop) = verdict else { return bare };
        let next = s.fib.next_hops()[hop as usize];
        let bare = Explanation { next_hop: Some(next), ..bare };
        let ends = |verdict| Explanation { verdict, ..bare.clone() };
        let Some(link) = s.links.get(next.port.index()).filter(|_| next.port.0 < u16::from(self.host)) else {
            return ends(Verdict::Drop(DropReason::PortDown));
        };
        let mut copy = frame.to_vec();
        if in_port.is_some() && decrement_ttl(&mut copy, layout).is_err() {
            return ends(Verdict::Reject(DropReason::TtlExpired, Reject::TtlExpired));
        }
        let mtu = next.longest(link.mtu);
        let too_long = u32::from(layout.ip_len) > mtu;
        if too_long && !may_be_cut(frame, layout) {
            return ends(Verdict::Reject(DropReason::TooBig, Reject::TooBig { mtu }));
        }
        let ip = next.via.unwrap_or_else(|| destination(frame, layout));
        let neighbour = s.neighbours.find(next.port, ip).map(|index| s.neighbours.adjacency(index));
        let link_address = neighbour.filter(|a| a.known != Known::No).map(|a| {
            let [a, b, c, d, e, f, ..] = a.macs;
            MacAddr([a, b, c, d, e, f])
        });
        Explanation { link_address, fragments: too_long, ..bare }
    }
}
