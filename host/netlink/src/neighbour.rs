//! Neighbours: which Ethernet address an IP address on a link has (ARP, RFC
//! 826; neighbour discovery, RFC 4861). The kernel resolves; we read and ask.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState as KernelState,
};
use netlink_packet_route::route::RouteType;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::address::family;
use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::link::MacAddress;

/// How much the kernel trusts an entry (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NeighbourState {
    /// No resolution was tried.
    None,
    /// A request is out, no answer yet.
    Incomplete,
    /// Confirmed lately.
    Reachable,
    /// Known, not confirmed lately; may be used.
    Stale,
    /// In use, about to be confirmed.
    Delay,
    /// Being confirmed.
    Probe,
    /// Nobody answered.
    Failed,
    /// Needs no resolution on this link.
    NoArp,
    /// Set by hand.
    Permanent,
}

impl NeighbourState {
    /// Whether packets may be sent with the entry's address.
    pub fn is_usable(self) -> bool {
        !matches!(self, Self::None | Self::Incomplete | Self::Failed)
    }
}

/// One entry of the neighbour tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Neighbour {
    /// IP address of the neighbour.
    pub ip: IpAddr,
    /// Interface index.
    pub ifindex: u32,
    /// Its Ethernet address, if known.
    pub mac: Option<MacAddress>,
    /// State of the entry.
    pub state: NeighbourState,
    /// It has said that it is a router (IPv6 only; RFC 4861 §4.4).
    pub router: bool,
}

impl Neighbour {
    /// Reads a neighbour message; `None` for bridge entries, proxies and
    /// states that are no single known state.
    pub(crate) fn from_message(message: &NeighbourMessage) -> Option<Self> {
        let header = &message.header;
        if !matches!(header.family, AddressFamily::Inet | AddressFamily::Inet6)
            || header.flags.contains(NeighbourFlags::Proxy)
        {
            return None;
        }
        let (mut ip, mut mac) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                    ip = Some(IpAddr::from(*v4));
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                    ip = Some(IpAddr::from(*v6));
                }
                NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
                _ => {}
            }
        }
        let state = match header.state {
            KernelState::None => NeighbourState::None,
            KernelState::Incomplete => NeighbourState::Incomplete,
            KernelState::Reachable => NeighbourState::Reachable,
            KernelState::Stale => NeighbourState::Stale,
            KernelState::Delay => NeighbourState::Delay,
            KernelState::Probe => NeighbourState::Probe,
            KernelState::Failed => NeighbourState::Failed,
            KernelState::Noarp => NeighbourState::NoArp,
            KernelState::Permanent => NeighbourState::Permanent,
            _ => return None,
        };
        let router = header.flags.contains(NeighbourFlags::Router);
        Some(Self { ip: ip?, ifindex: header.ifindex, mac, state, router })
    }
}

pub(crate) fn entry(ifindex: u32, ip: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(ip);
    message.header.ifindex = ifindex;
    message.header.kind = RouteType::Unicast;
    message.attributes.push(NeighbourAttribute::Destination(match ip {
        IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
        IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
    }));
    message
}

impl Netlink {
    /// All neighbour entries, IPv4 and IPv6.
    ///
    /// # Errors
    /// [`NetlinkError::Unstable`] when they change all the time.
    pub fn neighbours(&self) -> Result<Vec<Neighbour>, NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Unspec;
        let message = RouteNetlinkMessage::GetNeighbour(message);
        self.dump("list neighbours", "", &message, |answer| match answer {
            RouteNetlinkMessage::NewNeighbour(m) => Neighbour::from_message(&m),
            _ => None,
        })
    }

    /// Asks the kernel to resolve `ip` on the interface with index `ifindex`,
    /// as if it had a packet for it: it sends the ARP request or neighbour
    /// solicitation itself (`NTF_USE`). The result arrives as an update.
    /// Harmless when repeated.
    ///
    /// # Errors
    /// ENODEV for a wrong index; ENETDOWN when the link is down.
    pub fn probe_neighbour(&self, ifindex: u32, ip: IpAddr) -> Result<(), NetlinkError> {
        let mut message = entry(ifindex, ip);
        message.header.flags = NeighbourFlags::Use;
        let message = RouteNetlinkMessage::NewNeighbour(message);
        self.request("resolve neighbour", &ip.to_string(), message, NLM_F_CREATE)
    }

    /// Sets a permanent entry, replacing what was there.
    ///
    /// # Errors
    /// ENODEV for a wrong index, EINVAL for an address of the wrong length.
    pub fn add_neighbour(&self, ifindex: u32, ip: IpAddr, mac: MacAddress) -> Result<(), NetlinkError> {
        let mut message = entry(ifindex, ip);
        message.header.state = KernelState::Permanent;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        let message = RouteNetlinkMessage::NewNeighbour(message);
        self.request("add neighbour", &ip.to_string(), message, NLM_F_CREATE | NLM_F_REPLACE)
    }
}
