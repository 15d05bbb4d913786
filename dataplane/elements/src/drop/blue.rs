//! # Synopsis
//! `Blue` is the discipline of a FIFO queue that learns from overflow and idleness how much to drop.
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `increase` | probability | | 2 % | above 0 … 100 % |
//! | `decrease` | probability | | 0.2 % | above 0 … 100 % |
//! | `freeze` | time | ns | 100 ms | 1 ms … 60 s |
//! | `ecn` | yes, no | | yes | |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//!
//! # Behaviour
//! Each arriving packet is dropped (`blue`) or, with `ecn` and an ECN-capable transport, marked, with one probability.
//! It begins at 0, rises by `increase` when a packet finds the queue full (`queue_full`), and falls by `decrease` when the
//! queue has become empty and for each `freeze` that it stays so. Between two changes there is at least `freeze`.
//!
//! # Counters
//! Those of [`crate::queue::fifo`]; `marked`, `early`; gauge `probability_ppm`.
//!
//! # Invariants
//! Order is kept; the bound holds; with equal random bits two queues decide alike.
//!
//! # Example
//! `Shaper(10 Mbit/s, discipline = blue, limit = 200 packets)`
//!
//! # Source
//! W. Feng, D. Kandlur, D. Saha, K. Shin, *BLUE: a new class of active queue management algorithms*, University of
//! Michigan CSE-TR-387-99, 1999, §3 (the algorithm), §3.2 (parameters).

use super::{EarlyFifo, EarlyState, RedCounts, RedVerdict};
use crate::queue::FifoQueue;
use crate::queue::fifo::{FifoConfig, read_config};
use perhop_element::{CounterSink, Cx, Reader};
use perhop_packet::{DropReason, Packet};
use perhop_units::{Bytes, Duration, Instant, Probability, Rate};

/// Parameters of the source's figure 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlueConfig {
    /// Added on overflow (d1).
    pub increase: Probability,
    /// Taken off when idle (d2).
    pub decrease: Probability,
    /// Least time between two changes.
    pub freeze: Duration,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for BlueConfig {
    fn default() -> Self {
        Self {
            increase: Probability(u32::MAX / 50),
            decrease: Probability(u32::MAX / 500),
            freeze: Duration::from_millis(100),
            ecn: true,
        }
    }
}

/// The probability and what moves it, without the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlueState {
    config: BlueConfig,
    probability: Probability,
    changed: Option<Instant>,
    /// Since when the queue is empty, as far as it has been taken into account.
    idle_since: Option<Instant>,
}

impl BlueState {
    /// The probability now.
    pub fn probability(&self) -> Probability {
        self.probability
    }

    /// A packet arrives: whether it is one to drop or mark, by 32 uniform bits. O(1).
    pub fn arrives(&mut self, now: Instant, random: u32) -> bool {
        if let Some(since) = self.idle_since.take() {
            let times = now.since(since).as_nanos() / self.config.freeze.as_nanos().max(1);
            let off = u64::from(self.config.decrease.0).saturating_mul(times);
            self.lower(off);
            if times > 0 {
                self.changed = Some(now);
            }
        }
        self.probability.happens(random)
    }

    /// A packet found the queue full.
    pub fn overflowed(&mut self, now: Instant) {
        if self.may_change(now) {
            self.probability = Probability(self.probability.0.saturating_add(self.config.increase.0));
        }
    }

    /// The queue has become empty.
    pub fn emptied(&mut self, now: Instant) {
        self.idle_since = Some(now);
        if self.may_change(now) {
            self.lower(u64::from(self.config.decrease.0));
        }
    }

    fn lower(&mut self, by: u64) {
        let left = u64::from(self.probability.0).saturating_sub(by);
        self.probability = Probability(left as u32);
    }

    fn may_change(&mut self, now: Instant) -> bool {
        let may = self.changed.is_none_or(|at| now.since(at) >= self.config.freeze);
        if may {
            self.changed = Some(now);
        }
        may
    }
}

/// The discipline.
pub type Blue = EarlyFifo<BlueState>;

impl EarlyState for BlueState {
    type Config = BlueConfig;
    const NAME: &'static str = "Blue";
    const EARLY: DropReason = DropReason::Blue;

    /// Nothing is dropped at first.
    fn new(config: BlueConfig) -> Self {
        Self { config, probability: Probability::ZERO, changed: None, idle_since: None }
    }

    fn config(&self) -> &BlueConfig {
        &self.config
    }

    fn adopt(&mut self, old: &Self) {
        *self = Self { config: self.config, ..*old };
    }

    fn offered(&mut self, cx: &mut Cx<'_>, queue: &FifoQueue, packet: &Packet) -> RedVerdict {
        let verdict = match self.arrives(cx.now(), cx.random()) {
            false => RedVerdict::Keep,
            true if self.config.ecn && packet.meta().layout.is_ecn_capable() => RedVerdict::Mark,
            true => return RedVerdict::DropEarly,
        };
        if !queue.has_room(packet.len()) {
            self.overflowed(cx.now());
        }
        verdict
    }

    fn left(&mut self, now: Instant, queue: &FifoQueue, _packet: &Packet, _len: Bytes) {
        if queue.is_empty() {
            self.emptied(now);
        }
    }

    fn report(&self, counts: &RedCounts, sink: &mut dyn CounterSink) {
        sink.counter("marked", counts.marked);
        sink.counter("early", counts.early);
        let ppm = u64::from(self.probability.0) * 1_000_000 / u64::from(u32::MAX);
        sink.gauge("probability_ppm", ppm);
    }
}

/// Reads Blue's parameters for a queue behind a link of `rate`.
pub fn read(r: &mut Reader<'_>, rate: Rate) -> (BlueConfig, FifoConfig) {
    let default = BlueConfig::default();
    let queue = read_config(r, None, rate);
    let step = Probability(1)..=Probability::ONE;
    let increase = r.optional_in("increase", None, default.increase, step.clone());
    let decrease = r.optional_in("decrease", None, default.decrease, step);
    let range = Duration::from_millis(1)..=Duration::from_secs(60);
    let freeze = r.optional_in("freeze", None, default.freeze, range);
    (BlueConfig { increase, decrease, freeze, ecn: r.flag("ecn", default.ecn) }, queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::fifo::laws::{calls, check};
    use perhop_units::QueueLimit;
    use proptest::prelude::*;

    const CONFIG: BlueConfig = BlueConfig {
        increase: Probability(1000),
        decrease: Probability(100),
        freeze: Duration::from_millis(10),
        ecn: true,
    };

    fn at_ms(n: u64) -> Instant {
        Instant(n * 1_000_000)
    }

    #[test]
    fn overflow_raises_it_and_idleness_lowers_it_once_a_freeze() {
        let mut state = BlueState::new(CONFIG);
        let steps = [(0, 1000), (9, 1000), (10, 2000), (15, 2000), (20, 3000)];
        for (ms, expected) in steps {
            state.overflowed(at_ms(ms));
            assert_eq!(state.probability(), Probability(expected), "{ms} ms");
        }
        // It becomes empty too soon after the change, and is so for 35 ms: three times.
        state.emptied(at_ms(25));
        assert_eq!(state.probability(), Probability(3000));
        assert!(!state.arrives(at_ms(60), 2700));
        assert_eq!(state.probability(), Probability(2700));
        assert!(state.arrives(at_ms(60), 2699));
        // That was a change.
        state.overflowed(at_ms(69));
        assert_eq!(state.probability(), Probability(2700));
        state.emptied(at_ms(80));
        assert_eq!(state.probability(), Probability(2600));
        // Neither end is passed.
        assert!(!state.arrives(at_ms(1_000_000), 0));
        assert_eq!(state.probability(), Probability::ZERO);
        for ms in 0..6_000_000u64 {
            state.overflowed(at_ms(2_000_000 + ms * 10));
        }
        assert_eq!(state.probability(), Probability::ONE);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn blue_reports_what_it_does(calls in calls(), increase: u32, decrease: u32, ecn: bool) {
            let queue = FifoConfig { limit: QueueLimit::Packets(4), rate: Rate::ZERO, overhead: 4 };
            let config = BlueConfig {
                increase: Probability(increase),
                decrease: Probability(decrease),
                freeze: Duration::from_millis(1),
                ecn,
            };
            check(Blue::new(config, queue), &calls);
        }
    }
}
