//! Rules that choose a table by more than the destination: policy routing.
//!
//! Source: ip-rule(8); RFC 1104 §4 (policy based routing).

use super::fib::TOS_MASK;
use super::route::{destination, source};
use ipnet::IpNet;
use perhop_packet::{Meta, PortId};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What rules and routes ask of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its source.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
    /// The port it came in by; none: this machine made it.
    pub in_port: PortId,
    /// Type of service or traffic class, the whole octet.
    pub tos: u8,
    /// Its transport protocol.
    pub protocol: u8,
    /// Source and destination port; 0 where there are none.
    pub ports: [u16; 2],
}

impl Asked {
    /// What a packet says.
    pub(super) fn of(frame: &[u8], meta: &Meta) -> Self {
        let layout = &meta.layout;
        let (src, dst) = (source(frame, layout), destination(frame, layout));
        let octet = |at: usize| frame.get(usize::from(layout.l3_offset) + at).copied().unwrap_or(0);
        let tos = if dst.is_ipv4() { octet(1) } else { octet(0) << 4 | octet(1) >> 4 };
        let ports = [layout.src_port, layout.dst_port];
        Self { src, dst, in_port: meta.in_port, tos, protocol: layout.protocol, ports }
    }
}

/// By which interface a packet must have come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// By any, or by none.
    Anywhere,
    /// By one of these ports.
    Ports(Box<[PortId]>),
    /// By none: this machine made it.
    ThisMachine,
}

/// What follows when a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// A table decides, unless it has no route.
    Table {
        /// Its number.
        table: u32,
        /// Routes of prefixes no longer than this count as none.
        suppress: Option<u8>,
    },
    /// The table of the port's own (VRF) decides, by port.
    TableOfPort(Box<[Option<u32>]>),
    /// Goes on at the first rule of this priority, or at the next where there is none.
    GoTo(u32),
    /// Goes on.
    Nothing,
    /// Drops without a word.
    Blackhole,
    /// Drops; the sender is told that the network is unreachable.
    Unreachable,
    /// Drops; the sender is told that it is prohibited.
    Prohibit,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is about IPv6.
    pub v6: bool,
    /// The lower come first.
    pub priority: u32,
    /// Whether it matches what it otherwise would not.
    pub inverted: bool,
    /// What a router cannot match: marks, interfaces of departure, users. It matches nothing.
    pub never: bool,
    /// Sources.
    pub from: Option<IpNet>,
    /// Destinations.
    pub to: Option<IpNet>,
    /// Where the packet came in.
    pub arrives: Arrival,
    /// Type of service; 0: any.
    pub tos: u8,
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Transport protocol.
    pub protocol: Option<u8>,
    /// Source ports.
    pub source_ports: Option<RangeInclusive<u16>>,
    /// Destination ports.
    pub dest_ports: Option<RangeInclusive<u16>>,
    /// What follows.
    pub then: Then,
    /// The rule in words, as `ip rule` writes it.
    pub said: Arc<str>,
}

impl Rule {
    pub(super) fn matches(&self, asked: &Asked) -> bool {
        let arrives = match &self.arrives {
            Arrival::Anywhere => true,
            Arrival::Ports(ports) => ports.contains(&asked.in_port),
            Arrival::ThisMachine => !asked.in_port.is_some(),
        };
        // The older notion of IPv4 is three bits; that of IPv6 has always been the whole octet.
        let octet = if asked.dst.is_ipv4() { asked.tos & TOS_MASK } else { asked.tos & 0xfc };
        let within =
            |range: &Option<RangeInclusive<u16>>, port| range.as_ref().is_none_or(|r| r.contains(&port));
        let all = arrives
            && !self.never
            && self.from.is_none_or(|net| net.contains(&asked.src))
            && self.to.is_none_or(|net| net.contains(&asked.dst))
            && (self.tos == 0 || self.tos == octet)
            && self.dscp.is_none_or(|dscp| dscp == asked.tos >> 2)
            && self.protocol.is_none_or(|number| number == asked.protocol)
            && within(&self.source_ports, asked.ports[0])
            && within(&self.dest_ports, asked.ports[1]);
        all != self.inverted
    }
}
