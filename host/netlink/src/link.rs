//! Links: veth pairs, up and down, MTU, address, name, namespace.

use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, InfoVrf, LinkAttribute, LinkFlags, LinkInfo as LinkInfoAttribute,
    LinkLayerType, LinkMessage, State,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::interface_name::check_interface_name;
use crate::namespace::Namespace;

/// An Ethernet address, in the order of transmission.
pub type MacAddress = [u8; 6];

/// What the kernel tells about an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// Interface index, unique in its namespace.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// Ethernet address; `None` on links without one (TUN).
    pub mac: Option<MacAddress>,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Switched on (`IFF_UP`).
    pub up: bool,
    /// Switched on and able to send: carrier present, not dormant (RFC 2863
    /// operational state up or unknown).
    pub running: bool,
    /// Whether it is `lo`.
    pub loopback: bool,
    /// Whether there is one other end only (`IFF_POINTOPOINT`).
    pub point_to_point: bool,
    /// Kind of virtual link (`veth`, `bridge`, `tun` …); `None` for hardware.
    pub kind: Option<String>,
    /// Index of the bridge or bond it belongs to.
    pub controller: Option<u32>,
    /// The routing table of a VRF.
    pub vrf_table: Option<u32>,
    /// Index of the other end of a veth or of the lower device of a VLAN; in
    /// another namespace if `peer_elsewhere`.
    pub peer_index: Option<u32>,
    /// Whether `peer_index` counts in another namespace.
    pub peer_elsewhere: bool,
    /// Nominal speed, Mbit/s, from the driver; `None` where it knows none.
    /// Filled by [`Netlink::link`] and [`Netlink::links`], not by updates.
    pub speed_mbit: Option<u32>,
}

impl LinkInfo {
    /// Reads a link message; `None` for messages about something else, such
    /// as a bridge port's part of a link.
    pub(crate) fn from_message(message: &LinkMessage) -> Option<Self> {
        let header = &message.header;
        if header.interface_family != AddressFamily::Unspec {
            return None;
        }
        let mut link = Self {
            index: header.index,
            name: String::new(),
            mac: None,
            mtu: 0,
            up: header.flags.contains(LinkFlags::Up),
            running: header.flags.contains(LinkFlags::Up | LinkFlags::Running),
            loopback: header.link_layer_type == LinkLayerType::Loopback,
            point_to_point: header.flags.contains(LinkFlags::Pointopoint),
            kind: None,
            controller: None,
            vrf_table: None,
            peer_index: None,
            peer_elsewhere: false,
            speed_mbit: None,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Address(bytes) => link.mac = bytes.as_slice().try_into().ok(),
                LinkAttribute::Controller(index) => link.controller = Some(*index),
                LinkAttribute::Link(index) => link.peer_index = Some(*index),
                LinkAttribute::LinkNetNsId(_) => link.peer_elsewhere = true,
                LinkAttribute::OperState(state) => {
                    link.running &= matches!(state, State::Up | State::Unknown);
                }
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = infos.iter().find_map(|info| match info {
                        LinkInfoAttribute::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                    link.vrf_table = infos.iter().find_map(|info| match info {
                        LinkInfoAttribute::Data(InfoData::Vrf(data)) => {
                            data.iter().find_map(|item| match item {
                                InfoVrf::TableId(table) => Some(*table),
                                _ => None,
                            })
                        }
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        Some(link)
    }
}

fn named(name: &str) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.into()));
    message
}

impl Netlink {
    /// Makes a veth pair: `name` here, `peer_name` here or in `peer_ns`. Both
    /// are down and have random addresses.
    ///
    /// # Errors
    /// EEXIST when a name is taken, EPERM without rights over both namespaces,
    /// EOPNOTSUPP without the veth driver.
    pub fn create_veth(
        &self,
        name: &str,
        peer_name: &str,
        peer_ns: Option<&Namespace>,
    ) -> Result<(), NetlinkError> {
        check_interface_name(name)?;
        check_interface_name(peer_name)?;
        let mut peer = named(peer_name);
        if let Some(namespace) = peer_ns {
            peer.attributes.push(LinkAttribute::NetNsFd(namespace.fd().as_raw_fd()));
        }
        let mut message = named(name);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfoAttribute::Kind(InfoKind::Veth),
            LinkInfoAttribute::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let message = RouteNetlinkMessage::NewLink(message);
        self.request("create veth", name, message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// The interface named `name`.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchInterface`], [`NetlinkError::BadInterfaceName`].
    pub fn link(&self, name: &str) -> Result<LinkInfo, NetlinkError> {
        check_interface_name(name)?;
        let message = RouteNetlinkMessage::GetLink(named(name));
        let found = self.query("read link", name, message, read_link);
        let mut link = match found {
            Ok(Some(link)) => link,
            Err(error) if error.is_not_found() => {
                return Err(NetlinkError::NoSuchInterface { name: name.into() });
            }
            Ok(None) => return Err(NetlinkError::NoSuchInterface { name: name.into() }),
            Err(error) => return Err(error),
        };
        link.speed_mbit = self.speed_mbit(&link.name);
        Ok(link)
    }

    /// All interfaces of the namespace, by index.
    ///
    /// # Errors
    /// [`NetlinkError::Unstable`] when they change all the time.
    pub fn links(&self) -> Result<Vec<LinkInfo>, NetlinkError> {
        let message = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let mut links = self.dump("list links", "", &message, read_link)?;
        for link in &mut links {
            link.speed_mbit = self.speed_mbit(&link.name);
        }
        links.sort_by_key(|link| link.index);
        Ok(links)
    }

    pub(crate) fn index_of(&self, name: &str) -> Result<u32, NetlinkError> {
        check_interface_name(name)?;
        let message = RouteNetlinkMessage::GetLink(named(name));
        match self.query("find link", name, message, read_link) {
            Ok(Some(link)) => Ok(link.index),
            Ok(None) => Err(NetlinkError::NoSuchInterface { name: name.into() }),
            Err(error) if error.is_not_found() => Err(NetlinkError::NoSuchInterface { name: name.into() }),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn change(
        &self,
        operation: &'static str,
        name: &str,
        fill: impl FnOnce(&mut LinkMessage),
    ) -> Result<(), NetlinkError> {
        // By index: a rename by somebody else in between must not make the
        // change hit another interface.
        let mut message = LinkMessage::default();
        message.header.index = self.index_of(name)?;
        fill(&mut message);
        self.request(operation, name, RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Switches an interface on.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchInterface`], EPERM.
    pub fn set_up(&self, name: &str) -> Result<(), NetlinkError> {
        self.change("set link up", name, |m| {
            m.header.flags = LinkFlags::Up;
            m.header.change_mask = LinkFlags::Up;
        })
    }

    /// Sets the MTU, bytes of an IP packet.
    ///
    /// # Errors
    /// EINVAL outside the driver's range.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<(), NetlinkError> {
        self.change("set MTU", name, |m| m.attributes.push(LinkAttribute::Mtu(mtu)))
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// EADDRNOTAVAIL for a group or zero address.
    pub fn set_mac(&self, name: &str, mac: MacAddress) -> Result<(), NetlinkError> {
        self.change("set MAC address", name, |m| {
            m.attributes.push(LinkAttribute::Address(mac.to_vec()));
        })
    }

    /// Renames an interface.
    ///
    /// # Errors
    /// EEXIST when the name is taken, EBUSY on old kernels when it is up.
    pub fn rename(&self, name: &str, new_name: &str) -> Result<(), NetlinkError> {
        check_interface_name(new_name)?;
        self.change("rename link", name, |m| {
            m.attributes.push(LinkAttribute::IfName(new_name.into()));
        })
    }

    /// Moves an interface to another namespace; it arrives down and without
    /// addresses.
    ///
    /// # Errors
    /// EEXIST when the name is taken there.
    pub fn move_to(&self, name: &str, namespace: &Namespace) -> Result<(), NetlinkError> {
        self.change("move link to another namespace", name, |m| {
            m.attributes.push(LinkAttribute::NetNsFd(namespace.fd().as_raw_fd()));
        })
    }

    fn speed_mbit(&self, name: &str) -> Option<u32> {
        self.control().speed_mbit(name)
    }
}

fn read_link(message: RouteNetlinkMessage) -> Option<LinkInfo> {
    match message {
        RouteNetlinkMessage::NewLink(message) => LinkInfo::from_message(&message),
        _ => None,
    }
}
