//! Who goes next by waiting times, as plain structures.

use super::super::law::{Law, Waiting};
use perhop_units::{Duration, Instant, Probability, Rate, Tokens};

/// One, as a weight with 32 fraction bits.
const ONE: u64 = 1 << 32;

/// Weight of the long-term average, unless told otherwise.
pub(super) const LONG_TERM: Probability = Probability((ONE / 8 * 7) as u32);
/// Packets the average remembers, unless told otherwise.
pub(super) const MEMORY: u64 = 65_536;

/// An average of waiting times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Average {
    /// In ns.
    sum: u128,
    count: u64,
}

impl Average {
    /// One packet more; `memory` is how many are remembered.
    pub(super) fn add(&mut self, waited: Duration, memory: u64) {
        self.sum += u128::from(waited.0);
        self.count += 1;
        if self.count >= memory.max(2) {
            // Half of what was before counts on: old load is forgotten, the average does not jump.
            (self.sum, self.count) = (self.sum / 2, self.count / 2);
        }
    }

    /// In ns.
    pub(super) fn mean(&self) -> u64 {
        u64::try_from(self.sum / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }
}

/// The class whose delay is largest in proportion, of classes with packets: number, average wait in ns, wait of the oldest
/// packet, proportion. Of equal ones the first.
pub(super) fn most_delayed(
    g: Probability,
    waiting: impl Iterator<Item = (usize, u64, Duration, u32)>,
) -> Option<usize> {
    let g = if g == Probability::ONE { ONE } else { u64::from(g.0) };
    let mut best: Option<(usize, u128, u128)> = None;
    for (n, average, waited, proportion) in waiting {
        let delay = u128::from(average) * u128::from(g) + u128::from(waited.0) * u128::from(ONE - g);
        let part = u128::from(proportion.max(1));
        // delay / part, without dividing: a delay below 2⁹⁷ and a proportion below 2²⁰ have a product that fits.
        if best.is_none_or(|(_, d, p)| delay.saturating_mul(p) > d.saturating_mul(part)) {
            best = Some((n, delay, part));
        }
    }
    best.map(|(n, ..)| n)
}

/// What one class of the law is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HpdGoal {
    /// Its delay in proportion to that of the others, 1 … 1,000,000.
    pub delay: u32,
    /// The longest its packets should wait.
    pub bound: Option<Duration>,
}

/// All classes, whose queues are somebody else's: who sends, by what is told of what waits.
///
/// It knows of a queue what waits in it and how long the first has waited, so a bound is near when all that waits in classes
/// with bounds, and one more frame, could not leave before the first of these deadlines. [`super::Hpd`] knows each packet and
/// hurries less; both keep every bound that can be kept.
#[derive(Clone, Debug)]
pub(in super::super) struct HpdLaw {
    line: Rate,
    /// Bytes of the largest frame on the line.
    frame: u64,
    goals: Vec<HpdGoal>,
    averages: Vec<Average>,
    waiting: Vec<Waiting>,
}

impl HpdLaw {
    /// Classes without packets.
    pub(in super::super) fn new(line: Rate, frame: u64, goals: Vec<HpdGoal>) -> Self {
        let count = goals.len();
        Self {
            line,
            frame,
            goals,
            averages: vec![Average::default(); count],
            waiting: vec![Waiting::default(); count],
        }
    }

    /// The class with the earliest deadline, if one more frame of another class could be one too many.
    fn most_urgent(&self) -> Option<usize> {
        let bounded = || {
            let all = self.goals.iter().zip(&self.waiting).enumerate().filter(|(_, (_, w))| w.head > 0);
            let left = |bound: Duration, w: &Waiting| i128::from(bound.0) - i128::from(w.waited.0);
            all.filter_map(move |(n, (goal, w))| Some((n, left(goal.bound?, w), w.bytes)))
        };
        let (class, left, _) = bounded().min_by_key(|(n, left, _)| (*left, *n))?;
        let ahead: u64 = self.frame + bounded().map(|(.., bytes)| bytes).sum::<u64>();
        let sent = i128::from(self.line.0) * left;
        (sent < i128::from(ahead) * i128::from(Tokens::PER_BYTE)).then_some(class)
    }
}

impl Law for HpdLaw {
    fn follows_waits(&self) -> bool {
        true
    }

    fn adopt(&mut self, _now: Instant, class: usize, old: &Self, of: usize) {
        self.averages[class] = old.averages[of];
    }

    fn see(&mut self, leaf: usize, waiting: Waiting) {
        self.waiting[leaf] = waiting;
    }

    /// O(classes).
    fn choose(&mut self, _now: Instant) -> Option<usize> {
        self.most_urgent().or_else(|| {
            let waiting = self.waiting.iter().enumerate().filter(|(_, w)| w.head > 0);
            let waiting = waiting.map(|(n, w)| (n, self.averages[n].mean(), w.waited, self.goals[n].delay));
            most_delayed(LONG_TERM, waiting)
        })
    }

    fn sent(&mut self, now: Instant, leaf: usize, _len: u64, _next: Option<u64>, came: Instant) {
        self.averages[leaf].add(now.since(came), MEMORY);
    }

    fn withdrawn(&mut self, _now: Instant, _leaf: usize) {}
}
