//! Bit rates.

use crate::{Bytes, Duration, Tokens};
use serde::{Deserialize, Serialize};

/// A rate in whole bit/s, 0 … 2⁶⁴−1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

impl Rate {
    /// Nothing passes.
    pub const ZERO: Self = Self(0);
    /// The highest that a file, an object or an element may name, 1 Tbit/s: the shortest frame still takes a part of a ns.
    pub const MOST: Self = Self(1_000_000_000_000);

    /// `n` bit/s.
    pub const fn from_bits_per_sec(n: u64) -> Self {
        Self(n)
    }
    /// `n` kbit/s (10³), saturating.
    pub const fn from_kbit(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }
    /// `n` Mbit/s (10⁶), saturating.
    pub const fn from_mbit(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }
    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }
    /// What this rate earns in `dt`: rate × Δt is exact in 10⁻⁹ bit; saturates at [`Tokens::MAX`].
    pub const fn earned(self, dt: Duration) -> Tokens {
        let product = self.0 as u128 * dt.0 as u128;
        if product > i64::MAX as u128 { Tokens::MAX } else { Tokens(product as i64) }
    }
    /// Time to send `len` at this rate, rounded up to a whole ns; [`Duration::MAX`] at rate zero.
    pub const fn time_for(self, len: Bytes) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let bits_ns = len.0 as u128 * 8 * 1_000_000_000;
        let ns = bits_ns.div_ceil(self.0 as u128);
        if ns > u64::MAX as u128 { Duration::MAX } else { Duration(ns as u64) }
    }
    /// Time until `deficit` tokens are earned, rounded up; zero for none, [`Duration::MAX`] at rate zero.
    pub const fn time_to_earn(self, deficit: Tokens) -> Duration {
        if deficit.0 <= 0 {
            return Duration::ZERO;
        }
        if self.0 == 0 {
            return Duration::MAX;
        }
        Duration((deficit.0 as u64).div_ceil(self.0))
    }
    /// Sum, saturating.
    #[must_use]
    pub const fn saturating_add(self, o: Self) -> Self {
        Self(self.0.saturating_add(o.0))
    }
    /// Difference, zero if `o` is larger.
    #[must_use]
    pub const fn saturating_sub(self, o: Self) -> Self {
        Self(self.0.saturating_sub(o.0))
    }
    /// Bytes sent in `dt` at this rate, rounded down, saturating.
    pub const fn bytes_in(self, dt: Duration) -> Bytes {
        let bytes = self.0 as u128 * dt.0 as u128 / 8_000_000_000;
        if bytes > u64::MAX as u128 { Bytes(u64::MAX) } else { Bytes(bytes as u64) }
    }
}

impl From<Rate> for u64 {
    fn from(rate: Rate) -> u64 {
        rate.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QueueLimit, Share};
    use proptest::prelude::*;

    /// Numbers of every magnitude.
    fn any_value() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64).prop_map(|(v, shift)| v >> shift)
    }

    /// 10⁻⁹ bit sent at `rate` in `dt`, exactly.
    fn sent(rate: u64, dt: u64) -> u128 {
        u128::from(rate) * u128::from(dt)
    }

    proptest! {
        #[test]
        fn earned_is_exact_or_saturates(rate in any_value(), dt in any_value()) {
            let expected = sent(rate, dt).min(i64::MAX as u128);
            prop_assert_eq!(Rate(rate).earned(Duration(dt)).0 as u128, expected);
        }

        #[test]
        fn earning_in_pieces_loses_nothing(rate in 0u64..1 << 36, gaps in proptest::collection::vec(0u64..100_000, 1..50)) {
            let total: u64 = gaps.iter().sum();
            let pieces = gaps.iter().fold(Tokens::ZERO, |t, g| t.saturating_add(Rate(rate).earned(Duration(*g))));
            prop_assert_eq!(pieces, Rate(rate).earned(Duration(total)));
        }

        #[test]
        fn time_for_is_the_first_sufficient_ns(rate in any_value(), len in any_value()) {
            let bits = u128::from(len) * 8_000_000_000;
            match Rate(rate).time_for(Bytes(len)) {
                Duration::MAX => prop_assert!(rate == 0 || sent(rate, u64::MAX - 1) < bits),
                Duration(ns) => {
                    prop_assert!(sent(rate, ns) >= bits);
                    prop_assert!(ns == 0 || sent(rate, ns - 1) < bits);
                }
            }
        }

        #[test]
        fn time_to_earn_is_the_first_sufficient_ns(rate in any_value(), deficit: i64) {
            match Rate(rate).time_to_earn(Tokens(deficit)) {
                Duration::ZERO => prop_assert!(deficit <= 0),
                Duration::MAX => prop_assert_eq!(rate, 0),
                Duration(ns) => {
                    prop_assert!(sent(rate, ns) >= deficit as u128);
                    prop_assert!(sent(rate, ns - 1) < deficit as u128);
                }
            }
        }

        #[test]
        fn bytes_in_is_rounded_down(rate in any_value(), dt in any_value()) {
            let bytes = Rate(rate).bytes_in(Duration(dt));
            let expected = (sent(rate, dt) / 8_000_000_000).min(u128::from(u64::MAX));
            prop_assert_eq!(u128::from(bytes.0), expected);
            prop_assert_eq!(QueueLimit::Time(Duration(dt)).in_bytes(Rate(rate)), Some(bytes));
            // What is sent in the time for n bytes is at least n bytes.
            let time = Rate(rate).time_for(bytes);
            prop_assert!(time == Duration::MAX || Rate(rate).bytes_in(time) >= bytes);
        }

        #[test]
        fn shares_never_exceed_the_whole(whole in any_value(), a in 0u32..=1_000_000) {
            let of = |ppm| Share::Ppm(ppm).of(Rate(whole));
            prop_assert_eq!(u128::from(of(a).0), u128::from(whole) * u128::from(a) / 1_000_000);
            prop_assert!(of(a).saturating_add(of(1_000_000 - a)) <= Rate(whole));
            prop_assert_eq!(of(1_000_000), Rate(whole));
            prop_assert_eq!(Share::Rate(Rate(7)).of(Rate(whole)), Rate(7));
        }

        #[test]
        fn tokens_of_bytes(n in any_value()) {
            let exact = u128::from(n) * Tokens::PER_BYTE as u128;
            prop_assert_eq!(Tokens::from_bytes(Bytes(n)).0 as u128, if exact > i64::MAX as u128 { i64::MAX as u128 } else { exact });
        }
    }
}
