//! Recognition over captured frames: the rows of `perhop realtime classify --json`.

use crate::realtime::rtp::{HEADER_LEN, NotRtp, RtpDetector, RtpSettings};
use perhop_units::Instant;
use perhop_wire::{Fragment, Layout, dissect, ethertype, protocol};
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
    /// Packets, fragments behind the first not counted.
    pub packets: u64,
    /// `media` or `none`.
    pub verdict: &'static str,
    /// `rtp`, `tcp`, or why the flow's packets are not RTP: the reason most of them gave.
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
    /// Frames cut short by the capture, malformed, or of an unknown link type.
    pub unreadable: u64,
}

type FlowId = (u8, SocketAddr, SocketAddr);

#[derive(Debug)]
struct Flow {
    order: usize,
    packets: u64,
    detector: RtpDetector,
    reasons: BTreeMap<NotRtp, u64>,
    decided_at: Option<u64>,
    confidence: u8,
    ssrc: Vec<u32>,
    payload_type: Vec<u8>,
}

/// Recognises the flows of one capture, whose `frames` are (time of capture, link type, bytes). Link types: Ethernet
/// (1), raw IP (12, 14, 101, 228, 229), Linux cooked (113, 276), null and loopback (0, 108). Bytes behind the IP
/// packet are ignored; a frame the capture cut short counts with what is left if that holds its headers.
///
/// Memory: about 500 B a flow, without a limit: a capture is finite.
pub fn classify_capture<B: AsRef<[u8]>>(
    file: &str,
    settings: RtpSettings,
    frames: impl IntoIterator<Item = (Instant, u32, B)>,
) -> Classified {
    let mut flows: BTreeMap<FlowId, Flow> = BTreeMap::new();
    let mut result = Classified::default();
    let mut scratch = Vec::new();
    for (at, link_type, bytes) in frames {
        if !as_ethernet(link_type, bytes.as_ref(), &mut scratch) {
            result.unreadable += 1;
            continue;
        }
        let Some(layout) = dissect_cut(&mut scratch) else {
            result.unreadable += 1;
            continue;
        };
        let Some(id) = flow_id(&scratch, &layout) else {
            result.other += 1;
            continue;
        };
        let order = flows.len();
        let flow = flows.entry(id).or_insert_with(|| Flow::new(order, settings));
        flow.packet(at, &scratch, &layout);
    }
    let mut rows: Vec<(usize, FlowRow)> =
        flows.iter().map(|(id, flow)| (flow.order, flow.row(file, id))).collect();
    rows.sort_by_key(|(order, _)| *order);
    result.rows = rows.into_iter().map(|(_, row)| row).collect();
    result
}

impl Flow {
    fn new(order: usize, settings: RtpSettings) -> Self {
        Self {
            order,
            packets: 0,
            detector: RtpDetector::new(settings),
            reasons: BTreeMap::new(),
            decided_at: None,
            confidence: 0,
            ssrc: Vec::new(),
            payload_type: Vec::new(),
        }
    }

    fn packet(&mut self, at: Instant, frame: &[u8], layout: &Layout) {
        self.packets += 1;
        if layout.protocol == protocol::TCP {
            return;
        }
        // Lengths as sent, not as captured.
        let start = usize::from(layout.payload_offset);
        let sent = usize::from(layout.l3_offset) + usize::from(layout.ip_len);
        let len = sent.saturating_sub(start);
        let payload = frame.get(start..).unwrap_or_default();
        let mut head = [0; HEADER_LEN];
        let known = payload.len().min(HEADER_LEN);
        head[..known].copy_from_slice(&payload[..known]);
        let len = if known < HEADER_LEN { known } else { len };
        match self.detector.observe(at, len, &head) {
            Some(decision) => {
                self.decided_at.get_or_insert(decision.packet);
                self.confidence = self.confidence.max(decision.confidence);
                if !self.ssrc.contains(&decision.ssrc) {
                    self.ssrc.push(decision.ssrc);
                }
                if let Err(place) = self.payload_type.binary_search(&decision.payload_type) {
                    self.payload_type.insert(place, decision.payload_type);
                }
            }
            None => {
                if let Some(why) = self.detector.last_reason() {
                    *self.reasons.entry(why).or_default() += 1;
                }
            }
        }
    }

    fn row(&self, file: &str, (proto, src, dst): &FlowId) -> FlowRow {
        let tcp = *proto == protocol::TCP;
        let media = self.decided_at.is_some();
        let usual = self.reasons.iter().max_by_key(|(_, n)| **n).map(|(why, _)| why.name());
        FlowRow {
            file: file.to_owned(),
            flow: format!("{} {src}>{dst}", if tcp { "tcp" } else { "udp" }),
            packets: self.packets,
            verdict: if media { "media" } else { "none" },
            reason: if media {
                "rtp"
            } else if tcp {
                "tcp"
            } else {
                usual.unwrap_or("too_few")
            },
            confidence: f64::from(self.confidence) / 100.0,
            decided_at: self.decided_at,
            ssrc: self.ssrc.clone(),
            payload_type: self.payload_type.clone(),
        }
    }
}

fn flow_id(frame: &[u8], layout: &Layout) -> Option<FlowId> {
    let known =
        matches!(layout.protocol, protocol::UDP | protocol::TCP) && layout.fragment != Fragment::Later;
    if !known || layout.l4_offset == 0 {
        return None;
    }
    let key = crate::classifier::Key::of(frame, layout, perhop_packet::PortId(0))?;
    let address = |ip: IpAddr, port| SocketAddr::new(ip, port);
    Some((layout.protocol, address(key.src, layout.src_port), address(key.dst, layout.dst_port)))
}

/// Puts the frame into `into` as Ethernet; false for an unknown link type or a frame shorter than its link header.
fn as_ethernet(link_type: u32, frame: &[u8], into: &mut Vec<u8>) -> bool {
    into.clear();
    let (ether_type, packet) = match link_type {
        1 => {
            into.extend_from_slice(frame);
            return true;
        }
        // Raw IP: the version tells.
        12 | 14 | 101 | 228 | 229 => (None, Some(frame)),
        // Null (host byte order) and loopback: a 4-byte address family, which the IP version tells better.
        0 | 108 => (None, frame.get(4..)),
        // Linux cooked: protocol in bytes 14–15 of 16.
        113 => (word(frame, 14), frame.get(16..)),
        // Linux cooked 2: protocol in bytes 0–1 of 20.
        276 => (word(frame, 0), frame.get(20..)),
        _ => return false,
    };
    let Some(packet) = packet else { return false };
    let by_version = match packet.first().map(|b| b >> 4) {
        Some(4) => ethertype::IPV4,
        Some(6) => ethertype::IPV6,
        _ => 0,
    };
    into.extend_from_slice(&[0; 12]);
    into.extend_from_slice(&ether_type.unwrap_or(by_version).to_be_bytes());
    into.extend_from_slice(packet);
    true
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

/// Dissects a frame of which the capture may hold the first bytes only: it is padded to the length its IP header
/// says, which does no harm because nothing behind the first bytes of the payload is looked at. An IPv4 header checksum
/// that the sending card had yet to fill in is filled in.
fn dissect_cut(frame: &mut Vec<u8>) -> Option<Layout> {
    use perhop_wire::Malformed;
    let captured = frame.len();
    for _ in 0..3 {
        match dissect(frame) {
            Ok(layout) => {
                frame.truncate(captured);
                let known = usize::from(layout.payload_offset.max(layout.l4_offset)) <= captured;
                return known.then_some(layout);
            }
            Err(Malformed::Ipv4TotalLength | Malformed::Ipv6PayloadLength | Malformed::UdpLength)
                if frame.len() <= captured =>
            {
                frame.resize(captured + 65_535, 0);
            }
            Err(Malformed::Ipv4Checksum) => fill_checksum(frame)?,
            Err(_) => return None,
        }
    }
    None
}

/// Writes the right checksum into the IPv4 header, wherever it starts.
fn fill_checksum(frame: &mut [u8]) -> Option<()> {
    let at = (14..=22).step_by(4).find(|at| word(frame, at - 2) == Some(ethertype::IPV4))?;
    let len = usize::from(frame.get(at)? & 0x0f) * 4;
    let header = frame.get_mut(at..at + len)?;
    header[10..12].fill(0);
    let sum = perhop_wire::checksum::of(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests;
