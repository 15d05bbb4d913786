//! Addresses of interfaces.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::connection::Netlink;
use crate::error::NetlinkError;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress {
    /// Interface index.
    pub ifindex: u32,
    /// The address with the length of its network's prefix.
    pub address: IpNet,
    /// Whether it is valid on its link only (169.254/16 with that scope, fe80::/10).
    pub link_scope: bool,
    /// Duplicate address detection (RFC 4862 section 5.4) is running; the
    /// address cannot be used as a source yet.
    pub tentative: bool,
}

impl InterfaceAddress {
    pub(crate) fn from_message(message: &AddressMessage) -> Option<Self> {
        let (mut local, mut other) = (None, None);
        let mut tentative = message.header.flags.contains(AddressHeaderFlags::Tentative);
        for attribute in &message.attributes {
            match attribute {
                AddressAttribute::Local(ip) => local = Some(*ip),
                AddressAttribute::Address(ip) => other = Some(*ip),
                AddressAttribute::Flags(flags) => tentative = flags.contains(AddressFlags::Tentative),
                _ => {}
            }
        }
        // On point-to-point links IFA_ADDRESS is the far end (rtnetlink(7)).
        let ip = local.or(other)?;
        Some(Self {
            ifindex: message.header.index,
            address: IpNet::new(ip, message.header.prefix_len).ok()?,
            link_scope: message.header.scope == AddressScope::Link,
            tentative,
        })
    }
}

pub(crate) fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

impl Netlink {
    pub(crate) fn address_message(&self, name: &str, address: IpNet) -> Result<AddressMessage, NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family = family(address.addr());
        message.header.prefix_len = address.prefix_len();
        message.header.index = self.index_of(name)?;
        message.attributes.push(AddressAttribute::Local(address.addr()));
        message.attributes.push(AddressAttribute::Address(address.addr()));
        Ok(message)
    }

    /// Gives an interface an address; the kernel adds the route to its
    /// network. Without duplicate address detection: an IPv6 address can be
    /// used at once. For links whose ends we both own.
    ///
    /// # Errors
    /// EEXIST when it has the address already.
    pub fn add_address_now(&self, name: &str, address: IpNet) -> Result<(), NetlinkError> {
        self.put_address(name, address, true)
    }

    /// With duplicate address detection unless it is needed `now`.
    pub(crate) fn put_address(&self, name: &str, address: IpNet, now: bool) -> Result<(), NetlinkError> {
        let mut message = self.address_message(name, address)?;
        if now && address.addr().is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        if let IpNet::V4(v4) = address
            && v4.prefix_len() < 31
        {
            // The kernel does not derive it (RFC 3021: none on /31).
            message.attributes.push(AddressAttribute::Broadcast(v4.broadcast()));
        }
        let object = format!("{address} on {name}");
        let message = RouteNetlinkMessage::NewAddress(message);
        self.request("add address", &object, message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// All addresses of the namespace, IPv4 and IPv6.
    ///
    /// # Errors
    /// [`NetlinkError::Unstable`] when they change all the time.
    pub fn addresses(&self) -> Result<Vec<InterfaceAddress>, NetlinkError> {
        let message = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.dump("list addresses", "", &message, |answer| match answer {
            RouteNetlinkMessage::NewAddress(m) => InterfaceAddress::from_message(&m),
            _ => None,
        })
    }
}
