//! # Synopsis
//! `Drd` is the discipline of a FIFO queue that drops at random by its present length (derivative random drop).
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `min` | number | packet | required | 0 … 4,194,303 |
//! | `max` | number | packet | required | `min` … 4,194,304 |
//! | `start_p` | probability | | 0 % | 0 … 100 % |
//! | `ceiling` | probability | | 95 % | `start_p` … 100 % |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//!
//! # Behaviour
//! A packet that finds fewer than `min` waiting is queued. From `min` on it is dropped (`drd`) with a probability
//! that grows linearly from `start_p` to `ceiling` at `max` and stays there, so that a queue can grow beyond `max`. With
//! `min` = `max` this is the tail drop of an emulator that now and then lets one more in. The hard bound `limit` holds
//! besides (`queue_full`). Drops do not depend on each other, and nothing is marked.
//!
//! # Counters
//! Those of [`crate::queue::fifo`]; `early`.
//!
//! # Invariants
//! Order is kept; the bound holds; with equal random bits two queues decide alike.
//!
//! # Example
//! `Shaper(1536 kbit/s, discipline = drd, min = 15, max = 40, limit = 1000 packets)`
//!
//! # Source
//! M. Gaynor, *Proactive packet dropping methods for TCP gateways*, 1996, as the emulator NIST Net has it, whose
//! probability ends at 95 % (`docs/sources.md`, Reddy 2004). The probability at `min` is not published.

use super::{EarlyFifo, EarlyState, RedCounts, RedVerdict};
use crate::queue::fifo::{FifoConfig, read_config};
use crate::queue::{FifoQueue, MAX_PACKETS};
use perhop_element::{CounterSink, Cx, Reader};
use perhop_packet::{DropReason, Packet};
use perhop_units::{Probability, Rate};

/// Thresholds and probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrdConfig {
    /// Below so many packets nothing is dropped.
    pub min: u32,
    /// From so many packets on the probability is `ceiling`.
    pub max: u32,
    /// Probability at `min`.
    pub start: Probability,
    /// Probability from `max` on.
    pub ceiling: Probability,
}

impl DrdConfig {
    /// Ceiling of the emulator's.
    pub const CEILING: Probability = Probability((u32::MAX as u64 * 95 / 100) as u32);

    /// The probability with which a packet is dropped that finds so many waiting. O(1).
    pub fn probability(&self, waiting: u32) -> Probability {
        if waiting < self.min {
            return Probability::ZERO;
        }
        if waiting >= self.max {
            return self.ceiling;
        }
        let (steps, step) = (u64::from(self.max - self.min), u64::from(waiting - self.min));
        let rise = u64::from(self.ceiling.0.saturating_sub(self.start.0)) * step / steps;
        Probability(self.start.0.saturating_add(rise as u32))
    }

    /// Whether a packet that finds so many waiting is dropped, by 32 uniform bits.
    pub fn drops(&self, waiting: u32, random: u32) -> bool {
        self.probability(waiting).happens(random)
    }
}

/// The discipline.
pub type Drd = EarlyFifo<DrdConfig>;

impl EarlyState for DrdConfig {
    type Config = Self;
    const NAME: &'static str = "Drd";
    const EARLY: DropReason = DropReason::Drd;

    fn new(config: Self) -> Self {
        config
    }

    fn config(&self) -> &Self {
        self
    }

    fn adopt(&mut self, _old: &Self) {}

    fn offered(&mut self, cx: &mut Cx<'_>, queue: &FifoQueue, _packet: &Packet) -> RedVerdict {
        let waiting = u32::try_from(queue.len()).unwrap_or(u32::MAX);
        let drops = waiting >= self.min && self.drops(waiting, cx.random());
        if drops { RedVerdict::DropEarly } else { RedVerdict::Keep }
    }

    fn report(&self, counts: &RedCounts, sink: &mut dyn CounterSink) {
        sink.counter("early", counts.early);
    }
}

/// Reads thresholds and probabilities for a queue behind a link of `rate`.
pub fn read(r: &mut Reader<'_>, rate: Rate) -> (DrdConfig, FifoConfig) {
    let queue = read_config(r, None, rate);
    let min = r.required_in("min", None, 0..=MAX_PACKETS - 1);
    let max = r.required_in("max", None, 0..=MAX_PACKETS);
    if max < min {
        r.fail("max", format!("max = {max} is below min"), Some(format!("{min} or more")));
    }
    let start = r.optional("start_p", None).unwrap_or(Probability::ZERO);
    let ceiling = r.optional("ceiling", None).unwrap_or(DrdConfig::CEILING);
    if ceiling < start {
        r.fail("ceiling", "ceiling is below start_p".to_owned(), None);
    }
    (DrdConfig { min, max, start, ceiling }, queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::fifo::laws::{calls, check};
    use perhop_units::QueueLimit;
    use proptest::prelude::*;

    const PUBLISHED: DrdConfig =
        DrdConfig { min: 15, max: 40, start: Probability::ZERO, ceiling: DrdConfig::CEILING };

    #[test]
    fn the_probability_is_a_ramp_between_the_thresholds_that_ends_below_one() {
        let share = |waiting| f64::from(PUBLISHED.probability(waiting).0) / f64::from(u32::MAX);
        for waiting in [0, 14, 15] {
            assert_eq!(share(waiting), 0.0, "{waiting}");
        }
        for waiting in 16..40 {
            let expected = 0.95 * f64::from(waiting - 15) / 25.0;
            assert!((share(waiting) - expected).abs() < 1e-6, "{waiting}: {}", share(waiting));
        }
        for waiting in [40, 41, 1000, u32::MAX] {
            assert!((share(waiting) - 0.95).abs() < 1e-6, "{waiting}");
        }
        let started = DrdConfig { start: Probability(1 << 30), ..PUBLISHED };
        assert_eq!(started.probability(15), Probability(1 << 30));
    }

    #[test]
    fn equal_thresholds_are_a_tail_drop_with_a_leak() {
        let tail = DrdConfig { min: 15, max: 15, ..PUBLISHED };
        let ceiling = DrdConfig::CEILING.0;
        assert!(!tail.drops(14, 0) && tail.drops(15, 0) && tail.drops(15, ceiling - 1));
        assert!(!tail.drops(15, ceiling) && !tail.drops(15, u32::MAX));
        // With a ceiling of 100 % it leaks nothing.
        let strict = DrdConfig { ceiling: Probability::ONE, ..tail };
        assert!(strict.drops(15, u32::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn drd_reports_what_it_does(calls in calls(), min in 0u32..6, span in 0u32..6, start: u32) {
            let queue = FifoConfig { limit: QueueLimit::Packets(9), rate: Rate::from_mbit(1), overhead: 4 };
            let start = Probability(start / 2);
            let drd = DrdConfig { min, max: min + span, start, ceiling: Probability(start.0 + u32::MAX / 4) };
            check(Drd::new(drd, queue), &calls);
        }
    }
}
