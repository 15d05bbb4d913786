//! Where a message came in and where it goes out (RFC 2748 §2.2.3, §2.2.4).

use super::Malformed;
use super::object::{Object, put};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An interface, and the address of whom a message came from, or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interface {
    /// Of the neighbour; loopback for what the PEP's host sends or gets itself.
    pub address: IpAddr,
    /// The same number as in the interface table of SNMP's MIB-II.
    pub ifindex: u32,
}

impl Interface {
    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        let address = |octets: &[u8]| match object.c_type {
            1 => octets.try_into().ok().map(|octets: [u8; 4]| IpAddr::V4(Ipv4Addr::from(octets))),
            _ => octets.try_into().ok().map(|octets: [u8; 16]| IpAddr::V6(Ipv6Addr::from(octets))),
        };
        if !matches!(object.c_type, 1 | 2) {
            return Err(object.unknown());
        }
        let (front, ifindex) = object.contents.split_last_chunk::<4>().ok_or_else(|| object.wrong())?;
        let address = address(front).ok_or_else(|| object.wrong())?;
        Ok(Self { address, ifindex: u32::from_be_bytes(*ifindex) })
    }

    pub(super) fn write(self, out: &mut Vec<u8>, c_num: u8) {
        put(out, c_num, if self.address.is_ipv4() { 1 } else { 2 }, |out| {
            match self.address {
                IpAddr::V4(address) => out.extend(address.octets()),
                IpAddr::V6(address) => out.extend(address.octets()),
            }
            out.extend(self.ifindex.to_be_bytes());
        });
    }
}
