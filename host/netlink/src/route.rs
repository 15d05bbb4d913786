//! Routes: the kernel's forwarding information base.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::sync::Arc;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteLwEnCapType, RouteMessage, RouteMetric,
    RouteNextHop, RouteNextHopFlags, RouteProtocol, RouteScope, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::address::family;
use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::route_metrics::RouteMetrics;

/// What happens to a packet that a route matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RouteKind {
    /// Sent to a next hop.
    Unicast,
    /// Delivered to this machine.
    Local,
    /// Delivered to this machine and everybody on the link.
    Broadcast,
    /// Delivered to this machine as one of several (RFC 4291 section 2.6).
    Anycast,
    /// Multicast.
    Multicast,
    /// Dropped without a word.
    Blackhole,
    /// Refused with destination unreachable.
    Unreachable,
    /// Refused with administratively prohibited.
    Prohibit,
    /// Not in this table; the next policy rule decides.
    Throw,
    /// A type without meaning for forwarding.
    Other,
}

impl From<RouteType> for RouteKind {
    fn from(kind: RouteType) -> Self {
        match kind {
            RouteType::Unicast => Self::Unicast,
            RouteType::Local => Self::Local,
            RouteType::Broadcast => Self::Broadcast,
            RouteType::Anycast => Self::Anycast,
            RouteType::Multicast => Self::Multicast,
            RouteType::BlackHole => Self::Blackhole,
            RouteType::Unreachable => Self::Unreachable,
            RouteType::Prohibit => Self::Prohibit,
            RouteType::Throw => Self::Throw,
            _ => Self::Other,
        }
    }
}

/// Where a route sends its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHop {
    /// The router to send to; `None` when the destination is on the link. An
    /// IPv4 route may have an IPv6 next hop (RFC 8950).
    pub via: Option<IpAddr>,
    /// Interface index; 0 when the route names none (blackhole).
    pub ifindex: u32,
    /// Share among the next hops of a multipath route, 1 to 256.
    pub weight: u16,
    /// The kernel does not use it now: the link is down or has no carrier.
    pub unusable: bool,
    /// Packets get another header on the way (`encap`: MPLS, SRv6, tunnels).
    pub encapsulated: bool,
}

/// One route. What many have in common, all but where it is and where it goes, they may share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FibRoute {
    /// Destination prefix.
    pub dest: IpNet,
    /// Routing table (254 main, 255 local).
    pub table: u32,
    /// The rest.
    pub way: Arc<RouteWay>,
}

impl Deref for FibRoute {
    type Target = RouteWay;

    fn deref(&self) -> &RouteWay {
        &self.way
    }
}

/// What a route does, and with which packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteWay {
    /// One next hop, several with weights, or none.
    pub next_hops: Vec<NextHop>,
    /// The next-hop object that it names.
    pub object: Option<u32>,
    /// What the route does.
    pub kind: RouteKind,
    /// Preference among equal prefixes; the lower wins.
    pub metric: u32,
    /// Source address for packets that this machine makes.
    pub source_hint: Option<IpAddr>,
    /// Source addresses that the route is limited to (IPv6).
    pub from: Option<IpNet>,
    /// Type of service that the route is limited to; 0 for all.
    pub tos: u8,
    /// Longest packet, where the route says one.
    pub mtu: Option<u32>,
}

impl FibRoute {
    /// The main table, where routes of users and routing daemons are.
    pub const MAIN_TABLE: u32 = RouteHeader::RT_TABLE_MAIN as u32;
    /// The table of this machine's own addresses, kept by the kernel.
    pub const LOCAL_TABLE: u32 = 255;

    /// The table that the kernel looks into last.
    pub const DEFAULT_TABLE: u32 = 253;

    /// Reads a route message; `None` for cached entries and for families other
    /// than IPv4 and IPv6.
    pub(crate) fn from_message(message: &RouteMessage) -> Option<Self> {
        let header = &message.header;
        if header.flags.contains(RouteFlags::Cloned) {
            return None;
        }
        let unspecified = match header.address_family {
            AddressFamily::Inet => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            AddressFamily::Inet6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
            _ => return None,
        };
        let (mut dest, mut from, mut via, mut ifindex) = (unspecified, unspecified, None, 0);
        let mut table = u32::from(header.table);
        let mut encapsulated = false;
        let mut route = RouteWay {
            next_hops: Vec::new(),
            object: None,
            kind: header.kind.into(),
            metric: 0,
            source_hint: None,
            from: None,
            tos: header.tos,
            mtu: None,
        };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Destination(address) => dest = plain(address)?,
                RouteAttribute::Oif(index) => ifindex = *index,
                RouteAttribute::Source(address) => from = plain(address)?,
                RouteAttribute::Table(number) => table = *number,
                RouteAttribute::NhId(id) => route.object = Some(*id),
                RouteAttribute::EncapType(kind) => encapsulated = *kind != RouteLwEnCapType::None,
                RouteAttribute::Metrics(all) => route.mtu = all.iter().find_map(mtu),
                RouteAttribute::Priority(metric) => route.metric = *metric,
                RouteAttribute::PrefSource(address) => route.source_hint = plain(address),
                RouteAttribute::MultiPath(hops) => route.next_hops.extend(hops.iter().map(next_hop)),
                other => via = via.or_else(|| gateway(other)),
            }
        }
        let dest = IpNet::new(dest, header.destination_prefix_length).ok()?;
        if header.source_prefix_length > 0 {
            route.from = Some(IpNet::new(from, header.source_prefix_length).ok()?);
        }
        if route.next_hops.is_empty() && (ifindex != 0 || via.is_some()) {
            let unusable = header.flags.intersects(RouteFlags::Dead | RouteFlags::Linkdown);
            route.next_hops.push(NextHop { via, ifindex, weight: 1, unusable, encapsulated });
        }
        if dest.addr().is_ipv6() {
            // The kernel names first whichever was spoken of last.
            route.next_hops.sort_unstable();
        }
        Some(Self { dest, table, way: Arc::new(route) })
    }
}

fn plain(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(address) => plain(address),
        RouteAttribute::Via(RouteVia::Inet(ip)) => Some((*ip).into()),
        RouteAttribute::Via(RouteVia::Inet6(ip)) => Some((*ip).into()),
        _ => None,
    }
}

fn mtu(metric: &RouteMetric) -> Option<u32> {
    match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu).filter(|mtu| *mtu > 0),
        _ => None,
    }
}

fn next_hop(hop: &RouteNextHop) -> NextHop {
    let encapsulates =
        |a: &RouteAttribute| matches!(a, RouteAttribute::EncapType(kind) if *kind != RouteLwEnCapType::None);
    NextHop {
        via: hop.attributes.iter().find_map(gateway),
        ifindex: hop.interface_index,
        // rtnh_hops is the weight minus one (rtnetlink(7)).
        weight: u16::from(hop.hops) + 1,
        unusable: hop.flags.intersects(RouteNextHopFlags::Dead | RouteNextHopFlags::Linkdown),
        encapsulated: hop.attributes.iter().any(encapsulates),
    }
}

impl Netlink {
    pub(crate) fn route_message(
        &self,
        operation: &'static str,
        dest: IpNet,
        via: Option<IpAddr>,
        dev: Option<&str>,
    ) -> Result<RouteMessage, NetlinkError> {
        let mut message = RouteMessage::default();
        let network = dest.trunc();
        message.header.address_family = family(network.addr());
        message.header.destination_prefix_length = network.prefix_len();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.kind = RouteType::Unicast;
        // IPv4 refuses an on-link route with universe scope and a gateway with
        // link scope; IPv6 ignores the field.
        message.header.scope = match (via, network) {
            (None, IpNet::V4(_)) => RouteScope::Link,
            _ => RouteScope::Universe,
        };
        if network.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(network.addr().into()));
        }
        match (via, network) {
            (None, _) => {}
            (Some(IpAddr::V6(v6)), IpNet::V4(_)) => {
                message.attributes.push(RouteAttribute::Via(RouteVia::Inet6(v6)));
            }
            (Some(IpAddr::V4(_)), IpNet::V6(_)) => {
                return Err(NetlinkError::MixedFamilies { operation, object: dest.to_string() });
            }
            (Some(ip), _) => message.attributes.push(RouteAttribute::Gateway(ip.into())),
        }
        if let Some(name) = dev {
            message.attributes.push(RouteAttribute::Oif(self.index_of(name)?));
        }
        Ok(message)
    }

    /// Adds a route to the main table: to `dest` by the router `via`, by the
    /// interface `dev`, or both. Host bits of `dest` are ignored.
    ///
    /// # Errors
    /// EEXIST; ENETUNREACH when `via` is on no connected network;
    /// [`NetlinkError::MixedFamilies`] for an IPv6 route by an IPv4 router.
    pub fn add_route(&self, dest: IpNet, via: Option<IpAddr>, dev: Option<&str>) -> Result<(), NetlinkError> {
        self.add_route_with_metrics(dest, via, dev, RouteMetrics::default())
    }

    /// As [`Netlink::add_route`], with parameters for the TCP connections of this machine that use the route.
    ///
    /// # Errors
    /// As [`Netlink::add_route`].
    pub fn add_route_with_metrics(
        &self,
        dest: IpNet,
        via: Option<IpAddr>,
        dev: Option<&str>,
        metrics: RouteMetrics,
    ) -> Result<(), NetlinkError> {
        let mut message = self.route_message("add route", dest, via, dev)?;
        let attributes = metrics.attributes();
        if !attributes.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(attributes));
        }
        let message = RouteNetlinkMessage::NewRoute(message);
        self.request("add route", &describe(dest, via, dev), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// All routes of all tables, IPv4 and IPv6. O(routes).
    ///
    /// # Errors
    /// [`NetlinkError::Unstable`] when they change all the time.
    pub fn routes(&self) -> Result<Vec<FibRoute>, NetlinkError> {
        self.routes_by(|route| route)
    }

    /// The same, each passed through `each` as it comes: there may be millions.
    pub(crate) fn routes_by(
        &self,
        mut each: impl FnMut(FibRoute) -> FibRoute,
    ) -> Result<Vec<FibRoute>, NetlinkError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let message = RouteNetlinkMessage::GetRoute(message);
            routes.extend(self.dump("list routes", "", &message, |answer| match answer {
                RouteNetlinkMessage::NewRoute(m) => FibRoute::from_message(&m).map(&mut each),
                _ => None,
            })?);
        }
        Ok(routes)
    }
}

/// A route as messages name it.
pub(crate) fn describe(dest: IpNet, via: Option<IpAddr>, dev: Option<&str>) -> String {
    let mut text = dest.to_string();
    if let Some(via) = via {
        text.push_str(&format!(" via {via}"));
    }
    if let Some(dev) = dev {
        text.push_str(&format!(" dev {dev}"));
    }
    text
}
