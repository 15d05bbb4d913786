//! The queue of a leaf: an enum, so that no packet costs a virtual call.

use super::params::LeafParams;
use perhop_packet::{Packet, PacketList};
use perhop_units::{QueueLimit, Rate};

/// A bounded queue of packets in order of arrival.
#[derive(Debug)]
pub(super) enum LeafQueue {
    /// Drops arrivals when full.
    Fifo(Fifo),
}

#[derive(Debug, Default)]
pub(super) struct Fifo {
    list: PacketList,
    max_packets: u32,
    max_bytes: u64,
}

impl Default for LeafQueue {
    fn default() -> Self {
        Self::Fifo(Fifo::default())
    }
}

/// Packets a limit in bytes or time allows at most: nobody queues more of them on purpose.
const PACKETS_ANYWAY: u32 = 1 << 20;
/// Bytes a time limit means on a link of unknown rate.
const BYTES_WITHOUT_RATE: u64 = 1_514_000;

impl LeafQueue {
    pub(super) fn new(params: &LeafParams) -> Self {
        let _ = params.kind;
        Self::default()
    }

    /// Sets the limits; what is queued already stays. `rate` is what the class can at least get, zero when unknown.
    pub(super) fn set_limit(&mut self, params: &LeafParams, rate: Rate, max_cost: u64) {
        let (packets, bytes) = match params.limit {
            QueueLimit::Packets(n) => (n, u64::MAX),
            QueueLimit::Bytes(n) => (PACKETS_ANYWAY, n),
            QueueLimit::Time(_) if rate.0 == 0 => (PACKETS_ANYWAY, BYTES_WITHOUT_RATE),
            limit @ QueueLimit::Time(_) => {
                (PACKETS_ANYWAY, limit.in_bytes(rate).map_or(0, |b| b.0).max(2 * max_cost))
            }
        };
        match self {
            Self::Fifo(fifo) => {
                fifo.max_packets = packets;
                fifo.max_bytes = bytes;
            }
        }
    }

    /// Whether a packet costing `cost` bytes still fits; `overhead` is charged for each packet inside.
    #[inline]
    pub(super) fn fits(&self, cost: u64, overhead: u64) -> bool {
        let Self::Fifo(fifo) = self;
        let packets = fifo.list.len() as u64;
        packets < u64::from(fifo.max_packets)
            && fifo.list.frame_bytes() + packets * overhead + cost <= fifo.max_bytes
    }

    #[inline]
    fn list(&self) -> &PacketList {
        let Self::Fifo(fifo) = self;
        &fifo.list
    }

    #[inline]
    fn list_mut(&mut self) -> &mut PacketList {
        let Self::Fifo(fifo) = self;
        &mut fifo.list
    }

    #[inline]
    pub(super) fn push(&mut self, packet: Packet) {
        self.list_mut().push_back(packet);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Packet> {
        self.list_mut().pop_front()
    }

    /// Frame length of the next packet.
    #[inline]
    pub(super) fn head_len(&self) -> Option<u64> {
        self.list().front_len().map(|n| n as u64)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list().is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.list().len() as u64
    }

    pub(super) fn frame_bytes(&self) -> u64 {
        self.list().frame_bytes()
    }
}
