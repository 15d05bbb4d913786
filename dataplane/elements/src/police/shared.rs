//! The two-level bucket of a contract: a part of the rate first come, first served, the rest in equal shares for its
//! live flows. Pure: time comes with every call.
//!
//! With `p` = [`Split::shared_pct`] and `n` live flows the common bucket earns p % of the rate (rounded down to whole
//! bit/s) and each flow's own bucket an `n`th of what is left. A packet is in profile if its flow's bucket covers it;
//! else if the common one does. Without a live flow everything is common.
//!
//! `n` may change between two packets of a flow, so a flow cannot be credited rate × time. The contract keeps instead
//! what one share has earned since its beginning, in whole tokens with the remainder of the division, and a flow is
//! credited the difference to where it stood last: O(1) a packet and a change of `n`, however many flows there are.

use crate::meter::{Bucket, MAX_BURST};
use perhop_units::{Bytes, Color, Duration, Instant, Rate, Tokens};

/// A bucket of less could not hold two full packets.
pub(super) const LEAST_BURST: Bytes = Bytes(3_000);

/// What a contract allows, and how its flows divide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// The whole rate.
    pub(super) rate: Rate,
    /// The whole burst; each part of the rate has the same part of it, but two packets at least.
    pub(super) burst: Bytes,
    /// Per cent of the rate that is first come, first served.
    pub(super) shared_pct: u8,
}

impl Split {
    fn common_rate(&self) -> Rate {
        let pct = u128::from(self.shared_pct.min(100));
        Rate((u128::from(self.rate.0) * pct / 100) as u64)
    }

    /// What all flows' own buckets earn together.
    fn divided_rate(&self) -> Rate {
        self.rate.saturating_sub(self.common_rate())
    }

    /// The common bucket while `flows` are live.
    fn common(&self, flows: u32) -> Bucket {
        if flows == 0 || self.shared_pct >= 100 {
            return Bucket::new(self.rate, self.burst);
        }
        let rate = self.common_rate();
        // Earning nothing, it holds nothing: every bit of the rate belongs to some flow.
        let burst = if rate.0 == 0 { Bytes(0) } else { self.burst_for(rate.0, 1) };
        Bucket::new(rate, burst)
    }

    /// The part of the burst that goes with `part` bit/s divided by `flows`.
    fn burst_for(&self, part: u64, flows: u32) -> Bytes {
        let whole = u128::from(self.rate.0.max(1)) * u128::from(flows.max(1));
        let burst = u128::from(self.burst.0) * u128::from(part) / whole;
        Bytes((burst as u64).max(LEAST_BURST.0)).min(MAX_BURST)
    }
}

/// Where one flow stands. Empty and without memory of the past until it joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowShare {
    level: Tokens,
    /// [`SharedBucket::earned`] when it was last credited.
    mark: u128,
}

/// A contract's buckets but for those of its flows, which live with the flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedBucket {
    split: Split,
    common: Bucket,
    /// Tokens that one share has earned so far, and `flows`ths of one.
    earned: u128,
    rest: u128,
    /// What a flow's bucket holds at most now.
    depth: Tokens,
    at: Instant,
    flows: u32,
}

impl SharedBucket {
    /// Full, without flows.
    pub(super) fn new(split: Split) -> Self {
        let none = Self {
            split,
            common: split.common(0),
            earned: 0,
            rest: 0,
            depth: Tokens::ZERO,
            at: Instant::ZERO,
            flows: 0,
        };
        Self { depth: none.flow_depth(), ..none }
    }

    /// Whether flows have buckets of their own.
    #[inline]
    pub(super) fn is_divided(&self) -> bool {
        self.split.shared_pct < 100
    }

    /// Live flows.
    pub(super) fn flows(&self) -> u32 {
        self.flows
    }

    fn flow_depth(&self) -> Tokens {
        Tokens::from_bytes(self.split.burst_for(self.split.divided_rate().0, self.flows))
    }

    /// Credits one share for the time up to `now`; an earlier `now` changes nothing.
    #[inline]
    fn advance(&mut self, now: Instant) {
        let dt = now.since(self.at);
        if dt == Duration(0) {
            return;
        }
        self.at = now;
        if self.flows > 0 {
            let earned = u128::from(self.split.divided_rate().0) * u128::from(dt.0) + self.rest;
            let flows = u128::from(self.flows);
            self.earned += earned / flows;
            self.rest = earned % flows;
        }
    }

    /// Another number of flows from `now` on. Levels stay, as far as the buckets' new depths allow.
    fn set_flows(&mut self, now: Instant, flows: u32) {
        self.advance(now);
        // The remainder keeps its worth to less than 10⁻⁹ of a bit, and is never rounded up.
        self.rest = self.rest * u128::from(flows) / u128::from(self.flows.max(1));
        let alone = self.flows == 0 || flows == 0;
        self.flows = flows;
        self.depth = self.flow_depth();
        if alone {
            let mut common = self.split.common(flows);
            common.adopt(self.common, now);
            self.common = common;
        }
    }

    /// A flow more, with a full bucket.
    pub(super) fn join(&mut self, now: Instant) -> FlowShare {
        self.set_flows(now, self.flows.saturating_add(1));
        FlowShare { level: self.depth, mark: self.earned }
    }

    /// A flow less.
    pub(super) fn leave(&mut self, now: Instant) {
        self.set_flows(now, self.flows.saturating_sub(1));
    }

    /// Green and charged if the flow's bucket, else the common one, covers `len`; else red. O(1).
    #[inline]
    pub(super) fn meter(&mut self, now: Instant, len: Bytes, flow: Option<&mut FlowShare>) -> Color {
        let cost = Tokens::from_bytes(len);
        if let Some(flow) = flow {
            self.advance(now);
            let earned = self.earned.saturating_sub(flow.mark).min(self.depth.0 as u128) as i64;
            flow.mark = self.earned;
            flow.level = flow.level.saturating_add(Tokens(earned)).min(self.depth);
            if flow.level >= cost {
                flow.level = flow.level.saturating_sub(cost);
                return Color::Green;
            }
        }
        self.common.refill(now);
        if !self.common.covers(cost) {
            return Color::Red;
        }
        self.common.take(cost);
        Color::Green
    }

    /// Continues where `old` stood at `now`: its flows and what is in the buckets, as far as the own depths allow.
    pub(super) fn adopt(&mut self, old: &Self, now: Instant) {
        let mut old = *old;
        old.advance(now);
        (self.earned, self.at, self.flows) = (old.earned, old.at, old.flows);
        self.rest = 0;
        self.common = self.split.common(self.flows);
        self.common.adopt(old.common, now);
        self.depth = self.flow_depth();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::TokenBucket;
    use crate::meter::laws::{Arrival, arrivals, bytes_within_envelope};
    use proptest::prelude::*;

    fn split(rate: u64, burst: u64, shared_pct: u8) -> Split {
        Split { rate: Rate(rate), burst: Bytes(burst), shared_pct }
    }

    /// Bytes of `depth` in the law's terms.
    fn bytes(tokens: Tokens) -> u64 {
        (tokens.0 / Tokens::PER_BYTE) as u64
    }

    /// Every arrival of `list` given to the flow of the same place in `who`.
    fn greens(bucket: &mut SharedBucket, list: &[(Arrival, usize)], flows: usize) -> Vec<(Arrival, usize)> {
        let mut shares: Vec<FlowShare> = (0..flows).map(|_| bucket.join(Instant::ZERO)).collect();
        // Joined at the same time, each with its share of the whole burst.
        let depth = bucket.depth;
        shares.iter_mut().for_each(|s| s.level = s.level.min(depth));
        let green = |(a, f): &&(Arrival, usize)| {
            bucket.meter(Instant(a.at), Bytes(a.len), Some(&mut shares[*f])) == Color::Green
        };
        list.iter().filter(green).copied().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// One flow never exceeds its share and what is common; all together never exceed the contract.
        #[test]
        fn a_flow_keeps_to_its_share_and_all_to_the_contract(
            rate in 1_000u64..2_000_000_000, burst in 1_500u64..40_000, pct in 0u8..=100, flows in 1usize..6,
            list in arrivals(), who in prop::collection::vec(0usize..6, 60),
        ) {
            let mut bucket = SharedBucket::new(split(rate, burst, pct));
            let list: Vec<_> = list.into_iter().zip(who).map(|(a, w)| (a, w % flows)).collect();
            let green = greens(&mut bucket, &list, flows);
            let depth = bytes(bucket.depth);
            let common = bytes(bucket.common.burst());
            let all: Vec<_> = green.iter().map(|(a, _)| *a).collect();
            prop_assert!(bytes_within_envelope(&all, rate, common + depth * flows as u64));
            let share = bucket.split.divided_rate().0.div_ceil(flows as u64);
            for flow in 0..flows {
                let own: Vec<_> = green.iter().filter(|(_, f)| *f == flow).map(|(a, _)| *a).collect();
                prop_assert!(bytes_within_envelope(&own, share + bucket.common.rate().0, common + depth));
                if pct == 0 {
                    prop_assert!(bytes_within_envelope(&own, share, depth));
                }
            }
        }

        /// At 100 % it is the one bucket, whoever sends.
        #[test]
        fn everything_shared_is_a_single_bucket(
            rate in 1_000u64..2_000_000_000, burst in 1_500u64..40_000, list in arrivals(), flows in 0usize..4,
        ) {
            let mut bucket = SharedBucket::new(split(rate, burst, 100));
            let mut single = TokenBucket::new(Rate(rate), Bytes(burst));
            for _ in 0..flows {
                bucket.join(Instant::ZERO);
            }
            for a in list {
                let ours = bucket.meter(Instant(a.at), Bytes(a.len), None);
                prop_assert_eq!(ours, single.meter(Instant(a.at), Bytes(a.len)));
            }
        }

        /// Shares that join and leave in between: each is credited as a bucket of its own whose rate is changed at
        /// every change of their number, to the token.
        #[test]
        fn a_share_earns_as_a_bucket_whose_rate_follows_the_number_of_flows(
            rate in 1_000u64..1_000_000_000,
            steps in prop::collection::vec((1u64..20_000_000, 1u32..5, 100u64..1500), 1..60),
        ) {
            let mut bucket = SharedBucket::new(split(rate, 1 << 20, 0));
            let mut flow = bucket.join(Instant::ZERO);
            let (mut level, mut now) = (flow.level.0 as f64, 0u64);
            for (gap, flows, len) in steps {
                let n = f64::from(bucket.flows());
                now += gap;
                level = (level + rate as f64 / n * gap as f64).min(bucket.depth.0 as f64);
                bucket.meter(Instant(now), Bytes(0), Some(&mut flow));
                prop_assert!((flow.level.0 as f64 - level).abs() <= 2.0 + level * 1e-9, "{} {level}", flow.level.0);
                let cost = Tokens::from_bytes(Bytes(len)).0;
                let green = bucket.meter(Instant(now), Bytes(len), Some(&mut flow)) == Color::Green;
                level = flow.level.0 as f64;
                prop_assert!(green || flow.level.0 < cost);
                while bucket.flows() < flows {
                    bucket.join(Instant(now));
                }
                while bucket.flows() > flows {
                    bucket.leave(Instant(now));
                }
            }
        }

        /// Equal greedy flows get the same within a packet when nothing is common.
        #[test]
        fn equal_greedy_flows_get_equal_shares(
            rate in 10_000u64..100_000_000, flows in 2usize..8, len in 60u64..1500, rounds in 20u64..400,
        ) {
            let mut bucket = SharedBucket::new(split(rate, rate / 400, 0));
            let gap = Rate(rate).time_for(Bytes(len)).0 / 4 + 1;
            let list: Vec<_> = (0..rounds).flat_map(|r| (0..flows).map(move |f| {
                (Arrival { at: r * gap, len, pre: Color::Green }, f)
            })).collect();
            let green = greens(&mut bucket, &list, flows);
            let got: Vec<_> = (0..flows).map(|f| green.iter().filter(|(_, w)| *w == f).count()).collect();
            let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{got:?}");
        }
    }

    #[test]
    fn without_flows_everything_is_first_come_first_served() {
        let mut bucket = SharedBucket::new(split(8_000, 3_000, 0));
        assert_eq!(bucket.meter(Instant(0), Bytes(3_000), None), Color::Green);
        assert_eq!(bucket.meter(Instant(0), Bytes(1), None), Color::Red);
        // The flow's share is all there is; what has no flow gets nothing of it.
        let mut flow = bucket.join(Instant(0));
        let second = Instant(1_000_000_000);
        assert_eq!(bucket.meter(second, Bytes(1), None), Color::Red);
        assert_eq!(bucket.meter(second, Bytes(3_000), Some(&mut flow)), Color::Green);
        bucket.leave(second);
        assert_eq!(bucket.meter(Instant(2_000_000_000), Bytes(1_000), None), Color::Green);
        assert_eq!(bucket.meter(Instant(2_000_000_000), Bytes(1), None), Color::Red);
    }

    #[test]
    fn a_change_keeps_what_the_new_contract_allows() {
        let mut old = SharedBucket::new(split(80_000, 8_000, 50));
        let mut flow = old.join(Instant(0));
        old.meter(Instant(0), Bytes(2_000), Some(&mut flow));
        let mut new = SharedBucket::new(split(80_000, 8_000, 25));
        new.adopt(&old, Instant(0));
        assert_eq!(new.flows(), 1);
        // 2,000 of 4,000 bytes were left, and a bigger bucket does not fill itself.
        new.meter(Instant(0), Bytes(0), Some(&mut flow));
        assert_eq!(bytes(flow.level), 2_000);
        let mut smaller = SharedBucket::new(split(8_000, 3_000, 25));
        smaller.adopt(&new, Instant(0));
        assert_eq!(bytes(smaller.common.level()), 3_000);
    }
}
