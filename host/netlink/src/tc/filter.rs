//! Filters: which frames go to which class (tc-u32(8)).

use ipnet::{Ipv4Net, Ipv6Net};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAttribute, TcFilterU32Option, TcMessage, TcOption, TcU32Key, TcU32Selector, TcU32SelectorFlags,
};

use super::{Handle, Parts};
use crate::connection::Netlink;
use crate::error::NetlinkError;

/// Most keys of one u32 filter that the kernel takes (`nkeys` has 8 bits, and
/// the structure must fit its limit).
const MAX_KEYS: usize = 128;

/// A comparison of 32 bits of the packet: `(packet[offset..offset+4] & mask)
/// == value`, in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct U32Key {
    /// Bytes from the start of the IP header; a multiple of 4.
    pub offset: i32,
    /// Bits that are compared; the first byte of the packet is the highest.
    pub mask: u32,
    /// What they must be; other bits are zero.
    pub value: u32,
}

impl U32Key {
    /// IPv4 differentiated services code point (RFC 2474), 0 to 63.
    pub fn ipv4_dscp(dscp: u8) -> Self {
        Self { offset: 0, mask: 0x00fc_0000, value: u32::from(dscp & 0x3f) << 18 }
    }

    /// IPv4 protocol number (17 UDP, 6 TCP).
    pub fn ipv4_protocol(protocol: u8) -> Self {
        Self { offset: 8, mask: 0x00ff_0000, value: u32::from(protocol) << 16 }
    }

    /// IPv4 source network.
    pub fn ipv4_source(network: Ipv4Net) -> Self {
        Self::ipv4_network(12, network)
    }

    /// IPv4 destination network.
    pub fn ipv4_destination(network: Ipv4Net) -> Self {
        Self::ipv4_network(16, network)
    }

    fn ipv4_network(offset: i32, network: Ipv4Net) -> Self {
        Self { offset, mask: network.netmask().into(), value: network.network().into() }
    }

    /// IPv6 destination network: one key per 32 bits that it covers.
    pub fn ipv6_destination(network: Ipv6Net) -> Vec<Self> {
        Self::ipv6_network(24, network)
    }

    /// IPv6 source network; likewise.
    pub fn ipv6_source(network: Ipv6Net) -> Vec<Self> {
        Self::ipv6_network(8, network)
    }

    fn ipv6_network(offset: i32, network: Ipv6Net) -> Vec<Self> {
        let (mask, value) = (u128::from(network.netmask()), u128::from(network.network()));
        (0..4)
            .map(|i| Self {
                offset: offset + 4 * i,
                mask: (mask >> (96 - 32 * i)) as u32,
                value: (value >> (96 - 32 * i)) as u32,
            })
            .filter(|key| key.mask != 0)
            .collect()
    }

    /// Source port of UDP or TCP in IPv4 **without options**; join it with
    /// [`U32Key::ipv4_plain_header`].
    pub fn ipv4_source_port(port: u16) -> Self {
        Self { offset: 20, mask: 0xffff_0000, value: u32::from(port) << 16 }
    }

    /// Destination port; as [`U32Key::ipv4_source_port`].
    pub fn ipv4_destination_port(port: u16) -> Self {
        Self { offset: 20, mask: 0x0000_ffff, value: u32::from(port) }
    }

    /// An IPv4 header of 20 bytes, so that ports are where keys look for them.
    pub fn ipv4_plain_header() -> Self {
        Self { offset: 0, mask: 0x0f00_0000, value: 0x0500_0000 }
    }
}

/// A filter that compares words of the packet; all keys must match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct U32Filter {
    /// At least one key (mask 0 matches everything), at most 128.
    pub keys: Vec<U32Key>,
    /// Where matching frames go.
    pub class: Handle,
}

/// The parameters of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterSpec {
    /// A u32 filter.
    U32(U32Filter),
    /// A kind, or a form of u32, that is not typed here.
    Other(String),
}

/// A filter of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Interface index.
    pub ifindex: u32,
    /// The qdisc or class it belongs to.
    pub parent: Handle,
    /// Filters are asked in this order, 1 first.
    pub priority: u16,
    /// EtherType of the frames it looks at (0x0800 IPv4, 0x86dd IPv6, 3 all).
    pub protocol: u16,
    /// The kernel's number for it, for [`Netlink::delete_filter`].
    pub handle: u32,
    /// Kind and parameters.
    pub spec: FilterSpec,
}

/// Priority and protocol in the header of a filter message.
fn info(priority: u16, protocol: u16) -> u32 {
    u32::from(priority) << 16 | u32::from(protocol.to_be())
}

impl Netlink {
    /// Adds a u32 filter to a qdisc (`1:0`) or class. The kernel keeps one
    /// protocol and one kind per priority of a qdisc.
    ///
    /// # Errors
    /// [`NetlinkError::OutOfRange`] for no or too many keys or priority 0;
    /// ENOENT when there is no such qdisc.
    pub fn add_filter(
        &self,
        name: &str,
        parent: Handle,
        priority: u16,
        protocol: u16,
        filter: &U32Filter,
    ) -> Result<(), NetlinkError> {
        let operation = "add filter";
        let count = filter.keys.len();
        let out_of_range =
            |field, value, allowed| Err(NetlinkError::OutOfRange { operation, field, value, allowed });
        if count == 0 || count > MAX_KEYS {
            return out_of_range("keys", count as u64, "1 to 128");
        }
        if priority == 0 {
            return out_of_range("priority", 0, "1 to 65535");
        }
        let mut selector = TcU32Selector::default();
        selector.flags = TcU32SelectorFlags::Terminal;
        selector.nkeys = count as u8;
        selector.keys = filter.keys.iter().map(kernel_key).collect();
        let mut message = self.tc_message(name, parent, Handle::NONE, "u32", None)?;
        message.header.info = info(priority, protocol);
        message.attributes.push(TcAttribute::Options(vec![
            TcOption::U32(TcFilterU32Option::ClassId(filter.class.0.into())),
            TcOption::U32(TcFilterU32Option::Selector(selector)),
        ]));
        let object = format!("u32 at {parent} of {name}");
        let message = RouteNetlinkMessage::NewTrafficFilter(message);
        self.request(operation, &object, message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Deletes one filter, as [`Netlink::filters`] listed it.
    ///
    /// # Errors
    /// ENOENT when it is gone.
    pub fn delete_filter(&self, name: &str, filter: &Filter) -> Result<(), NetlinkError> {
        let kind = match &filter.spec {
            FilterSpec::U32(_) => "u32",
            FilterSpec::Other(kind) => kind,
        };
        let mut message = self.tc_message(name, filter.parent, Handle(filter.handle), kind, None)?;
        message.header.info = info(filter.priority, filter.protocol);
        let object = format!("{kind} {:x} at {} of {name}", filter.handle, filter.parent);
        self.request("delete filter", &object, RouteNetlinkMessage::DelTrafficFilter(message), 0)
    }

    /// Deletes all filters of a qdisc or class.
    ///
    /// # Errors
    /// EINVAL when there is no such qdisc; nothing to delete is no error.
    pub fn delete_filters(&self, name: &str, parent: Handle) -> Result<(), NetlinkError> {
        let message = self.tc_message(name, parent, Handle::NONE, "", None)?;
        let object = format!("all at {parent} of {name}");
        let message = RouteNetlinkMessage::DelTrafficFilter(message);
        match self.request("delete filters", &object, message, 0) {
            Err(error) if error.errno() == Some(libc::ENOENT) => Ok(()),
            other => other,
        }
    }

    /// The filters of a qdisc or class, in the order they are asked.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchInterface`].
    pub fn filters(&self, name: &str, parent: Handle) -> Result<Vec<Filter>, NetlinkError> {
        let message = self.tc_message(name, parent, Handle::NONE, "", None)?;
        let message = RouteNetlinkMessage::GetTrafficFilter(message);
        self.dump("list filters", name, &message, |answer| match answer {
            RouteNetlinkMessage::NewTrafficFilter(m) => read_filter(&m),
            _ => None,
        })
    }
}

fn kernel_key(key: &U32Key) -> TcU32Key {
    let mut out = TcU32Key::default();
    out.mask = key.mask;
    out.val = key.value & key.mask;
    out.off = key.offset;
    out
}

/// Reads a filter; `None` for the entries without a rule that the kernel lists
/// as well: the protocol's head and the hash tables of u32.
fn read_filter(message: &TcMessage) -> Option<Filter> {
    let parts = Parts::of(message);
    if parts.handle == Handle::NONE {
        return None;
    }
    let (mut class, mut selector, mut table) = (None, None, false);
    for option in parts.options {
        match option {
            TcOption::U32(TcFilterU32Option::ClassId(id)) => class = Some(Handle((*id).into())),
            TcOption::U32(TcFilterU32Option::Selector(s)) => selector = Some(s),
            TcOption::U32(TcFilterU32Option::Divisor(_)) => table = true,
            _ => {}
        }
    }
    if table {
        return None;
    }
    let spec = match (class, selector) {
        (Some(class), Some(selector)) => FilterSpec::U32(U32Filter {
            keys: selector
                .keys
                .iter()
                .map(|key| U32Key { offset: key.off, mask: key.mask, value: key.val })
                .collect(),
            class,
        }),
        _ => FilterSpec::Other(parts.kind.into()),
    };
    Some(Filter {
        ifindex: parts.ifindex,
        parent: parts.parent,
        priority: (parts.info >> 16) as u16,
        protocol: u16::from_be(parts.info as u16),
        handle: parts.handle.0,
        spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_find_their_fields_in_a_real_header() {
        // IPv4, DSCP EF, UDP, 10.1.2.3:5004 to 192.0.2.9:80.
        let mut packet = vec![0x45, 46 << 2, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend([10, 1, 2, 3, 192, 0, 2, 9, 0x13, 0x8c, 0, 80]);
        let matches = |key: U32Key| {
            let at = key.offset as usize;
            let word = u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
            word & key.mask == key.value
        };
        let network = |text: &str| text.parse::<Ipv4Net>().unwrap();
        for key in [
            U32Key::ipv4_dscp(46),
            U32Key::ipv4_protocol(17),
            U32Key::ipv4_source(network("10.1.0.0/16")),
            U32Key::ipv4_destination(network("192.0.2.9/32")),
            U32Key::ipv4_source_port(5004),
            U32Key::ipv4_destination_port(80),
            U32Key::ipv4_plain_header(),
        ] {
            assert!(matches(key), "{key:?}");
        }
        for key in [
            U32Key::ipv4_dscp(45),
            U32Key::ipv4_protocol(6),
            U32Key::ipv4_source(network("10.2.0.0/16")),
            U32Key::ipv4_destination_port(5004),
        ] {
            assert!(!matches(key), "{key:?}");
        }
    }

    #[test]
    fn an_ipv6_network_needs_only_the_words_it_covers() {
        let network = |text: &str| text.parse::<Ipv6Net>().unwrap();
        let keys = U32Key::ipv6_destination(network("2001:db8:1::/40"));
        let expected = [
            U32Key { offset: 24, mask: 0xffff_ffff, value: 0x2001_0db8 },
            U32Key { offset: 28, mask: 0xff00_0000, value: 0 },
        ];
        assert_eq!(keys, expected);
        assert!(U32Key::ipv6_destination(network("::/0")).is_empty());
    }
}
