//! Nodes and what they count.

use crate::agenda::Entity;
use crate::frame::FRAME_LEN;
use crate::router::RouterNode;
use perhop_packet::{DropReason, Packet};
use perhop_scenario::Clock;
use perhop_wire::ipv4;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A machine.
pub(crate) struct Node {
    pub(crate) entity: Entity,
    pub(crate) kind: Kind,
    /// Stopped nodes drop what comes.
    pub(crate) up: bool,
    pub(crate) clock: Clock,
    pub(crate) identification: u16,
    pub(crate) books: Books,
}

impl Node {
    /// The router, if it is one.
    pub(crate) fn router(&mut self) -> Option<&mut RouterNode> {
        match &mut self.kind {
            Kind::Router(router) => Some(router),
            _ => None,
        }
    }
}

/// What it does with packets.
pub(crate) enum Kind {
    Host,
    Forwarder,
    Router(Box<RouterNode>),
}

/// Conservation: `received + made = forwarded + consumed + dropped` for hosts and forwarders, which hold nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pub(crate) received: u64,
    pub(crate) made: u64,
    pub(crate) sent: u64,
    pub(crate) consumed: u64,
    pub(crate) drops: BTreeMap<String, u64>,
}

impl Books {
    /// Ends a packet.
    pub(crate) fn drop(&mut self, packet: Packet, reason: DropReason) {
        *self.drops.entry(reason.name()).or_default() += 1;
        packet.release();
    }

    /// A packet could not be made.
    pub(crate) fn out_of_buffers(&mut self) {
        self.made += 1;
        *self.drops.entry(DropReason::NoBuffer.name()).or_default() += 1;
    }

    /// What is wrong, if anything.
    pub(crate) fn check(&self) -> Option<String> {
        let dropped: u64 = self.drops.values().sum();
        let (came, went) = (self.received + self.made, self.sent + self.consumed + dropped);
        (came != went).then(|| format!("{came} came or were made, {went} left, ended or were dropped"))
    }
}

/// The destination of a frame with an IPv4 header in the usual place.
pub(crate) fn destination(frame: &[u8]) -> Option<Ipv4Addr> {
    let bytes: [u8; 4] = frame.get(FRAME_LEN + 16..FRAME_LEN + 20)?.try_into().ok()?;
    (frame[12..14] == [8, 0]).then(|| Ipv4Addr::from(bytes))
}

/// Counts the time to live down in place; an error if it is used up or the header is not one.
pub(crate) fn age(frame: &mut [u8]) -> Result<(), DropReason> {
    let header = frame.get_mut(FRAME_LEN..).unwrap_or_default();
    let mut view = ipv4::ViewMut::new_checked(header)
        .map_err(|_| DropReason::Malformed(perhop_wire::Malformed::Ipv4Truncated))?;
    view.decrement_ttl().map_err(|_| DropReason::TtlExpired)
}
