//! The estimator of one class: whether it has used more than its share, and for how long it is then suspended.

use perhop_units::{Bytes, Duration, Instant, Rate};

/// The average's gain is 2 to the power of minus this.
const GAIN: u32 = 5;
/// A class that sent nothing for this long starts afresh.
const LONG_IDLE: i64 = 2_000_000_000;

/// What shapes an [`Estimator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EstimatorConfig {
    /// Rate of the link; above zero.
    pub link: Rate,
    /// Share of the class, 1 … `link`.
    pub share: Rate,
    /// Average packet size in bytes; at least 1.
    pub packet: u32,
    /// Packets a class that has rested may send at once, 1 … 64; by default 16, or 4 for classes that owe more than 10 ms
    /// a packet.
    pub maxburst: Option<u32>,
    /// Packets a suspended class sends between two suspensions, 1 … 64.
    pub minburst: u32,
    /// How far below zero the average may fall; by default the time of one packet of `packet` bytes at the share's rate.
    pub floor: Option<Duration>,
}

/// How much a class has used against its share: an average of its idle time, negative when it used too much. Signed
/// nanoseconds; the average is kept 32-fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimator {
    share: Rate,
    off_time: i64,
    max_idle: i64,
    min_idle: i64,
    avg_idle: i64,
    /// When the class is within its share again; `None`: it is.
    undertime: Option<Instant>,
    /// Estimated end of its last packet.
    last: Option<Instant>,
    /// What its last packet takes at the share's rate.
    last_time: i64,
}

/// g^n for g = 31/32.
fn gain_to(n: u32) -> f64 {
    (0..n).fold(1.0, |product, _| product * (1.0 - 1.0 / f64::from(1 << GAIN)))
}

fn signed(d: Duration) -> i64 {
    i64::try_from(d.0).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

impl Estimator {
    /// A class that has been idle for long.
    pub fn new(config: &EstimatorConfig) -> Self {
        let EstimatorConfig { link, share, packet, .. } = *config;
        let share = share.clamp(Rate(1), link.max(Rate(1)));
        let ptime = link.time_for(Bytes(u64::from(packet))).0 as f64;
        let f = share.0 as f64 / link.0.max(1) as f64;
        let cptime = ptime * (1.0 - f) / f;
        let maxburst = config.maxburst.unwrap_or(if cptime > 10e6 { 4 } else { 16 }).min(64);
        let (g, gm, gn) = (gain_to(1), gain_to(maxburst), gain_to(config.minburst.clamp(1, 64) - 1));
        let max_idle = ptime * f64::max((1.0 / f - 1.0) * (1.0 - gm) / gm, 1.0 - g);
        let off_time = cptime * (1.0 + (1.0 - gn) / gn / (1.0 - g));
        // A share of one bit a second of a fast link reaches 10^22 ns: bounded, so that sums stay in range.
        let whole = |ns: f64| (ns.round() as i64).clamp(1, i64::MAX / 256);
        let floor = config.floor.unwrap_or_else(|| share.time_for(Bytes(u64::from(packet))));
        let max_idle = whole(max_idle) << GAIN;
        Self {
            share,
            off_time: whole(off_time),
            max_idle,
            min_idle: -(signed(floor).min(i64::MAX / 256) << GAIN),
            avg_idle: max_idle,
            undertime: None,
            last: None,
            last_time: 0,
        }
    }

    /// How long a suspended class rests beyond what brings its average back to zero.
    pub fn off_time(&self) -> Duration {
        Duration(self.off_time.unsigned_abs())
    }

    /// The average idle time, 32-fold, in ns.
    pub fn average(&self) -> i64 {
        self.avg_idle
    }

    /// Whether the class has used more than its share.
    pub fn is_over(&self, now: Instant) -> bool {
        self.undertime.is_some_and(|at| now < at)
    }

    /// When it is within its share again, if it is not.
    pub fn undertime(&self) -> Option<Instant> {
        self.undertime
    }

    /// Counts it as within its share: it has been suspended for long enough.
    pub fn forgive(&mut self) {
        self.undertime = None;
    }

    /// Books a packet of `len` bytes, handed over at `now`, whose last bit is expected to leave at `end`. Returns whether
    /// the class has now used more than its share.
    pub fn sent(&mut self, now: Instant, end: Instant, len: Bytes) -> bool {
        let idle = self.last.map_or(LONG_IDLE, |last| signed(end.since(last)).min(LONG_IDLE));
        if idle >= LONG_IDLE {
            self.avg_idle = self.max_idle;
        }
        let time = signed(self.share.time_for(len));
        self.avg_idle = self.avg_idle.saturating_add(idle - time).saturating_sub(self.avg_idle >> GAIN);
        let over = self.avg_idle <= 0;
        if over {
            self.avg_idle = self.avg_idle.max(self.min_idle);
            // One idle time of this length brings the average back to zero.
            let recover = time.saturating_add(-(self.avg_idle - (self.avg_idle >> GAIN)));
            self.undertime = Some(now + Duration(recover.unsigned_abs()));
        } else {
            self.avg_idle = self.avg_idle.min(self.max_idle);
            self.undertime = None;
        }
        self.last = Some(end);
        self.last_time = time;
        over
    }

    /// Suspends the class: the packet's time at the share's rate is replaced by the longer off-time. Returns until when.
    pub fn suspend(&mut self, now: Instant) -> Instant {
        let until = self.undertime.unwrap_or(now);
        let extra = (self.off_time - self.last_time).max(0);
        let until = until + Duration(extra.unsigned_abs());
        self.undertime = Some(until);
        until
    }

    /// Takes over what a predecessor knew, within the own bounds.
    pub fn adopt(&mut self, old: &Self) {
        self.avg_idle = old.avg_idle.clamp(self.min_idle, self.max_idle);
        (self.undertime, self.last, self.last_time) = (old.undertime, old.last, old.last_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn estimator(share_kbit: u64) -> Estimator {
        Estimator::new(&EstimatorConfig {
            link: Rate::from_mbit(10),
            share: Rate::from_kbit(share_kbit),
            packet: 1500,
            maxburst: None,
            minburst: 2,
            floor: None,
        })
    }

    /// The off-times of the classes of the thesis on a link of 10 Mbit/s, as printed, in 0.1 ms.
    #[test]
    fn off_times_are_those_of_the_classes_of_the_thesis() {
        let printed = [(1000, 219), (1900, 104), (2000, 98), (2800, 63), (3000, 57), (4800, 26), (6800, 11)];
        for (share, tenths) in printed {
            let ours = estimator(share).off_time().0;
            // To the printed digit, which is cut off or rounded there.
            assert!(ours.abs_diff(tenths * 100_000) < 100_000, "{share} kbit/s: {ours} ns");
        }
    }

    proptest! {
        /// A class that sends at no more than its share is never over it, whatever the sizes of its packets.
        #[test]
        fn who_keeps_to_the_share_is_never_over(
            share in 200u64..9_000,
            lens in prop::collection::vec(60u64..1500, 1..300),
        ) {
            let mut e = estimator(share);
            let mut end = Instant(5_000_000_000);
            for len in lens {
                end += Rate::from_kbit(share).time_for(Bytes(len));
                prop_assert!(!e.sent(end, end, Bytes(len)));
            }
        }

        /// After the time it names the average is zero or above: the next packet alone decides.
        #[test]
        fn the_average_recovers_in_the_time_named(share in 200u64..9_000, count in 2u64..400) {
            let mut e = estimator(share);
            let link = Rate::from_mbit(10);
            let mut end = Instant(0);
            for _ in 0..count {
                let start = end;
                end += link.time_for(Bytes(1500));
                e.sent(start, end, Bytes(1500));
            }
            if let Some(at) = e.undertime() {
                // Sent when it is due, the packet starts late by its own time on the line.
                let before = e.average();
                prop_assert!(before <= 0);
                e.sent(at, at + link.time_for(Bytes(1500)), Bytes(1500));
                prop_assert!(e.average() >= 0, "{before} {}", e.average());
            }
        }
    }
}
