//! Frames of simulated hosts: real headers, so that everything on the way may read and rewrite them.

use crate::buffers::Buffers;
use perhop_packet::Packet;
use perhop_scenario::LinkIndex;
use perhop_units::Dscp;
use perhop_wire::checksum::pseudo_header_v4;
use perhop_wire::ethernet::HEADER_LEN as ETHERNET_LEN;
use perhop_wire::{Ecn, MacAddr, ethernet, ipv4, udp};
use std::net::Ipv4Addr;

/// Bytes before the IP header.
pub(crate) const FRAME_LEN: usize = ETHERNET_LEN;
/// Bytes of an IPv4 header without options.
pub(crate) const IP_LEN: usize = 20;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

/// The address of the interface at one end of a link.
pub(crate) fn mac(link: LinkIndex, end: usize) -> MacAddr {
    let [_, a, b, c] = (link.0 as u32).to_be_bytes();
    MacAddr([2, 0, a, b, c, end as u8 + 1])
}

/// Where a host's packets go first, and from where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) src: MacAddr,
    pub(crate) dst: MacAddr,
}

/// What the IP header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpHeader {
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    pub(crate) dscp: Dscp,
    pub(crate) ecn: Ecn,
    pub(crate) identification: u16,
    pub(crate) protocol: u8,
}

/// An empty packet for `payload` bytes above IP, with its headers up to IP written. `None`: no buffer, or too long.
pub(crate) fn ip_packet(buffers: &mut Buffers, hop: Hop, header: IpHeader, payload: usize) -> Option<Packet> {
    let mut packet = buffers.alloc()?;
    if !packet.resize(FRAME_LEN + IP_LEN + payload) {
        packet.release();
        return None;
    }
    let frame = packet.frame_mut();
    ethernet::Repr { dst: hop.dst, src: hop.src, ethertype: perhop_wire::ethertype::IPV4 }.emit(frame);
    let repr = ipv4::Repr {
        dscp: header.dscp,
        ecn: header.ecn,
        identification: header.identification,
        dont_fragment: true,
        ttl: 64,
        protocol: header.protocol,
        src: header.src,
        dst: header.dst,
        payload_len: payload as u16,
        ..ipv4::Repr::default()
    };
    repr.emit(&mut frame[FRAME_LEN..]);
    Some(packet)
}

/// A datagram whose payload `fill` writes (all `len` bytes of it).
pub(crate) fn datagram(
    buffers: &mut Buffers,
    hop: Hop,
    header: IpHeader,
    ports: (u16, u16),
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<Packet> {
    let mut packet = ip_packet(buffers, hop, header, UDP_LEN + usize::from(len))?;
    let above = &mut packet.frame_mut()[FRAME_LEN + IP_LEN..];
    fill(&mut above[UDP_LEN..]);
    udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len: len }.emit(above);
    let length = above.len() as u16;
    udp::fill_checksum(
        above,
        pseudo_header_v4(header.src.octets(), header.dst.octets(), header.protocol, length),
    );
    Some(packet)
}
