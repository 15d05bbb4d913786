//! # Synopsis
//! `IcmpError` tells senders why the router dropped their packets.
//!
//! # Ports
//! No input. Output 0: ICMP and ICMPv6 errors, to be connected to `Route`.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `rate` | number | messages/s | 1000 | 1 … 1,000,000 |
//! | `burst` | number | messages | 50 | 1 … 100,000 |
//!
//! The ports' addresses come while running ([`IcmpError::set_ports`]).
//!
//! # Behaviour
//! One a worker. The driver wakes it when other elements have rejected packets; those are booked as dropped there,
//! the answers count as made here. No answer goes to ICMP errors and redirects, later fragments, packets to groups
//! (but "packet too big" of IPv6), broadcast frames, and sources that are not one host. An answer quotes as much of
//! the packet as fits 576 bytes (IPv4) or 1,280 bytes (IPv6), has code point CS6 and TTL 64. Its source is an address
//! of the port the packet came in by, of the network of its destination if there is one, else of any port, else of any interface.
//! A token bucket limits all answers together.
//!
//! # Counters
//! `sent`, `forbidden`, `rate_limited`, `no_source` (no address of that family), `no_buffer`.
//!
//! # Invariants
//! In any time t at most `rate` × t + `burst` answers. No answer is ever the answer to an answer.
//!
//! # Example
//! `r :: Route(2); icmp :: IcmpError; icmp -> r`
//!
//! # Source
//! RFC 792, RFC 1122 §3.2.2, RFC 1812 §4.3.2 (quote, code point, source, rate), RFC 1191 §4, RFC 4443 §2.2, §2.4 and §3.

use super::limit::RateLimit;
use super::route::PortInfo;
use crate::plumbing::adapter::as_any;
use ipnet::IpNet;
use perhop_element::{CounterSink, Cx, Element, ElementState, PortIndex, Reject, TimerId};
use perhop_packet::{Batch, DropReason, Packet, PortId};
use perhop_units::Dscp;
use perhop_wire::checksum::pseudo_header_v6;
use perhop_wire::{Fragment, ethernet, ethertype, icmpv4, icmpv6, ipv4, ipv6, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parameters of [`IcmpError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpErrorConfig {
    /// Messages a second, at least 1.
    pub rate: u32,
    /// Messages at once.
    pub burst: u32,
}

impl Default for IcmpErrorConfig {
    fn default() -> Self {
        Self { rate: 1000, burst: 50 }
    }
}

/// The element.
#[derive(Debug)]
pub struct IcmpError {
    config: IcmpErrorConfig,
    ports: Vec<PortInfo>,
    limit: RateLimit,
    identification: u16,
    counters: Counters,
    rejected: Vec<(Packet, Reject)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sent: u64,
    forbidden: u64,
    rate_limited: u64,
    no_source: u64,
    no_buffer: u64,
}

const TTL: u8 = 64;
/// RFC 1812 §4.3.2.5: precedence 6, internetwork control.
const CODE_POINT: Dscp = Dscp::from_octet(48 << 2);
/// Longest answers, from the IP header (RFC 1812 §4.3.2.3, RFC 4443 §2.4 c).
const MAX_V4: usize = 576;
const MAX_V6: usize = 1280;

impl IcmpError {
    /// With a full bucket and no address.
    pub fn new(config: IcmpErrorConfig) -> Self {
        Self {
            config,
            ports: Vec::new(),
            limit: RateLimit::new(config.rate, config.burst),
            identification: 0,
            counters: Counters::default(),
            rejected: Vec::new(),
        }
    }

    /// Swaps in the ports' addresses; the old ones come back, to be freed outside the packet path. O(1).
    pub fn set_ports(&mut self, ports: &mut Vec<PortInfo>) {
        std::mem::swap(&mut self.ports, ports);
    }

    fn answer(&mut self, cx: &mut Cx<'_>, packet: &Packet, reject: Reject) {
        let Some(subject) = Subject::of(packet, reject) else {
            self.counters.forbidden += 1;
            return;
        };
        let Some(source) = self.source(packet.meta().in_port, subject.sender) else {
            self.counters.no_source += 1;
            return;
        };
        if !self.limit.take(cx.now(), 1) {
            self.counters.rate_limited += 1;
            return;
        }
        let Some(mut answer) = cx.make() else {
            self.counters.no_buffer += 1;
            return;
        };
        match (source, subject.sender) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                self.identification = self.identification.wrapping_add(1);
                write_v4(&mut answer, (src, dst), self.identification, reject, subject.quote);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => write_v6(&mut answer, (src, dst), reject, subject.quote),
            _ => {}
        }
        let (meta, frame) = answer.parts_mut();
        meta.received_at = cx.now();
        meta.in_port = PortId::NONE;
        match perhop_wire::dissect(frame) {
            Ok(layout) => (meta.layout, meta.parsed) = (layout, true),
            Err(malformed) => return cx.drop(answer, DropReason::Malformed(malformed)),
        }
        self.counters.sent += 1;
        cx.emit(0, answer);
    }

    /// An address to answer `sender` from: of the port, of another port, of this machine.
    fn source(&self, in_port: PortId, sender: IpAddr) -> Option<IpAddr> {
        let here = self.ports.get(in_port.index()).map_or(&[][..], |p| &p.addresses);
        let everywhere = self.ports.iter().flat_map(|p| &p.addresses);
        let elsewhere = self.ports.iter().flat_map(|p| &p.elsewhere);
        let near = |net: &&IpNet| net.contains(&sender);
        let fit = |net: &&IpNet| usable(net.addr(), sender);
        let found = here.iter().filter(fit).find(near);
        let found = found.or_else(|| here.iter().find(fit)).or_else(|| everywhere.chain(elsewhere).find(fit));
        found.map(IpNet::addr)
    }
}

impl Element for IcmpError {
    fn type_name(&self) -> &'static str {
        "IcmpError"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.drain() {
            cx.drop(packet, DropReason::Discarded);
        }
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        let mut rejected = std::mem::take(&mut self.rejected);
        cx.take_rejects(&mut rejected);
        for (packet, reject) in rejected.drain(..) {
            self.answer(cx, &packet, reject);
            packet.release();
        }
        self.rejected = rejected;
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.counter("sent", self.counters.sent);
        sink.counter("forbidden", self.counters.forbidden);
        sink.counter("rate_limited", self.counters.rate_limited);
        sink.counter("no_source", self.counters.no_source);
        sink.counter("no_buffer", self.counters.no_buffer);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let fresh = Self::new(self.config);
        Some(Box::new(std::mem::replace(self, fresh)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let old = *state.downcast::<Self>()?;
        let mut limit = self.limit;
        limit.adopt(&old.limit);
        *self = Self { config: self.config, limit, ..old };
        Ok(())
    }

    as_any!();
}

pub(super) mod registration {
    use super::*;
    use perhop_element::{ElementType, PortCount, Reader};

    pub(crate) const TYPE: ElementType = ElementType {
        name: "IcmpError",
        synopsis: "ICMP errors about rejected packets",
        inputs: PortCount::Exactly(0),
        outputs: PortCount::Exactly(1),
        build: |args, _| {
            let mut r = Reader::new(args);
            let usual = IcmpErrorConfig::default();
            let rate = r.optional_in("rate", None, usual.rate, 1..=1_000_000);
            let burst = r.optional_in("burst", None, usual.burst, 1..=100_000);
            r.finish(Box::new(IcmpError::new(IcmpErrorConfig { rate, burst })) as _)
        },
        sample: |rng| format!("rate = {}, burst = {}", 1 + rng.next_u32() % 1000, 1 + rng.next_u32() % 50),
    };
}

/// A packet that may be answered.
struct Subject<'a> {
    sender: IpAddr,
    /// Its IP packet, without padding.
    quote: &'a [u8],
}

impl<'a> Subject<'a> {
    /// `None` where no answer is allowed (RFC 1122 §3.2.2, RFC 4443 §2.4 e).
    fn of(packet: &'a Packet, reject: Reject) -> Option<Self> {
        let (layout, frame) = (&packet.meta().layout, packet.frame());
        let l3 = usize::from(layout.l3_offset);
        let quote = frame.get(l3..l3 + usize::from(layout.ip_len))?;
        let group_frame = packet.meta().in_port.is_some() && frame[0] & 1 != 0;
        if layout.fragment == Fragment::Later {
            return None;
        }
        let icmp_type = (layout.l4_offset != 0).then_some((layout.src_port >> 8) as u8);
        let sender = match layout.ip_version {
            4 => {
                let view = ipv4::View::new_quoted(quote).ok()?;
                // Whether an ICMP message is an error must be seen: unreadable is taken as one.
                let error = layout.protocol == protocol::ICMPV4
                    && icmp_type.is_none_or(|t| matches!(t, 3 | 4 | 5 | 11 | 12));
                if error || group_frame || is_group_v4(view.dst()) || !is_host_v4(view.src()) {
                    return None;
                }
                IpAddr::V4(view.src())
            }
            6 => {
                let view = ipv6::View::new_quoted(quote).ok()?;
                // 137 is a redirect.
                let error =
                    layout.protocol == protocol::ICMPV6 && icmp_type.is_none_or(|t| t < 128 || t == 137);
                let group = group_frame || view.dst().is_multicast();
                let too_big = matches!(reject, Reject::TooBig { .. });
                let (src, unanswerable) = (view.src(), view.src().is_multicast());
                if error || group && !too_big || unanswerable || src.is_unspecified() || src.is_loopback() {
                    return None;
                }
                IpAddr::V6(src)
            }
            _ => return None,
        };
        Some(Self { sender, quote })
    }
}

fn is_group_v4(a: Ipv4Addr) -> bool {
    a.is_multicast() || a.is_broadcast()
}

fn is_host_v4(a: Ipv4Addr) -> bool {
    let first = a.octets()[0];
    first != 0 && first != 127 && first < 224
}

/// Whether `own` may stand as source of a packet to `sender`: the family, and for IPv6 the scope.
fn usable(own: IpAddr, sender: IpAddr) -> bool {
    match (own, sender) {
        (IpAddr::V4(own), IpAddr::V4(_)) => !own.is_link_local() && !own.is_loopback(),
        (IpAddr::V6(own), IpAddr::V6(sender)) => {
            own.is_unicast_link_local() == sender.is_unicast_link_local() && !own.is_loopback()
        }
        _ => false,
    }
}

const L3: usize = ethernet::HEADER_LEN;

/// Makes room for an answer that quotes as much of `quote` as `max` allows; returns the length of its IP packet.
fn start(answer: &mut Packet, ethertype: u16, headers: usize, quote: &[u8], max: usize) -> usize {
    let quote = &quote[..quote.len().min(max - headers)];
    let len = headers + quote.len();
    answer.resize(L3 + len);
    let frame = answer.frame_mut();
    frame[..L3 + headers].fill(0);
    // Route writes the link addresses.
    frame[12..L3].copy_from_slice(&ethertype.to_be_bytes());
    frame[L3 + headers..].copy_from_slice(quote);
    len
}

fn write_v4(
    answer: &mut Packet,
    (src, dst): (Ipv4Addr, Ipv4Addr),
    identification: u16,
    reject: Reject,
    quote: &[u8],
) {
    use icmpv4::{Repr, unreachable};
    let len = start(answer, ethertype::IPV4, ipv4::HEADER_LEN + icmpv4::HEADER_LEN, quote, MAX_V4);
    let ip = &mut answer.frame_mut()[L3..];
    ipv4::Repr {
        dscp: CODE_POINT,
        identification,
        ttl: TTL,
        protocol: protocol::ICMPV4,
        src,
        dst,
        payload_len: (len - ipv4::HEADER_LEN) as u16,
        ..ipv4::Repr::default()
    }
    .emit(ip);
    let message = match reject {
        Reject::TtlExpired => Repr::TimeExceeded { code: 0 },
        Reject::NetUnreachable => Repr::Unreachable { code: unreachable::NETWORK },
        Reject::Unreachable | Reject::HostUnreachable => Repr::Unreachable { code: unreachable::HOST },
        Reject::Prohibited => Repr::Unreachable { code: unreachable::PROHIBITED },
        Reject::TooBig { mtu } => {
            Repr::FragmentationNeeded { mtu: u16::try_from(mtu.max(68)).unwrap_or(u16::MAX) }
        }
    };
    message.emit(&mut ip[ipv4::HEADER_LEN..]);
    icmpv4::fill_checksum(&mut ip[ipv4::HEADER_LEN..]);
}

fn write_v6(answer: &mut Packet, (src, dst): (Ipv6Addr, Ipv6Addr), reject: Reject, quote: &[u8]) {
    use icmpv6::{Repr, unreachable};
    let len = start(answer, ethertype::IPV6, ipv6::HEADER_LEN + icmpv6::HEADER_LEN, quote, MAX_V6);
    let payload_len = (len - ipv6::HEADER_LEN) as u16;
    let ip = &mut answer.frame_mut()[L3..];
    ipv6::Repr {
        dscp: CODE_POINT,
        payload_len,
        next_header: protocol::ICMPV6,
        hop_limit: TTL,
        src,
        dst,
        ..ipv6::Repr::default()
    }
    .emit(ip);
    let message = match reject {
        Reject::TtlExpired => Repr::TimeExceeded { code: 0 },
        Reject::Unreachable | Reject::NetUnreachable => Repr::Unreachable { code: unreachable::NO_ROUTE },
        Reject::HostUnreachable => Repr::Unreachable { code: unreachable::ADDRESS },
        Reject::Prohibited => Repr::Unreachable { code: unreachable::PROHIBITED },
        // Hosts need not go below the least MTU of IPv6 (RFC 8201 §4).
        Reject::TooBig { mtu } => Repr::PacketTooBig { mtu: mtu.max(MAX_V6 as u32) },
    };
    message.emit(&mut ip[ipv6::HEADER_LEN..]);
    let pseudo = pseudo_header_v6(src.octets(), dst.octets(), protocol::ICMPV6, u32::from(payload_len));
    icmpv6::fill_checksum(&mut ip[ipv6::HEADER_LEN..], pseudo);
}
