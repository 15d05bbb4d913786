//! The worker's part: what its elements say, by number.

use super::Probe;
use crate::router::Worker;
use perhop_elements::route::{Action, NextHop, Origin, RouteEntry};
use perhop_elements::schedule::{NodeIndex, NodeParams};
use perhop_flows::Explanation as FlowsSay;
use perhop_packet::{ClassId, DropReason, Meta, PortId, ProfileId, SlaId};
use perhop_units::{Duration, Rate};
use perhop_wire::Layout;
use std::net::IpAddr;

/// What the elements of a worker say about a packet. May be sent to another thread.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// The flows element; `None` when the graph has none.
    pub(super) flows: Option<FlowsSay>,
    /// Where it goes.
    pub(super) way: Way,
    /// Whether kernel routes, addresses and MTUs are known: always in a running router.
    pub(super) world_known: bool,
    /// The queue in each port it may leave by.
    pub(super) queues: Vec<Queue>,
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To stations that the bridge has learned or not.
    Bridge,
    /// To this machine, and why.
    Host(&'static str),
    /// Nowhere, and why.
    Dropped(DropReason, &'static str),
    /// On, by one of these next hops.
    Forward { dest: String, origin: Origin, metric: u32, hops: Vec<NextHop>, mtu: Option<u32> },
    /// The graph does not route.
    Unknown,
}

/// The queue it would wait in, should it leave by a port.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) port: PortId,
    pub(super) leaf: u32,
    /// Whether nothing but the default leaf was left.
    pub(super) by_default: bool,
    pub(super) params: Option<NodeParams>,
    pub(super) backlog_packets: u64,
    pub(super) backlog_bytes: u64,
    pub(super) throttled: bool,
    pub(super) rate: Rate,
    pub(super) overhead: u32,
    pub(super) busy: Duration,
}

impl Worker {
    /// What the elements say about a packet; changes nothing. Call it between two batches.
    pub fn decide(&self, probe: &Probe) -> Decisions {
        let described = &probe.described;
        let flows = self.flows().map(|f| f.explain(&described.frame, &described.layout, probe.in_port));
        let way = self.way(probe);
        let id = |of: fn(&FlowsSay) -> Option<u32>| flows.as_ref().and_then(of).unwrap_or(u32::MAX);
        let profile = ProfileId(id(|f| f.profile));
        let class = probe.green.get(&profile).copied().unwrap_or(ClassId(id(|f| f.class)));
        let meta = Meta { sla: SlaId(id(|f| f.sla)), class, ..Meta::default() };
        let ports: Vec<PortId> = match &way {
            Way::Forward { hops, .. } => {
                let mut ports: Vec<PortId> = hops.iter().map(|h| h.port).collect();
                ports.sort_unstable();
                ports.dedup();
                ports
            }
            Way::Host(_) => Vec::new(),
            // It may leave by any other port once there is a route.
            Way::Bridge | Way::Unknown | Way::Dropped(DropReason::NoRoute, _) => {
                (0..probe.ports).map(|i| PortId(i as u16)).filter(|p| *p != probe.in_port).collect()
            }
            Way::Dropped(..) => Vec::new(),
        };
        let queues = ports.into_iter().filter_map(|port| self.queue(port, &meta)).collect();
        let world_known = self.route().is_none_or(|r| !r.ports().is_empty());
        Decisions { flows, way, world_known, queues }
    }

    fn queue(&self, port: PortId, meta: &Meta) -> Option<Queue> {
        let egress = self.egress(port)?;
        let (leaf, by_default) = egress.leaf_map().find(meta.sla, meta.class);
        let class = egress.tree().class(NodeIndex(leaf.0));
        let line = egress.transmitter();
        let now = self.driver().now();
        Some(Queue {
            port,
            leaf: leaf.0,
            by_default,
            params: class.as_ref().map(|c| *c.params),
            backlog_packets: class.as_ref().map_or(0, |c| c.backlog_packets),
            backlog_bytes: class.as_ref().map_or(0, |c| c.backlog_bytes),
            throttled: class.as_ref().is_some_and(|c| c.throttled),
            rate: line.rate(),
            overhead: line.config().overhead_bytes,
            busy: line.busy_until().since(now),
        })
    }

    /// The rules of the element `Route`, in its order. Where frames are really sent to is not asked: the description
    /// has no link addresses.
    fn way(&self, probe: &Probe) -> Way {
        let Some(route) = self.route() else {
            let bridges = self
                .driver()
                .ids()
                .any(|id| self.driver().element(id).is_some_and(|e| e.type_name() == "Bridge"));
            return if bridges { Way::Bridge } else { Way::Unknown };
        };
        let d = &probe.described;
        if d.layout.vlan_tags > 0 {
            return Way::Dropped(DropReason::NotIp, "tagged frames are not routed");
        }
        if let Some(way) = special(d.src, d.dst) {
            return way;
        }
        let fib = route.fib();
        let action = fib.lookup(d.dst);
        if link_local(d.src) && !matches!(action, Action::Local | Action::Broadcast) {
            return Way::Dropped(DropReason::BadSource, "link-local packets are not forwarded");
        }
        let ours = matches!(action, Action::Local | Action::Broadcast);
        if d.dst.is_ipv4() && link_local(d.dst) && !ours {
            return Way::Dropped(DropReason::BadDestination, "link-local packets are not forwarded");
        }
        let hops = match action {
            Action::Hop(hop) => vec![fib.next_hops()[hop as usize]],
            Action::Group { first, count } => {
                let all = (0..u32::from(count)).map(|i| {
                    // The middle of the member's share of hashes.
                    let hash = ((u64::from(i) << 32) + (1 << 31)) / u64::from(count);
                    fib.next_hops()[fib.member(first, count, hash as u32) as usize]
                });
                all.collect()
            }
            Action::Local | Action::Broadcast => {
                return Way::Host("its destination is an address of this machine");
            }
            Action::NoRoute => return Way::Dropped(DropReason::NoRoute, "no route covers the destination"),
            Action::Blackhole => return Way::Dropped(DropReason::RouteRejects, "the route is a black hole"),
            Action::Unreachable => {
                return Way::Dropped(
                    DropReason::RouteRejects,
                    "the route says unreachable; the sender is told",
                );
            }
            Action::Prohibit => {
                return Way::Dropped(DropReason::RouteRejects, "the route prohibits it; the sender is told");
            }
        };
        if d.ttl <= 1 {
            return Way::Dropped(DropReason::TtlExpired, "the TTL is used up; the sender is told");
        }
        let mtu = hops.iter().filter_map(|h| route.ports().get(h.port.index())).map(|p| p.mtu).min();
        if mtu.is_some_and(|mtu| too_big(&d.layout, mtu, d.dont_fragment)) {
            return Way::Dropped(
                DropReason::TooBig,
                "it exceeds the MTU and must not be fragmented; the sender is told",
            );
        }
        let found: Option<&RouteEntry> = fib.route_to(d.dst);
        Way::Forward {
            dest: found.map_or_else(String::new, |r| r.dest.to_string()),
            origin: found.map_or(Origin::Kernel, |r| r.origin),
            metric: found.map_or(0, |r| r.metric),
            hops,
            mtu,
        }
    }
}

fn too_big(layout: &Layout, mtu: u32, dont_fragment: bool) -> bool {
    dont_fragment && u32::from(layout.ip_len) > mtu
}

fn link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}

/// Packets whose addresses alone decide: groups, and what may not be on a wire (RFC 1812 §5.3.7, RFC 4291 §2.5).
fn special(src: IpAddr, dst: IpAddr) -> Option<Way> {
    let alien = |ip: IpAddr| match ip {
        IpAddr::V4(a) => [0, 127].contains(&a.octets()[0]) || a.octets()[0] >= 224,
        IpAddr::V6(a) => a.octets()[..10] == [0; 10],
    };
    let group = match dst {
        IpAddr::V4(a) => a.is_multicast() || a.is_broadcast(),
        IpAddr::V6(a) => a.is_multicast(),
    };
    if src.is_ipv6() && src.is_multicast() {
        return Some(Way::Dropped(DropReason::BadSource, "nobody sends from a group address"));
    }
    if group {
        return Some(Way::Host("group and broadcast packets are this machine's"));
    }
    if dst.is_ipv6() && link_local(dst) {
        return Some(Way::Host("link-local packets are this machine's"));
    }
    if alien(dst) {
        return Some(Way::Dropped(DropReason::BadDestination, "nobody has this destination address"));
    }
    if alien(src) {
        return Some(Way::Dropped(DropReason::BadSource, "nobody has this source address"));
    }
    None
}
