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

use super::{EarlyFifo, EarlyState, RedCounts, RedVerdict};
use crate::queue::FifoQueue;
use crate::queue::fifo::{FifoConfig, read_config};
use perhop_element::{CounterSink, Reader};
use perhop_packet::Meta;
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

    /// Decides about the packet at the head, of which `head` is told, with `left` bytes in the queue behind it; `None`: there
    /// is none.
    pub(super) fn decide(&mut self, now: Instant, head: Option<&Meta>, left: Bytes) -> Option<RedVerdict> {
        let Some(head) = head else {
            self.emptied();
            return None;
        };
        Some(match self.judge(now, now.since(head.queued_at), left) {
            HeadVerdict::Send => RedVerdict::Keep,
            HeadVerdict::Excess if self.config.ecn && head.layout.is_ecn_capable() => {
                self.marked();
                RedVerdict::Mark
            }
            HeadVerdict::Excess => RedVerdict::DropEarly,
        })
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
pub type CoDel = EarlyFifo<CoDelState>;

impl EarlyState for CoDelState {
    type Config = CoDelConfig;
    const NAME: &'static str = "CoDel";
    const STAMPS: bool = true;
    const JUDGES_HEAD: bool = true;

    /// Nothing has waited yet.
    fn new(config: CoDelConfig) -> Self {
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

    fn config(&self) -> &CoDelConfig {
        &self.config
    }

    fn adopt(&mut self, old: &Self) {
        *self = Self { config: self.config, ..*old };
    }

    fn at_head(&mut self, now: Instant, queue: &FifoQueue) -> Option<RedVerdict> {
        let front = queue.front_len().unwrap_or(0) as u64 + u64::from(queue.overhead());
        self.decide(now, queue.front_meta(), Bytes(queue.bytes().0.saturating_sub(front)))
    }

    fn report(&self, counts: &RedCounts, sink: &mut dyn CounterSink) {
        sink.counter("marked", counts.marked);
        sink.counter("at_head", counts.early);
    }
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
