//! Whole frames with right lengths and checksums, for tests, traffic sources and benches.
//!
//! ```
//! use perhop_units::Dscp;
//! use perhop_wire::{build, dissect};
//!
//! let frame = build::udp4([10, 0, 0, 1], [10, 1, 0, 2]).ports(5004, 5006).dscp(Dscp::EF).payload(b"hello").build();
//! let layout = dissect(&frame)?;
//! assert_eq!((frame.len(), layout.ip_len, layout.dst_port), (60, 33, 5006));
//! # Ok::<(), perhop_wire::Malformed>(())
//! ```

mod packet;

use crate::{Ecn, MacAddr, ethernet, ethertype, icmpv4, icmpv6, tcp, tcp_options, udp, vlan};
use perhop_units::Dscp;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A UDP datagram over IPv4, ports 0 until [`FrameBuilder::ports`].
pub fn udp4(src: impl Into<Ipv4Addr>, dst: impl Into<Ipv4Addr>) -> FrameBuilder {
    FrameBuilder::new(Addresses::V4(src.into(), dst.into()), Transport::Udp(udp::Repr::default()))
}

/// A UDP datagram over IPv6.
pub fn udp6(src: impl Into<Ipv6Addr>, dst: impl Into<Ipv6Addr>) -> FrameBuilder {
    FrameBuilder::new(Addresses::V6(src.into(), dst.into()), Transport::Udp(udp::Repr::default()))
}

/// A TCP segment over IPv4: ACK, window 65,535.
pub fn tcp4(src: impl Into<Ipv4Addr>, dst: impl Into<Ipv4Addr>) -> FrameBuilder {
    FrameBuilder::new(Addresses::V4(src.into(), dst.into()), Transport::Tcp(PLAIN_SEGMENT))
}

/// A TCP segment over IPv6.
pub fn tcp6(src: impl Into<Ipv6Addr>, dst: impl Into<Ipv6Addr>) -> FrameBuilder {
    FrameBuilder::new(Addresses::V6(src.into(), dst.into()), Transport::Tcp(PLAIN_SEGMENT))
}

/// An ICMP echo request.
pub fn icmp4_echo(
    src: impl Into<Ipv4Addr>,
    dst: impl Into<Ipv4Addr>,
    identifier: u16,
    sequence: u16,
) -> FrameBuilder {
    let echo = icmpv4::Repr::EchoRequest { identifier, sequence };
    FrameBuilder::new(Addresses::V4(src.into(), dst.into()), Transport::Icmpv4(echo))
}

/// An ICMPv6 echo request.
pub fn icmp6_echo(
    src: impl Into<Ipv6Addr>,
    dst: impl Into<Ipv6Addr>,
    identifier: u16,
    sequence: u16,
) -> FrameBuilder {
    let echo = icmpv6::Repr::EchoRequest { identifier, sequence };
    FrameBuilder::new(Addresses::V6(src.into(), dst.into()), Transport::Icmpv6(echo))
}

const PLAIN_SEGMENT: tcp::Repr = tcp::Repr {
    src_port: 0,
    dst_port: 0,
    seq: 0,
    ack: 0,
    flags: tcp::flags::ACK,
    window: u16::MAX,
    urgent: 0,
    options: tcp_options::Repr {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: tcp_options::SackBlocks::NONE,
    },
};

#[derive(Clone, Copy, Debug)]
enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

#[derive(Clone, Copy, Debug)]
enum Transport {
    Udp(udp::Repr),
    Tcp(tcp::Repr),
    Icmpv4(icmpv4::Repr),
    Icmpv6(icmpv6::Repr),
}

/// A frame to be. Setters that do not concern its protocol do nothing.
#[derive(Clone, Debug)]
#[must_use]
pub struct FrameBuilder {
    src_mac: MacAddr,
    dst_mac: MacAddr,
    tags: Vec<(u16, u8)>,
    addresses: Addresses,
    dscp: Dscp,
    ecn: Ecn,
    ttl: u8,
    identification: u32,
    dont_fragment: bool,
    fragment: Option<(u16, bool)>,
    options: Vec<u8>,
    extensions: Vec<(u8, Vec<u8>)>,
    flow_label: u32,
    transport: Transport,
    payload: Vec<u8>,
    ip_len: Option<u16>,
}

impl FrameBuilder {
    fn new(addresses: Addresses, transport: Transport) -> Self {
        Self {
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            tags: Vec::new(),
            addresses,
            dscp: Dscp::BE,
            ecn: Ecn::NotEct,
            ttl: 64,
            identification: 0,
            dont_fragment: false,
            fragment: None,
            options: Vec::new(),
            extensions: Vec::new(),
            flow_label: 0,
            transport,
            payload: Vec::new(),
            ip_len: None,
        }
    }

    /// Ethernet addresses; 02:00:00:00:00:01 to …:02 unless set.
    pub fn macs(mut self, src: MacAddr, dst: MacAddr) -> Self {
        (self.src_mac, self.dst_mac) = (src, dst);
        self
    }
    /// Adds a VLAN tag inside those there are. The outer one of several is a service tag (0x88a8), others 0x8100.
    pub fn vlan(mut self, vid: u16, pcp: u8) -> Self {
        self.tags.push((vid, pcp));
        self
    }
    /// Code point.
    pub fn dscp(mut self, dscp: Dscp) -> Self {
        self.dscp = dscp;
        self
    }
    /// ECN field.
    pub fn ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = ecn;
        self
    }
    /// TTL or hop limit; 64 unless set.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }
    /// Identification; in IPv4 the lower 16 bits, in IPv6 only sent in fragments.
    pub fn identification(mut self, identification: u32) -> Self {
        self.identification = identification;
        self
    }
    /// Forbids fragmentation (IPv4).
    pub fn dont_fragment(mut self) -> Self {
        self.dont_fragment = true;
        self
    }
    /// Makes the packet a fragment at `offset` bytes (a multiple of 8). At an offset above 0 the payload follows the
    /// IP header directly, without transport header.
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        self.fragment = Some((offset, more));
        self
    }
    /// IPv4 options, padded to a multiple of 4.
    pub fn options(mut self, options: &[u8]) -> Self {
        self.options = options.to_vec();
        self
    }
    /// Adds an IPv6 extension header of type `kind` with `data` behind its next-header and length octets, padded with
    /// zeros. Fragment headers come from [`Self::fragment`].
    pub fn extension(mut self, kind: u8, data: &[u8]) -> Self {
        self.extensions.push((kind, data.to_vec()));
        self
    }
    /// IPv6 flow label.
    pub fn flow_label(mut self, label: u32) -> Self {
        self.flow_label = label;
        self
    }
    /// Ports of UDP or TCP.
    pub fn ports(mut self, src: u16, dst: u16) -> Self {
        match &mut self.transport {
            Transport::Udp(udp) => (udp.src_port, udp.dst_port) = (src, dst),
            Transport::Tcp(tcp) => (tcp.src_port, tcp.dst_port) = (src, dst),
            _ => {}
        }
        self
    }
    /// Changes the TCP header.
    pub fn tcp(mut self, change: impl FnOnce(&mut tcp::Repr)) -> Self {
        if let Transport::Tcp(tcp) = &mut self.transport {
            change(tcp);
        }
        self
    }
    /// TCP flags ([`tcp::flags`]).
    pub fn flags(self, flags: u8) -> Self {
        self.tcp(|tcp| tcp.flags = flags)
    }
    /// TCP sequence and acknowledgment numbers.
    pub fn seq_ack(self, seq: u32, ack: u32) -> Self {
        self.tcp(|tcp| (tcp.seq, tcp.ack) = (seq, ack))
    }
    /// TCP window, unscaled.
    pub fn window(self, window: u16) -> Self {
        self.tcp(|tcp| tcp.window = window)
    }
    /// Another ICMP message in place of the echo request.
    pub fn icmpv4(mut self, message: icmpv4::Repr) -> Self {
        if let Transport::Icmpv4(repr) = &mut self.transport {
            *repr = message;
        }
        self
    }
    /// Another ICMPv6 message in place of the echo request.
    pub fn icmpv6(mut self, message: icmpv6::Repr) -> Self {
        if let Transport::Icmpv6(repr) = &mut self.transport {
            *repr = message;
        }
        self
    }
    /// What follows the transport header.
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }
    /// A payload of `len` zeros.
    pub fn payload_len(mut self, len: usize) -> Self {
        self.payload = vec![0; len];
        self
    }
    /// Cuts the payload or fills it with zeros so that the IP length is `len`, or as near as the headers allow.
    pub fn ip_len(mut self, len: u16) -> Self {
        self.ip_len = Some(len);
        self
    }

    /// The frame, without FCS, padded with zeros to 60 bytes.
    ///
    /// # Panics
    /// If the IP packet would exceed 65,535 bytes, or IPv4 options 40 bytes.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        let packet = self.build_ip();
        let ip_type = if packet[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
        let tag_type = |i: usize| match i {
            _ if i == self.tags.len() => ip_type,
            0 if self.tags.len() > 1 => ethertype::VLAN_SERVICE,
            _ => ethertype::VLAN,
        };
        let mut frame = vec![0; ethernet::HEADER_LEN + vlan::HEADER_LEN * self.tags.len()];
        ethernet::Repr { dst: self.dst_mac, src: self.src_mac, ethertype: tag_type(0) }.emit(&mut frame);
        for (i, &(vid, pcp)) in self.tags.iter().enumerate() {
            let tag = vlan::Repr { pcp, drop_eligible: false, vid, ethertype: tag_type(i + 1) };
            tag.emit(&mut frame[ethernet::HEADER_LEN + vlan::HEADER_LEN * i..]);
        }
        frame.extend(packet);
        if frame.len() < ethernet::MIN_FRAME_LEN {
            frame.resize(ethernet::MIN_FRAME_LEN, 0);
        }
        frame
    }

    /// The IP packet alone.
    ///
    /// # Panics
    /// As [`Self::build`].
    #[must_use]
    pub fn build_ip(&self) -> Vec<u8> {
        let mut packet = match self.addresses {
            Addresses::V4(..) => vec![0; self.ipv4(0).len()],
            Addresses::V6(..) => self.ipv6_headers(),
        };
        let headers = packet.len();
        packet.extend(self.upper(headers));
        let len = u16::try_from(packet.len()).expect("an IP packet has at most 65,535 bytes");
        match self.addresses {
            Addresses::V4(..) => self.ipv4(len - headers as u16).emit(&mut packet),
            Addresses::V6(..) => packet[4..6].copy_from_slice(&(len - 40).to_be_bytes()),
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fragment, dissect, protocol};

    #[test]
    fn lengths() {
        let base = udp4([10, 0, 0, 1], [10, 0, 0, 2]).ports(1, 2);
        assert_eq!(base.build().len(), 60);
        assert_eq!(base.clone().ip_len(1500).build().len(), 1514);
        assert_eq!(dissect(&base.clone().ip_len(5).build()).unwrap().ip_len, 28);
        assert_eq!(dissect(&base.clone().payload_len(100).build()).unwrap().ip_len, 128);
        let tagged = base.vlan(7, 5).vlan(9, 1).ip_len(100).build();
        let layout = dissect(&tagged).unwrap();
        assert_eq!((layout.vlan, layout.vlan_tags, layout.l3_offset, tagged.len()), ([7, 9], 2, 22, 122));
        assert_eq!(tagged[12..14], [0x88, 0xa8]);
    }

    #[test]
    fn extensions_and_fragments() {
        let base = tcp6([0xfe80, 0, 0, 0, 0, 0, 0, 1], [0xfe80, 0, 0, 0, 0, 0, 0, 2])
            .ports(80, 1024)
            .payload_len(20);
        let frame = base
            .clone()
            .extension(protocol::IPV6_HOP_BY_HOP, &[])
            .extension(protocol::AH, &[0; 22])
            .fragment(0, true)
            .identification(0x0102_0304)
            .build();
        let layout = dissect(&frame).unwrap();
        assert_eq!(
            (layout.protocol, layout.l4_offset, layout.ip_len),
            (6, 14 + 40 + 8 + 24 + 8, 40 + 40 + 40)
        );
        assert_eq!(
            (layout.fragment, layout.fragment_id, layout.dst_port),
            (Fragment::First, 0x0102_0304, 1024)
        );
        let later = dissect(&base.fragment(1232, false).build()).unwrap();
        assert_eq!((later.fragment, later.l4_offset, later.ip_len), (Fragment::Later, 0, 40 + 8 + 20));
    }
}
