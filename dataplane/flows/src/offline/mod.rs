//! Recognition over captured frames: the rows of `perhop realtime classify --json`.

mod juniper;
mod link;

pub use link::Unread;

use crate::realtime::Stages;
use crate::realtime::demux::{Evidence, Payload};
use crate::realtime::flow::FlowDetector;
use crate::realtime::reason::{Decision, Reason};
use crate::realtime::rtp::{NotRtp, RtpSettings};
use link::Inside;
use perhop_units::{Duration, Instant};
use perhop_wire::{Fragment, Layout, protocol};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// One flow of a capture: one direction of one 5-tuple.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowRow {
    /// The capture.
    pub file: String,
    /// `udp 10.0.0.1:5004>10.0.0.2:5006`; IPv6 as `[addr]:port`.
    pub flow: String,
    /// VLAN identifiers, outer first; none = untagged. Flows of one 5-tuple in different VLANs are different flows.
    pub vlan: Vec<u16>,
    /// Packets, fragments behind the first not counted.
    pub packets: u64,
    /// `media` or `none`.
    pub verdict: &'static str,
    /// Why it is media ([`Reason::name`]); else `tcp`, `contradicted` when hardly a packet after any decision fitted, or
    /// why the flow's packets are not RTP ([`NotRtp::name`]): the reason most of them gave.
    pub reason: &'static str,
    /// 0 … 1; 0 when not media.
    pub confidence: f64,
    /// Packet that decided first, from 1.
    pub decided_at: Option<u64>,
    /// SSRCs recognised, in order.
    pub ssrc: Vec<u32>,
    /// Payload types of the deciding packets, ascending.
    pub payload_type: Vec<u8>,
}

/// What a capture holds.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Classified {
    /// One row a flow, in the order of first packets.
    pub rows: Vec<FlowRow>,
    /// Frames that are not UDP or TCP over IP.
    pub other: u64,
    /// Packets of flows beyond the first [`MAX_FLOWS`].
    pub beyond_limit: u64,
    /// Frames cut short by the capture, malformed, or of an unknown link type.
    pub unreadable: u64,
    /// Those of them that the capture cut short within their headers.
    pub cut: u64,
}

/// Most flows of one capture; packets of others are counted and not looked at.
pub const MAX_FLOWS: usize = 1_000_000;

/// Protocol, VLAN identifiers (0 = none), sender, receiver.
type FlowId = (u8, [u16; 3], SocketAddr, SocketAddr);

/// A time stamp that goes back by more than this is that of a clock that was set, not of packets that overtook.
const OVERTAKEN: Duration = Duration::from_millis(500);

/// Time of a flow, which never goes back although the stamps of captures do: stamps that are a little older than the
/// newest count as that one, as the drivers of ports count them; when the clock was set back time goes on from there.
#[derive(Debug, Default)]
struct FlowClock {
    newest: Instant,
    set_back: Duration,
}

impl FlowClock {
    fn read(&mut self, stamp: Instant) -> Instant {
        let at = stamp + self.set_back;
        if at + OVERTAKEN < self.newest {
            self.set_back = self.newest.since(stamp);
        }
        self.newest = self.newest.max(at);
        self.newest
    }
}

#[derive(Debug)]
struct Flow {
    order: usize,
    packets: u64,
    clock: FlowClock,
    detector: FlowDetector,
    reasons: BTreeMap<NotRtp, u64>,
    found: Option<Found>,
    /// The last decision, which may yet be taken back.
    last: Option<Decision>,
}

/// What decisions that stand have shown.
#[derive(Clone, Debug)]
struct Found {
    decided_at: u64,
    reason: Reason,
    confidence: u8,
    ssrc: Vec<u32>,
    payload_type: Vec<u8>,
}

impl Found {
    /// What `before` and one more decision show.
    fn with(before: Option<Self>, decision: &Decision) -> Self {
        let mut found = before.unwrap_or(Self {
            decided_at: decision.packet,
            reason: decision.reason,
            confidence: 0,
            ssrc: Vec::new(),
            payload_type: Vec::new(),
        });
        found.confidence = found.confidence.max(decision.confidence);
        if decision.reason.is_rtp() {
            if !found.ssrc.contains(&decision.ssrc) {
                found.ssrc.push(decision.ssrc);
            }
            if let Err(place) = found.payload_type.binary_search(&decision.payload_type) {
                found.payload_type.insert(place, decision.payload_type);
            }
        }
        found
    }
}

/// Puts a captured frame into `into` as an Ethernet frame without encapsulations, of which it returns the layout. Link types and
/// encapsulations are those of [`classify_capture`]; `spare` is room to work in.
///
/// # Errors
/// An unknown link type, and frames without their headers.
pub fn read_frame(
    link_type: u32,
    frame: &[u8],
    into: &mut Vec<u8>,
    spare: &mut Vec<u8>,
) -> Result<Layout, Unread> {
    read(link_type, frame, into, spare).map(|inside| inside.layout)
}

fn read(link_type: u32, frame: &[u8], into: &mut Vec<u8>, spare: &mut Vec<u8>) -> Result<Inside, Unread> {
    link::as_ethernet(link_type, frame, into).ok_or(Unread::Malformed)?;
    link::dissect_inner(into, spare)
}

/// Recognises the flows of one capture, whose `frames` are (time of capture, link type, bytes). Link types: Ethernet,
/// raw IP, Linux cooked (1 and 2), null and loopback, PPP, PPPoE, Cisco HDLC, frame relay, FDDI, Token Ring, IP over InfiniBand,
/// IEEE 802.11 (also behind radiotap), Juniper's usual ones, Apple's, and the headers of BSD's and Linux's packet filters. VLAN
/// tags, PPPoE, MPLS, IP in IP, GRE and GTP-U are taken off. Bytes behind the
/// IP packet are ignored; a frame the capture cut short counts with what is left if that holds its headers.
///
/// Memory: about 1.2 kB a flow, of which there are at most [`MAX_FLOWS`].
pub fn classify_capture<B: AsRef<[u8]>>(
    file: &str,
    settings: RtpSettings,
    stages: Stages,
    frames: impl IntoIterator<Item = (Instant, u32, B)>,
) -> Classified {
    let mut flows: BTreeMap<FlowId, Flow> = BTreeMap::new();
    let mut connections: BTreeMap<FlowId, Evidence> = BTreeMap::new();
    let mut result = Classified::default();
    let (mut scratch, mut spare) = (Vec::new(), Vec::new());
    for (at, link_type, bytes) in frames {
        let inside = match read(link_type, bytes.as_ref(), &mut scratch, &mut spare) {
            Ok(inside) => inside,
            Err(why) => {
                result.unreadable += 1;
                result.cut += u64::from(why == Unread::Cut);
                continue;
            }
        };
        let Some(id) = flow_id(&scratch, &inside) else {
            result.other += 1;
            continue;
        };
        let order = flows.len();
        if order >= MAX_FLOWS && !flows.contains_key(&id) {
            result.beyond_limit += 1;
            continue;
        }
        let flow = flows.entry(id).or_insert_with(|| Flow::new(order, FlowDetector::new(settings, stages)));
        let (protocol, vlan, a, b) = id;
        let evidence = connections.entry((protocol, vlan, a.min(b), a.max(b))).or_default();
        flow.packet(at, evidence, &scratch, &inside.layout);
    }
    let mut rows: Vec<(usize, FlowRow)> =
        flows.iter().map(|(id, flow)| (flow.order, flow.row(file, id))).collect();
    rows.sort_by_key(|(order, _)| *order);
    result.rows = rows.into_iter().map(|(_, row)| row).collect();
    result
}

impl Flow {
    fn new(order: usize, detector: FlowDetector) -> Self {
        Self {
            order,
            packets: 0,
            clock: FlowClock::default(),
            detector,
            reasons: BTreeMap::new(),
            found: None,
            last: None,
        }
    }

    fn packet(&mut self, at: Instant, evidence: &mut Evidence, frame: &[u8], layout: &Layout) {
        self.packets += 1;
        if layout.protocol == protocol::TCP {
            return;
        }
        // Lengths as sent, not as captured.
        let start = usize::from(layout.payload_offset);
        let end = usize::from(layout.l3_offset) + usize::from(layout.ip_len);
        let bytes = frame.get(start..end.min(frame.len())).unwrap_or_default();
        let payload = Payload { bytes, len: end.saturating_sub(start), ip_len: layout.ip_len };
        let contradictions = self.detector.contradictions();
        let decision = self.detector.observe(evidence, self.clock.read(at), &payload);
        if self.detector.contradictions() > contradictions {
            self.last = None;
        }
        if let Some(decision) = decision {
            if let Some(last) = self.last.replace(decision) {
                self.found = Some(Found::with(self.found.take(), &last));
            }
        } else if let Some(why) = self.detector.last_reason() {
            *self.reasons.entry(why).or_default() += 1;
        }
    }

    fn row(&self, file: &str, (proto, vlan, src, dst): &FlowId) -> FlowRow {
        let tcp = *proto == protocol::TCP;
        let media = match &self.last {
            Some(last) => Some(Found::with(self.found.clone(), last)),
            None => self.found.clone(),
        };
        let usual = self.reasons.iter().max_by_key(|(_, n)| **n).map(|(why, _)| why.name());
        let why_not = match () {
            () if tcp => "tcp",
            () if self.detector.contradictions() > 0 => "contradicted",
            () => usual.unwrap_or("too_few"),
        };
        FlowRow {
            file: file.to_owned(),
            flow: format!("{} {src}>{dst}", if tcp { "tcp" } else { "udp" }),
            vlan: vlan.iter().copied().filter(|id| *id > 0).collect(),
            packets: self.packets,
            verdict: if media.is_some() { "media" } else { "none" },
            reason: media.as_ref().map_or(why_not, |m| m.reason.name()),
            confidence: media.as_ref().map_or(0.0, |m| f64::from(m.confidence) / 100.0),
            decided_at: media.as_ref().map(|m| m.decided_at),
            ssrc: media.as_ref().map(|m| m.ssrc.clone()).unwrap_or_default(),
            payload_type: media.map(|m| m.payload_type).unwrap_or_default(),
        }
    }
}

fn flow_id(frame: &[u8], Inside { layout, third_vlan }: &Inside) -> Option<FlowId> {
    let known =
        matches!(layout.protocol, protocol::UDP | protocol::TCP) && layout.fragment != Fragment::Later;
    if !known || layout.l4_offset == 0 {
        return None;
    }
    let key = crate::classifier::Key::of(frame, layout, perhop_packet::PortId(0))?;
    let address = |ip: IpAddr, port| SocketAddr::new(ip, port);
    let vlan = layout.vlan.map(|id| id & 0xfff);
    let tags = usize::from(layout.vlan_tags);
    let [outer, inner] = [0, 1].map(|at| if at < tags { vlan[at] } else { 0 });
    // Priority tags are no VLAN.
    let mut ids = [outer, inner, *third_vlan].into_iter().filter(|id| *id > 0);
    let vlan = [0; 3].map(|none| ids.next().unwrap_or(none));
    Some((layout.protocol, vlan, address(key.src, layout.src_port), address(key.dst, layout.dst_port)))
}

#[cfg(test)]
mod tests;
