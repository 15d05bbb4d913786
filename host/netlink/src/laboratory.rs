//! What tests do to a network and no program does.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteNextHop, RouteProtocol, RouteScope, RouteType};

use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use crate::neighbour::entry;
use crate::route::{RouteKind, describe};
use crate::sysctl::{self, IpVersion, SavedKey};

/// Switches IPv6 duplicate address detection (RFC 4862 section 5.4) off on an
/// interface whose link we own, so that its addresses can be used at once.
/// Call it before the link goes up. Does nothing on a kernel without IPv6.
///
/// # Errors
/// As [`sysctl::write()`].
pub fn disable_duplicate_detection(
    namespace: &Namespace,
    interface: &str,
) -> Result<Vec<SavedKey>, NetlinkError> {
    sysctl::set(
        namespace,
        interface,
        &[(IpVersion::V6, "accept_dad", 0), (IpVersion::V6, "dad_transmits", 0)],
    )
}

impl Netlink {
    /// Gives an interface an address; the kernel adds the route to its
    /// network. An IPv6 address is tentative until duplicate address detection
    /// ends (about 1 s); see [`Netlink::add_address_now`].
    ///
    /// # Errors
    /// EEXIST when it has the address already.
    pub fn add_address(&self, name: &str, address: IpNet) -> Result<(), NetlinkError> {
        self.put_address(name, address, false)
    }

    /// Takes an address from an interface.
    ///
    /// # Errors
    /// EADDRNOTAVAIL when it has no such address.
    pub fn delete_address(&self, name: &str, address: IpNet) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::DelAddress(self.address_message(name, address)?);
        self.request("delete address", &format!("{address} on {name}"), message, 0)
    }

    /// Switches an interface off. The kernel drops its routes, its IPv6
    /// addresses and its neighbours.
    ///
    /// # Errors
    /// As [`Netlink::set_up`].
    pub fn set_down(&self, name: &str) -> Result<(), NetlinkError> {
        self.change("set link down", name, |m| {
            m.header.flags = LinkFlags::empty();
            m.header.change_mask = LinkFlags::Up;
        })
    }

    /// Deletes a virtual interface; with a veth, its other end goes too.
    ///
    /// # Errors
    /// EOPNOTSUPP for hardware and `lo`.
    pub fn delete_link(&self, name: &str) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = self.index_of(name)?;
        self.request("delete link", name, RouteNetlinkMessage::DelLink(message), 0)
    }

    /// Deletes an entry of any state.
    ///
    /// # Errors
    /// ENOENT when there is none.
    pub fn delete_neighbour(&self, ifindex: u32, ip: IpAddr) -> Result<(), NetlinkError> {
        let message = RouteNetlinkMessage::DelNeighbour(entry(ifindex, ip));
        self.request("delete neighbour", &ip.to_string(), message, 0)
    }

    /// Adds a multipath route over `hops` (router, interface name, weight 1 to
    /// 256) to the main table.
    ///
    /// # Errors
    /// As [`Netlink::add_route`]; [`NetlinkError::OutOfRange`] for a weight.
    pub fn add_multipath_route(&self, dest: IpNet, hops: &[(IpAddr, &str, u16)]) -> Result<(), NetlinkError> {
        let mut message = self.route_message("add route", dest, None, None)?;
        message.header.scope = RouteScope::Universe;
        let mut next_hops = Vec::with_capacity(hops.len());
        for (via, dev, weight) in hops {
            let mut hop = RouteNextHop::default();
            hop.interface_index = self.index_of(dev)?;
            hop.hops =
                weight.checked_sub(1).and_then(|h| u8::try_from(h).ok()).ok_or(NetlinkError::OutOfRange {
                    operation: "add route",
                    field: "weight",
                    value: u64::from(*weight),
                    allowed: "1 to 256",
                })?;
            hop.attributes.push(RouteAttribute::Gateway((*via).into()));
            next_hops.push(hop);
        }
        message.attributes.push(RouteAttribute::MultiPath(next_hops));
        let message = RouteNetlinkMessage::NewRoute(message);
        self.request("add route", &dest.to_string(), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route that drops or refuses: `kind` is
    /// [`RouteKind::Blackhole`], [`RouteKind::Unreachable`] or
    /// [`RouteKind::Prohibit`].
    ///
    /// # Errors
    /// EINVAL for another kind, EEXIST.
    pub fn add_refusing_route(&self, dest: IpNet, kind: RouteKind) -> Result<(), NetlinkError> {
        let mut message = self.route_message("add route", dest, None, None)?;
        message.header.scope = RouteScope::Universe;
        message.header.kind = match kind {
            RouteKind::Blackhole => RouteType::BlackHole,
            RouteKind::Unreachable => RouteType::Unreachable,
            RouteKind::Prohibit => RouteType::Prohibit,
            _ => {
                let error = rustix::io::Errno::INVAL;
                return Err(NetlinkError::os("add refusing route", dest.to_string(), error));
            }
        };
        let message = RouteNetlinkMessage::NewRoute(message);
        self.request("add route", &dest.to_string(), message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes the first route of the main table to `dest` that matches the
    /// given next hop and interface.
    ///
    /// # Errors
    /// ESRCH when there is none.
    pub fn delete_route(
        &self,
        dest: IpNet,
        via: Option<IpAddr>,
        dev: Option<&str>,
    ) -> Result<(), NetlinkError> {
        let mut message = self.route_message("delete route", dest, via, dev)?;
        // Wildcards: match whatever scope, origin and type the route has.
        message.header.scope = RouteScope::NoWhere;
        message.header.protocol = RouteProtocol::Unspec;
        message.header.kind = RouteType::Unspec;
        let message = RouteNetlinkMessage::DelRoute(message);
        self.request("delete route", &describe(dest, via, dev), message, 0)
    }
}

/// Makes a chain of the packet filter that drops all forwarded packets of a namespace, as somebody's firewall does.
///
/// # Errors
/// As [`crate::nft::ForwardGuard::open_in`].
pub fn drop_forwarded(namespace: &Namespace) -> Result<(), NetlinkError> {
    crate::bypass::drop_forwarded(namespace)
}
