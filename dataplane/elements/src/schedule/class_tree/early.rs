//! The queue of a leaf that drops by the state of a discipline of its own.

use super::ClassTree;
use super::node::Ix;
use super::params::{Curve, EarlyDrop, LeafKind, LeafParams};
use super::queue::{LeafQueue, Scale};
use crate::drop::{
    Averages, Blue, CoDel, CoDelConfig, FqCoDel, FqCoDelConfig, InLeaf, Losses, Pie, RedConfig, Wfq, Wred,
    WredConfig,
};
use crate::queue::{FifoConfig, LengthRange};
use perhop_element::{Cx, Discipline};
use perhop_packet::{DropReason, Packet};
use perhop_units::{Bytes, Instant, Probability, QueueLimit, Rate};

/// RED's mean packet size for idle times.
const MEAN: Bytes = Bytes(1000);

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is boxed as a whole; a second box would cost a cache miss")]
enum Inner {
    Wred(Wred),
    CoDel(CoDel),
    Pie(Pie),
    Blue(Blue),
    FqCoDel(FqCoDel),
    Wfq(Wfq),
}

/// The same for each of them.
macro_rules! each {
    ($inner:expr, $queue:ident => $what:expr) => {
        match $inner {
            Inner::Wred($queue) => $what,
            Inner::CoDel($queue) => $what,
            Inner::Pie($queue) => $what,
            Inner::Blue($queue) => $what,
            Inner::FqCoDel($queue) => $what,
            Inner::Wfq($queue) => $what,
        }
    };
}

/// What one call changed, drops at the head included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Packets more inside.
    pub packets: i64,
    /// Frame bytes more inside.
    pub bytes: i64,
    /// Dropped because there was no room.
    pub full: u64,
    /// Dropped before that.
    pub early: u64,
    /// Frame bytes of both.
    pub lost_bytes: u64,
}

/// A discipline whose head is always decided: after each call it is looked at, so that what is dropped at the head is
/// dropped then and not when the tree has chosen the leaf.
#[derive(Debug)]
pub(super) struct EarlyQueue {
    inner: Inner,
    /// Frame length of the packet that goes next.
    head: Option<u32>,
    /// The link's generation, see [`super::queue::LeafQueue::is_open`].
    pub stamp: u32,
    /// What has been told of.
    told: Losses,
    range: Option<Box<LengthRange>>,
}

impl EarlyQueue {
    /// Empty, and of a bound that [`EarlyQueue::set_limit`] replaces. `None` for RED, which is a queue of another type.
    pub(super) fn new(early: &EarlyDrop) -> Option<Self> {
        let queue = FifoConfig::LEAST;
        let inner = match *early {
            EarlyDrop::Red { .. } => return None,
            EarlyDrop::Wred { .. } => {
                Inner::Wred(Wred::new(wred_config(early, Bytes(1), Rate::ZERO)?, queue))
            }
            EarlyDrop::CoDel(config) => Inner::CoDel(CoDel::new(config, queue)),
            EarlyDrop::Pie(config) => Inner::Pie(Pie::new(config, queue)),
            EarlyDrop::Blue(config) => Inner::Blue(Blue::new(config, queue)),
            EarlyDrop::FqCoDel(config) => Inner::FqCoDel(FqCoDel::new(config, queue)),
            EarlyDrop::Wfq(config) => Inner::Wfq(Wfq::new(config, queue)),
        };
        Some(Self { inner, head: None, stamp: u32::MAX, told: Losses::default(), range: None })
    }

    /// Whether it becomes what `early` wants by [`EarlyQueue::set_limit`].
    pub(super) fn is_kind(&self, early: &EarlyDrop) -> bool {
        match (&self.inner, early) {
            (Inner::Wred(_), EarlyDrop::Wred { .. })
            | (Inner::CoDel(_), EarlyDrop::CoDel(_))
            | (Inner::Pie(_), EarlyDrop::Pie(_))
            | (Inner::Blue(_), EarlyDrop::Blue(_)) => true,
            (Inner::FqCoDel(queue), EarlyDrop::FqCoDel(config)) => queue.flows() == config.flows,
            (Inner::Wfq(queue), EarlyDrop::Wfq(config)) => queue.flows() == config.flows,
            _ => false,
        }
    }

    /// Sets parameters and limit; what is queued and learnt stays. `limit` is as counted at `scale`, in packets or bytes.
    pub(super) fn set_limit(&mut self, params: &LeafParams, limit: QueueLimit, scale: &Scale) {
        let LeafKind::Early(early) = &params.kind else { return };
        let queue = FifoConfig { limit, rate: scale.least, overhead: scale.overhead };
        let mtu = Bytes(scale.max_cost);
        let of_link = |codel: CoDelConfig| CoDelConfig { mtu, ..codel };
        match (&mut self.inner, **early) {
            (Inner::Wred(wred), EarlyDrop::Wred { .. }) => {
                if let Some(config) = wred_config(early, scale.bytes(limit), scale.least) {
                    wred.reconfigure(config, queue);
                }
            }
            (Inner::CoDel(codel), EarlyDrop::CoDel(config)) => codel.reconfigure(of_link(config), queue),
            (Inner::Pie(pie), EarlyDrop::Pie(config)) => pie.reconfigure(config, queue),
            (Inner::Blue(blue), EarlyDrop::Blue(config)) => blue.reconfigure(config, queue),
            (Inner::Wfq(wfq), EarlyDrop::Wfq(config)) => wfq.reconfigure(config, queue),
            (Inner::FqCoDel(flows), EarlyDrop::FqCoDel(config)) => {
                let codel = of_link(config.codel);
                flows.reconfigure(FqCoDelConfig { codel, ..config }, queue);
            }
            _ => {}
        }
    }

    /// Offers a packet.
    pub(super) fn put(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Change {
        self.watched(cx, |inner, cx| each!(inner, queue => queue.put(cx, packet))).1
    }

    /// Decides about the head, after [`EarlyQueue::keep`].
    pub(super) fn decide(&mut self, cx: &mut Cx<'_>) -> Change {
        self.watched(cx, |_, _| ()).1
    }

    /// Takes the packet that goes next. It is none only when none is inside.
    pub(super) fn take(&mut self, cx: &mut Cx<'_>) -> (Option<Packet>, Change) {
        self.watched(cx, |inner, cx| each!(inner, queue => queue.take(cx)))
    }

    fn watched<T>(
        &mut self,
        cx: &mut Cx<'_>,
        call: impl FnOnce(&mut Inner, &mut Cx<'_>) -> T,
    ) -> (T, Change) {
        let before = (self.len(), self.frame_bytes());
        if let Some(range) = &mut self.range {
            range.lasted(cx.now(), before.1);
        }
        let given = call(&mut self.inner, cx);
        self.head = each!(&mut self.inner, queue => queue.peek(cx)).map(|head| head.len);
        let (losses, told) = (self.losses(), self.told);
        self.told = losses;
        let change = Change {
            packets: self.len() as i64 - before.0 as i64,
            bytes: self.frame_bytes() as i64 - before.1 as i64,
            full: losses.full - told.full,
            early: losses.early - told.early,
            lost_bytes: losses.bytes - told.bytes,
        };
        (given, change)
    }

    /// Takes a packet that is not to be sent.
    pub(super) fn evict(&mut self, now: Instant) -> Option<Packet> {
        let bytes = self.frame_bytes();
        if let Some(range) = &mut self.range {
            range.lasted(now, bytes);
        }
        let packet = each!(&mut self.inner, queue => queue.evict());
        self.head = None;
        packet
    }

    /// Takes over a packet of a predecessor. One that was not stamped when it came counts as having come at `now`.
    pub(super) fn keep(&mut self, now: Instant, mut packet: Packet, stamped: bool) {
        if !stamped {
            packet.meta_mut().queued_at = now;
        }
        // Until it is decided: whatever flow goes first, this is as good a guess.
        self.head.get_or_insert(packet.len() as u32);
        each!(&mut self.inner, queue => queue.keep(packet));
    }

    /// Whether packets inside say when they came.
    pub(super) fn stamps(&self) -> bool {
        matches!(self.inner, Inner::CoDel(_) | Inner::Pie(_) | Inner::FqCoDel(_) | Inner::Wfq(_))
    }

    fn losses(&self) -> Losses {
        each!(&self.inner, queue => queue.losses())
    }

    /// Packets marked.
    pub(super) fn marked(&self) -> u64 {
        self.losses().marked
    }

    /// Frame length of the packet that goes next.
    pub(super) fn head_len(&self) -> Option<u64> {
        self.head.map(u64::from)
    }

    /// When that packet came, if packets are stamped.
    pub(super) fn head_since(&self) -> Option<Instant> {
        each!(&self.inner, queue => queue.head_since())
    }

    pub(super) fn len(&self) -> u64 {
        each!(&self.inner, queue => queue.held())
    }

    pub(super) fn frame_bytes(&self) -> u64 {
        each!(&self.inner, queue => queue.held_bytes())
    }

    /// See [`crate::queue::FifoQueue::length_range`].
    pub(super) fn length_range(&mut self, now: Instant) -> [u64; 2] {
        let bytes = self.frame_bytes();
        self.range.get_or_insert_with(|| Box::new(LengthRange::new(now, bytes))).take(now, bytes)
    }

    /// The memory of lengths, which a successor goes on with.
    pub(super) fn range_mut(&mut self) -> &mut Option<Box<LengthRange>> {
        &mut self.range
    }
}

impl ClassTree {
    /// Takes the next packet of a leaf that drops by a discipline of its own.
    #[inline(never)]
    pub(super) fn take_early(&mut self, cx: &mut Cx<'_>, ix: Ix) -> Option<Packet> {
        let LeafQueue::Early(queue) = self.nodes.at_mut(ix).queue_mut()? else { return None };
        let (packet, change) = queue.take(cx);
        self.book(ix, change);
        packet
    }

    /// Puts a packet into such a leaf. What it offers may be another packet then, because others were dropped.
    pub(super) fn put_early(&mut self, cx: &mut Cx<'_>, packet: Packet, ix: Ix) {
        let Some(LeafQueue::Early(queue)) = self.nodes.at_mut(ix).queue_mut() else {
            return cx.drop(packet, DropReason::NoClass);
        };
        let before = queue.head_len();
        let change = queue.put(cx, packet);
        let other = queue.head_len() != before;
        self.book(ix, change);
        if other {
            self.offer_leaf(ix, cx.now());
        }
    }

    /// Counts what a call to the discipline of a leaf changed.
    pub(super) fn book(&mut self, ix: Ix, change: Change) {
        self.held = self.held.saturating_add_signed(change.packets);
        self.held_bytes = self.held_bytes.saturating_add_signed(change.bytes);
        let lost = change.full + change.early;
        if lost > 0 {
            let bytes = self.link.charge_all(change.lost_bytes, lost);
            let cold = self.nodes.cold_mut(ix);
            cold.dropped_queue_full += change.full;
            cold.dropped_early += change.early;
            cold.dropped_bytes += bytes;
            self.tell_loss(ix, bytes);
        }
    }

    /// Has leaves decide about their next packets that took some over from queues of other kinds.
    #[cold]
    pub(super) fn decide_heads(&mut self, cx: &mut Cx<'_>) {
        while let Some(ix) = self.undecided.pop() {
            let Some(LeafQueue::Early(queue)) = self.nodes.at_mut(ix).queue_mut() else { continue };
            let change = queue.decide(cx);
            self.book(ix, change);
            self.offer_leaf(ix, cx.now());
        }
    }
}

fn wred_config(early: &EarlyDrop, limit: Bytes, rate: Rate) -> Option<WredConfig> {
    let EarlyDrop::Wred { curves, averages, by_dscp, ecn } = *early else { return None };
    let averages: Averages = averages;
    Some(WredConfig { curves: curves.map(|curve| red_config(&curve, ecn, limit, rate)), averages, by_dscp })
}

/// One curve of a queue of `limit`.
pub(super) fn red_config(curve: &Curve, ecn: bool, limit: Bytes, rate: Rate) -> RedConfig {
    let share = |ppm: u32| Bytes((u128::from(limit.0) * u128::from(ppm) / 1_000_000) as u64);
    RedConfig {
        min: share(curve.min_ppm),
        max: share(curve.max_ppm),
        max_p: Probability(curve.max_p.0),
        weight_log2: 9,
        gentle: true,
        ecn,
        byte_mode: false,
        mean: MEAN,
        rate,
    }
}

#[cfg(test)]
#[path = "early_tests.rs"]
mod tests;
