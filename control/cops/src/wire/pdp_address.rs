//! Addresses of PDPs: where to go, and where a PEP was last (RFC 2748 §2.2.13, §2.2.14).

use super::Malformed;
use super::object::{Object, put};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) fn read(object: &Object<'_>) -> Result<SocketAddr, Malformed> {
    let (address, port) = match object.c_type {
        1 => {
            let [a, b, c, d, _, _, high, low] = object.fixed()?;
            (IpAddr::V4(Ipv4Addr::new(a, b, c, d)), [high, low])
        }
        2 => {
            let octets: [u8; 20] = object.fixed()?;
            let [address @ .., _, _, high, low] = octets;
            (IpAddr::V6(Ipv6Addr::from(address)), [high, low])
        }
        _ => return Err(object.unknown()),
    };
    Ok(SocketAddr::new(address, u16::from_be_bytes(port)))
}

/// Appends the object of this number. Flow label and scope of IPv6 have no place in it.
pub(super) fn write(out: &mut Vec<u8>, c_num: u8, address: SocketAddr) {
    put(out, c_num, if address.is_ipv4() { 1 } else { 2 }, |out| {
        match address.ip() {
            IpAddr::V4(address) => out.extend(address.octets()),
            IpAddr::V6(address) => out.extend(address.octets()),
        }
        out.extend([0, 0]);
        out.extend(address.port().to_be_bytes());
    });
}
