//! # Synopsis
//! `TokenBucketMeter(rate, burst [, outputs])` colours packets green or red by one token bucket.
//!
//! # Ports
//! Input 0: packets. Output 0: all packets, or with `outputs = 3` green at 0, yellow (never) at 1 and red at 2.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `rate` (1st) | rate | bit/s | required | 1 … 10¹² |
//! | `burst` (2nd) | size | byte | required | 1 … 500,000,000 |
//! | `outputs` | number | | 1 | 1 or 3 |
//!
//! # Behaviour
//! The bucket starts full and earns `rate` up to `burst`. A packet whose IP length is covered is green and pays for
//! itself; any other is red and pays nothing. The colour given before is ignored. Time is the packet's `received_at`.
//!
//! # Counters
//! `green_packets`, `green_bytes`, `yellow_packets`, `yellow_bytes`, `red_packets`, `red_bytes` (IP length).
//!
//! # Invariants
//! Green bytes in any interval of length t are at most rate × t + burst.
//!
//! # Example
//! `FromPort(lan) -> TokenBucketMeter(2 Mbit/s, 15 kB, outputs = 3)`
//!
//! # Source
//! RFC 3290 §5.1.3 (simple token bucket, strict conformance).

use super::adapter::{BURST_RANGE, Meter, MeterElement, RATE_RANGE, read_outputs};
use super::bucket::Bucket;
use perhop_element::{ElementType, PortCount, Reader};
use perhop_units::{Bytes, Color, Instant, Rate, Tokens};
use rand::Rng;

/// One bucket, two verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    bucket: Bucket,
}

impl TokenBucket {
    /// A full bucket of `burst` that earns `rate`.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        Self { bucket: Bucket::new(rate, burst) }
    }

    /// Green and charged if the bucket covers `len`, else red. O(1).
    #[inline]
    pub fn meter(&mut self, now: Instant, len: Bytes) -> Color {
        self.bucket.refill(now);
        let cost = Tokens::from_bytes(len);
        if !self.bucket.covers(cost) {
            return Color::Red;
        }
        self.bucket.take(cost);
        Color::Green
    }

    /// Continues with what `old` held at `now`, clamped to the own burst.
    pub fn adopt(&mut self, old: &Self, now: Instant) {
        self.bucket.adopt(old.bucket, now);
    }

    /// Tokens inside, as of the last packet.
    pub fn level(&self) -> Tokens {
        self.bucket.level()
    }
}

impl Meter for TokenBucket {
    const TYPE_NAME: &'static str = "TokenBucketMeter";
    fn meter(&mut self, now: Instant, len: Bytes, _pre: Color, _draw: impl FnOnce() -> u32) -> Color {
        self.meter(now, len)
    }
    fn adopt(&mut self, old: &Self, now: Instant) {
        self.adopt(old, now);
    }
}

/// The element.
pub type TokenBucketMeter = MeterElement<TokenBucket>;

pub(super) const TYPE: ElementType = ElementType {
    name: TokenBucket::TYPE_NAME,
    synopsis: "colours packets green or red by one token bucket",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, 3),
    build: |args, _| {
        let mut r = Reader::new(args);
        let rate = r.required_in("rate", Some(0), RATE_RANGE);
        let burst = r.required_in("burst", Some(1), BURST_RANGE);
        let split = read_outputs(&mut r);
        r.finish(Box::new(TokenBucketMeter::new(TokenBucket::new(rate, burst), split)) as _)
    },
    sample: |rng: &mut dyn Rng| {
        format!("{} kbit/s, {} B", 1 + rng.next_u32() % 9999, 1500 + rng.next_u32() % 9999)
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::laws::{Arrival, arrivals, bytes_within_envelope};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn green_never_exceeds_rate_and_burst(rate in 1u64..2_000_000_000, burst in 1u64..20_000, list in arrivals()) {
            let mut tb = TokenBucket::new(Rate(rate), Bytes(burst));
            // The oracle: a bucket that has never been refilled step by step. Its level is the least, over all
            // earlier instants k, of full-at-k plus earnings since minus charges since.
            let mut charges: Vec<(u64, i128)> = Vec::new();
            let mut green = Vec::new();
            for a in &list {
                let full = i128::from(burst) * 8_000_000_000;
                let mut level = full;
                let mut sum = 0;
                for (t, c) in charges.iter().rev() {
                    sum += c;
                    level = level.min(full + i128::from(rate) * i128::from(a.at - t) - sum);
                }
                let cost = i128::from(a.len) * 8_000_000_000;
                let expected = if level >= cost { Color::Green } else { Color::Red };
                prop_assert_eq!(tb.meter(Instant(a.at), Bytes(a.len)), expected);
                if expected == Color::Green {
                    charges.push((a.at, cost));
                    green.push(Arrival { ..*a });
                }
            }
            prop_assert!(bytes_within_envelope(&green, rate, burst));
        }
    }

    #[test]
    fn many_short_gaps_earn_as_much_as_a_long_one() {
        // 1 bit/s for 8 s in steps of 1 ns × 8·10⁹ would take too long: 3 ns steps over 24 µs at 1 Gbit/s.
        let mut short = TokenBucket::new(Rate(1_000_000_007), Bytes(3000));
        let mut long = short;
        assert_eq!(short.meter(Instant(0), Bytes(3000)), Color::Green);
        assert_eq!(long.meter(Instant(0), Bytes(3000)), Color::Green);
        for t in (0..=23_997).step_by(3) {
            short.meter(Instant(t), Bytes(3001));
        }
        long.meter(Instant(23_997), Bytes(3001));
        assert_eq!(short, long);
        assert_eq!(long.level(), Tokens(23_997 * 1_000_000_007));
    }
}
