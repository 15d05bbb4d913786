//! A bounded FIFO queue that drops or marks packets before it is full, around whatever decides about them: [`super::Blue`],
//! [`super::Pie`], [`super::CoDel`], [`super::Red`], [`super::Wred`] and [`super::Drd`] are such queues.

use super::{InLeaf, Losses, RedCounts, RedVerdict, mark};
use crate::plumbing::adapter::{as_any, held_in_queue};
use crate::queue::fifo::{FifoConfig, Watch, take_with};
use crate::queue::{FifoQueue, QueueCounters};
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, ElementState, Head};
use perhop_packet::{Batch, DropReason, Packet};
use perhop_units::{Bytes, Instant};
use std::fmt::Debug;

/// What decides about the packets of an [`EarlyFifo`], without the queue. Lengths are in bytes, overhead included.
pub trait EarlyState: Debug + Send + 'static {
    /// Its parameters.
    type Config: Copy;
    /// Name of the discipline.
    const NAME: &'static str;
    /// Why it drops packets that come.
    const EARLY: DropReason = DropReason::RedEarly;
    /// Whether packets are stamped with the time at which they came.
    const STAMPS: bool = false;
    /// Whether it decides about the packet at the head as well.
    const JUDGES_HEAD: bool = false;

    /// An empty queue to which nothing came yet.
    fn new(config: Self::Config) -> Self;

    /// The parameters in force.
    fn config(&self) -> &Self::Config;

    /// Goes on with what `old` has learnt, under the own parameters.
    fn adopt(&mut self, old: &Self);

    /// Changes the parameters; what has been learnt stays. `recounts`: the queue counts other overhead than before. Whether
    /// it must be told anew of all that waits, by [`EarlyState::kept`].
    fn reconfigure(&mut self, config: Self::Config, recounts: bool) -> bool
    where
        Self: Sized,
    {
        let _ = recounts;
        let old = std::mem::replace(self, Self::new(config));
        self.adopt(&old);
        false
    }

    /// Time has passed until `now`, with this in the queue: before a packet comes or goes.
    fn advance(&mut self, now: Instant, queue: &FifoQueue) {
        let _ = (now, queue);
    }

    /// Decides about a packet that comes.
    fn offered(&mut self, cx: &mut Cx<'_>, queue: &FifoQueue, packet: &Packet) -> RedVerdict {
        let _ = (cx, queue, packet);
        RedVerdict::Keep
    }

    /// Decides about the packet at the head; `None`: there is none. When it is dropped, the next one is asked about.
    fn at_head(&mut self, now: Instant, queue: &FifoQueue) -> Option<RedVerdict> {
        let _ = (now, queue);
        None
    }

    /// A packet of `len` was sent and left this behind.
    fn left(&mut self, now: Instant, queue: &FifoQueue, packet: &Packet, len: Bytes) {
        let _ = (now, queue, packet, len);
    }

    /// A packet of `len` is no longer in the queue, and was not sent.
    fn evicted(&mut self, packet: &Packet, len: Bytes) {
        let _ = (packet, len);
    }

    /// A packet of `len` is in the queue about which nothing was asked.
    fn kept(&mut self, packet: &Packet, len: Bytes) {
        let _ = (packet, len);
    }

    /// Reports what is its own, and what was marked and dropped.
    fn report(&self, counts: &RedCounts, sink: &mut dyn CounterSink);
}

/// The discipline.
#[derive(Debug)]
pub struct EarlyFifo<S> {
    pub(super) queue: FifoQueue,
    pub(super) state: S,
    counters: QueueCounters,
    /// What was decided so far; at the head everything is early.
    counts: RedCounts,
    /// Whether the packet at the head goes with a mark, once this is decided.
    marks: Option<bool>,
    /// Packets and bytes that whoever is above knows of: those dropped at the head are told with the next call.
    told: Watch,
}

impl<S: EarlyState> EarlyFifo<S> {
    /// An empty queue.
    pub fn new(config: S::Config, queue: FifoConfig) -> Self {
        let queue = FifoQueue::new(queue.limit, queue.rate, queue.overhead);
        Self {
            told: Watch::start(&queue),
            queue,
            state: S::new(config),
            counters: QueueCounters::default(),
            counts: RedCounts::default(),
            marks: None,
        }
    }

    /// What has been learnt.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Changes parameters and bound in place; packets inside stay, and what has been learnt. O(1), but O(packets) where the
    /// state counts what waits and would count otherwise.
    pub fn reconfigure(&mut self, config: S::Config, queue: FifoConfig) {
        let recounts = self.queue.overhead() != queue.overhead;
        self.queue.set_limit(queue.limit, queue.rate, queue.overhead);
        if self.state.reconfigure(config, recounts) {
            let empty = FifoQueue::new(queue.limit, queue.rate, queue.overhead);
            let mut waiting = std::mem::replace(&mut self.queue, empty);
            self.take_over(&mut waiting);
        }
    }

    /// Takes over what `old` holds, one by one.
    fn take_over(&mut self, old: &mut FifoQueue) {
        let (overhead, state) = (self.queue.overhead(), &mut self.state);
        let len = |packet: &Packet| Bytes(packet.len() as u64 + u64::from(overhead));
        self.queue.adopt_each(old, |packet| state.kept(packet, len(packet)));
    }

    /// Drops at the head until a packet is there that goes. Whether with a mark.
    fn settle(&mut self, cx: &mut Cx<'_>) -> Option<bool> {
        if !S::JUDGES_HEAD {
            return (!self.queue.is_empty()).then_some(false);
        }
        while self.marks.is_none() {
            match self.state.at_head(cx.now(), &self.queue)? {
                RedVerdict::Keep => self.marks = Some(false),
                RedVerdict::Mark => self.marks = Some(true),
                RedVerdict::DropEarly | RedVerdict::DropForced => {
                    let packet = self.queue.pop()?;
                    self.counts.early += 1;
                    self.counters.refuse(cx, packet, DropReason::CoDel);
                }
            }
        }
        self.marks
    }

    /// What changed since the last call that told.
    pub(super) fn tell(&mut self) -> Delta {
        std::mem::replace(&mut self.told, Watch::start(&self.queue)).end(&self.queue)
    }
}

impl<S: EarlyState> InLeaf for EarlyFifo<S> {
    fn put(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.state.advance(cx.now(), &self.queue);
        let verdict = self.state.offered(cx, &self.queue, &packet);
        self.counts.note(verdict);
        match verdict.carry_out(packet, S::EARLY) {
            Ok(mut packet) => {
                if S::STAMPS {
                    packet.meta_mut().queued_at = cx.now();
                }
                self.counters.offer(&mut self.queue, cx, packet);
            }
            Err((packet, reason)) => self.counters.refuse(cx, packet, reason),
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.state.advance(cx.now(), &self.queue);
        let marks = self.settle(cx)?;
        self.marks = None;
        let mut packet = self.queue.pop()?;
        if marks {
            self.counts.marked += 1;
            mark(&mut packet);
        }
        self.state.left(cx.now(), &self.queue, &packet, self.queue.cost(&packet));
        Some(packet)
    }

    fn evict(&mut self) -> Option<Packet> {
        self.marks = None;
        let packet = self.queue.pop()?;
        self.state.evicted(&packet, self.queue.cost(&packet));
        Some(packet)
    }

    fn head_since(&self) -> Option<Instant> {
        self.queue.front_meta().map(|meta| meta.queued_at)
    }

    fn keep(&mut self, packet: Packet) {
        self.state.kept(&packet, self.queue.cost(&packet));
        self.queue.keep(packet);
    }

    fn losses(&self) -> Losses {
        self.counters.losses(self.counts.early + self.counts.forced, self.counts.marked)
    }
}

impl<S: EarlyState> Discipline for EarlyFifo<S> {
    fn type_name(&self) -> &'static str {
        S::NAME
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        for packet in batch.drain() {
            self.put(cx, packet);
        }
        self.tell()
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        self.settle(cx)?;
        self.queue.front_len().map(|len| Head { len: len as u32 })
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        take_with(budget, out, || self.take(cx));
        self.tell()
    }

    held_in_queue!();

    fn counters(&self, sink: &mut dyn CounterSink) {
        self.counters.report(&self.queue, sink);
        self.state.report(&self.counts, sink);
    }

    fn drain(&mut self, out: &mut Batch) {
        self.marks = None;
        while let Some(packet) = self.queue.pop() {
            out.push(packet);
        }
        self.told = Watch::start(&self.queue);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = Self::new(*self.state.config(), FifoConfig::LEAST);
        Some(Box::new(std::mem::replace(self, empty)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut old = *state.downcast::<Self>()?;
        self.state.adopt(&old.state);
        self.take_over(&mut old.queue);
        (self.counters, self.counts, self.marks) = (old.counters, old.counts, old.marks);
        // What has been taken over is no change.
        self.told = Watch::start(&self.queue);
        Ok(())
    }

    as_any!();
}
