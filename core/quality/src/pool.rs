//! Calls pooled: percentiles over all packets, scores over calls.

use crate::call::{CallQuality, Spread, share_pct};
use crate::distribution::Distribution;

/// Many calls as one: percentiles over all packets, scores over calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QualityPool {
    /// Calls pooled.
    pub calls: u64,
    /// Packets sent.
    pub sent: u64,
    /// Different packets that arrived.
    pub received: u64,
    /// Arrived too late for playout.
    pub late: u64,
    /// RFC 3550 jitter over all arrivals.
    pub jitter: Spread,
    /// Difference of successive delays over all calls.
    pub variation: Spread,
    /// Delays of all packets that arrived.
    pub delay: Distribution,
    mos_sum: f64,
    mos_min: Option<f64>,
}

impl QualityPool {
    /// Adds one call (or one part of one), O(delays of the pool); collect an iterator for many.
    pub fn add(&mut self, call: &CallQuality) {
        self.merge(&Self { delay: call.delay.clone(), ..Self::of(call) });
    }

    /// One call as a pool, its delays left out.
    fn of(call: &CallQuality) -> Self {
        Self {
            calls: 1,
            sent: call.sent,
            received: call.received,
            late: call.late,
            jitter: call.jitter,
            variation: call.variation,
            delay: Distribution::default(),
            mos_sum: call.mos,
            mos_min: Some(call.mos),
        }
    }

    /// Adds everything of another pool.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.sent += other.sent;
        self.received += other.received;
        self.late += other.late;
        self.jitter.add(&other.jitter);
        self.variation.add(&other.variation);
        self.delay.merge(&other.delay);
        self.mos_sum += other.mos_sum;
        self.mos_min = match (self.mos_min, other.mos_min) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Network loss in percent, `None` if nothing was sent.
    pub fn loss_pct(&self) -> Option<f64> {
        (self.sent > 0).then(|| share_pct(self.sent - self.received, self.sent))
    }

    /// Packets that came too late for playout in percent of those sent, `None` if nothing was sent.
    pub fn late_pct(&self) -> Option<f64> {
        (self.sent > 0).then(|| share_pct(self.late, self.sent))
    }

    /// Mean over calls of the opinion score.
    pub fn mos_mean(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.mos_sum / self.calls as f64)
    }

    /// Score of the worst call.
    pub fn mos_min(&self) -> Option<f64> {
        self.mos_min
    }
}

impl<'a> FromIterator<&'a CallQuality> for QualityPool {
    fn from_iter<I: IntoIterator<Item = &'a CallQuality>>(calls: I) -> Self {
        let mut pool = Self::default();
        let mut delays = Vec::new();
        for call in calls {
            pool.merge(&Self::of(call));
            delays.push(&call.delay);
        }
        // At once: merging one by one would cost calls × packets.
        pool.delay = Distribution::pooled(delays);
        pool
    }
}
