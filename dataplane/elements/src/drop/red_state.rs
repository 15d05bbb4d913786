//! The decision of random early detection, as a plain structure.

use super::mark;
use perhop_packet::{DropReason, Packet};
use perhop_units::{Bytes, Duration, Instant, Probability, Rate};

/// Fraction bits of the average queue length.
const FRACTION: u32 = 24;
/// One, as a probability with 32 fraction bits.
const ONE: u64 = 1 << 32;
/// The longest queue the average can follow, in bytes.
const MAX_QUEUE: u64 = 1 << 38;

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedConfig {
    /// Below this average nothing is dropped. Bytes, overhead included.
    pub min: Bytes,
    /// From this average on everything is dropped, or with `gentle` the drop probability grows faster. Above `min`.
    pub max: Bytes,
    /// Drop probability when the average reaches `max`.
    pub max_p: Probability,
    /// The average's weight is 2 to the power of minus this, 1 … 16 (Floyd and Jacobson: 9).
    pub weight_log2: u8,
    /// Probability rises from `max_p` to 1 between `max` and 2 × `max`, instead of jumping.
    pub gentle: bool,
    /// Marks ECN-capable packets instead of dropping them early.
    pub ecn: bool,
    /// Scales the probability by packet length over `mean`, so that small packets are dropped less.
    pub byte_mode: bool,
    /// Mean packet size, overhead included; at least 1.
    pub mean: Bytes,
    /// Rate at which the queue empties; tells how far the average decays in an idle time. 0: it does not.
    pub rate: Rate,
}

/// What RED decides about an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedVerdict {
    /// Queue it.
    Keep,
    /// Set congestion experienced and queue it.
    Mark,
    /// Drop it: chosen at random.
    DropEarly,
    /// Drop it: the average is above the upper threshold.
    DropForced,
}

impl RedVerdict {
    /// Carries it out: the packet, marked if so decided, or given back with the reason why it is to be dropped, which is `early`
    /// if it was chosen at random.
    #[inline]
    pub(crate) fn carry_out(
        self,
        mut packet: Packet,
        early: DropReason,
    ) -> Result<Packet, (Packet, DropReason)> {
        match self {
            Self::Keep => Ok(packet),
            Self::Mark => {
                mark(&mut packet);
                Ok(packet)
            }
            Self::DropEarly => Err((packet, early)),
            Self::DropForced => Err((packet, DropReason::RedForced)),
        }
    }
}

/// How often packets were not simply kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedCounts {
    /// Marked.
    pub marked: u64,
    /// Dropped by chance, or at the head because they had waited too long.
    pub early: u64,
    /// Dropped because the average was above the upper threshold.
    pub forced: u64,
}

impl RedCounts {
    #[inline]
    pub(crate) fn note(&mut self, verdict: RedVerdict) {
        match verdict {
            RedVerdict::Keep => {}
            RedVerdict::Mark => self.marked += 1,
            RedVerdict::DropEarly => self.early += 1,
            RedVerdict::DropForced => self.forced += 1,
        }
    }
}

/// Average queue length and the count since the last drop. Integers only; deterministic for given random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedState {
    config: RedConfig,
    /// Bytes with [`FRACTION`] fraction bits.
    average: u64,
    /// Packets kept since the last drop or mark; `None` while the average is below `min`.
    count: Option<u32>,
    idle_since: Option<Instant>,
}

impl RedState {
    /// A queue that has always been empty. `weight_log2` is clamped to 1 … 16, `max` to more than `min`.
    pub fn new(config: RedConfig) -> Self {
        let config = RedConfig {
            weight_log2: config.weight_log2.clamp(1, 16),
            min: config.min.min(Bytes(MAX_QUEUE / 4)),
            max: config.max.clamp(Bytes(config.min.0.min(MAX_QUEUE / 4) + 1), Bytes(MAX_QUEUE / 2)),
            mean: config.mean.max(Bytes(1)),
            ..config
        };
        Self { config, average: 0, count: None, idle_since: None }
    }

    /// The parameters in force.
    pub fn config(&self) -> &RedConfig {
        &self.config
    }

    /// The average queue length, rounded down.
    pub fn average(&self) -> Bytes {
        Bytes(self.average >> FRACTION)
    }

    /// Keeps average and count of `old` under the own parameters.
    pub fn adopt(&mut self, old: &Self) {
        self.average = old.average;
        self.count = old.count;
        self.idle_since = old.idle_since;
    }

    #[cfg(test)]
    pub(super) fn forget_count(&mut self) {
        self.count = None;
    }

    /// The queue has just become empty.
    #[inline]
    pub fn became_idle(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }

    /// Decides about a packet of `len` bytes that finds `queued` bytes waiting, both with overhead. `random` is 32
    /// uniform bits; `capable`: the packet's transport knows ECN. O(1), but for an idle time O(log of its length).
    #[inline]
    pub fn decide(
        &mut self,
        now: Instant,
        queued: Bytes,
        len: Bytes,
        capable: bool,
        random: u32,
    ) -> RedVerdict {
        self.observe(now, queued);
        self.judge(len, capable, random)
    }

    /// Decides at the present average, see [`RedState::decide`]. O(1).
    #[inline]
    pub fn judge(&mut self, len: Bytes, capable: bool, random: u32) -> RedVerdict {
        let p = self.probability();
        if p == 0 {
            self.count = None;
            return RedVerdict::Keep;
        }
        let forced = self.average >= self.upper() << FRACTION;
        if p >= ONE {
            self.count = Some(0);
            return RedVerdict::DropForced;
        }
        let p = if self.config.byte_mode { self.scaled(p, len) } else { p };
        let count = self.count.unwrap_or(0);
        if u64::from(random) >= uniformised(p, count) {
            self.count = Some(count.saturating_add(1));
            return RedVerdict::Keep;
        }
        self.count = Some(0);
        match (self.config.ecn && capable, forced) {
            // RFC 3168 §7: above the upper threshold packets are dropped even if they could be marked.
            (_, true) => RedVerdict::DropForced,
            (true, false) => RedVerdict::Mark,
            (false, false) => RedVerdict::DropEarly,
        }
    }

    fn upper(&self) -> u64 {
        self.config.max.0
    }

    /// A packet comes that finds `queued` bytes waiting, whether this decides about it or not.
    #[inline]
    pub fn observe(&mut self, now: Instant, queued: Bytes) {
        let queued = queued.0.min(MAX_QUEUE);
        match self.idle_since.filter(|_| queued == 0) {
            Some(since) => {
                // As if small packets had left an empty queue during the idle time.
                let slot = self.config.rate.time_for(self.config.mean).0.max(1);
                let slots = now.since(since).0 / slot;
                self.average = decayed(self.average, self.config.weight_log2, slots);
                self.idle_since = Some(since + Duration(slots.saturating_mul(slot)));
            }
            None => {
                self.idle_since = None;
                let error = (queued << FRACTION) as i64 - self.average as i64;
                self.average = self.average.saturating_add_signed(error >> self.config.weight_log2);
            }
        }
    }

    /// The marking probability p_b at the present average, 32 fraction bits, 0 … 2³².
    pub fn probability(&self) -> u64 {
        let c = &self.config;
        let (min, max) = (c.min.0 << FRACTION, c.max.0 << FRACTION);
        let max_p = if c.max_p == Probability::ONE { ONE } else { u64::from(c.max_p.0) };
        let share =
            |part: u64, whole: u64, of: u64| (u128::from(of) * u128::from(part) / u128::from(whole)) as u64;
        match self.average {
            a if a < min => 0,
            a if a < max => share(a - min, max - min, max_p),
            a if c.gentle && a < 2 * max => max_p + share(a - max, max, ONE - max_p),
            _ => ONE,
        }
    }

    fn scaled(&self, p: u64, len: Bytes) -> u64 {
        let scaled = u128::from(p) * u128::from(len.0) / u128::from(self.config.mean.0);
        scaled.min(u128::from(ONE)) as u64
    }
}

/// p_a = p_b / (1 − count × p_b): makes the gaps between drops uniform instead of geometric.
fn uniformised(p: u64, count: u32) -> u64 {
    match ONE.checked_sub(p.saturating_mul(u64::from(count))) {
        Some(rest) if rest > p => (u128::from(p) * u128::from(ONE) / u128::from(rest)) as u64,
        _ => ONE,
    }
}

/// `average` × (1 − 2^−w)^n by repeated squaring.
fn decayed(average: u64, weight_log2: u8, mut n: u64) -> u64 {
    let (mut factor, mut result) = (ONE - (ONE >> weight_log2), u128::from(average));
    while n > 0 && result > 0 {
        if n & 1 == 1 {
            result = (result * u128::from(factor)) >> 32;
        }
        factor = ((u128::from(factor) * u128::from(factor)) >> 32) as u64;
        n >>= 1;
    }
    result as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn config() -> RedConfig {
        RedConfig {
            min: Bytes(5_000),
            max: Bytes(15_000),
            max_p: Probability(u32::MAX / 10),
            weight_log2: 9,
            gentle: true,
            ecn: false,
            byte_mode: false,
            mean: Bytes(1_000),
            rate: Rate::from_mbit(8),
        }
    }

    fn at(config: RedConfig, average: u64) -> RedState {
        let mut red = RedState::new(config);
        red.average = average << FRACTION;
        red
    }

    /// Upper 10⁻⁴ quantile of χ² with `df` degrees of freedom (Wilson and Hilferty).
    fn chi_square_limit(df: f64) -> f64 {
        let v = 2.0 / (9.0 * df);
        df * (1.0 - v + 3.719 * v.sqrt()).powi(3)
    }

    proptest! {
        #[test]
        fn the_curve_is_the_published_one(
            min in 1u64..100_000,
            span in 1u64..100_000,
            max_p: u32,
            gentle: bool,
            average in 0u64..500_000,
        ) {
            let (max, p) = (min + span, f64::from(max_p) / 4294967296.0);
            let config = RedConfig { min: Bytes(min), max: Bytes(max), max_p: Probability(max_p), gentle, ..config() };
            let (a, lo, hi) = (average as f64, min as f64, max as f64);
            let theory = if a < lo {
                0.0
            } else if a < hi {
                p * (a - lo) / (hi - lo)
            } else if gentle && a < 2.0 * hi {
                p + (1.0 - p) * (a - hi) / hi
            } else {
                1.0
            };
            let ours = at(config, average).probability() as f64 / 4294967296.0;
            prop_assert!((ours - theory).abs() < 1e-8, "{} instead of {}", ours, theory);
        }

        #[test]
        fn the_average_follows_the_recurrence(
            weight in 1u8..13,
            lens in prop::collection::vec(1u64..200_000, 1..300),
        ) {
            let mut red = RedState::new(RedConfig { weight_log2: weight, ..config() });
            let mut theory = 0.0;
            for q in lens {
                red.observe(Instant(0), Bytes(q));
                theory += (q as f64 - theory) * 0.5f64.powi(i32::from(weight));
            }
            prop_assert!((red.average as f64 / 16_777_216.0 - theory).abs() < 0.01);
        }

        #[test]
        fn idle_time_decays_as_if_packets_had_left(weight in 1u8..13, n in 0u64..5000, start in 1u64..200_000) {
            let mut red = at(RedConfig { weight_log2: weight, ..config() }, start);
            red.became_idle(Instant(500));
            // 1,000 bytes at 8 Mbit/s take 1 ms.
            red.observe(Instant(500 + n * 1_000_000 + 999), Bytes(0));
            let theory = start as f64 * (1.0 - 0.5f64.powi(i32::from(weight))).powi(n as i32);
            let ours = red.average as f64 / 16_777_216.0;
            prop_assert!((ours - theory).abs() < 0.01 + theory * 1e-5, "{} instead of {}", ours, theory);
        }
    }

    /// Gaps between drops at a constant average are uniform on 1 … 1/p (Floyd and Jacobson 1993, method 2).
    #[test]
    fn gaps_between_drops_pass_a_chi_square_test() {
        for (seed, average) in [(11u64, 6_000), (12, 7_500), (13, 10_000), (14, 14_000), (15, 16_500)] {
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let mut red = at(config(), average);
            let p = red.probability() as f64 / 4294967296.0;
            let whole = (1.0 / p).floor() as usize;
            let (drops, mut gap, mut seen) = (20_000, 0, vec![0u32; whole + 2]);
            let mut packets = 0u64;
            while seen.iter().sum::<u32>() < drops {
                gap += 1;
                packets += 1;
                // The queue equals the average, so that the average stays where it is.
                let verdict = red.decide(Instant(0), Bytes(average), Bytes(1_000), false, rng.next_u32());
                if verdict != RedVerdict::Keep {
                    seen[gap] += 1;
                    gap = 0;
                }
            }
            let mut chi = 0.0;
            let mut df = -1.0;
            for (n, count) in seen.iter().enumerate().skip(1) {
                let share = if n <= whole { p } else { 1.0 - p * whole as f64 };
                let expected = share * f64::from(drops);
                if expected > 5.0 {
                    chi += (f64::from(*count) - expected).powi(2) / expected;
                    df += 1.0;
                }
            }
            let limit = chi_square_limit(df);
            assert!(chi < limit, "seed {seed}: χ² = {chi:.1} ≥ {limit:.1} with {df} degrees, p = {p:.4}");
            let rate = f64::from(drops) / packets as f64;
            let theory = 1.0 / (1.0 / (2.0 * p) + 0.5);
            assert!(
                (rate / theory - 1.0).abs() < 0.02,
                "seed {seed}: drop rate {rate:.5}, theory {theory:.5}"
            );
        }
    }

    #[test]
    fn thresholds_ecn_and_force() {
        let cases = [
            (4_999, true, RedVerdict::Keep),
            (14_999, true, RedVerdict::Mark),
            (14_999, false, RedVerdict::DropEarly),
            (15_000, true, RedVerdict::DropForced),
            (30_000, true, RedVerdict::DropForced),
        ];
        for (average, capable, expected) in cases {
            let mut red = at(RedConfig { ecn: true, ..config() }, average);
            let verdict = red.decide(Instant(0), Bytes(average), Bytes(1_000), capable, 0);
            assert_eq!(verdict, expected, "average {average}, capable {capable}");
        }
        let mut hard = at(RedConfig { gentle: false, ..config() }, 15_000);
        let verdict = hard.decide(Instant(0), Bytes(15_000), Bytes(1_000), false, u32::MAX);
        assert_eq!(verdict, RedVerdict::DropForced);
    }

    #[test]
    fn byte_mode_spares_small_packets() {
        let red = at(RedConfig { byte_mode: true, ..config() }, 10_000);
        let p = red.probability();
        assert_eq!(red.scaled(p, Bytes(100)), p / 10);
        assert_eq!(red.scaled(p, Bytes(1_000_000)), ONE);
    }
}
