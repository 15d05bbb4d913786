//! What identifies a connection.

use crate::classifier::outer_vlan;
use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use perhop_wire::{Fragment, Layout, protocol};
use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Forwarding domain, VLAN tags and the 5-tuple with the lower endpoint first, so that both directions have the
/// same key. 44 bytes (packed, so that an entry's first line has room for its links); an IPv4 address is in the low
/// word of its two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(crate) struct FlowKey {
    /// Address of the lower endpoint (high word, low word), then of the other.
    address: [u64; 4],
    /// Ports of the lower and the other endpoint, outer VLAN tag, forwarding domain.
    tail: u64,
    /// Protocol, IP version, number of VLAN tags, inner VLAN.
    kind: u32,
}

/// A key, and whether the packet goes from the higher to the lower endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Oriented {
    pub key: FlowKey,
    pub swapped: bool,
}

impl FlowKey {
    /// The key of a dissected frame; `None` when it is not IP or is a later fragment, which has no ports.
    #[inline(always)]
    pub fn of(frame: &[u8], layout: &Layout, domain: u16) -> Option<Oriented> {
        if layout.fragment == Fragment::Later {
            return None;
        }
        let (src_port, dst_port) = match layout.protocol {
            protocol::UDP | protocol::TCP => (layout.src_port, layout.dst_port),
            // Request and reply of ICMP differ in type, and both belong to one connection.
            _ => (0, 0),
        };
        let l3 = usize::from(layout.l3_offset);
        let place = u64::from(outer_vlan(layout)) << 16 | u64::from(domain);
        let mut kind = u32::from(layout.protocol) | u32::from(layout.ip_version) << 8;
        if layout.vlan_tags > 1 {
            kind |= u32::from(layout.vlan[1]) << 16 | 1 << 15;
        }
        match layout.ip_version {
            4 => {
                let header: &[u8; 20] = frame.get(l3..)?.first_chunk()?;
                let word = |at: usize| {
                    u64::from(u32::from_be_bytes([
                        header[at],
                        header[at + 1],
                        header[at + 2],
                        header[at + 3],
                    ]))
                };
                let (src, dst) = (word(12), word(16));
                let swapped = src << 16 | u64::from(src_port) > dst << 16 | u64::from(dst_port);
                let (a, b) = if swapped { (dst, src) } else { (src, dst) };
                let ports = if swapped { ports(dst_port, src_port) } else { ports(src_port, dst_port) };
                Some(Oriented { key: Self { address: [0, a, 0, b], tail: ports | place, kind }, swapped })
            }
            6 => {
                let header: &[u8; 40] = frame.get(l3..)?.first_chunk()?;
                let address = |at: usize| {
                    let mut octets = [0; 16];
                    octets.copy_from_slice(&header[at..at + 16]);
                    u128::from_be_bytes(octets)
                };
                let (src, dst) = (address(8), address(24));
                let swapped = (src, src_port) > (dst, dst_port);
                let (a, b) = if swapped { (dst, src) } else { (src, dst) };
                let ports = if swapped { ports(dst_port, src_port) } else { ports(src_port, dst_port) };
                let address = [(a >> 64) as u64, a as u64, (b >> 64) as u64, b as u64];
                Some(Oriented { key: Self { address, tail: ports | place, kind }, swapped })
            }
            _ => None,
        }
    }

    /// Keyed hash.
    #[inline]
    pub fn hash(&self, per_hasher: u64, shared: &SharedSeed) -> u64 {
        let mut hasher = FoldHasher::with_seed(per_hasher, shared);
        if self.kind & 0x0f00 == 0x0400 {
            hasher.write_u64(self.address[1] << 32 | self.address[3]);
        } else {
            for word in self.address {
                hasher.write_u64(word);
            }
        }
        hasher.write_u64(self.tail);
        hasher.write_u32(self.kind);
        hasher.finish()
    }

    /// The same in forwarding domain 0.
    #[inline]
    pub fn without_domain(&self) -> Self {
        Self { tail: self.tail & !0xffff, ..*self }
    }

    /// Transport protocol.
    pub fn protocol(&self) -> u8 {
        self.kind as u8
    }

    /// Forwarding domain.
    pub fn domain(&self) -> u16 {
        self.tail as u16
    }

    /// Outer VLAN identifier.
    pub fn vlan(&self) -> u16 {
        (self.tail >> 16) as u16
    }

    /// Address and port of the lower (0) and the other (1) endpoint.
    pub fn endpoint(&self, which: usize) -> (IpAddr, u16) {
        let which = which & 1;
        let (high, low) = (self.address[which * 2], self.address[which * 2 + 1]);
        let port = (self.tail >> if which == 0 { 48 } else { 32 }) as u16;
        let address = if self.kind >> 8 & 0x0f == 4 {
            IpAddr::V4(Ipv4Addr::from_bits(low as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
        };
        (address, port)
    }
}

fn ports(low: u16, high: u16) -> u64 {
    u64::from(low) << 48 | u64::from(high) << 32
}
