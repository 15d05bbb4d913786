//! One parse of a frame: where its headers are and what the data plane asks of them.
//!
//! [`dissect`] reads every header once, at receive; later stages use the offsets of [`Layout`]. The functions that
//! rewrite a header ([`set_dscp`], [`set_ecn_ce`], [`decrement_ttl`], [`set_tcp_window`], [`set_vlan_pcp`]) keep
//! frame, checksum and layout in step.

mod dissect;
mod rewrite;

pub use crate::ipv6_ext::MAX_IPV6_EXTENSIONS;
pub use dissect::{dissect, dissect_link, dissect_packet};
pub use rewrite::{decrement_ttl, set_dscp, set_ecn_ce, set_tcp_window, set_vlan_pcp};

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

impl Layout {
    /// Whether the transport supports ECN: the packet is IP, and its field says ECT or CE (RFC 3168 §5).
    #[inline]
    pub fn is_ecn_capable(&self) -> bool {
        self.ip_version != 0 && self.tos & 0b11 != 0
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let mut names = Malformed::ALL.map(Malformed::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|w| w[0] != w[1]));
        assert!(Malformed::ALL.iter().enumerate().all(|(i, m)| *m as usize == i));
    }

    #[test]
    fn a_layout_is_small() {
        assert!(size_of::<Layout>() <= 40);
    }
}
