//! What the element tells about flows.

use crate::admission::Shortage;
use crate::calls::{CallInfo, HereInfo};
use crate::realtime::reason::Reason;
use crate::table::{Entry, FlowKey};
use perhop_packet::Direction;
use perhop_units::Instant;
use serde::Serialize;
use std::collections::VecDeque;
use std::net::IpAddr;

/// One direction of one 5-tuple, and where it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct FlowTuple {
    /// Forwarding domain.
    pub domain: u16,
    /// Outer VLAN identifier, 0 = untagged.
    pub vlan: u16,
    /// Transport protocol.
    pub protocol: u8,
    /// Sender.
    pub src: IpAddr,
    /// Its port, 0 without ports.
    pub src_port: u16,
    /// Receiver.
    pub dst: IpAddr,
    /// Its port.
    pub dst_port: u16,
}

impl FlowTuple {
    /// The direction whose sender is the lower (0) or the other (1) endpoint.
    pub(crate) fn of(key: &FlowKey, half: usize) -> Self {
        let ((src, src_port), (dst, dst_port)) = (key.endpoint(half), key.endpoint(1 - (half & 1)));
        Self {
            domain: key.domain(),
            vlan: key.vlan(),
            protocol: key.protocol(),
            src,
            src_port,
            dst,
            dst_port,
        }
    }
}

/// What happened to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowEventKind {
    /// Recognised as real-time.
    Detected,
    /// Recognised before; silent, or something else now.
    Ended,
    /// Recognised, and refused by admission, as it was so full.
    Refused(Shortage),
    /// Admitted before, and dropped by admission, as it was so full.
    Dropped(Shortage),
    /// How a call sounds so far: each ten seconds while it lasts, and when it ends. Of speech only.
    Quality {
        /// As it comes in.
        call: CallInfo,
        /// What this router does to it, and how it leaves.
        here: HereInfo,
    },
}

/// An event of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlowEvent {
    /// When.
    pub at: Instant,
    /// What.
    pub kind: FlowEventKind,
    /// Which.
    pub flow: FlowTuple,
    /// Entry of the connection table then.
    pub connection: u32,
    /// Why it was recognised.
    pub reason: Option<Reason>,
    /// SSRC, 0 without RTP.
    pub ssrc: u32,
    /// RTP payload type.
    pub payload_type: u8,
    /// Confidence in per cent.
    pub confidence: u8,
    /// Packet of the flow that decided, from 1, at most 65,535.
    pub decided_at: u32,
    /// Packets of the flow so far.
    pub packets: u64,
    /// Bytes of the flow so far, IP length.
    pub bytes: u64,
}

impl FlowEvent {
    pub(crate) fn of(at: Instant, kind: FlowEventKind, connection: u32, entry: &Entry, half: usize) -> Self {
        let h = &entry.halves[half & 1];
        Self {
            at,
            kind,
            flow: FlowTuple::of(&entry.key, half),
            connection,
            reason: entry.findings[half & 1].reason(),
            ssrc: if entry.findings[half & 1].has_ssrc() { h.ssrc } else { 0 },
            payload_type: h.payload_type,
            confidence: h.confidence,
            decided_at: u32::from(entry.decided_at[half & 1]),
            packets: h.packets,
            bytes: h.bytes,
        }
    }
}

/// Which way a half goes.
pub(crate) fn direction(entry: &Entry, half: usize) -> Direction {
    if usize::from(entry.opener) == half { Direction::Forward } else { Direction::Reverse }
}

/// Events not fetched yet; beyond the limit they are lost and counted.
#[derive(Debug)]
pub(crate) struct EventQueue {
    queue: VecDeque<FlowEvent>,
    limit: usize,
    pub lost: u64,
}

impl EventQueue {
    pub fn new(limit: usize) -> Self {
        Self { queue: VecDeque::with_capacity(limit), limit, lost: 0 }
    }
    pub fn push(&mut self, event: FlowEvent) {
        if self.queue.len() < self.limit {
            self.queue.push_back(event);
        } else {
            self.lost += 1;
        }
    }
    /// Keeps an event that may be left out: it never takes the last half of the places. Whether it was kept.
    pub fn push_optional(&mut self, event: FlowEvent) -> bool {
        let kept = self.queue.len() < self.limit / 2;
        if kept {
            self.queue.push_back(event);
        }
        kept
    }
    pub fn take(&mut self, into: &mut Vec<FlowEvent>) {
        into.extend(self.queue.drain(..));
    }
}
