//! One class: its queue, how long its packets have waited, and how long they still may.

use super::law::Average;
use crate::queue::{FifoConfig, FifoQueue};
use perhop_packet::Packet;
use perhop_units::{Duration, Instant, Tokens};
use std::collections::VecDeque;

/// A packet in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    arrived: Instant,
    /// Wire bytes that came into the queue before it.
    before: u64,
    /// Its frame bytes.
    len: u64,
}

/// What happened to a class so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayCounters {
    /// Packets sent.
    pub packets: u64,
    /// Their frame bytes.
    pub bytes: u64,
    /// Sum of their waiting times in ns.
    pub waited_ns: u64,
    /// The longest of these.
    pub longest_ns: u64,
    /// Packets sent because a bound was near.
    pub urgent: u64,
    /// Packets sent after their bound.
    pub late: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// Parameters of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayConfig {
    /// Its name.
    pub name: String,
    /// Its delay in proportion to that of the others; at least 1.
    pub delay: u32,
    /// The longest its packets should wait.
    pub bound: Option<Duration>,
}

/// The state of a class.
#[derive(Debug)]
pub struct DelayClass {
    pub(super) config: DelayConfig,
    pub(super) queue: FifoQueue,
    waiting: VecDeque<Waiting>,
    /// Packets by which the class may have to be served first of all, in order, with `deadline × rate − bits before it` in
    /// 10⁻⁹ bit: each has less of it than all before it in the queue, so the first has the least.
    tightest: VecDeque<(u64, i128)>,
    /// Wire bytes that ever came in and went out.
    bytes_in: u64,
    bytes_out: u64,
    /// Waiting times of packets sent lately.
    average: Average,
    pub(super) counters: DelayCounters,
}

impl DelayClass {
    /// An empty class.
    pub fn new(config: DelayConfig, queue: FifoConfig) -> Self {
        Self {
            config,
            queue: FifoQueue::new(queue.limit, queue.rate, queue.overhead),
            waiting: VecDeque::new(),
            tightest: VecDeque::new(),
            bytes_in: 0,
            bytes_out: 0,
            average: Average::default(),
            counters: DelayCounters::default(),
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> DelayCounters {
        self.counters
    }

    /// Wire bytes waiting.
    pub(super) fn backlog(&self) -> u64 {
        self.bytes_in - self.bytes_out
    }

    /// Appends a packet, or gives it back when there is no room. `rate` is the line's, in bit/s.
    pub(super) fn offer(&mut self, now: Instant, rate: u64, packet: Packet) -> Result<(), Packet> {
        let len = packet.len() as u64;
        self.queue.lasted(now);
        self.queue.offer(packet).inspect_err(|_| self.counters.dropped += 1)?;
        self.note(now, rate, len);
        Ok(())
    }

    fn note(&mut self, arrived: Instant, rate: u64, len: u64) {
        let before = self.bytes_in;
        self.waiting.push_back(Waiting { arrived, before, len });
        self.bytes_in += len + u64::from(self.queue.overhead());
        if let Some(bound) = self.config.bound {
            let deadline = i128::from(arrived.0) + i128::from(bound.0);
            let spare = deadline * i128::from(rate) - i128::from(before) * i128::from(Tokens::PER_BYTE);
            while self.tightest.back().is_some_and(|(_, s)| *s >= spare) {
                self.tightest.pop_back();
            }
            self.tightest.push_back((before, spare));
        }
    }

    /// Takes the oldest packet at `now`. `memory` is how many packets the average remembers.
    pub(super) fn pop(&mut self, now: Instant, memory: u64) -> Option<Packet> {
        self.queue.lasted(now);
        let packet = self.queue.pop()?;
        let Some(Waiting { arrived, before, len }) = self.waiting.pop_front() else { return Some(packet) };
        if self.tightest.front().is_some_and(|(at, _)| *at == before) {
            self.tightest.pop_front();
        }
        self.bytes_out += len + u64::from(self.queue.overhead());
        let waited = now.since(arrived);
        self.average.add(waited, memory);
        let c = &mut self.counters;
        c.packets += 1;
        c.bytes += len;
        c.waited_ns += waited.0;
        c.longest_ns = c.longest_ns.max(waited.0);
        c.late += u64::from(self.config.bound.is_some_and(|bound| waited > bound));
        Some(packet)
    }

    /// How long the oldest packet has waited.
    pub(super) fn waited(&self, now: Instant) -> Option<Duration> {
        self.waiting.front().map(|w| now.since(w.arrived))
    }

    /// When the oldest packet should go at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.waiting.front()?.arrived + self.config.bound?)
    }

    /// Average waiting time of packets sent, in ns.
    pub(super) fn average(&self) -> u64 {
        self.average.mean()
    }

    /// Whether some packet would miss its bound if, before the class is served without pause, the line sent `ahead` bytes
    /// from `now` on.
    pub(super) fn is_tight(&self, now: Instant, rate: u64, ahead: u64) -> bool {
        let Some((_, spare)) = self.tightest.front() else { return false };
        let of = |bytes: u64| i128::from(bytes) * i128::from(Tokens::PER_BYTE);
        spare + of(self.bytes_out) < i128::from(now.0) * i128::from(rate) + of(ahead)
    }

    /// Takes over packets with their arrival times, averages and counters of a predecessor.
    pub(super) fn adopt(&mut self, old: &mut Self, rate: u64) {
        self.queue.adopt(&mut old.queue);
        for Waiting { arrived, len, .. } in old.waiting.drain(..) {
            self.note(arrived, rate, len);
        }
        (self.average, self.counters) = (old.average, old.counters);
    }

    /// Forgets what has been drained.
    pub(super) fn drained(&mut self) {
        self.waiting.clear();
        self.tightest.clear();
        self.bytes_out = self.bytes_in;
    }
}
