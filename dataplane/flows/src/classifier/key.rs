//! What rules look at, and its packed form.

use perhop_packet::PortId;
use perhop_wire::{Fragment, Layout, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The fields of one packet that rules compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Where it came in.
    pub in_port: PortId,
    /// Outer VLAN identifier, 0 when untagged.
    pub vlan: u16,
    /// Source address.
    pub src: IpAddr,
    /// Destination address; the same family as `src`.
    pub dst: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// Source and destination port; `None` unless UDP or TCP with its header.
    pub ports: Option<(u16, u16)>,
    /// Code point, 0 … 63.
    pub dscp: u8,
    /// TCP flags; `None` unless TCP with its header.
    pub tcp_flags: Option<u8>,
    /// Whether it is a fragment, first or later.
    pub fragment: bool,
}

/// Bits of the packed "facts" octet.
const FRAGMENT: u64 = 1;
const HAS_PORTS: u64 = 2;
const HAS_FLAGS: u64 = 4;

/// Position of fields in the packed words, shared by keys and masks.
pub(crate) mod field {
    /// Word "transport": source port in the top 16 bits.
    pub const SRC_PORT: u32 = 48;
    /// Destination port.
    pub const DST_PORT: u32 = 32;
    /// Protocol octet.
    pub const PROTOCOL: u32 = 24;
    /// Code point octet.
    pub const DSCP: u32 = 16;
    /// TCP flags octet.
    pub const FLAGS: u32 = 8;
    /// Word "place": in-port above the VLAN identifier.
    pub const IN_PORT: u32 = 16;
    /// Fragment bit of the facts octet.
    pub const FRAGMENT: u64 = super::FRAGMENT;
    /// Set when the ports are known.
    pub const HAS_PORTS: u64 = super::HAS_PORTS;
    /// Set when the TCP flags are known.
    pub const HAS_FLAGS: u64 = super::HAS_FLAGS;
}

impl Key {
    /// The key of a dissected frame; `None` when it is not IP. O(1).
    pub fn of(frame: &[u8], layout: &Layout, in_port: PortId) -> Option<Self> {
        let l3 = usize::from(layout.l3_offset);
        let (src, dst) = match layout.ip_version {
            4 => {
                let header: &[u8; 20] = frame.get(l3..)?.first_chunk()?;
                let word =
                    |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
                (IpAddr::V4(word(12)), IpAddr::V4(word(16)))
            }
            6 => {
                let header: &[u8; 40] = frame.get(l3..)?.first_chunk()?;
                let address = |at: usize| {
                    let mut octets = [0; 16];
                    octets.copy_from_slice(&header[at..at + 16]);
                    IpAddr::V6(Ipv6Addr::from(octets))
                };
                (address(8), address(24))
            }
            _ => return None,
        };
        let (ports, tcp_flags) = of_header(layout);
        Some(Self {
            in_port,
            vlan: outer_vlan(layout),
            src,
            dst,
            protocol: layout.protocol,
            ports,
            dscp: layout.tos >> 2,
            tcp_flags,
            fragment: layout.fragment != Fragment::Whole,
        })
    }

    /// Everything but the addresses.
    #[inline]
    fn with<const A: usize>(&self, addresses: [u64; A]) -> Packed<A> {
        let of_header = (self.ports, self.tcp_flags);
        Packed {
            addresses,
            transport: transport(of_header, self.protocol, self.dscp, self.fragment),
            place: place(self.in_port, self.vlan),
        }
    }

    /// Packed for the IPv4 or the IPv6 tuple space.
    #[inline]
    pub(crate) fn pack(&self) -> PackedKey {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                PackedKey::V4(self.with([u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits())]))
            }
            (src, dst) => {
                let ([a, b], [c, d]) = (halves(src), halves(dst));
                PackedKey::V6(self.with([a, b, c, d]))
            }
        }
    }
}

/// Ports, and TCP flags, of a packet that has them.
type OfHeader = (Option<(u16, u16)>, Option<u8>);

#[inline]
fn of_header(layout: &Layout) -> OfHeader {
    let header = layout.l4_offset != 0 && layout.fragment != Fragment::Later;
    let tcp = layout.protocol == protocol::TCP;
    let ports = header && (tcp || layout.protocol == protocol::UDP);
    let ports = ports.then_some((layout.src_port, layout.dst_port));
    (ports, (header && tcp).then_some(layout.tcp_flags))
}

#[inline]
fn transport((ports, tcp_flags): OfHeader, protocol: u8, dscp: u8, fragment: bool) -> u64 {
    let (src_port, dst_port) = ports.unwrap_or((0, 0));
    let facts = (u64::from(fragment) * FRAGMENT)
        | (u64::from(ports.is_some()) * HAS_PORTS)
        | (u64::from(tcp_flags.is_some()) * HAS_FLAGS);
    u64::from(src_port) << field::SRC_PORT
        | u64::from(dst_port) << field::DST_PORT
        | u64::from(protocol) << field::PROTOCOL
        | u64::from(dscp) << field::DSCP
        | u64::from(tcp_flags.unwrap_or(0)) << field::FLAGS
        | facts
}

#[inline]
fn place(in_port: PortId, vlan: u16) -> u32 {
    u32::from(in_port.0) << field::IN_PORT | u32::from(vlan)
}

/// What rules compare as words: values or masks, with addresses of `A` words, the source's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed<const A: usize> {
    pub addresses: [u64; A],
    /// Ports, protocol, code point, TCP flags, facts.
    pub transport: u64,
    /// In-port above VLAN identifier.
    pub place: u32,
}

impl<const A: usize> Packed<A> {
    /// Whether every bit set here is set in `finer`.
    pub fn is_within(&self, finer: &Self) -> bool {
        let addresses = self.addresses.iter().zip(&finer.addresses).all(|(c, f)| c & !f == 0);
        addresses && self.transport & !finer.transport == 0 && self.place & !finer.place == 0
    }

    /// Number of bits set.
    pub fn ones(&self) -> u32 {
        let addresses: u32 = self.addresses.iter().map(|w| w.count_ones()).sum();
        addresses + self.transport.count_ones() + self.place.count_ones()
    }
}

impl Packed<1> {
    /// What the [`Key`] of a dissected IPv4 frame with these addresses packs to.
    #[inline]
    pub fn of(addresses: [u64; 1], layout: &Layout, in_port: PortId) -> Self {
        let fragment = layout.fragment != Fragment::Whole;
        let transport = transport(of_header(layout), layout.protocol, layout.tos >> 2, fragment);
        Self { addresses, transport, place: place(in_port, outer_vlan(layout)) }
    }
}

/// A key as words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PackedKey {
    V4(Packed<1>),
    V6(Packed<4>),
}

/// An address as two words, high first. An IPv4 address is taken as its IPv4-mapped form.
pub(crate) fn halves(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

/// The outer VLAN identifier, 0 when untagged.
#[inline]
pub(crate) fn outer_vlan(layout: &Layout) -> u16 {
    if layout.vlan_tags == 0 { 0 } else { layout.vlan[0] }
}
