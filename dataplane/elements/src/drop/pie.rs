//! # Synopsis
//! `Pie` is the discipline of a FIFO queue that drops or marks on arrival as much as keeps the waiting time at a target
//! (proportional integral controller enhanced).
//!
//! # Ports
//! A discipline: it sits inside a pump, a shaper or an egress port.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `target` | time | ns | 15 ms | 1 µs … 1 s |
//! | `update` | time | ns | 15 ms | 100 µs … 1 s |
//! | `max_burst` | time | ns | 150 ms | 0 … 60 s |
//! | `alpha` | number | 1/16 Hz | 2 | 1 … 512 |
//! | `beta` | number | 1/16 Hz | 20 | 1 … 512 |
//! | `ecn` | yes, no | | yes | |
//! | `mark_below` | probability | | 10 % | 0 … 100 % |
//! | `derandomize` | yes, no | | yes | |
//! | `mean` | size | byte | 1000 B | 1 … 65,535 |
//! | `limit`, `overhead` | | | | as [`crate::queue::fifo`] |
//!
//! # Behaviour
//! After each `update` the drop probability moves by `alpha` times the distance of the waiting time from `target`, and by
//! `beta` times its growth since the last one, both scaled down while the probability is small. The waiting time is that
//! of the packet at the head, zero of an empty queue. An arriving packet is dropped (`pie`) with that probability
//! or, with `ecn`, an ECN-capable transport and a probability below `mark_below`, marked; but not in the first `max_burst`
//! after a calm time, not while the queue is short (two `mean` packets; or half the target and below 20 %), and with
//! `derandomize` neither soon after a drop nor ever later than 8.5 times the mean gap. The hard bound `limit` holds
//! besides (`queue_full`). Updates that no packet witnessed are made up for when the next comes, 1,024 at most.
//!
//! # Counters
//! Those of [`crate::queue::fifo`]; `marked`, `early`; gauge `probability_ppm`.
//!
//! # Invariants
//! Order is kept; the bound holds; with equal random bits two queues decide alike. Under a steady overload the waiting
//! time settles at `target` and the share that is dropped at the excess.
//!
//! # Example
//! `Shaper(10 Mbit/s, discipline = pie, target = 15 ms, limit = 1000 packets)`
//!
//! # Source
//! RFC 8033 §4 and appendix A (basic design), §5.1 (ECN), §5.4 (de-randomisation), §5.5 (cap of an increase). Turning
//! itself off (§5.3) is left out: the waiting time costs nothing to know. Time is measured at the head of the queue
//! instead of estimated by a departure rate (§5.2 leaves the choice).

use super::{EarlyFifo, EarlyState, RedCounts, RedVerdict};
use crate::queue::FifoQueue;
use crate::queue::fifo::{FifoConfig, read_config};
use perhop_element::{CounterSink, Cx, Reader};
use perhop_packet::{DropReason, Packet};
use perhop_units::{Bytes, Duration, Instant, Probability, Rate};

/// Parameters of RFC 8033.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieConfig {
    /// Waiting time to keep (QDELAY_REF).
    pub target: Duration,
    /// Time between two updates (T_UPDATE), above 0.
    pub update: Duration,
    /// Time after a calm one in which nothing is dropped (MAX_BURST).
    pub max_burst: Duration,
    /// Weight of the distance from the target, in 1/16 Hz; at most 512.
    pub alpha: u32,
    /// Weight of the growth, in 1/16 Hz; at most 512.
    pub beta: u32,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Only below this probability are packets marked (mark_ecnth).
    pub mark_below: Probability,
    /// Space drops more evenly than chance does.
    pub derandomize: bool,
    /// Mean packet size, overhead included.
    pub mean: Bytes,
}

impl Default for PieConfig {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            max_burst: Duration::from_millis(150),
            alpha: 2,
            beta: 20,
            ecn: true,
            mark_below: Probability((ONE / 10 >> (FRACTION - 32)) as u32),
            derandomize: true,
            mean: Bytes(1000),
        }
    }
}

/// Fraction bits of the probability, so that steps scaled down by 2,048 are not lost.
const FRACTION: u32 = 56;
const ONE: u64 = 1 << FRACTION;
/// Below a probability of one over the first number, steps are divided by the second.
const SCALES: [(u64, i128); 6] =
    [(1_000_000, 2048), (100_000, 512), (10_000, 128), (1_000, 32), (100, 8), (10, 2)];
/// The most updates made up for at once: by then the probability is where it goes.
const MOST_UPDATES: u32 = 1024;

/// What PIE decides about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieVerdict {
    /// Queue it.
    Keep,
    /// Set congestion experienced and queue it.
    Mark,
    /// Drop it.
    Drop,
}

/// The probability and what moves it, without the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieState {
    config: PieConfig,
    /// With [`FRACTION`] fraction bits, at most 1.
    probability: u64,
    /// Probabilities summed up since the last drop, likewise; at most 9.
    sum: u64,
    waited: Duration,
    burst: Duration,
    /// When the next update is due; `None` before the first packet.
    due: Option<Instant>,
}

impl PieState {
    /// The probability now; the 24 lowest bits of what is kept are cut off.
    pub fn probability(&self) -> Probability {
        Probability(u32::try_from(self.probability >> (FRACTION - 32)).unwrap_or(u32::MAX))
    }

    /// An update: packets wait for `waited` now. O(1).
    pub fn update(&mut self, waited: Duration) {
        let c = &self.config;
        let ns = |d: Duration| i128::from(d.0.min(1 << 40));
        let (now, before, target) = (ns(waited), ns(self.waited), ns(c.target));
        let step = i128::from(c.alpha) * (now - target) + i128::from(c.beta) * (now - before);
        let p = self.probability;
        let scale = SCALES.iter().find(|(part, _)| p < ONE / part).map_or(1, |(_, scale)| *scale);
        let mut step = (step << FRACTION) / (16 * 1_000_000_000 * scale);
        if p >= ONE / 10 {
            step = step.min(i128::from(ONE / 50));
        }
        let mut p = (i128::from(p) + step).clamp(0, i128::from(ONE)) as u64;
        if self.is_calm(waited) {
            p = p / 50 * 49 + p % 50 * 49 / 50;
        }
        self.probability = p;
        self.waited = waited;
        self.burst = self.burst - c.update;
    }

    /// Whether packets have waited for less than half the target, now and at the last update.
    fn is_calm(&self, waited: Duration) -> bool {
        let half = self.config.target.0 / 2;
        waited.0 < half && self.waited.0 < half
    }

    /// Whether updates of an empty queue change nothing any more.
    pub fn is_at_rest(&self) -> bool {
        self.probability == 0 && self.waited == Duration::ZERO && self.burst == Duration::ZERO
    }

    /// Decides about a packet that finds `queued` bytes waiting. `random` is 32 uniform bits; `capable`: its transport
    /// knows ECN. O(1).
    #[inline]
    pub fn arrives(&mut self, queued: Bytes, capable: bool, random: u32) -> PieVerdict {
        let chosen = self.burst == Duration::ZERO && self.chooses(queued, random);
        if chosen {
            self.sum = 0;
            let below = self.config.mark_below;
            let marks = self.probability() < below || below == Probability::ONE;
            let marks = self.config.ecn && capable && marks;
            return if marks { PieVerdict::Mark } else { PieVerdict::Drop };
        }
        if self.probability == 0 && self.is_calm(self.waited) {
            self.burst = self.config.max_burst;
        }
        PieVerdict::Keep
    }

    fn chooses(&mut self, queued: Bytes, random: u32) -> bool {
        let short = self.waited.0 < self.config.target.0 / 2 && self.probability < ONE / 5;
        if short || queued.0 <= 2 * self.config.mean.0 {
            return false;
        }
        if self.config.derandomize {
            self.sum = if self.probability == 0 { 0 } else { (self.sum + self.probability).min(9 * ONE) };
            if self.sum < ONE / 100 * 85 {
                return false;
            }
            if self.sum >= ONE / 2 * 17 {
                return true;
            }
        }
        u64::from(random) << (FRACTION - 32) < self.probability
    }
}

/// The discipline.
pub type Pie = EarlyFifo<PieState>;

impl EarlyState for PieState {
    type Config = PieConfig;
    const NAME: &'static str = "Pie";
    const EARLY: DropReason = DropReason::Pie;
    const STAMPS: bool = true;

    /// Nothing is dropped at first.
    fn new(config: PieConfig) -> Self {
        Self { config, probability: 0, sum: 0, waited: Duration::ZERO, burst: Duration::ZERO, due: None }
    }

    fn config(&self) -> &PieConfig {
        &self.config
    }

    fn adopt(&mut self, old: &Self) {
        *self = Self { config: self.config, ..*old };
    }

    fn reconfigure(&mut self, config: PieConfig, _recounts: bool) -> bool {
        if self.config.update != config.update {
            // Counted anew from the next packet on.
            self.due = None;
        }
        self.config = config;
        false
    }

    /// Makes the updates that are due. The queue has been as it is since the last call.
    fn advance(&mut self, now: Instant, queue: &FifoQueue) {
        let update = Duration(self.config.update.0.max(1));
        let mut due = self.due.unwrap_or(now + update);
        let since = queue.front_meta().map(|meta| meta.queued_at);
        let mut updates = 0;
        while now >= due {
            if updates == MOST_UPDATES || since.is_none() && self.is_at_rest() {
                due += Duration((now.since(due).0 / update.0 + 1).saturating_mul(update.0));
                break;
            }
            self.update(since.map_or(Duration::ZERO, |since| due.since(since)));
            due += update;
            updates += 1;
        }
        self.due = Some(due);
    }

    fn offered(&mut self, cx: &mut Cx<'_>, queue: &FifoQueue, packet: &Packet) -> RedVerdict {
        match self.arrives(queue.bytes(), packet.meta().layout.is_ecn_capable(), cx.random()) {
            PieVerdict::Keep => RedVerdict::Keep,
            PieVerdict::Mark => RedVerdict::Mark,
            PieVerdict::Drop => RedVerdict::DropEarly,
        }
    }

    fn report(&self, counts: &RedCounts, sink: &mut dyn CounterSink) {
        sink.counter("marked", counts.marked);
        sink.counter("early", counts.early);
        let ppm = (u128::from(self.probability) * 1_000_000) >> FRACTION;
        sink.gauge("probability_ppm", ppm as u64);
    }
}

/// Reads PIE's parameters for a queue behind a link of `rate`.
pub fn read(r: &mut Reader<'_>, rate: Rate) -> (PieConfig, FifoConfig) {
    let default = PieConfig::default();
    let queue = read_config(r, None, rate);
    let second = Duration::from_secs(1);
    let longest = Duration::from_secs(60);
    let config = PieConfig {
        target: r.optional_in("target", None, default.target, Duration::from_micros(1)..=second),
        update: r.optional_in("update", None, default.update, Duration::from_micros(100)..=second),
        max_burst: r.optional_in("max_burst", None, default.max_burst, Duration::ZERO..=longest),
        alpha: r.optional_in("alpha", None, default.alpha, 1..=512),
        beta: r.optional_in("beta", None, default.beta, 1..=512),
        ecn: r.flag("ecn", default.ecn),
        mark_below: r.optional("mark_below", None).unwrap_or(default.mark_below),
        derandomize: r.flag("derandomize", default.derandomize),
        mean: r.optional_in("mean", None, default.mean, Bytes(1)..=Bytes(65_535)),
    };
    (config, queue)
}

#[cfg(test)]
#[path = "pie_tests.rs"]
mod tests;
