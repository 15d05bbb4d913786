//! What changed since a verdict was cached.
//!
//! The last few changes are kept as they are. Of those before, up to some thousand, only the addresses are remembered, as bits
//! of their hashes: where many flows see many changes go by, most of them learn from that alone that none concerned them. Of
//! changes whose addresses say little all that they compare is remembered that way. It errs to one side: a verdict may be made
//! anew for nothing, never kept for nothing.
//!
//! Source: B. Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 13(7), 1970; in words of 64 bits.

use super::key::{Packed, PackedKey};
use super::rule::{Pattern, Patterns};
use super::secret::Secret;
use super::sieve::{Pairs, SPREAD, STEPS, Words, each_bit, pair, steps_of, words};
use super::{Key, Match};
use ipnet::IpNet;

/// One change of what a packet's verdict depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// A rule with this condition was added or removed.
    Rule(Match),
    /// A contract's prefix was added, removed or given to another contract.
    Sla(IpNet),
    /// Anything may be different.
    All,
}

impl Delta {
    /// Whether the verdict of `key` may have changed.
    pub fn concerns(&self, key: &Key) -> bool {
        match self {
            Self::Rule(matches) => matches.matches(key),
            Self::Sla(net) => net.contains(&key.src) || net.contains(&key.dst),
            Self::All => true,
        }
    }
}

/// Words for the prefixes of one side: 4 KiB.
const WORDS: usize = 512;

/// Steps of prefixes that say little, on either side: so many packets have them that their bits would concern everybody.
const WIDE_STEPS: u8 = 1;
/// Masks of patterns with such prefixes; where there are more, prefixes have to do.
const MASKS: usize = 8;

/// Patterns of one address family.
#[derive(Clone, Debug)]
struct Bits<const A: usize> {
    /// Pairs of lengths that occur.
    pairs: Pairs,
    /// Lengths that occur, of sources and of destinations, a bit each.
    steps: [u32; 2],
    /// Masks of patterns whose prefixes say little.
    masks: Vec<Packed<A>>,
    /// Of sources, of destinations, and of what is left of packets under those masks.
    bits: Box<[[u64; WORDS]; 3]>,
}

impl<const A: usize> Default for Bits<A> {
    fn default() -> Self {
        let masks = Vec::with_capacity(MASKS);
        Self { pairs: 0, steps: [0; 2], masks, bits: Box::new([[0; WORDS]; 3]) }
    }
}

impl<const A: usize> Bits<A> {
    fn is_empty(&self) -> bool {
        self.pairs == 0 && self.masks.is_empty()
    }

    fn clear(&mut self) {
        if !self.is_empty() {
            (self.pairs, self.steps, *self.bits) = (0, [0; 2], [[0; WORDS]; 3]);
            self.masks.clear();
        }
    }

    /// Where a hash is: a word, and two bits in it.
    #[inline]
    fn place(word: u64) -> (usize, u64) {
        let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((hash >> 40) as usize % WORDS, 1 << (hash >> 58) | 1 << (hash >> 52 & 63))
    }

    /// Where a packet is under a mask.
    #[inline]
    fn place_under(mask: &Packed<A>, key: &Packed<A>) -> (usize, u64) {
        Self::place(Secret::default().hash_masked(key, mask))
    }

    fn become_like(&mut self, other: &Self) {
        if !(self.is_empty() && other.is_empty()) {
            (self.pairs, self.steps, *self.bits) = (other.pairs, other.steps, *other.bits);
            self.masks.clone_from(&other.masks);
        }
    }

    fn add(&mut self, pattern: &Pattern<A>) {
        let steps = steps_of(&pattern.mask.addresses);
        if steps.iter().all(|step| *step <= WIDE_STEPS) && self.has_mask(&pattern.mask) {
            let (at, bits) = Self::place_under(&pattern.mask, &pattern.value);
            self.bits[2][at] |= bits;
            return;
        }
        let words = words(&pattern.value.addresses);
        self.pairs |= 1 << pair(steps);
        for (side, step) in steps.into_iter().enumerate() {
            let (at, bits) = Self::place(words[side][usize::from(step)]);
            self.steps[side] |= 1 << step;
            self.bits[side][at] |= bits;
        }
    }

    /// Whether the mask is one of those remembered, from now on if there is room.
    fn has_mask(&mut self, mask: &Packed<A>) -> bool {
        let known = self.masks.contains(mask);
        if !known && self.masks.len() < MASKS {
            self.masks.push(*mask);
            return true;
        }
        known
    }

    /// Whether a packet with these words of its addresses may match a pattern among those added; `key` gives all of it.
    #[inline]
    fn may_have(&self, words: &Words, key: impl FnOnce() -> Packed<A>) -> bool {
        self.may_have_pair(words) || !self.masks.is_empty() && self.may_have_under_masks(&key())
    }

    /// Destinations first: they leave few sources to ask for.
    #[inline]
    fn may_have_pair(&self, words: &Words) -> bool {
        let mut dst = 0;
        each_bit(self.steps[1], |step| dst |= u32::from(self.may_have_at(1, step, words)) << step);
        let pairs = EACH_ROW * dst & self.pairs;
        (0..STEPS).any(|step| pairs >> (step * STEPS) & ONE_ROW != 0 && self.may_have_at(0, step, words))
    }

    /// Whether the address of a side may have a prefix among those added, at a step that occurs.
    #[inline]
    fn may_have_at(&self, side: usize, step: usize, words: &Words) -> bool {
        let (at, bits) = Self::place(words[side][step % STEPS]);
        // Every address has the prefix of length 0.
        step == 0 || self.bits[side][at] & bits == bits
    }

    #[inline]
    fn may_have_under_masks(&self, key: &Packed<A>) -> bool {
        self.masks.iter().any(|mask| {
            let (at, bits) = Self::place_under(mask, key);
            self.bits[2][at] & bits == bits
        })
    }
}

/// A row of pairs: those of one source.
const ONE_ROW: u32 = (1 << STEPS) - 1;
/// One in each row of pairs.
const EACH_ROW: u32 = SPREAD[SPREAD.len() - 1];

/// Changes in a row.
#[derive(Clone, Debug, Default)]
struct Span {
    len: u32,
    v4: Bits<1>,
    v6: Bits<4>,
}

impl Span {
    fn clear(&mut self) {
        self.len = 0;
        self.v4.clear();
        self.v6.clear();
    }

    fn add(&mut self, patterns: &Patterns) {
        patterns.v4.iter().for_each(|pattern| self.v4.add(pattern));
        patterns.v6.iter().for_each(|pattern| self.v6.add(pattern));
    }

    /// Becomes what `other` is, where it is.
    fn become_like(&mut self, other: &Self) {
        self.len = other.len;
        self.v4.become_like(&other.v4);
        self.v6.become_like(&other.v6);
    }
}

/// The last changes. The generation counts changes and wraps: a verdict that nobody asked for during just less than 2³² of them,
/// 49 days of a thousand a second, would pass for one of the last 2,048.
#[derive(Clone, Debug)]
pub struct DeltaLog {
    generation: u32,
    last: [Delta; Self::LEN],
    /// What came lately, and that with what came before it: one of them is asked, not both.
    late: Span,
    all: Span,
}

impl Default for DeltaLog {
    fn default() -> Self {
        Self { generation: 0, last: [Delta::All; Self::LEN], late: Span::default(), all: Span::default() }
    }
}

impl DeltaLog {
    /// Changes kept as they are.
    pub const LEN: usize = 16;
    /// Changes of which the addresses are remembered: as many at least, twice as many at most. A verdict that is older is made
    /// anew.
    pub const SPAN: u32 = 1_024;
    /// Changes that are noted one by one when they come at the same time; more are one that concerns everybody.
    pub const AT_ONCE: usize = 64;

    /// The number of changes so far: the stamp of a verdict made now.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Notes a change. O(1); one in [`DeltaLog::SPAN`] copies and clears 24 KiB.
    pub fn push(&mut self, delta: Delta) {
        if self.late.len == Self::SPAN {
            self.all.become_like(&self.late);
            self.late.clear();
        }
        self.last[self.generation as usize % Self::LEN] = delta;
        self.generation = self.generation.wrapping_add(1);
        match &delta {
            Delta::Rule(matches) => self.add(&[*matches]),
            Delta::Sla(net) => self.add(&[
                Match { src: Some(*net), ..Match::default() },
                Match { dst: Some(*net), ..Match::default() },
            ]),
            // No older verdict holds.
            Delta::All => {
                self.late.clear();
                self.all.clear();
            }
        }
    }

    /// Notes a change for which any of `matches` tells who is concerned.
    fn add(&mut self, matches: &[Match]) {
        for span in [&mut self.late, &mut self.all] {
            span.len += 1;
        }
        for patterns in matches.iter().map(Patterns::of) {
            self.late.add(&patterns);
            self.all.add(&patterns);
        }
    }

    /// Whether a verdict stamped `stamp` still holds for `key`. At most [`DeltaLog::LEN`] comparisons.
    pub fn holds(&self, stamp: u32, key: &Key) -> bool {
        let spares = match key.pack() {
            PackedKey::V4(key) => self.spares_v4(stamp, key.addresses, || key),
            PackedKey::V6(key) => {
                let words = words(&key.addresses);
                self.spares(stamp, |span| span.v6.may_have(&words, || key))
            }
        };
        if spares {
            return true;
        }
        let behind = self.behind(stamp);
        behind as usize <= Self::LEN
            && (0..behind).all(|i| {
                let at = stamp.wrapping_add(i) as usize % Self::LEN;
                !self.last[at].concerns(key)
            })
    }

    /// Whether addresses (the source's above the destination's) tell that no change since `stamp` concerns a packet; `key` gives
    /// the whole of it, which is needed after changes whose addresses say little.
    #[inline]
    pub(crate) fn spares_v4(&self, stamp: u32, addresses: [u64; 1], key: impl FnOnce() -> Packed<1>) -> bool {
        let words = words(&addresses);
        self.spares(stamp, |span| span.v4.may_have(&words, key))
    }

    #[inline]
    fn spares(&self, stamp: u32, may_concern: impl FnOnce(&Span) -> bool) -> bool {
        let behind = self.behind(stamp);
        let span = if behind <= self.late.len { &self.late } else { &self.all };
        behind <= span.len && !may_concern(span)
    }

    /// Changes since `stamp`.
    #[inline]
    fn behind(&self, stamp: u32) -> u32 {
        self.generation.wrapping_sub(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{key, rules};
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn delta() -> impl Strategy<Value = Delta> {
        let rule =
            rules(1).prop_map(|rules| rules.first().map_or(Delta::All, |rule| Delta::Rule(rule.matches)));
        let net = (key(), 0..=32u8)
            .prop_map(|(key, len)| Delta::Sla(IpNet::new(key.src, len).expect("a length of both").trunc()));
        prop_oneof![400 => rule, 20 => net, 1 => Just(Delta::All)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// A verdict that is kept is one that nothing concerned; the last few are told exactly.
        #[test]
        fn a_verdict_is_never_kept_for_nothing(
            deltas in proptest::collection::vec(delta(), 1..3_000),
            keys in proptest::collection::vec(key(), 8),
            first in prop_oneof![Just(0u32), Just(u32::MAX - 700), any::<u32>()],
        ) {
            let mut log = DeltaLog { generation: first, ..DeltaLog::default() };
            for (n, delta) in deltas.iter().enumerate() {
                log.push(*delta);
                if n % 97 != 0 && n + 1 != deltas.len() {
                    continue;
                }
                for key in &keys {
                    for behind in [0, 1, 5, 15, 16, 17, 300, 1_023, 1_024, 1_025, 2_047, 2_048, 2_049, 4_000] {
                        let Some(since) = (n + 1).checked_sub(behind) else { break };
                        let concerned = deltas[since..=n].iter().any(|delta| delta.concerns(key));
                        let holds = log.holds(log.generation().wrapping_sub(behind as u32), key);
                        prop_assert!(!holds || !concerned, "{behind} behind after {n}");
                        prop_assert!(behind > DeltaLog::LEN || holds != concerned, "{behind} behind after {n}");
                    }
                }
            }
        }
    }

    #[test]
    fn changes_for_others_leave_a_verdict_for_a_thousand_of_them() {
        let customer = |n: u32| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | n));
        let key = |n: u32| Key {
            in_port: perhop_packet::PortId(0),
            vlan: 0,
            src: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            dst: customer(n),
            protocol: 17,
            ports: Some((1, 2)),
            dscp: 0,
            tcp_flags: None,
            fragment: false,
        };
        let mut log = DeltaLog::default();
        let mut made_anew = 0;
        for n in 0..10 * DeltaLog::SPAN {
            log.push(Delta::Rule(Match { dst: Some(customer(n).into()), ..Match::default() }));
            let stamp = log.generation().saturating_sub(DeltaLog::SPAN);
            made_anew += u32::from(!log.holds(stamp, &key(1 << 20 | n)));
            assert!(!log.holds(log.generation().saturating_sub(500), &key(n)), "it is new");
        }
        assert!(made_anew < 10 * DeltaLog::SPAN / 100, "{made_anew}");
        assert!(
            !log.holds(log.generation() - 2 * DeltaLog::SPAN - 1, &key(1 << 20)),
            "longer ago than is remembered"
        );
    }

    /// Of a thousand flows, how many keep verdicts of 500 changes ago, when one change in `every` is `odd` and the others are for
    /// other hosts.
    fn kept(every: u32, odd: &Match) -> usize {
        let mut log = DeltaLog::default();
        for n in 0..4 * DeltaLog::SPAN {
            let host = IpAddr::V4(Ipv4Addr::from(0xac00_0000 | n));
            let other = Match { dst: Some(host.into()), ..Match::default() };
            log.push(Delta::Rule(if n % every == 100 % every { *odd } else { other }));
        }
        let flow = |n: u32| Key {
            in_port: perhop_packet::PortId(0),
            vlan: 0,
            src: IpAddr::V4(Ipv4Addr::from(0x0b00_0000 | n)),
            dst: IpAddr::V4(Ipv4Addr::from(0xc612_0000 | n)),
            protocol: 17,
            ports: Some((1, 2)),
            dscp: 0,
            tcp_flags: None,
            fragment: false,
        };
        (0..1_000).filter(|n| log.holds(log.generation() - 500, &flow(*n))).count()
    }

    #[test]
    fn a_change_without_addresses_leaves_those_alone_whom_it_does_not_concern() {
        let bgp = Match {
            protocol: Some(6),
            dst_ports: Some(super::super::PortRange::one(179)),
            ..Match::default()
        };
        let of_v6 = Match { src: "2000::/3".parse().ok(), ..Match::default() };
        let near = Match { src: "11.128.0.0/9".parse().ok(), ..Match::default() };
        for odd in [bgp, of_v6, near] {
            for every in [1_000, 100, 40] {
                let kept = kept(every, &odd);
                assert!(kept > 950, "{kept} of 1,000 with one in {every} of {odd:?}");
            }
        }
        assert_eq!(
            kept(400, &Match { protocol: Some(17), ..Match::default() }),
            0,
            "it concerns all of them"
        );
    }
}
