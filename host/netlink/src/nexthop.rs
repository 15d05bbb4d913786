//! Next-hop objects, which routes may name instead of next hops of their own (ip-nexthop(8)).
//!
//! The kernel spells them out in each route as long as `net.ipv4.nexthop_compat_mode` is on; else they are looked up here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netlink_packet_core::NlasIterator;

use crate::connection::Netlink;
use crate::error::NetlinkError;
use crate::route::NextHop;

/// `RTM_NEWNEXTHOP` and the two behind it (linux/rtnetlink.h).
pub(crate) const MESSAGES: std::ops::RangeInclusive<u16> = 104..=106;
const LIST: u16 = 106;
/// `struct nhmsg`.
const HEADER: usize = 8;
/// `NHA_*` of linux/nexthop.h.
const ID: u16 = 1;
const GROUP: u16 = 2;
const BLACKHOLE: u16 = 4;
const INTERFACE: u16 = 5;
const GATEWAY: u16 = 6;
const ENCAPSULATION: u16 = 7;
/// `struct nexthop_grp`.
const MEMBER: usize = 8;
/// `RTNH_F_DEAD`, `RTNH_F_LINKDOWN`.
const UNUSABLE: u32 = 1 | 16;

/// All next-hop objects of a namespace, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextHops {
    singles: BTreeMap<u32, NextHop>,
    /// Members and weights.
    groups: BTreeMap<u32, Vec<(u32, u16)>>,
    blackholes: Vec<u32>,
}

impl NextHops {
    /// What an object comes to: its next hops, none for a blackhole; `None`: there is no such object.
    pub fn of(&self, id: u32) -> Option<Vec<NextHop>> {
        if self.blackholes.contains(&id) {
            return Some(Vec::new());
        }
        if let Some(group) = self.groups.get(&id) {
            let member =
                |(id, weight): &(u32, u16)| Some(NextHop { weight: *weight, ..*self.singles.get(id)? });
            return Some(group.iter().filter_map(member).collect());
        }
        self.singles.get(&id).map(|hop| vec![*hop])
    }

    fn read(&mut self, message: &[u8]) -> Option<()> {
        let flags = u32::from_ne_bytes(*message.get(4..)?.first_chunk()?);
        let mut hop = NextHop {
            via: None,
            ifindex: 0,
            weight: 1,
            unusable: flags & UNUSABLE != 0,
            encapsulated: false,
        };
        let (mut id, mut group, mut is_blackhole) = (0, None, false);
        let number = |value: &[u8]| value.first_chunk().map(|octets| u32::from_ne_bytes(*octets));
        for nla in NlasIterator::new(message.get(HEADER..)?).map_while(Result::ok) {
            let value = nla.value();
            match nla.kind() {
                ID => id = number(value)?,
                BLACKHOLE => is_blackhole = true,
                INTERFACE => hop.ifindex = number(value)?,
                ENCAPSULATION => hop.encapsulated = true,
                GATEWAY => {
                    hop.via = match *value {
                        [a, b, c, d] => Some(IpAddr::from([a, b, c, d])),
                        _ => value.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
                    };
                }
                GROUP => {
                    let member = |m: &[u8]| {
                        // The weight is one less, its upper octet came later.
                        let weight = u16::from(*m.get(4)?) + (u16::from(*m.get(5)?) << 8);
                        Some((number(m)?, weight.saturating_add(1)))
                    };
                    group = Some(value.chunks_exact(MEMBER).filter_map(member).collect::<Vec<_>>());
                }
                _ => {}
            }
        }
        match group {
            _ if is_blackhole => self.blackholes.push(id),
            Some(group) => drop(self.groups.insert(id, group)),
            None => drop(self.singles.insert(id, hop)),
        }
        Some(())
    }
}

impl Netlink {
    /// All next-hop objects. A kernel without them (before 5.3) has none.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`] when the listing fails.
    pub fn next_hops(&self) -> Result<NextHops, NetlinkError> {
        let read = |all: &mut NextHops, message: &[u8]| {
            all.read(message);
        };
        let listed = self.dump_raw("list next hops", LIST, &[0; HEADER], read);
        match listed {
            Err(NetlinkError::Kernel { errno: libc::EOPNOTSUPP | libc::EINVAL, .. }) => {
                Ok(NextHops::default())
            }
            listed => listed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::push_attribute;

    #[test]
    fn objects_and_groups_come_to_next_hops_and_short_input_to_nothing() {
        let mut all = NextHops::default();
        let message = |attributes: &[(u16, &[u8])]| {
            let mut bytes = vec![0; HEADER];
            attributes.iter().for_each(|(kind, value)| push_attribute(&mut bytes, *kind, value));
            bytes
        };
        let one = message(&[
            (ID, &1u32.to_ne_bytes()),
            (INTERFACE, &7u32.to_ne_bytes()),
            (GATEWAY, &[10, 0, 0, 1]),
        ]);
        let two =
            message(&[(ID, &2u32.to_ne_bytes()), (INTERFACE, &8u32.to_ne_bytes()), (ENCAPSULATION, &[1, 0])]);
        let mut members = Vec::new();
        for (id, weight) in [(1u32, 2u8), (2, 0)] {
            members.extend(id.to_ne_bytes());
            members.extend([weight, 0, 0, 0]);
        }
        let group = message(&[(ID, &3u32.to_ne_bytes()), (GROUP, &members)]);
        let hole = message(&[(ID, &4u32.to_ne_bytes()), (BLACKHOLE, &[])]);
        for bytes in [&one, &two, &group, &hole] {
            assert_eq!(all.read(bytes), Some(()));
            (0..HEADER).for_each(|end| assert_eq!(NextHops::default().read(&bytes[..end]), None));
        }
        let hops: Vec<_> = all.of(3).unwrap().iter().map(|h| (h.ifindex, h.weight, h.encapsulated)).collect();
        assert_eq!(hops, [(7, 3, false), (8, 1, true)]);
        assert_eq!(all.of(1).unwrap()[0].via, Some([10, 0, 0, 1].into()));
        assert_eq!((all.of(4), all.of(5)), (Some(Vec::new()), None));
    }
}
