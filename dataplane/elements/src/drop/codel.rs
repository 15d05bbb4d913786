//! # Synopsis
//! `CoDel` is the discipline of a FIFO queue that drops or marks at its head while packets wait too long.
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `target` | time | ns | 5 ms | 1 µs … 1 s |
//! | `interval` | time | ns | 100 ms | `target` … 10 s |
//! | `mtu` | size | byte | 1514 B | 1 … 65,535 |
//! | `ecn` | yes, no | | yes | |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//!
//! # Behaviour
//! Once packets have waited for longer than `target` throughout `interval`, and more than `mtu` is in the queue, the packet
//! at its head is dropped (`codel`) or, with `ecn` and an ECN-capable transport, marked, and again after ever shorter
//! times, `interval` over the square root of their number, until a packet has waited for less. An arriving packet is
//! dropped only where the hard bound `limit` says so (`queue_full`).
//!
//! # Counters
//! Those of [`crate::queue::fifo`], where `dropped_packets` and `dropped_bytes` count drops of both kinds; `marked`,
//! `at_head` (dropped by the waiting time).
//!
//! # Invariants
//! Order is kept; the bound holds; a queue whose packets wait for less than `target` loses nothing to it; the last packet
//! is never dropped at the head.
//!
//! # Example
//! `Shaper(10 Mbit/s, discipline = codel, limit = 1000 packets)`
//!
//! # Source
//! RFC 8289 §5 (reference implementation: `dodequeue`, `deque`, `control_law`), §4.4 (defaults); §3.2 leaves marking open,
//! which is done in the place of a drop.

use super::{InLeaf, Losses, mark};
use crate::plumbing::adapter::{as_any, held_in_queue};
use crate::queue::fifo::{FifoConfig, Watch, read_config, take_with};
use crate::queue::{FifoQueue, QueueCounters};
use perhop_element::{Budget, CounterSink, Cx, Delta, Discipline, ElementState, Head, Reader};
use perhop_packet::{Batch, DropReason, Packet};
use perhop_units::{Bytes, Duration, Instant, Rate};

/// Parameters of RFC 8289.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelConfig {
    /// Waiting time that is acceptable as a standing one.
    pub target: Duration,
    /// Time in which a queue may come back below `target`; about the longest round trip of its connections.
    pub interval: Duration,
    /// A queue of so many bytes at most is left alone.
    pub mtu: Bytes,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for CoDelConfig {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mtu: Bytes(1514),
            ecn: true,
        }
    }
}

/// What becomes of the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadVerdict {
    /// It goes.
    Send,
    /// It is one too many: marked and sent, or dropped, after which the next is asked for.
    Excess,
}

/// The law by which packets are excess, without the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelState {
    config: CoDelConfig,
    /// When the waiting time will have been above the target for an interval.
    first_above: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    /// Drops of this dropping state, and of the last one when it began.
    count: u32,
    last_count: u32,
    /// What the last verdict leaves to be done with the next head.
    after: After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// It is judged.
    Judge,
    /// It is sent: it is behind the packet that began the dropping state.
    Send,
    /// The next drop is set, if it has waited too long as well.
    Advance,
}

impl CoDelState {
    /// Nothing has waited yet.
    pub fn new(config: CoDelConfig) -> Self {
        Self {
            config,
            first_above: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            after: After::Judge,
        }
    }

    /// Its parameters.
    pub fn config(&self) -> &CoDelConfig {
        &self.config
    }

    /// Changes the parameters; what is known of the waiting stays.
    pub fn reconfigure(&mut self, config: CoDelConfig) {
        self.config = config;
    }

    /// Judges the packet at the head, which has waited for `waited`, with `left` bytes in the queue behind it. When the
    /// answer is [`HeadVerdict::Excess`] and the packet is dropped, the next head is judged at the same `now`. O(1).
    pub fn judge(&mut self, now: Instant, waited: Duration, left: Bytes) -> HeadVerdict {
        let too_long = self.too_long(now, waited, left);
        match std::mem::replace(&mut self.after, After::Judge) {
            After::Send => return HeadVerdict::Send,
            After::Advance if too_long => self.drop_next = self.next_after(self.drop_next),
            After::Advance | After::Judge => {}
        }
        self.dropping &= too_long;
        if self.dropping {
            if now < self.drop_next {
                return HeadVerdict::Send;
            }
            self.count = self.count.saturating_add(1);
            self.after = After::Advance;
            return HeadVerdict::Excess;
        }
        if !too_long {
            return HeadVerdict::Send;
        }
        self.dropping = true;
        self.after = After::Send;
        // One that was left a short while ago goes on nearly where it was.
        let more = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next).as_nanos() < 16 * self.config.interval.as_nanos();
        self.count = if more > 1 && recent { more } else { 1 };
        self.drop_next = self.next_after(now);
        self.last_count = self.count;
        HeadVerdict::Excess
    }

    /// The packet judged excess was sent all the same, with a mark.
    pub fn marked(&mut self) {
        if self.after == After::Send {
            self.after = After::Judge;
        }
    }

    /// The queue is empty.
    pub fn emptied(&mut self) {
        self.first_above = None;
        if self.after != After::Send {
            self.dropping = false;
        }
        self.after = After::Judge;
    }

    fn too_long(&mut self, now: Instant, waited: Duration, left: Bytes) -> bool {
        if waited < self.config.target || left <= self.config.mtu {
            self.first_above = None;
            return false;
        }
        let at = *self.first_above.get_or_insert(now + self.config.interval);
        now >= at
    }

    fn next_after(&self, at: Instant) -> Instant {
        at + control_law(self.config.interval, self.count)
    }
}

/// An interval over the square root of the count, within 1.2 · 10⁻⁵; a count of 0 is taken for 1.
fn control_law(interval: Duration, count: u32) -> Duration {
    let root = (u64::from(count.max(1)) << 32).isqrt();
    Duration(((u128::from(interval.as_nanos()) << 16) / u128::from(root)) as u64)
}

/// The discipline.
#[derive(Debug)]
pub struct CoDel {
    queue: FifoQueue,
    state: CoDelState,
    counters: QueueCounters,
    marked: u64,
    at_head: u64,
    /// What was decided of the packet at the head.
    head: Option<Settled>,
    /// Packets and bytes that whoever is above knows of: those dropped at the head are told with the next call.
    told: Watch,
}

/// The packet at the head goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// As it is.
    Plain,
    /// Marked.
    Marked,
}

impl CoDel {
    /// An empty queue.
    pub fn new(config: CoDelConfig, queue: FifoConfig) -> Self {
        let queue = FifoQueue::new(queue.limit, queue.rate, queue.overhead);
        let told = Watch::start(&queue);
        Self {
            queue,
            state: CoDelState::new(config),
            counters: QueueCounters::default(),
            marked: 0,
            at_head: 0,
            head: None,
            told,
        }
    }

    /// Drops at the head until a packet is there that goes.
    fn settle(&mut self, cx: &mut Cx<'_>) -> Option<Settled> {
        let now = cx.now();
        while self.head.is_none() {
            let Some(meta) = self.queue.front_meta() else {
                self.state.emptied();
                return None;
            };
            let capable = meta.layout.is_ecn_capable();
            let waited = now.since(meta.queued_at);
            let front = self.queue.front_len().unwrap_or(0) as u64 + u64::from(self.queue.overhead());
            let left = Bytes(self.queue.bytes().0.saturating_sub(front));
            match self.state.judge(now, waited, left) {
                HeadVerdict::Send => self.head = Some(Settled::Plain),
                HeadVerdict::Excess if capable && self.state.config.ecn => {
                    self.state.marked();
                    self.head = Some(Settled::Marked);
                }
                HeadVerdict::Excess => {
                    let Some(packet) = self.queue.pop() else { break };
                    self.at_head += 1;
                    self.counters.refuse(cx, packet, DropReason::CoDel);
                }
            }
        }
        self.head
    }

    /// Changes parameters and bound in place; packets inside stay, and what is known of their waiting.
    pub fn reconfigure(&mut self, config: CoDelConfig, queue: FifoConfig) {
        self.state.reconfigure(config);
        self.queue.set_limit(queue.limit, queue.rate, queue.overhead);
    }

    /// What changed since the last call that told.
    fn tell(&mut self) -> Delta {
        std::mem::replace(&mut self.told, Watch::start(&self.queue)).end(&self.queue)
    }
}

impl InLeaf for CoDel {
    fn put(&mut self, cx: &mut Cx<'_>, mut packet: Packet) {
        packet.meta_mut().queued_at = cx.now();
        self.counters.offer(&mut self.queue, cx, packet);
    }

    fn take(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let settled = self.settle(cx)?;
        self.head = None;
        let mut packet = self.queue.pop()?;
        if settled == Settled::Marked {
            self.marked += 1;
            mark(&mut packet);
        }
        Some(packet)
    }

    fn evict(&mut self) -> Option<Packet> {
        self.head = None;
        self.queue.pop()
    }

    fn head_since(&self) -> Option<Instant> {
        self.queue.front_meta().map(|meta| meta.queued_at)
    }

    fn keep(&mut self, packet: Packet) {
        self.queue.keep(packet);
    }

    fn losses(&self) -> Losses {
        self.counters.losses(self.at_head, self.marked)
    }
}

impl Discipline for CoDel {
    fn type_name(&self) -> &'static str {
        "CoDel"
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
        sink.counter("marked", self.marked);
        sink.counter("at_head", self.at_head);
    }

    fn drain(&mut self, out: &mut Batch) {
        self.head = None;
        while let Some(packet) = self.queue.pop() {
            out.push(packet);
        }
        self.told = Watch::start(&self.queue);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        let empty = Self::new(self.state.config, FifoConfig::LEAST);
        Some(Box::new(std::mem::replace(self, empty)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let mut old = *state.downcast::<Self>()?;
        self.queue.adopt(&mut old.queue);
        self.state = CoDelState { config: self.state.config, ..old.state };
        self.counters = old.counters;
        (self.marked, self.at_head, self.head) = (old.marked, old.at_head, old.head);
        // What has been taken over is no change.
        self.told = Watch::start(&self.queue);
        Ok(())
    }

    as_any!();
}

/// Reads CoDel's parameters for a queue behind a link of `rate`.
pub fn read(r: &mut Reader<'_>, rate: Rate) -> (CoDelConfig, FifoConfig) {
    let default = CoDelConfig::default();
    let queue = read_config(r, None, rate);
    let target =
        r.optional_in("target", None, default.target, Duration::from_micros(1)..=Duration::from_secs(1));
    let longest = Duration::from_secs(10);
    let interval = r.optional_in("interval", None, default.interval.max(target), target..=longest);
    let mtu = r.optional_in("mtu", None, default.mtu, Bytes(1)..=Bytes(65_535));
    (CoDelConfig { target, interval, mtu, ecn: r.flag("ecn", default.ecn) }, queue)
}

#[cfg(test)]
#[path = "codel_tests.rs"]
mod tests;
