//! # Synopsis
//! `Route(ports)` forwards IPv4 and IPv6 by longest-prefix match and hands this machine its own packets.
//!
//! # Ports
//! Input 0: packets. Outputs 0 … `ports` − 1: packets to send, by port number. Output `ports`: packets for this
//! machine: local delivery, multicast, broadcast, IPv6 link-local, and all that is not IP (ARP is the kernel's).
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `ports` (1st) | number | ports | required | 1 … 64 |
//! | `neighbour_timeout` | time | s | 1 s | 10 ms … 10 s |
//! | `neighbour_queue` | number | packets a neighbour | 256 | 1 … 256 |
//! | `neighbour_queue_total` | number | packets | 2,048 | 1 … 65536 |
//!
//! Routes, neighbours and the ports' addresses come while running, as [`RouteChange`].
//!
//! # Behaviour
//! 1. A frame for another station is dropped as `other_host`. A frame tagged for a VLAN is dropped as `vlan_tag`:
//!    route mode forwards untagged frames only, a VLAN is an interface of its own. VLAN 0 is none (IEEE 802.1Q): such a tag only has
//!    a priority, and is taken off. A packet without an incoming port was made by
//!    this router: its link addresses, source and TTL are not looked at. One without, but with the port it leaves by, is what this
//!    machine sends: it passes as it is.
//! 2. Multicast and limited broadcast go to this machine. Sources that cannot be answered are dropped as
//!    `bad_source`, destinations that must not be forwarded, unicast in a broadcast frame included, as
//!    `bad_destination`. Link-local packets are never forwarded.
//!    What would be forwarded is dropped as `reverse_path` where the port looks at sources ([`Sources`]) and the route back does
//!    not lead where it must.
//! 3. The longest matching prefix decides, in the table that the first rule to match a packet leads to (its addresses, ports,
//!    protocol, type of service, and where it came in), if that has one. Several next hops share flows by a keyed hash of addresses, protocol and ports, equal in
//!    both directions; of tunnels the SPI (ESP, AH; one for each direction) or key (GRE) counts in place of ports.
//! 4. TTL 1 is rejected as `ttl_expired`. A packet that exceeds the link's MTU, or its route's, is cut (IPv4 without DF; all fragments
//!    or none) or rejected as `too_big`. IPv4 options are passed on unread. No redirects are sent.
//! 5. A packet whose next hop has no known link address waits while the kernel is asked ([`Route::take_neighbour_requests`]);
//!    after `neighbour_timeout` it takes another way, if its route has changed to one, or is rejected as
//!    `neighbour_failed`. Order per neighbour is kept.
//! 6. Link addresses are written, Ethernet padding is cut and `meta.out_port` is set; the rest of the metadata stays, on
//!    fragments too.
//!
//! # Counters
//! `forwarded`, `delivered` (to this machine), `handed` (to its kernel, to forward), `own` (sent by this machine), `fragmented` (originals), `fragments`, `waiting` (gauge),
//! `neighbours` (gauge), `neighbours_refused`, `routes` (gauge), `routes_refused` (gauge).
//!
//! # Invariants
//! A forwarded packet differs from the received one in link addresses, TTL and header checksum only. Fragments
//! reassemble to the original. A change of routes or neighbours drops no packet that has a way.
//!
//! # Example
//! `r :: Route(2); FromPort(lan) -> r; FromPort(wan) -> r;
//! r[0] -> ToPort(lan); r[1] -> ToPort(wan); r[2] -> ToHost()`
//!
//! # Source
//! RFC 1812 §5.2, §5.3 (forwarding, martians), RFC 8200 §3 and §5, RFC 4291 §2.5 (scopes), RFC 791 §3.2, RFC 2644.

use super::decide::{Decider, Verdict};
use super::fib::Fib;
use super::fragment::cut;
use super::neighbours::{Known, NeighbourLimits, NeighbourUpdate, Neighbours, Outcome};
use super::paths::PathKey;
use super::{Link, MIN_FRAME_LEN};
use crate::plumbing::adapter::as_any;
use ipnet::IpNet;
use perhop_element::{CounterSink, Cx, Element, ElementState, PortIndex, Reject, TimerId};
use perhop_packet::{Batch, DropReason, Packet, PortId};
use perhop_units::Instant;
use perhop_wire::layout::decrement_ttl;
use perhop_wire::{Layout, MacAddr};
use std::net::IpAddr;
use std::sync::Arc;

/// What a router knows about one of its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// Its link address.
    pub mac: MacAddr,
    /// Others to which it listens as well: of interfaces above it, such as that of a virtual router (RFC 5798 §7.3).
    pub more_macs: Vec<MacAddr>,
    /// Largest IP packet it sends, in bytes; 68 at least, and 1,280 for IPv6.
    pub mtu: u32,
    /// Its addresses with the length of their networks.
    pub addresses: Vec<IpNet>,
    /// Which sources packets from it may have: of IPv4 and of IPv6.
    pub sources: [Sources; 2],
    /// Addresses of this machine on other interfaces, for messages of its own where no port has one of the family.
    pub elsewhere: Vec<IpNet>,
}

/// From which sources a port forwards (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// All.
    #[default]
    All,
    /// Those to which there is a route.
    Routed,
    /// Those to which a route leads by the port.
    ByPort,
}

/// A change of a running [`Route`]. After [`Route::commit`] it holds what was there before.
#[derive(Clone, Debug, Default)]
pub struct RouteChange {
    /// Another forwarding table.
    pub fib: Option<Arc<Fib>>,
    /// Neighbours, in the order of the kernel's messages.
    pub neighbours: Vec<NeighbourUpdate>,
    /// All ports, by [`PortId`].
    pub ports: Option<Vec<PortInfo>>,
    /// What decides which of several next hops a flow takes: a number of the router's own, or routers in a row choose alike.
    pub path_seed: Option<u64>,
}

/// Parameters of [`Route`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// Router ports; this machine is the output after the last.
    pub ports: u8,
    /// Limits of the neighbour table.
    pub limits: NeighbourLimits,
}

impl RouteConfig {
    /// `ports` ports and default limits.
    pub fn new(ports: u8) -> Self {
        Self { ports, limits: NeighbourLimits::default() }
    }
}

/// The element.
#[derive(Debug)]
pub struct Route {
    pub(super) host: PortIndex,
    pub(super) state: State,
    pieces: Vec<Packet>,
}

/// All that moves to a successor.
#[derive(Debug)]
pub(super) struct State {
    pub(super) fib: Arc<Fib>,
    /// Of each of the table's next hops.
    hops: Vec<Hop>,
    pub(super) neighbours: Neighbours,
    ports: Vec<PortInfo>,
    pub(super) links: Vec<Link>,
    /// Whether any port looks at sources.
    checks: bool,
    paths: PathKey,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    forwarded: u64,
    delivered: u64,
    handed: u64,
    own: u64,
    fragmented: u64,
    fragments: u64,
}

/// What a next hop comes to.
#[derive(Clone, Copy, Debug)]
struct Hop {
    /// Its neighbour; [`ON_LINK`] when that is the destination.
    neighbour: u32,
    /// Longest packet that its route allows, in bytes.
    mtu: u32,
}

const ON_LINK: u32 = u32::MAX;

impl Route {
    /// A router without routes, neighbours and addresses.
    pub fn new(config: RouteConfig) -> Self {
        let state = State {
            fib: Fib::build(Vec::new()),
            hops: Vec::new(),
            neighbours: Neighbours::new(config.limits),
            ports: Vec::new(),
            links: Vec::new(),
            checks: false,
            paths: PathKey::default(),
            counters: Counters::default(),
        };
        Self { host: config.ports, state, pieces: Vec::new() }
    }

    /// Swaps in what `change` has; what was there before comes back in it, to be freed outside the packet path. True:
    /// packets waiting for a neighbour may leave, wake this element ([`TimerId::MAIN`]) now.
    /// O(next hops + neighbours changed); with other ports O(neighbours).
    #[must_use = "waiting packets leave when the element is woken"]
    pub fn commit(&mut self, _now: Instant, change: &mut RouteChange) -> bool {
        let s = &mut self.state;
        if let Some(ports) = &mut change.ports {
            std::mem::swap(ports, &mut s.ports);
            s.links = s.ports.iter().map(Link::of).collect();
            s.checks = s.ports.iter().any(|port| port.sources != [Sources::All; 2]);
            s.neighbours.set_links(&s.links);
        }
        if let Some(fib) = &mut change.fib {
            std::mem::swap(fib, &mut s.fib);
            // The new next hops are pinned before the old ones are let go: what both name is kept.
            let pin = |hop: &super::fib::NextHop| Hop {
                neighbour: hop.via.map_or(ON_LINK, |ip| s.neighbours.pin(hop.port, ip, &s.links)),
                mtu: hop.longest(u32::MAX),
            };
            let hops = s.fib.next_hops().iter().map(pin).collect();
            let old = std::mem::replace(&mut s.hops, hops).into_iter();
            for Hop { neighbour, .. } in old.filter(|hop| hop.neighbour != ON_LINK) {
                s.neighbours.unpin(neighbour);
            }
        }
        if let Some(seed) = &mut change.path_seed {
            std::mem::swap(seed, &mut s.paths.0);
        }
        for update in change.neighbours.drain(..) {
            s.neighbours.update(update, &s.links);
        }
        s.neighbours.has_settled()
    }

    /// Appends the neighbours that the kernel should resolve, since the last call.
    pub fn take_neighbour_requests(&mut self, into: &mut Vec<(PortId, IpAddr)>) {
        self.state.neighbours.take_requests(into);
    }

    /// The forwarding table in force.
    pub fn fib(&self) -> &Arc<Fib> {
        &self.state.fib
    }

    /// The ports in force.
    pub fn ports(&self) -> &[PortInfo] {
        &self.state.ports
    }

    #[inline]
    fn take(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        if packet.meta().is_own() {
            return self.pass(cx, packet);
        }
        if !packet.meta().parsed {
            let (meta, frame) = packet.parts_mut();
            match perhop_wire::dissect(frame) {
                Ok(layout) => (meta.layout, meta.parsed) = (layout, true),
                Err(malformed) => return cx.drop(packet, DropReason::Malformed(malformed)),
            }
        }
        if packet.meta().layout.vlan_tags != 0 {
            untag(&mut packet);
        }
        match self.state.decider().decide(packet.frame(), packet.meta()) {
            Verdict::Hop(hop) => self.send(cx, packet, hop),
            Verdict::Host => {
                self.state.counters.delivered += 1;
                cx.emit(self.host, packet);
            }
            Verdict::Kernel => {
                self.state.counters.handed += 1;
                cx.emit(self.host, packet);
            }
            Verdict::Drop(reason) => cx.drop(packet, reason),
            Verdict::Reject(reason, reject) => cx.reject(packet, reason, reject),
        }
    }

    /// What this machine sends by a port has its way already.
    #[cold]
    fn pass(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        let port = packet.meta().out_port.0;
        if port >= u16::from(self.host) {
            return cx.drop(packet, DropReason::PortDown);
        }
        self.state.counters.own += 1;
        cx.emit(port as PortIndex, packet);
    }

    #[inline]
    fn send(&mut self, cx: &mut Cx<'_>, mut packet: Packet, hop: u32) {
        if let Some((index, Known::Yes)) = self.state.way_by(hop, &packet) {
            if lower_ttl(&mut packet).is_err() {
                return cx.reject(packet, DropReason::TtlExpired, Reject::TtlExpired);
            }
            return self.leave(cx, packet, index);
        }
        self.send_slowly(cx, packet, hop);
    }

    /// Sends what needs more than the fast path: an address to be found, or pieces to be made.
    #[cold]
    fn send_slowly(&mut self, cx: &mut Cx<'_>, mut packet: Packet, hop: u32) {
        let next = self.state.fib.next_hops()[hop as usize];
        let ip = next.via.unwrap_or_else(|| destination(packet.frame(), &packet.meta().layout));
        let Some(mtu) = self.state.links.get(next.port.index()).map(|link| next.longest(link.mtu)) else {
            return cx.drop(packet, DropReason::PortDown);
        };
        if lower_ttl(&mut packet).is_err() {
            return cx.reject(packet, DropReason::TtlExpired, Reject::TtlExpired);
        }
        if u32::from(packet.meta().layout.ip_len) <= mtu {
            return self.resolve(cx, packet, next.port, ip);
        }
        if !may_be_cut(packet.frame(), &packet.meta().layout) {
            return cx.reject(packet, DropReason::TooBig, Reject::TooBig { mtu });
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        if cut(cx, &packet, mtu, &mut pieces) {
            self.state.counters.fragmented += 1;
            self.state.counters.fragments += pieces.len() as u64;
            cx.consume(packet);
            for piece in pieces.drain(..) {
                self.resolve(cx, piece, next.port, ip);
            }
        } else {
            // A datagram that lacks a fragment is useless to its receiver: all or none.
            for piece in pieces.drain(..) {
                cx.drop(piece, DropReason::NoBuffer);
            }
            cx.drop(packet, DropReason::NoBuffer);
        }
        self.pieces = pieces;
    }

    /// Sends a packet that fits, now or when its next hop's link address is known.
    fn resolve(&mut self, cx: &mut Cx<'_>, packet: Packet, port: PortId, ip: IpAddr) {
        let s = &mut self.state;
        if let Some(index) = s.neighbours.find(port, ip) {
            match s.neighbours.adjacency(index).known {
                Known::No => {}
                Known::Yes => return self.leave(cx, packet, index),
                Known::Unconfirmed => {
                    s.neighbours.confirm(index);
                    return self.leave(cx, packet, index);
                }
            }
        }
        match s.neighbours.wait(cx.now(), port, ip, &s.links, packet) {
            Ok(None) => {}
            Ok(Some(deadline)) => cx.timer_at(deadline),
            Err((packet, reason)) => cx.drop(packet, reason),
        }
    }

    #[inline]
    fn leave(&mut self, cx: &mut Cx<'_>, mut packet: Packet, index: u32) {
        let adjacency = self.state.neighbours.adjacency(index);
        let end = usize::from(packet.meta().layout.l3_offset) + usize::from(packet.meta().layout.ip_len);
        if packet.len() > end.max(MIN_FRAME_LEN) {
            packet.resize(end.max(MIN_FRAME_LEN));
        }
        let (meta, frame) = packet.parts_mut();
        if let Some(macs) = frame.first_chunk_mut() {
            *macs = adjacency.macs;
        }
        meta.out_port = adjacency.port;
        if adjacency.port.0 >= u16::from(self.host) {
            return cx.drop(packet, DropReason::PortDown);
        }
        self.state.counters.forwarded += 1;
        cx.emit(adjacency.port.0 as PortIndex, packet);
    }

    /// A known neighbour for a packet that waited in vain: its route may have changed meanwhile.
    fn another_way(&self, packet: &Packet) -> Option<u32> {
        let s = &self.state;
        let Verdict::Hop(hop) = s.decider().decide(packet.frame(), packet.meta()) else { return None };
        s.way_by(hop, packet).filter(|(_, known)| *known != Known::No).map(|(index, _)| index)
    }

    /// Gives packets whose waiting is over their way.
    #[cold]
    fn settle(&mut self, cx: &mut Cx<'_>) {
        while let Some(outcome) = self.state.neighbours.settle(cx.now()) {
            match outcome {
                Outcome::Resolved(index, packet) => self.leave(cx, packet, index),
                Outcome::Failed(packet) => match self.another_way(&packet) {
                    Some(index) => self.leave(cx, packet, index),
                    None => cx.reject(packet, DropReason::NeighbourFailed, Reject::HostUnreachable),
                },
            }
        }
    }
}

impl Element for Route {
    fn type_name(&self) -> &'static str {
        "Route"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        if self.state.neighbours.has_settled() {
            self.settle(cx);
        }
        for packet in batch.drain() {
            self.take(cx, packet);
        }
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.settle(cx);
        if let Some(at) = self.state.neighbours.next_deadline() {
            cx.timer_at(at);
        }
    }

    fn held(&self) -> u64 {
        self.state.neighbours.waiting() as u64
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        let s = &self.state;
        sink.counter("forwarded", s.counters.forwarded);
        sink.counter("delivered", s.counters.delivered);
        sink.counter("handed", s.counters.handed);
        sink.counter("own", s.counters.own);
        sink.counter("fragmented", s.counters.fragmented);
        sink.counter("fragments", s.counters.fragments);
        sink.gauge("waiting", s.neighbours.waiting() as u64);
        sink.gauge("neighbours", s.neighbours.len() as u64);
        sink.counter("neighbours_refused", s.neighbours.refused);
        sink.gauge("routes", s.fib.routes() as u64);
        sink.gauge("routes_refused", s.fib.refused() as u64);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = Self::new(RouteConfig::new(self.host));
        Some(Box::new(std::mem::replace(&mut self.state, empty.state)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut state = *state.downcast::<State>()?;
        state.neighbours.set_limits(self.state.neighbours.limits());
        self.state = state;
        Ok(())
    }

    fn drain(&mut self, out: &mut Batch) {
        self.state.neighbours.drain(out);
    }

    as_any!();
}

pub(super) mod registration {
    use super::*;
    use perhop_element::{ElementType, PortCount, Reader};
    use perhop_units::Duration;

    /// Most router ports of one element.
    pub(crate) const MAX_PORTS: u8 = 64;

    pub(crate) const TYPE: ElementType = ElementType {
        name: "Route",
        synopsis: "IPv4 and IPv6 forwarding by longest-prefix match",
        inputs: PortCount::Exactly(1),
        outputs: PortCount::Between(2, MAX_PORTS + 1),
        build: |args, _| {
            let mut r = Reader::new(args);
            let usual = NeighbourLimits::default();
            let ports = r.required_in("ports", Some(0), 1..=MAX_PORTS);
            let times = Duration::from_millis(10)..=Duration::from_secs(10);
            let timeout = r.optional_in("neighbour_timeout", None, usual.timeout, times);
            let packets_each = r.optional_in("neighbour_queue", None, usual.packets_each, 1..=256);
            let packets = r.optional_in("neighbour_queue_total", None, usual.packets, 1..=65_536);
            let limits = NeighbourLimits { timeout, packets_each, packets, ..usual };
            r.finish(Box::new(Route::new(RouteConfig { ports, limits })) as _)
        },
        sample: |rng| format!("{}", 1 + rng.next_u32() % 4),
    };
}

impl State {
    #[inline]
    pub(super) fn decider(&self) -> Decider<'_> {
        Decider { fib: &self.fib, links: &self.links, paths: self.paths, checks: self.checks }
    }

    /// The neighbour a packet goes to by next hop `hop`, and what is known of it; none where there is no entry for it, or the packet
    /// is too long for that way.
    #[inline]
    fn way_by(&self, hop: u32, packet: &Packet) -> Option<(u32, Known)> {
        let layout = &packet.meta().layout;
        let Hop { neighbour, mtu } = self.hops[hop as usize];
        let index = match neighbour {
            ON_LINK => {
                let port = self.fib.next_hops()[hop as usize].port;
                self.neighbours.find(port, destination(packet.frame(), layout))?
            }
            index => index,
        };
        let adjacency = self.neighbours.adjacency(index);
        let fits = u32::from(layout.ip_len) <= adjacency.mtu.min(mtu);
        fits.then_some((index, adjacency.known))
    }
}

/// Length of a VLAN tag.
const TAG: u16 = 4;

/// Takes off tags that name no VLAN.
#[cold]
pub(super) fn untag(packet: &mut Packet) {
    while let (meta, frame) = packet.parts_mut()
        && let Some(layout) = without_tag(&meta.layout)
        && let Some(addresses) = frame.first_chunk::<12>().copied()
        && let Some(rest) = frame.get_mut(usize::from(TAG)..).and_then(|rest| rest.first_chunk_mut())
    {
        *rest = addresses;
        meta.layout = layout;
        packet.shrink_front(TAG.into());
    }
}

/// The layout of the frame without its outer tag, if that names no VLAN.
pub(super) fn without_tag(layout: &Layout) -> Option<Layout> {
    let [outer, inner] = layout.vlan;
    let nearer = |offset: u16| if offset == 0 { 0 } else { offset - TAG };
    (layout.vlan_tags > 0 && outer == 0).then(|| Layout {
        vlan: [inner, 0],
        vlan_tags: layout.vlan_tags - 1,
        l3_offset: nearer(layout.l3_offset),
        l4_offset: nearer(layout.l4_offset),
        payload_offset: nearer(layout.payload_offset),
        ..*layout
    })
}

/// Takes one from the TTL of a packet that this router received.
#[inline]
fn lower_ttl(packet: &mut Packet) -> Result<(), perhop_wire::TtlExpired> {
    let (meta, frame) = packet.parts_mut();
    if meta.in_port.is_some() { decrement_ttl(frame, &meta.layout) } else { Ok(()) }
}

pub(super) fn source(frame: &[u8], layout: &Layout) -> IpAddr {
    let l3 = usize::from(layout.l3_offset);
    if layout.ip_version == 6 {
        let octets = frame.get(l3 + 8..).and_then(|d| d.first_chunk::<16>());
        return IpAddr::from(*octets.unwrap_or(&[0; 16]));
    }
    let octets = frame.get(l3 + 12..).and_then(|d| d.first_chunk::<4>());
    IpAddr::from(*octets.unwrap_or(&[0; 4]))
}

pub(super) fn destination(frame: &[u8], layout: &Layout) -> IpAddr {
    let l3 = usize::from(layout.l3_offset);
    if layout.ip_version == 6 {
        let octets = frame.get(l3 + 24..).and_then(|d| d.first_chunk::<16>());
        return IpAddr::from(*octets.unwrap_or(&[0; 16]));
    }
    let octets = frame.get(l3 + 16..).and_then(|d| d.first_chunk::<4>());
    IpAddr::from(*octets.unwrap_or(&[0; 4]))
}

/// Whether a router may fragment this packet: IPv4 without DF.
pub(super) fn may_be_cut(frame: &[u8], layout: &Layout) -> bool {
    let flags = usize::from(layout.l3_offset) + 6;
    layout.ip_version == 4 && frame.get(flags).is_some_and(|octet| octet & 0x40 == 0)
}
