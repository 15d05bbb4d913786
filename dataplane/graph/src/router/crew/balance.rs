//! When which buckets go where: the decisions of adaptive placement.
//!
//! Every [`INTERVAL`] the packets of each bucket since the last look are taken; what counts is half of them and half of what
//! counted before, so that a burst moves nothing for long. The load of a worker is the packets that it sorts: those of its
//! buckets. What it costs to receive and to send stays where the port is, so it is not counted; nor is what a packet costs in
//! its class. When for [`PATIENCE`] looks in a row the most loaded worker had more than 1/16 beyond its part, buckets go, one
//! after the other, from the most loaded to the least loaded: of those that are no more than half of the difference the
//! largest, so that no move ever makes the most loaded worker's successor more loaded than it was. A bucket that has
//! gone, or could not, rests for [`REST`] looks. So a load that does not change is left alone, and one that changes all
//! the time costs a stop in [`PATIENCE`] intervals at most.
//!
//! The source's adaptive scheduling gives each task to the processor with the lowest load, whatever that costs, and lost to
//! every good static one (Calarco, chapter II); hence the threshold, the patience and the rest.

use super::{BucketMove, Placement, Relocation};
use crate::router::Change;
use perhop_flows::{BUCKETS, BucketCounts};
use perhop_units::{Duration, Instant};
use std::sync::Arc;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(100);
const INTERVALS_A_SECOND: u64 = 1_000_000_000 / INTERVAL.as_nanos();
/// Looks in a row that must find too much in one place.
const PATIENCE: u32 = 2;
/// Looks for which a bucket stays that has just gone, or could not.
const REST: u64 = 10;
/// Buckets that go at once, at most.
const MOST_MOVES: usize = 64;

/// Where buckets are and how they got there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalanceReport {
    /// Of each worker: its buckets, and packets of them a second.
    pub workers: Vec<(u32, u64)>,
    /// Buckets that have gone from one worker to another.
    pub moves: u64,
    /// Buckets that were to go and stayed, because they could not go whole.
    pub stayed: u64,
    /// Stops in which some were to go.
    pub stops: u64,
    /// Connections that have gone with them.
    pub connections: u64,
}

/// See the module. Sans-I/O: it is asked at [`Balancer::next_look`] and has its changes applied by all members.
#[derive(Debug)]
pub struct Balancer {
    placement: Placement,
    counts: Arc<BucketCounts>,
    /// Packets of each bucket up to the last look.
    seen: [u64; BUCKETS],
    /// Twice what counts as its load, in packets an interval.
    load: [u64; BUCKETS],
    next: Instant,
    looks: u64,
    /// Looks in a row that found too much in one place.
    uneven: u32,
    /// The look until which each bucket stays.
    rests: [u64; BUCKETS],
    under_way: Option<Arc<Relocation>>,
    report: BalanceReport,
    /// Packets between two looks, of all workers, below which nothing is worth a stop.
    least: u64,
}

impl Balancer {
    /// See [`Balancer::with_least_pps`].
    pub const DEFAULT_LEAST_PPS: u64 = 10_000;

    /// For members of this placement, first asked an interval after `now`; `None` where buckets stay.
    pub fn new(placement: &Placement, now: Instant) -> Option<Self> {
        let counts = placement.counts.clone()?;
        Some(Self {
            placement: placement.clone(),
            seen: counts.totals(),
            counts,
            load: [0; BUCKETS],
            next: now + INTERVAL,
            looks: 0,
            uneven: 0,
            rests: [0; BUCKETS],
            under_way: None,
            report: BalanceReport::default(),
            least: Self::DEFAULT_LEAST_PPS / INTERVALS_A_SECOND,
        })
    }

    /// Packets a second, of all workers, below which no move is worth a stop, in steps of ten;
    /// [`Balancer::DEFAULT_LEAST_PPS`] without this.
    pub fn with_least_pps(self, least_pps: u64) -> Self {
        Self { least: least_pps / INTERVALS_A_SECOND, ..self }
    }

    /// When to ask next.
    pub fn next_look(&self) -> Instant {
        self.next
    }

    /// Where buckets are, and what has gone.
    pub fn report(&self) -> BalanceReport {
        let packets = self.loads().into_iter().map(|load| load * INTERVALS_A_SECOND / 2);
        let mut workers: Vec<(u32, u64)> = packets.map(|packets| (0, packets)).collect();
        (0..BUCKETS).for_each(|bucket| workers[self.placement.map().worker(bucket)].0 += 1);
        BalanceReport { workers, ..self.report.clone() }
    }

    /// Looks at the load if it is time. A change that all members must be given, if some buckets are to go.
    pub fn look(&mut self, now: Instant) -> Option<Change> {
        if now < self.next {
            return None;
        }
        self.next = now + INTERVAL;
        self.looks += 1;
        self.count();
        self.settle();
        if self.under_way.is_some() || !self.is_uneven() {
            return None;
        }
        let moves = self.choose();
        if moves.is_empty() {
            return None;
        }
        self.uneven = 0;
        self.report.stops += 1;
        moves.iter().for_each(|m| self.rests[m.bucket] = self.looks + REST);
        let (change, relocation) = self.placement.relocation(moves);
        self.under_way = Some(relocation);
        Some(change)
    }

    /// What came since the last look. A look that comes late finds more, of all alike.
    fn count(&mut self) {
        let totals = self.counts.totals();
        for ((load, seen), total) in self.load.iter_mut().zip(&mut self.seen).zip(totals) {
            *load = *load / 2 + (total - std::mem::replace(seen, total));
        }
    }

    /// Takes down what has become of the last moves.
    fn settle(&mut self) {
        let Some(relocation) = self.under_way.take_if(|relocation| relocation.is_over()) else { return };
        self.report.connections += relocation.connections();
        let moves = relocation.moves();
        let made = moves.iter().filter(|(_, made)| *made).count() as u64;
        self.report.moves += made;
        self.report.stayed += moves.len() as u64 - made;
    }

    /// Twice the load of each worker.
    fn loads(&self) -> Vec<u64> {
        let mut loads = vec![0; self.placement.workers()];
        for (bucket, load) in self.load.iter().enumerate() {
            loads[self.placement.map().worker(bucket)] += load;
        }
        loads
    }

    /// Whether one worker has had too much for some time.
    fn is_uneven(&mut self) -> bool {
        let loads = self.loads();
        let (sum, most) = (loads.iter().sum::<u64>(), loads.iter().max().copied().unwrap_or(0));
        // most > sum / n · 17/16
        let uneven =
            sum >= 2 * self.least && u128::from(most) * 16 * loads.len() as u128 > u128::from(sum) * 17;
        self.uneven = if uneven { self.uneven + 1 } else { 0 };
        self.uneven >= PATIENCE
    }

    /// The moves that even out what is uneven, as far as buckets do not rest.
    fn choose(&self) -> Vec<BucketMove> {
        let mut loads = self.loads();
        let mut owners: Vec<usize> = (0..BUCKETS).map(|bucket| self.placement.map().worker(bucket)).collect();
        let mut moves: Vec<BucketMove> = Vec::new();
        let part = loads.iter().sum::<u64>() / loads.len().max(1) as u64;
        while moves.len() < MOST_MOVES {
            // Of equals the first: the same loads give the same moves.
            let by_load = |w: &usize| (loads[*w], usize::MAX - w);
            let (Some(from), Some(to)) =
                ((0..loads.len()).max_by_key(by_load), (0..loads.len()).min_by_key(|w| (loads[*w], *w)))
            else {
                break;
            };
            let half = (loads[from] - loads[to]) / 2;
            if loads[from] <= part + part / 64 {
                break;
            }
            let may_go = |bucket: &usize| {
                let load = self.load[*bucket];
                owners[*bucket] == from && load > 0 && load <= half && self.rests[*bucket] <= self.looks
            };
            let largest =
                (0..BUCKETS).filter(may_go).max_by_key(|bucket| (self.load[*bucket], BUCKETS - bucket));
            let Some(bucket) = largest else { break };
            if moves.iter().any(|m| m.bucket == bucket) {
                break;
            }
            loads[from] -= self.load[bucket];
            loads[to] += self.load[bucket];
            owners[bucket] = to;
            moves.push(BucketMove { bucket, from, to });
        }
        moves
    }
}

#[cfg(test)]
#[path = "balance_tests.rs"]
mod tests;
