//! The queue of a leaf: an enum, so that no packet costs a virtual call.

use super::early::{EarlyQueue, red_config};
use super::params::{EarlyDrop, LeafKind, LeafParams, TreeLink};
use crate::drop::{RedConfig, RedState, RedVerdict};
use crate::queue::{FifoQueue, LengthRange};
use crate::schedule::law::Waiting;
use perhop_packet::{DropReason, Packet, prefetch_whole};
use perhop_units::{Bytes, Duration, Instant, QueueLimit, Rate};

/// A bounded queue of packets in order of arrival.
#[derive(Debug)]
pub(super) enum LeafQueue {
    /// Drops arrivals when full.
    Fifo(FifoQueue),
    /// Drops or marks early.
    Red(Box<RedQueue>),
    /// The same by a discipline of its own, through [`super::ClassTree`]'s paths for it alone.
    Early(Box<EarlyQueue>),
}

/// Where the packets of a leaf are.
enum Kept<F, E> {
    /// In order of arrival.
    Fifo(F),
    /// As a discipline of its own keeps them.
    Early(E),
}

#[derive(Debug)]
pub(super) struct RedQueue {
    fifo: FifoQueue,
    red: RedState,
    marked: u64,
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

impl Scale {
    /// A limit that is no time, in bytes: of packets that are all as large as they may be.
    pub(super) fn bytes(&self, limit: QueueLimit) -> Bytes {
        match limit {
            QueueLimit::Packets(n) => Bytes(u64::from(n) * self.max_cost),
            other => other.in_bytes(self.least).unwrap_or_default(),
        }
    }
}

/// No link's generation.
const CLOSED: u32 = u32::MAX;

impl LeafQueue {
    /// An empty queue of the right kind; [`LeafQueue::set_limit`] follows.
    pub(super) fn new(params: &LeafParams) -> Self {
        let LeafKind::Early(early) = &params.kind else { return Self::default() };
        if let Some(config) = red_of(params, Bytes(1), Rate::ZERO) {
            return Self::Red(Box::new(RedQueue { fifo: empty(), red: RedState::new(config), marked: 0 }));
        }
        EarlyQueue::new(early).map_or_else(Self::default, |queue| Self::Early(Box::new(queue)))
    }

    /// Sets the limits; what is queued already stays, and RED's average too.
    pub(super) fn set_limit(&mut self, params: &LeafParams, scale: Scale) {
        let Scale { least, max_cost, overhead, generation } = scale;
        let limit = match params.limit {
            QueueLimit::Time(_) if least.0 == 0 => QueueLimit::Bytes(Bytes(BYTES_WITHOUT_RATE)),
            QueueLimit::Time(_) => {
                QueueLimit::Bytes(Bytes(params.limit.in_bytes(least).map_or(0, |b| b.0).max(2 * max_cost)))
            }
            other => other,
        };
        let fifo = match self {
            Self::Fifo(fifo) => fifo,
            Self::Red(red) => {
                if let Some(config) = red_of(params, scale.bytes(limit), least) {
                    let mut state = RedState::new(config);
                    state.adopt(&red.red);
                    red.red = state;
                }
                &mut red.fifo
            }
            Self::Early(early) => {
                early.stamp = generation;
                return early.set_limit(params, limit, &scale);
            }
        };
        fifo.set_stamp(generation);
        fifo.set_limit(limit, least, overhead);
    }

    /// Whether it takes packets by [`LeafQueue::offer`], and its limits were computed for this generation of the link.
    #[inline]
    pub(super) fn is_open(&self, generation: u32) -> bool {
        matches!(self.kept(), Kept::Fifo(fifo) if fifo.stamp() == generation)
    }

    /// The same of a queue that is never open: whether [`super::early::EarlyQueue::put`] may be called.
    pub(super) fn takes_early(&self, generation: u32) -> bool {
        matches!(self, Self::Early(early) if early.stamp == generation)
    }

    /// Takes no more packets.
    pub(super) fn close(&mut self) {
        match self.kept_mut() {
            Kept::Fifo(fifo) => fifo.set_stamp(CLOSED),
            Kept::Early(early) => early.stamp = CLOSED,
        }
    }

    /// Takes over what `old` holds, for a queue that changes its kind. Of each flow in order; of a queue that kept flows
    /// apart one after the other. O(packets).
    pub(super) fn adopt(&mut self, now: Instant, old: &mut Self) {
        let stamped = matches!(old, Self::Early(old) if old.stamps());
        let range = old.range_mut().take();
        while let Some(packet) = old.pop(now) {
            match self.kept_mut() {
                Kept::Fifo(fifo) => fifo.keep(packet),
                Kept::Early(early) => early.keep(now, packet, stamped),
            }
        }
        *self.range_mut() = range;
    }

    /// Whether [`LeafQueue::set_limit`] makes it what `params` want.
    pub(super) fn is_kind(&self, params: &LeafParams) -> bool {
        match (self, &params.kind) {
            (Self::Fifo(_), LeafKind::Fifo) => true,
            (Self::Red(_), LeafKind::Early(early)) => matches!(**early, EarlyDrop::Red { .. }),
            (Self::Early(queue), LeafKind::Early(early)) => queue.is_kind(early),
            _ => false,
        }
    }

    /// Packets it has marked.
    pub(super) fn marked(&self) -> u64 {
        match self {
            Self::Fifo(_) => 0,
            Self::Red(red) => red.marked,
            Self::Early(early) => early.marked(),
        }
    }

    /// Appends `packet`, or gives it back with the reason. `random`: 32 uniform bits, asked for only by RED. Not for a
    /// queue that is never open.
    #[inline]
    pub(super) fn offer(
        &mut self,
        now: Instant,
        packet: Packet,
        random: impl FnOnce() -> u32,
    ) -> Result<(), (Packet, DropReason)> {
        match self {
            Self::Fifo(fifo) => {
                fifo.lasted(now);
                fifo.offer(packet).map_err(|packet| (packet, DropReason::QueueFull))
            }
            Self::Red(red) => {
                red.fifo.lasted(now);
                let packet = red.admit(now, packet, random())?;
                red.fifo.offer(packet).map_err(|packet| (packet, DropReason::QueueFull))
            }
            Self::Early(_) => Err((packet, DropReason::QueueFull)),
        }
    }

    /// Takes the oldest packet. Of a queue that drops by a discipline of its own: one that is not to be sent.
    #[inline]
    pub(super) fn pop(&mut self, now: Instant) -> Option<Packet> {
        match self {
            Self::Fifo(fifo) => {
                fifo.lasted(now);
                fifo.pop()
            }
            Self::Red(red) => {
                red.fifo.lasted(now);
                let packet = red.fifo.pop();
                if red.fifo.is_empty() {
                    red.red.became_idle(now);
                }
                packet
            }
            Self::Early(early) => early.evict(now),
        }
    }

    #[inline]
    fn kept(&self) -> Kept<&FifoQueue, &EarlyQueue> {
        match self {
            Self::Fifo(fifo) => Kept::Fifo(fifo),
            Self::Red(red) => Kept::Fifo(&red.fifo),
            Self::Early(early) => Kept::Early(early),
        }
    }

    #[inline]
    fn kept_mut(&mut self) -> Kept<&mut FifoQueue, &mut EarlyQueue> {
        match self {
            Self::Fifo(fifo) => Kept::Fifo(fifo),
            Self::Red(red) => Kept::Fifo(&mut red.fifo),
            Self::Early(early) => Kept::Early(early),
        }
    }

    fn range_mut(&mut self) -> &mut Option<Box<LengthRange>> {
        match self.kept_mut() {
            Kept::Fifo(fifo) => fifo.range_mut(),
            Kept::Early(early) => early.range_mut(),
        }
    }

    /// Frame length of the next packet.
    #[inline]
    pub(super) fn head_len(&self) -> Option<u64> {
        match self.kept() {
            Kept::Fifo(fifo) => fifo.front_len().map(|n| n as u64),
            Kept::Early(early) => early.head_len(),
        }
    }

    /// Asks for the next packet's cache line.
    #[inline]
    pub(super) fn prefetch_head(&self) {
        if let Kept::Fifo(fifo) = self.kept() {
            fifo.prefetch_head();
        }
    }

    /// Asks for what lies behind the class itself: of a queue that drops early everything.
    #[inline]
    pub(super) fn prefetch_inner(&self) {
        match self {
            Self::Fifo(_) => {}
            Self::Red(red) => prefetch_whole(&**red),
            Self::Early(early) => prefetch_whole(&**early),
        }
    }

    /// Asks for the last packet's, to which the next one is tied.
    #[inline]
    pub(super) fn prefetch_tail(&self) {
        if let Kept::Fifo(fifo) = self.kept() {
            fifo.prefetch_tail();
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self.kept() {
            Kept::Fifo(fifo) => fifo.is_empty(),
            Kept::Early(early) => early.len() == 0,
        }
    }

    /// What waits, of packets that are stamped since `since`; `link` is the line.
    pub(super) fn waiting(&self, now: Instant, since: Instant, link: &TreeLink) -> Waiting {
        let came = match self.kept() {
            Kept::Fifo(fifo) => fifo.front_meta().map(|meta| meta.queued_at),
            Kept::Early(early) => early.head_since(),
        };
        Waiting {
            bytes: link.charge_all(self.frame_bytes(), self.len()),
            head: self.head_len().map_or(0, |len| link.charge(len)),
            waited: came.map_or(Duration::ZERO, |came| now.since(came.max(since))),
        }
    }

    /// See [`FifoQueue::length_range`].
    pub(super) fn length_range(&mut self, now: Instant) -> [u64; 2] {
        match self.kept_mut() {
            Kept::Fifo(fifo) => fifo.length_range(now),
            Kept::Early(early) => early.length_range(now),
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self.kept() {
            Kept::Fifo(fifo) => fifo.len() as u64,
            Kept::Early(early) => early.len(),
        }
    }

    pub(super) fn frame_bytes(&self) -> u64 {
        match self.kept() {
            Kept::Fifo(fifo) => fifo.frame_bytes(),
            Kept::Early(early) => early.frame_bytes(),
        }
    }
}

impl RedQueue {
    fn admit(&mut self, now: Instant, packet: Packet, random: u32) -> Result<Packet, (Packet, DropReason)> {
        let len = Bytes(packet.len() as u64 + u64::from(self.fifo.overhead()));
        let capable = packet.meta().layout.is_ecn_capable();
        let verdict = self.red.decide(now, self.fifo.bytes(), len, capable, random);
        self.marked += u64::from(verdict == RedVerdict::Mark);
        verdict.carry_out(packet, DropReason::RedEarly)
    }
}

/// RED's parameters for a queue of `limit`, if it is what `params` want.
fn red_of(params: &LeafParams, limit: Bytes, rate: Rate) -> Option<RedConfig> {
    match &params.kind {
        LeafKind::Early(early) => match &**early {
            EarlyDrop::Red { curve, ecn } => Some(red_config(curve, *ecn, limit, rate)),
            _ => None,
        },
        LeafKind::Fifo => None,
    }
}
