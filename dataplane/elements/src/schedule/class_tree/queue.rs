//! The queue of a leaf: an enum, so that no packet costs a virtual call.

use super::params::{LeafKind, LeafParams};
use crate::drop::{RedConfig, RedState};
use crate::queue::FifoQueue;
use perhop_packet::{DropReason, Packet, prefetch_whole};
use perhop_units::{Bytes, Instant, Probability, QueueLimit, Rate};

/// A bounded queue of packets in order of arrival.
#[derive(Debug)]
pub(super) enum LeafQueue {
    /// Drops arrivals when full.
    Fifo(FifoQueue),
    /// Drops or marks early.
    Red(Box<RedQueue>),
}

#[derive(Debug)]
pub(super) struct RedQueue {
    fifo: FifoQueue,
    red: RedState,
}

impl Default for LeafQueue {
    fn default() -> Self {
        Self::Fifo(empty())
    }
}

fn empty() -> FifoQueue {
    FifoQueue::new(QueueLimit::Packets(1), Rate::ZERO, 0)
}

/// Bytes a time limit means on a link of unknown rate: 1,000 full-size frames.
const BYTES_WITHOUT_RATE: u64 = 1_514_000;
/// RED's mean packet size for idle times.
const MEAN: Bytes = Bytes(1000);

/// What a queue's limits depend on besides its own parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// What the class can at least get, zero when unknown.
    pub least: Rate,
    /// Charge of the largest frame, bytes.
    pub max_cost: u64,
    /// Charged on top of each frame, bytes.
    pub overhead: u32,
    /// The link's generation, see [`LeafQueue::is_open`].
    pub generation: u32,
}

/// No link's generation.
const CLOSED: u32 = u32::MAX;

impl LeafQueue {
    /// An empty queue of the right kind; [`LeafQueue::set_limit`] follows.
    pub(super) fn new(params: &LeafParams) -> Self {
        match params.kind {
            LeafKind::Fifo => Self::default(),
            LeafKind::Red { .. } => {
                let red = RedState::new(red_config(params, Bytes(1), Rate::ZERO));
                Self::Red(Box::new(RedQueue { fifo: empty(), red }))
            }
        }
    }

    /// Sets the limits; what is queued already stays, and RED's average too.
    pub(super) fn set_limit(&mut self, params: &LeafParams, scale: Scale) {
        let Scale { least, max_cost, overhead, generation } = scale;
        self.fifo_mut().set_stamp(generation);
        let limit = match params.limit {
            QueueLimit::Time(_) if least.0 == 0 => QueueLimit::Bytes(BYTES_WITHOUT_RATE),
            QueueLimit::Time(_) => {
                QueueLimit::Bytes(params.limit.in_bytes(least).map_or(0, |b| b.0).max(2 * max_cost))
            }
            other => other,
        };
        self.fifo_mut().set_limit(limit, least, overhead);
        if let Self::Red(red) = self {
            let bytes = match limit {
                QueueLimit::Packets(n) => Bytes(u64::from(n) * max_cost),
                other => other.in_bytes(least).unwrap_or_default(),
            };
            let mut state = RedState::new(red_config(params, bytes, least));
            state.adopt(&red.red);
            red.red = state;
        }
    }

    /// Whether it takes packets, and its limits were computed for this generation of the link.
    #[inline]
    pub(super) fn is_open(&self, generation: u32) -> bool {
        self.fifo().stamp() == generation
    }

    /// Takes no more packets.
    pub(super) fn close(&mut self) {
        self.fifo_mut().set_stamp(CLOSED);
    }

    /// Takes over what `old` holds, for a queue that changes its kind.
    pub(super) fn adopt(&mut self, old: &mut Self) {
        if let (Self::Red(new), Self::Red(old)) = (&mut *self, &*old) {
            new.red.adopt(&old.red);
        }
        self.fifo_mut().adopt(old.fifo_mut());
    }

    /// Whether this is the kind that `params` want.
    pub(super) fn is_kind(&self, params: &LeafParams) -> bool {
        matches!(self, Self::Fifo(_)) == matches!(params.kind, LeafKind::Fifo)
    }

    /// Appends `packet`, or gives it back with the reason. `random`: 32 uniform bits, asked for only by RED.
    #[inline]
    pub(super) fn offer(
        &mut self,
        now: Instant,
        packet: Packet,
        random: impl FnOnce() -> u32,
    ) -> Result<(), (Packet, DropReason)> {
        self.fifo_mut().lasted(now);
        let packet = match self {
            Self::Fifo(_) => packet,
            Self::Red(red) => red.admit(now, packet, random())?,
        };
        self.fifo_mut().offer(packet).map_err(|packet| (packet, DropReason::QueueFull))
    }

    /// Takes the oldest packet.
    #[inline]
    pub(super) fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.fifo_mut().lasted(now);
        match self {
            Self::Fifo(fifo) => fifo.pop(),
            Self::Red(red) => {
                let packet = red.fifo.pop();
                if red.fifo.is_empty() {
                    red.red.became_idle(now);
                }
                packet
            }
        }
    }

    #[inline]
    fn fifo(&self) -> &FifoQueue {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Red(red) => &red.fifo,
        }
    }

    #[inline]
    fn fifo_mut(&mut self) -> &mut FifoQueue {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Red(red) => &mut red.fifo,
        }
    }

    /// Frame length of the next packet.
    #[inline]
    pub(super) fn head_len(&self) -> Option<u64> {
        self.fifo().front_len().map(|n| n as u64)
    }

    /// Asks for the next packet's cache line.
    #[inline]
    pub(super) fn prefetch_head(&self) {
        self.fifo().prefetch_head();
    }

    /// Asks for what lies behind the class itself: of a queue that drops early everything.
    #[inline]
    pub(super) fn prefetch_inner(&self) {
        if let Self::Red(red) = self {
            prefetch_whole(&**red);
        }
    }

    /// Asks for the last packet's, to which the next one is tied.
    #[inline]
    pub(super) fn prefetch_tail(&self) {
        self.fifo().prefetch_tail();
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.fifo().is_empty()
    }

    /// See [`FifoQueue::length_range`].
    pub(super) fn length_range(&mut self, now: Instant) -> [u64; 2] {
        self.fifo_mut().length_range(now)
    }

    pub(super) fn len(&self) -> u64 {
        self.fifo().len() as u64
    }

    pub(super) fn frame_bytes(&self) -> u64 {
        self.fifo().frame_bytes()
    }
}

impl RedQueue {
    fn admit(&mut self, now: Instant, packet: Packet, random: u32) -> Result<Packet, (Packet, DropReason)> {
        let len = Bytes(packet.len() as u64 + u64::from(self.fifo.overhead()));
        let capable = packet.meta().layout.is_ecn_capable();
        self.red.decide(now, self.fifo.bytes(), len, capable, random).carry_out(packet)
    }
}

fn red_config(params: &LeafParams, limit: Bytes, rate: Rate) -> RedConfig {
    let LeafKind::Red { min_ppm, max_ppm, max_p, ecn } = params.kind else {
        return red_config(&LeafParams { kind: LeafKind::RED, ..*params }, limit, rate);
    };
    let share = |ppm: u32| Bytes((u128::from(limit.0) * u128::from(ppm) / 1_000_000) as u64);
    RedConfig {
        min: share(min_ppm),
        max: share(max_ppm),
        max_p: Probability(max_p.0),
        weight_log2: 9,
        gentle: true,
        ecn,
        byte_mode: false,
        mean: MEAN,
        rate,
    }
}
