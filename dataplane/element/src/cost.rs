//! What elements cost: the time of each per packet, from a sample of its calls.
//!
//! The driver delivers between elements, so a call of one holds no other's work: its duration is self time. Reading a
//! clock twice around every call would cost more than a cheap element takes. So one call in [`CostConfig::every`] is timed,
//! chosen element by element at pseudo-random distances (uniform on 1 … 2 × every − 1), so that no period of the traffic or
//! of timers is met or missed. The stream is the meter's own: what is random in the data path is as without it. A
//! call's time is divided by its packets; the time that reading the clock itself takes is subtracted.

use crate::{Histogram, NodeCounters};

/// A monotonic clock, ns. The data plane has none of its own: whoever drives it lends one.
pub type Clock = fn() -> u64;

/// How costs are taken.
#[derive(Clone, Copy, Debug)]
pub struct CostConfig {
    /// The clock.
    pub clock: Clock,
    /// Time between two readings that follow each other, ns; see [`CostConfig::calibrated`].
    pub clock_ns: u64,
    /// One call in so many is timed, on average; 0 counts as 1, all.
    pub every: u32,
}

impl CostConfig {
    /// Calls of an element of which one is timed, unless somebody says otherwise. Two readings of 25 to 50 ns then add
    /// less than 1 ns to a call.
    pub const EVERY: u32 = 128;

    /// With the price of a reading measured: the least of 64.
    pub fn calibrated(clock: Clock, every: u32) -> Self {
        let mut clock_ns = u64::MAX;
        for _ in 0..64 {
            let begin = clock();
            clock_ns = clock_ns.min(clock().saturating_sub(begin));
        }
        Self { clock, clock_ns, every }
    }
}

/// Costs of one kind of call to an element.
#[derive(Clone, Debug, Default)]
pub struct CallCost {
    /// Calls.
    pub calls: u64,
    /// Packets of all calls: handed in by a push, moved on or ended by a wake.
    pub packets: u64,
    /// Calls timed.
    pub sampled_calls: u64,
    /// Packets of the timed calls.
    pub sampled_packets: u64,
    /// Time of the timed calls, ns.
    pub sampled_ns: u64,
    /// ps per packet of the timed calls, a packet each; calls without packets are not in it.
    pub histogram: Histogram,
    /// Calls until the next that is timed.
    left: u32,
}

impl CallCost {
    /// Mean ns of a timed call; 0 without any.
    pub fn ns_per_call(&self) -> f64 {
        quotient(self.sampled_ns, self.sampled_calls)
    }

    /// Mean ns of a packet of timed calls, the time of calls without packets included; 0 without packets.
    pub fn ns_per_packet(&self) -> f64 {
        quotient(self.sampled_ns, self.sampled_packets)
    }

    fn add(&mut self, ns: u64, packets: u64) {
        self.sampled_calls += 1;
        self.sampled_packets += packets;
        self.sampled_ns = self.sampled_ns.saturating_add(ns);
        if let Some(each) = ns.saturating_mul(1000).checked_div(packets) {
            self.histogram.record_many(each, packets);
        }
    }
}

fn quotient(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// Costs of one element since costs are taken. About 20 KiB.
#[derive(Clone, Debug, Default)]
pub struct ElementCost {
    /// Calls that hand packets in: classify, meter, enqueue.
    pub push: CallCost,
    /// Calls by timers and by ports that have room again: dequeue, expiry.
    pub wake: CallCost,
}

impl ElementCost {
    /// Time of all calls, ns: scaled from the timed ones, a push by its packets and a wake by calls.
    pub fn estimated_ns(&self) -> f64 {
        self.push.ns_per_packet() * self.push.packets as f64
            + self.wake.ns_per_call() * self.wake.calls as f64
    }

    /// Mean ns that the element takes for a packet, pushes and wakes together; of an element that is only woken (it makes
    /// packets, or answers for others), for a packet it moved. 0 without packets.
    pub fn ns_per_packet(&self) -> f64 {
        let packets = if self.push.packets > 0 { self.push.packets } else { self.wake.packets };
        if packets == 0 { 0.0 } else { self.estimated_ns() / packets as f64 }
    }
}

/// Which calls are timed, and the timing.
#[derive(Debug)]
pub(crate) struct Meter {
    config: CostConfig,
    pace: Pace,
}

impl Meter {
    pub(crate) fn new(config: CostConfig) -> Self {
        Self { config, pace: Pace::new(config.every) }
    }

    /// Costs of a new element, the first timed call of which is any of the first ones.
    pub(crate) fn fresh(&mut self) -> Box<ElementCost> {
        let mut cost = Box::<ElementCost>::default();
        cost.push.left = self.pace.next();
        cost.wake.left = self.pace.next();
        cost
    }
}

/// One call under way.
pub(crate) struct Timing<'a> {
    clock: Clock,
    clock_ns: u64,
    cost: &'a mut CallCost,
    /// Packets handed in; none for a wake, which counts what it moves.
    pushed: Option<u64>,
    /// [`moved`] before the wake.
    before: u64,
    /// When it began, if it is timed.
    begun: Option<u64>,
}

impl<'a> Timing<'a> {
    /// Before a call that hands in `pushed` packets, or a wake.
    #[inline]
    pub(crate) fn begin(
        meter: &mut Meter,
        cost: &'a mut ElementCost,
        pushed: Option<u64>,
        counters: &NodeCounters,
    ) -> Self {
        let CostConfig { clock, clock_ns, .. } = meter.config;
        let cost = if pushed.is_some() { &mut cost.push } else { &mut cost.wake };
        cost.left = cost.left.saturating_sub(1);
        let timed = cost.left == 0;
        if timed {
            cost.left = meter.pace.next();
        }
        let before = if pushed.is_none() { moved(counters) } else { 0 };
        Self { clock, clock_ns, cost, pushed, before, begun: timed.then(clock) }
    }

    /// After it.
    #[inline]
    pub(crate) fn end(self, counters: &NodeCounters) {
        let took = self.begun.map(|begun| (self.clock)().saturating_sub(begun));
        let packets = self.pushed.unwrap_or_else(|| moved(counters).saturating_sub(self.before));
        self.cost.calls += 1;
        self.cost.packets += packets;
        if let Some(took) = took {
            self.cost.add(took.saturating_sub(self.clock_ns), packets);
        }
    }
}

/// Packets that an element let go of.
fn moved(counters: &NodeCounters) -> u64 {
    counters.emitted + counters.consumed + counters.dropped
}

/// Distances between samples: uniform on 1 … 2k − 1, so k on average.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    every: u32,
    state: u64,
}

impl Pace {
    pub(crate) fn new(every: u32) -> Self {
        Self { every: every.clamp(1, 1 << 30), state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// xorshift64* (Vigna, 2016): a few instructions, and good enough to break periods.
    pub(crate) fn next(&mut self) -> u32 {
        if self.every == 1 {
            return 1;
        }
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        1 + ((random * u64::from(2 * self.every - 1)) >> 32) as u32
    }
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
