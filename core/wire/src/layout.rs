//! One parse of a frame: where its headers are and what the data plane asks of them.
//!
//! [`dissect`] reads every header once, at receive; later stages use the offsets of [`Layout`]. The functions that
//! rewrite a header ([`set_dscp`], [`set_ecn_ce`], [`decrement_ttl`], [`set_tcp_window`], [`set_vlan_pcp`]) live
//! here too, because they keep frame, checksum and layout in step.
//!
//! Source: IEEE 802.1Q, RFC 791, RFC 1858 and 3128 (fragment attacks), RFC 8200, RFC 768, RFC 9293, RFC 792,
//! RFC 4443, RFC 826.

use crate::checksum::Sum;
use crate::field::{chunk, chunk_mut};
use crate::{ethertype, ipv4, ipv6, ipv6_ext, protocol, tcp, vlan};
use perhop_units::Dscp;
use thiserror::Error;

/// Offsets and selected fields of a frame, found once at receive. `Copy`, 40 bytes at most: it travels as packet
/// metadata. Offsets count from the first byte of the Ethernet header; 0 means "not present".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// EtherType after all VLAN tags (0x0800, 0x86dd, 0x0806 …).
    pub ethertype: u16,
    /// Outer and inner VLAN identifiers (12 bits), valid according to `vlan_tags`.
    pub vlan: [u16; 2],
    /// Number of VLAN tags, 0–2.
    pub vlan_tags: u8,
    /// 4, 6 or 0 when not IP.
    pub ip_version: u8,
    /// Transport protocol: IPv4 protocol, or the upper-layer next header after IPv6 extension headers.
    pub protocol: u8,
    /// TOS / traffic-class octet (DSCP and ECN).
    pub tos: u8,
    /// Network header.
    pub l3_offset: u16,
    /// Transport header; 0 for later fragments and when there is none.
    pub l4_offset: u16,
    /// Payload behind the transport header; 0 when unknown.
    pub payload_offset: u16,
    /// IP length in bytes: IPv4 total length, or 40 + IPv6 payload length. What meters and SLAs count. Frame padding
    /// is not included.
    pub ip_len: u16,
    /// Source and destination ports of UDP or TCP (or type/code for ICMP in `src_port`'s high/low byte), else 0.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// TCP flags, else 0.
    pub tcp_flags: u8,
    /// Fragment state.
    pub fragment: Fragment,
    /// IPv4 identification or the low 32 bits of the IPv6 fragment identification; 0 unless a fragment.
    pub fragment_id: u32,
}

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fragment {
    /// A whole datagram.
    #[default]
    Whole = 0,
    /// The first fragment: has the transport header, more follow.
    First = 1,
    /// A later fragment: no transport header.
    Later = 2,
}

/// Why a frame is malformed. Each is a drop reason with a stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[repr(u8)]
#[allow(missing_docs, reason = "the message is the meaning")]
pub enum Malformed {
    #[error("frame shorter than an Ethernet header")]
    EthernetTruncated,
    #[error("VLAN tag cut short")]
    VlanTruncated,
    #[error("more than two VLAN tags")]
    VlanTooDeep,
    #[error("IPv4 header cut short")]
    Ipv4Truncated,
    #[error("IPv4 version or header length field wrong")]
    Ipv4HeaderLength,
    #[error("IPv4 total length shorter than its header or longer than the frame")]
    Ipv4TotalLength,
    #[error("IPv4 header checksum wrong")]
    Ipv4Checksum,
    #[error("IPv4 options malformed")]
    Ipv4Options,
    #[error("IPv4 fragment reaches past 65,535 bytes or overlaps the transport header")]
    Ipv4Fragment,
    #[error("IPv6 header cut short")]
    Ipv6Truncated,
    #[error("IPv6 version field wrong")]
    Ipv6Version,
    #[error("IPv6 payload longer than the frame")]
    Ipv6PayloadLength,
    #[error("IPv6 extension headers malformed")]
    Ipv6Extension,
    #[error("more IPv6 extension headers than the limit of 8")]
    Ipv6ExtensionsTooMany,
    #[error("IPv6 fragment reaches past 65,535 bytes or overlaps the transport header")]
    Ipv6Fragment,
    #[error("UDP header cut short or length field wrong")]
    UdpLength,
    #[error("TCP header cut short or data offset wrong")]
    TcpLength,
    #[error("ICMP message cut short")]
    IcmpTruncated,
    #[error("ARP packet cut short or not for Ethernet and IPv4")]
    ArpMalformed,
}

impl Malformed {
    /// Every variant, in the order of discriminants.
    pub const ALL: [Self; 19] = [
        Self::EthernetTruncated,
        Self::VlanTruncated,
        Self::VlanTooDeep,
        Self::Ipv4Truncated,
        Self::Ipv4HeaderLength,
        Self::Ipv4TotalLength,
        Self::Ipv4Checksum,
        Self::Ipv4Options,
        Self::Ipv4Fragment,
        Self::Ipv6Truncated,
        Self::Ipv6Version,
        Self::Ipv6PayloadLength,
        Self::Ipv6Extension,
        Self::Ipv6ExtensionsTooMany,
        Self::Ipv6Fragment,
        Self::UdpLength,
        Self::TcpLength,
        Self::IcmpTruncated,
        Self::ArpMalformed,
    ];

    /// The stable name used in counters and drop reasons.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EthernetTruncated => "ethernet_truncated",
            Self::VlanTruncated => "vlan_truncated",
            Self::VlanTooDeep => "vlan_too_deep",
            Self::Ipv4Truncated => "ipv4_truncated",
            Self::Ipv4HeaderLength => "ipv4_header_length",
            Self::Ipv4TotalLength => "ipv4_total_length",
            Self::Ipv4Checksum => "ipv4_checksum",
            Self::Ipv4Options => "ipv4_options",
            Self::Ipv4Fragment => "ipv4_fragment",
            Self::Ipv6Truncated => "ipv6_truncated",
            Self::Ipv6Version => "ipv6_version",
            Self::Ipv6PayloadLength => "ipv6_payload_length",
            Self::Ipv6Extension => "ipv6_extension",
            Self::Ipv6ExtensionsTooMany => "ipv6_extensions_too_many",
            Self::Ipv6Fragment => "ipv6_fragment",
            Self::UdpLength => "udp_length",
            Self::TcpLength => "tcp_length",
            Self::IcmpTruncated => "icmp_truncated",
            Self::ArpMalformed => "arp_malformed",
        }
    }
}

/// The most IPv6 extension headers [`dissect`] walks; one more is [`Malformed::Ipv6ExtensionsTooMany`].
pub const MAX_IPV6_EXTENSIONS: usize = 8;

/// Parses `frame` (from the Ethernet header, without FCS) once.
///
/// Checked: lengths of every header against the frame, the IPv4 header checksum, IPv4 option lengths, fragment
/// reach and overlap, order and number of IPv6 extension headers. Not checked: transport checksums, addresses.
/// Bytes behind the IP packet (Ethernet padding) are ignored. An IPv6 packet longer than 65,535 bytes (payload
/// length above 65,495, or a jumbogram of RFC 2675) does not fit [`Layout::ip_len`] and is refused.
///
/// Of a later fragment, `protocol` is what its own header says; behind an IPv6 fragment header that may be an
/// extension header, so IPv6 fragments of one datagram agree in addresses and identification only.
///
/// O(headers); allocates nothing.
///
/// # Errors
/// The first thing wrong with the frame. A frame of an unknown EtherType is not an error: `ip_version` is 0.
#[inline]
pub fn dissect(frame: &[u8]) -> Result<Layout, Malformed> {
    match plain_ipv4(frame) {
        Some(layout) => Ok(layout),
        None => general(frame),
    }
}

/// The fast path: an untagged, unfragmented UDP or TCP packet over IPv4 without options. `None` sends the frame to
/// [`general`], which knows what is wrong or unusual about it; both agree wherever this one answers.
#[inline]
fn plain_ipv4(frame: &[u8]) -> Option<Layout> {
    // Every field lies in the first 54 bytes, so one length check serves for all of them. Ethernet pads to 60.
    let head = frame.first_chunk::<54>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let ip_len = word(16);
    let proto = head[23];
    let usual = word(12) == ethertype::IPV4
        && head[14] == 0x45
        && word(20) & 0x3fff == 0
        && usize::from(ip_len) + 14 <= frame.len()
        && ip_len >= 28;
    if !usual || !ipv4_header_sum_is_valid(head[14..34].first_chunk()?) {
        return None;
    }
    let (payload_offset, tcp_flags) = match proto {
        protocol::UDP => {
            let udp_len = word(38);
            if udp_len < 8 || udp_len > ip_len - 20 {
                return None;
            }
            (42, 0)
        }
        protocol::TCP => {
            let header = u16::from(head[46] >> 4) * 4;
            if header < 20 || header > ip_len - 20 {
                return None;
            }
            (34 + header, head[47])
        }
        _ => return None,
    };
    Some(Layout {
        ethertype: ethertype::IPV4,
        vlan: [0; 2],
        vlan_tags: 0,
        ip_version: 4,
        protocol: proto,
        tos: head[15],
        l3_offset: 14,
        l4_offset: 34,
        payload_offset,
        ip_len,
        src_port: word(34),
        dst_port: word(36),
        tcp_flags,
        fragment: Fragment::Whole,
        fragment_id: 0,
    })
}

/// Whether the 20 bytes without options sum to all ones. The sum is the same in either byte order (RFC 1071 §2 B),
/// so words are taken as they lie in memory.
#[inline]
fn ipv4_header_sum_is_valid(header: &[u8; 20]) -> bool {
    let (quads, _) = header.as_chunks::<4>();
    let sum: u64 = quads.iter().map(|q| u64::from(u32::from_ne_bytes(*q))).sum();
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum == 0xffff
}

/// Any frame, step by step.
fn general(frame: &[u8]) -> Result<Layout, Malformed> {
    let mut layout = Layout::default();
    let l3 = link(frame, &mut layout)?;
    layout.l3_offset = l3 as u16;
    match layout.ethertype {
        ethertype::IPV4 => network_v4(frame, l3, layout),
        ethertype::IPV6 => network_v6(frame, l3, layout),
        ethertype::ARP => match frame.get(l3..).and_then(|p| p.first_chunk::<28>()) {
            // Hardware type Ethernet, protocol IPv4, address lengths 6 and 4 (RFC 826).
            Some([0, 1, 8, 0, 6, 4, ..]) => Ok(layout),
            _ => Err(Malformed::ArpMalformed),
        },
        _ => Ok(layout),
    }
}

/// Reads the Ethernet header and up to two tags; returns where the network header starts.
fn link(frame: &[u8], layout: &mut Layout) -> Result<usize, Malformed> {
    let header = frame.first_chunk::<14>().ok_or(Malformed::EthernetTruncated)?;
    layout.ethertype = u16::from_be_bytes([header[12], header[13]]);
    let mut at = 14;
    while ethertype::is_vlan(layout.ethertype) {
        let [a, b, c, d] = *chunk::<4>(frame, at).ok_or(Malformed::VlanTruncated)?;
        let tag = layout.vlan.get_mut(usize::from(layout.vlan_tags)).ok_or(Malformed::VlanTooDeep)?;
        *tag = u16::from_be_bytes([a, b]) & 0x0fff;
        layout.vlan_tags += 1;
        layout.ethertype = u16::from_be_bytes([c, d]);
        at += 4;
    }
    Ok(at)
}

/// Reads the IPv4 header at `l3` and what follows it.
fn network_v4(frame: &[u8], l3: usize, mut layout: Layout) -> Result<Layout, Malformed> {
    let fixed = chunk::<20>(frame, l3).ok_or(Malformed::Ipv4Truncated)?;
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    if fixed[0] >> 4 != 4 || header_len < 20 {
        return Err(Malformed::Ipv4HeaderLength);
    }
    let header = frame.get(l3..l3 + header_len).ok_or(Malformed::Ipv4Truncated)?;
    let ip_len = u16::from_be_bytes([fixed[2], fixed[3]]);
    let total = usize::from(ip_len);
    if total < header_len {
        return Err(Malformed::Ipv4TotalLength);
    }
    let packet = frame.get(..l3 + total).ok_or(Malformed::Ipv4TotalLength)?;
    if !Sum::ZERO.bytes(header).is_valid() {
        return Err(Malformed::Ipv4Checksum);
    }
    ipv4_options(&header[20..])?;

    layout.ip_version = 4;
    layout.tos = fixed[1];
    layout.ip_len = ip_len;
    layout.protocol = fixed[9];
    let field = u16::from_be_bytes([fixed[6], fixed[7]]);
    let (more, offset) = (field & 0x2000 != 0, usize::from(field & 0x1fff) * 8);
    if more || offset != 0 {
        layout.fragment_id = u32::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        layout.fragment = if offset == 0 { Fragment::First } else { Fragment::Later };
        if offset + total > usize::from(u16::MAX) || overlaps_tcp_header(layout.protocol, offset) {
            return Err(Malformed::Ipv4Fragment);
        }
    }
    if layout.fragment == Fragment::Later {
        return Ok(layout);
    }
    transport(packet, l3 + header_len, layout)
}

/// Checks that every option has its length and ends inside the header (RFC 791 §3.1).
fn ipv4_options(mut options: &[u8]) -> Result<(), Malformed> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    loop {
        match *options {
            [] | [END, ..] => return Ok(()),
            [NO_OPERATION, ref rest @ ..] => options = rest,
            [_, len, ..] if len >= 2 => {
                options = options.get(usize::from(len)..).ok_or(Malformed::Ipv4Options)?;
            }
            _ => return Err(Malformed::Ipv4Options),
        }
    }
}

/// A fragment at offset 8 would rewrite the second half of a TCP header after filters have seen the first
/// (RFC 1858 §4.2, RFC 3128).
fn overlaps_tcp_header(proto: u8, offset: usize) -> bool {
    proto == protocol::TCP && offset == 8
}

/// Reads the IPv6 header at `l3`, its extension headers and what follows them.
fn network_v6(frame: &[u8], l3: usize, mut layout: Layout) -> Result<Layout, Malformed> {
    let fixed = chunk::<40>(frame, l3).ok_or(Malformed::Ipv6Truncated)?;
    if fixed[0] >> 4 != 6 {
        return Err(Malformed::Ipv6Version);
    }
    let payload_len = u16::from_be_bytes([fixed[4], fixed[5]]);
    let ip_len = payload_len.checked_add(40).ok_or(Malformed::Ipv6PayloadLength)?;
    let packet = frame.get(..l3 + usize::from(ip_len)).ok_or(Malformed::Ipv6PayloadLength)?;
    layout.ip_version = 6;
    layout.tos = fixed[0] << 4 | fixed[1] >> 4;
    layout.ip_len = ip_len;
    layout.protocol = fixed[6];
    let l4 = ipv6_extensions(packet, l3 + 40, &mut layout)?;
    if layout.fragment == Fragment::Later || layout.protocol == protocol::IPV6_NO_NEXT {
        return Ok(layout);
    }
    transport(packet, l4, layout)
}

/// Walks the extension headers from `at` (RFC 8200 §4) and returns where the upper layer starts, or, in a later
/// fragment, where its data starts.
fn ipv6_extensions(packet: &[u8], mut at: usize, layout: &mut Layout) -> Result<usize, Malformed> {
    let mut seen = 0;
    let mut fragmented = false;
    while protocol::is_ipv6_extension(layout.protocol) {
        if seen == MAX_IPV6_EXTENSIONS {
            return Err(Malformed::Ipv6ExtensionsTooMany);
        }
        let is_fragment_header = layout.protocol == protocol::IPV6_FRAGMENT;
        // Hop-by-hop options only directly behind the IPv6 header; one fragment header at most (§4.1).
        let misplaced = layout.protocol == protocol::IPV6_HOP_BY_HOP && seen != 0;
        if misplaced || is_fragment_header && fragmented {
            return Err(Malformed::Ipv6Extension);
        }
        // The shortest extension header has 8 bytes.
        let head = chunk::<8>(packet, at).ok_or(Malformed::Ipv6Extension)?;
        let len = ipv6_ext::header_len(layout.protocol, head);
        if layout.protocol == protocol::AH && len < ipv6_ext::AH_MIN_LEN {
            return Err(Malformed::Ipv6Extension);
        }
        layout.protocol = head[0];
        seen += 1;
        at += len;
        if at > packet.len() {
            return Err(Malformed::Ipv6Extension);
        }
        if is_fragment_header {
            fragmented = true;
            ipv6_fragment(head, packet.len() - at, layout)?;
            if layout.fragment == Fragment::Later {
                break;
            }
        }
    }
    Ok(at)
}

/// Notes what a fragment header with `data_len` bytes behind it says. An atomic fragment (offset 0, no more) is a
/// whole datagram (RFC 6946).
fn ipv6_fragment(header: &[u8; 8], data_len: usize, layout: &mut Layout) -> Result<(), Malformed> {
    let field = u16::from_be_bytes([header[2], header[3]]);
    let (more, offset) = (field & 1 != 0, usize::from(field & 0xfff8));
    if !more && offset == 0 {
        return Ok(());
    }
    if offset + data_len > usize::from(u16::MAX) || overlaps_tcp_header(layout.protocol, offset) {
        return Err(Malformed::Ipv6Fragment);
    }
    layout.fragment = if offset == 0 { Fragment::First } else { Fragment::Later };
    layout.fragment_id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    Ok(())
}

/// Reads the transport header at `l4` of `packet`, which ends where the IP packet ends.
fn transport(packet: &[u8], l4: usize, mut layout: Layout) -> Result<Layout, Malformed> {
    let data = packet.get(l4..).unwrap_or_default();
    let at = l4 as u16;
    layout.l4_offset = at;
    match (layout.protocol, layout.ip_version) {
        (protocol::UDP, _) => {
            let header = data.first_chunk::<8>().ok_or(Malformed::UdpLength)?;
            let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            // The length counts the whole datagram, of which a first fragment holds a part. Bytes behind it are
            // legal (surplus area, RFC 9868 §4).
            if len < 8 || (len > data.len() && layout.fragment == Fragment::Whole) {
                return Err(Malformed::UdpLength);
            }
            set_ports(&mut layout, [header[0], header[1], header[2], header[3]]);
            layout.payload_offset = at + 8;
        }
        (protocol::TCP, _) => {
            let header = data.first_chunk::<20>().ok_or(Malformed::TcpLength)?;
            let header_len = u16::from(header[12] >> 4) * 4;
            if header_len < 20 || usize::from(header_len) > data.len() {
                return Err(Malformed::TcpLength);
            }
            set_ports(&mut layout, [header[0], header[1], header[2], header[3]]);
            layout.tcp_flags = header[13];
            layout.payload_offset = at + header_len;
        }
        (protocol::ICMPV4, 4) | (protocol::ICMPV6, 6) => {
            let header = data.first_chunk::<8>().ok_or(Malformed::IcmpTruncated)?;
            layout.src_port = u16::from_be_bytes([header[0], header[1]]);
            layout.payload_offset = at + 8;
        }
        _ if data.is_empty() => layout.l4_offset = 0,
        _ => {}
    }
    Ok(layout)
}

fn set_ports(layout: &mut Layout, ports: [u8; 4]) {
    layout.src_port = u16::from_be_bytes([ports[0], ports[1]]);
    layout.dst_port = u16::from_be_bytes([ports[2], ports[3]]);
}

/// The TTL or hop limit is used up: the packet must not be forwarded and deserves an ICMP time exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error("time to live expired in transit")]
pub struct TtlExpired;

/// Writes `dscp` into the IPv4 TOS octet (with the header checksum) or the IPv6 traffic class, keeping the ECN bits,
/// and into `layout.tos`. Does nothing to a frame that is not IP. O(1).
#[inline]
pub fn set_dscp(frame: &mut [u8], layout: &mut Layout, dscp: Dscp) {
    set_tos(frame, layout, dscp.get() << 2 | layout.tos & 0b11);
}

/// Marks congestion experienced (RFC 3168 §5): turns ECT(0) or ECT(1) into CE and returns true; returns true as well
/// if the packet is CE already, and false, changing nothing, if its transport does not support ECN. O(1).
#[inline]
pub fn set_ecn_ce(frame: &mut [u8], layout: &mut Layout) -> bool {
    let capable = layout.ip_version != 0 && layout.tos & 0b11 != 0;
    if capable {
        set_tos(frame, layout, layout.tos | 0b11);
    }
    capable
}

#[inline]
fn set_tos(frame: &mut [u8], layout: &mut Layout, tos: u8) {
    let l3 = usize::from(layout.l3_offset);
    match layout.ip_version {
        4 => {
            let Some(header) = chunk_mut(frame, l3) else { return };
            ipv4::ViewMut::over(header).set_tos(tos);
        }
        6 => {
            let Some(start) = chunk_mut(frame, l3) else { return };
            ipv6::ViewMut::over(start).set_traffic_class(tos);
        }
        _ => return,
    }
    layout.tos = tos;
}

/// Takes one from the TTL (with the header checksum) or hop limit. Does nothing to a frame that is not IP. O(1).
///
/// # Errors
/// [`TtlExpired`] if it is 0 or 1; nothing is changed then.
#[inline]
pub fn decrement_ttl(frame: &mut [u8], layout: &Layout) -> Result<(), TtlExpired> {
    let l3 = usize::from(layout.l3_offset);
    match layout.ip_version {
        4 => chunk_mut(frame, l3).map_or(Ok(()), |header| ipv4::ViewMut::over(header).decrement_ttl()),
        6 => chunk_mut(frame, l3).map_or(Ok(()), |start| ipv6::ViewMut::over(start).decrement_hop_limit()),
        _ => Ok(()),
    }
}

/// Writes the TCP window field, before scaling, and updates the checksum; true if `layout` is of a TCP segment with
/// its header. O(1).
#[inline]
pub fn set_tcp_window(frame: &mut [u8], layout: &Layout, window: u16) -> bool {
    let l4 = usize::from(layout.l4_offset);
    if layout.protocol != protocol::TCP || l4 == 0 {
        return false;
    }
    let Some(header) = chunk_mut(frame, l4) else { return false };
    tcp::ViewMut::over(header).set_window(window);
    true
}

/// Writes the priority code point `pcp` (0–7, higher bits ignored) of the outer VLAN tag; true if there is one. O(1).
#[inline]
pub fn set_vlan_pcp(frame: &mut [u8], layout: &Layout, pcp: u8) -> bool {
    let tag = frame.get_mut(14..).filter(|_| layout.vlan_tags != 0);
    let Some(Ok(mut tag)) = tag.map(vlan::ViewMut::new_checked) else { return false };
    tag.set_pcp(pcp);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, FrameBuilder};
    use crate::{Ecn, tcp};
    use proptest::prelude::*;

    /// 64-byte UDP frame without FCS: 10.0.0.1:5004 > 10.1.0.2:5006, 18 bytes of payload, DSCP EF.
    fn udp() -> [u8; 60] {
        let mut f = [0u8; 60];
        f[12] = 8;
        f[14..42].copy_from_slice(&[
            0x45, 0xb8, 0, 46, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 2, 0x13, 0x8c, 0x13, 0x8e,
            0, 26, 0, 0,
        ]);
        let sum = crate::checksum::of(&f[14..34]);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        f
    }

    #[test]
    fn plain_udp() {
        let layout = dissect(&udp()).unwrap();
        let expected = Layout {
            ethertype: 0x0800,
            ip_version: 4,
            protocol: 17,
            tos: 0xb8,
            l3_offset: 14,
            l4_offset: 34,
            payload_offset: 42,
            ip_len: 46,
            src_port: 5004,
            dst_port: 5006,
            ..Layout::default()
        };
        assert_eq!(layout, expected);
        assert_eq!(general(&udp()), Ok(expected));
        assert!(size_of::<Layout>() <= 40);
    }

    #[test]
    fn every_cut_and_flip_is_an_error_or_the_same_in_both_paths() {
        let frame = udp();
        for cut in 0..60 {
            assert!(dissect(&frame[..cut]).is_err());
        }
        for bit in 0..60 * 8 {
            let mut f = frame;
            f[bit / 8] ^= 1 << (bit % 8);
            if let Some(layout) = plain_ipv4(&f) {
                assert_eq!(general(&f), Ok(layout));
            }
            if (14 * 8..34 * 8).contains(&bit) {
                // One flipped bit in the header never survives the checksum.
                assert!(dissect(&f).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn rewriting_keeps_the_checksum() {
        let mut frame = udp();
        let mut layout = dissect(&frame).unwrap();
        set_dscp(&mut frame, &mut layout, Dscp::new(10).unwrap());
        decrement_ttl(&mut frame, &layout).unwrap();
        assert_eq!(dissect(&frame), Ok(layout));
        assert_eq!((frame[15], frame[22]), (40, 63));
        assert!(!set_ecn_ce(&mut frame, &mut layout));
    }

    #[test]
    fn names_are_distinct() {
        let mut names = Malformed::ALL.map(Malformed::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
        assert!(Malformed::ALL.iter().enumerate().all(|(i, m)| *m as usize == i));
    }

    fn base(kind: u8) -> FrameBuilder {
        let (a, b) = ([10, 0, 0, 1], [10, 1, 0, 2]);
        let (c, d) = ([0xfd00, 0, 0, 0, 0, 0, 0, 1], [0xfd00, 0, 0, 0, 0, 0, 0, 2]);
        match kind {
            0 => build::udp4(a, b).ports(5004, 5006).payload_len(20),
            1 => build::udp6(c, d).ports(5004, 5006).payload_len(20),
            2 => build::tcp4(a, b).ports(80, 1024).options(&[1, 1, 1]),
            3 => build::tcp6(c, d).ports(80, 1024).tcp(|t| t.options.timestamps = Some((1, 2))),
            _ => build::icmp4_echo(a, b, 1, 2),
        }
    }

    proptest! {
        #[test]
        fn rewriting_equals_building_anew(
            kind in 0u8..5, tags in 0u16..3, dscp in (0u8..64, 0u8..64), ecn in 0u8..4, ttl: u8, window: (u16, u16),
        ) {
            let mut old = base(kind);
            for vid in 0..tags {
                old = old.vlan(vid + 1, 3);
            }
            let (before, after) = (Dscp::new(dscp.0).unwrap(), Dscp::new(dscp.1).unwrap());
            let old = old.dscp(before).ecn(Ecn::from_octet(ecn)).ttl(ttl).window(window.0);
            let mut frame = old.build();
            let mut layout = dissect(&frame).unwrap();
            set_dscp(&mut frame, &mut layout, after);
            let marked = set_ecn_ce(&mut frame, &mut layout);
            let lived = decrement_ttl(&mut frame, &layout).is_ok();
            let clamped = set_tcp_window(&mut frame, &layout, window.1);
            prop_assert_eq!((marked, lived, clamped), (ecn != 0, ttl > 1, kind == 2 || kind == 3));
            let new = old.dscp(after).ecn(if marked { Ecn::Ce } else { Ecn::NotEct }).window(window.1);
            let new = new.ttl(if lived { ttl - 1 } else { ttl });
            prop_assert_eq!(&frame, &new.build());
            prop_assert_eq!(dissect(&frame), Ok(layout));
        }

        #[test]
        fn no_frame_and_no_foreign_layout_panics(
            mut frame in proptest::collection::vec(any::<u8>(), 0..100), kind in 0u8..5,
        ) {
            let _ = dissect(&frame);
            let mut layout = dissect(&base(kind).vlan(1, 1).build()).unwrap();
            set_dscp(&mut frame, &mut layout, Dscp::EF);
            set_ecn_ce(&mut frame, &mut layout);
            let _ = decrement_ttl(&mut frame, &layout);
            set_tcp_window(&mut frame, &layout, 1);
            set_vlan_pcp(&mut frame, &layout, 1);
        }
    }

    #[test]
    fn priority_of_the_outer_tag() {
        let mut frame = base(0).vlan(7, 1).vlan(8, 2).build();
        let layout = dissect(&frame).unwrap();
        assert!(set_vlan_pcp(&mut frame, &layout, 6));
        assert_eq!(frame, base(0).vlan(7, 6).vlan(8, 2).build());
        assert!(!set_vlan_pcp(&mut frame, &Layout::default(), 6));
    }

    #[test]
    fn every_fault_has_its_name() {
        let v4 = || base(2).build();
        let v6 = || base(1).build();
        let edit = |mut frame: Vec<u8>, edits: &[(usize, u8)]| {
            for (at, value) in edits {
                frame[*at] = *value;
            }
            if frame[12..14] == [8, 0] && (5..=10).contains(&(frame[14] & 15)) {
                let end = 14 + usize::from(frame[14] & 15) * 4;
                frame[24..26].fill(0);
                let sum = crate::checksum::of(&frame[14..end]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            frame
        };
        let check = |frame: &[u8], error: Malformed| assert_eq!(dissect(frame), Err(error), "{frame:02x?}");
        check(&v4()[..13], Malformed::EthernetTruncated);
        check(&base(0).vlan(1, 0).build()[..17], Malformed::VlanTruncated);
        check(&base(0).vlan(1, 0).vlan(1, 0).vlan(1, 0).build(), Malformed::VlanTooDeep);
        check(&v4()[..33], Malformed::Ipv4Truncated);
        check(&edit(v4(), &[(14, 0x44)]), Malformed::Ipv4HeaderLength);
        check(&edit(v4(), &[(14, 0x55)]), Malformed::Ipv4HeaderLength);
        check(&edit(v4(), &[(16, 4)]), Malformed::Ipv4TotalLength);
        check(&edit(v4(), &[(17, 10)]), Malformed::Ipv4TotalLength);
        let mut broken = v4();
        broken[22] ^= 1;
        check(&broken, Malformed::Ipv4Checksum);
        check(&edit(v4(), &[(34, 7), (35, 0)]), Malformed::Ipv4Options);
        check(&edit(v4(), &[(34, 7), (35, 1)]), Malformed::Ipv4Options);
        check(&edit(v4(), &[(34, 7), (35, 5)]), Malformed::Ipv4Options);
        check(&base(2).fragment(8, false).build(), Malformed::Ipv4Fragment);
        check(&base(0).fragment(65_528, false).build(), Malformed::Ipv4Fragment);
        check(&v6()[..53], Malformed::Ipv6Truncated);
        check(&edit(v6(), &[(14, 0x40)]), Malformed::Ipv6Version);
        check(&edit(v6(), &[(18, 1)]), Malformed::Ipv6PayloadLength);
        check(&edit(v6(), &[(18, 255), (19, 255)]), Malformed::Ipv6PayloadLength);
        check(&base(1).extension(60, &[]).extension(0, &[]).build(), Malformed::Ipv6Extension);
        check(&edit(base(1).extension(60, &[]).build(), &[(55, 9)]), Malformed::Ipv6Extension);
        let deep = (0..9).fold(base(1), |b, _| b.extension(60, &[]));
        check(&deep.build(), Malformed::Ipv6ExtensionsTooMany);
        check(&base(3).fragment(8, true).build(), Malformed::Ipv6Fragment);
        check(&base(1).fragment(65_528, false).build(), Malformed::Ipv6Fragment);
        check(&edit(v6(), &[(58, 1)]), Malformed::UdpLength);
        check(&edit(v6(), &[(59, 7)]), Malformed::UdpLength);
        check(&edit(v4(), &[(14 + 24 + 12, 0x40)]), Malformed::TcpLength);
        check(&edit(v4(), &[(14 + 24 + 12, 0xf0)]), Malformed::TcpLength);
        check(&edit(base(4).build(), &[(17, 27)]), Malformed::IcmpTruncated);
        check(&edit(v4(), &[(12, 8), (13, 6)]), Malformed::ArpMalformed);
    }

    #[test]
    fn what_is_not_ip_passes() {
        let mut frame = vec![0; 60];
        frame[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        let arp = dissect(&frame).unwrap();
        assert_eq!((arp.ethertype, arp.ip_version, arp.l3_offset, arp.l4_offset), (0x0806, 0, 14, 0));
        frame[12..14].copy_from_slice(&[0, 38]);
        assert_eq!(dissect(&frame).unwrap().ethertype, 38);
        let esp = {
            let mut frame = base(0).build();
            frame[23] = protocol::ESP;
            frame[24..26].fill(0);
            let sum = crate::checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            dissect(&frame).unwrap()
        };
        assert_eq!((esp.protocol, esp.l4_offset, esp.payload_offset, esp.src_port), (50, 34, 0, 0));
        let flags = base(2).flags(tcp::flags::SYN | tcp::flags::ECE).build();
        assert_eq!(dissect(&flags).unwrap().tcp_flags, 0x42);
    }
}
