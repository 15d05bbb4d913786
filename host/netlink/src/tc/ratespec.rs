//! Rates and bursts in the kernel's units (linux/pkt_sched.h): bytes per
//! second, and a burst as the time it takes at its rate, in ticks of 64 ns.

use perhop_units::{Bytes, Rate};

use crate::error::NetlinkError;

/// `PSCHED_SHIFT` is 6: one tick is 2⁶ ns.
const TICK_NS: u128 = 64;
const NS_PER_S: u128 = 1_000_000_000;
/// `TC_LINKLAYER_ETHERNET`. With it the kernel computes times itself and asks
/// for no rate table, which only old link layers need.
const LINK_LAYER_ETHERNET: u8 = 1;
/// Size of `struct tc_ratespec`.
pub(super) const RATESPEC_BYTES: usize = 12;

/// A rate as the kernel holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelRate {
    pub(super) bytes_per_s: u64,
}

impl KernelRate {
    /// # Errors
    /// [`NetlinkError::OutOfRange`] below 8 bit/s: the kernel counts whole
    /// bytes per second and takes zero for absent.
    pub(super) fn new(
        operation: &'static str,
        field: &'static str,
        rate: Rate,
    ) -> Result<Self, NetlinkError> {
        let bytes_per_s = rate.bits_per_sec() / 8;
        if bytes_per_s == 0 {
            let value = rate.bits_per_sec();
            return Err(NetlinkError::OutOfRange { operation, field, value, allowed: "at least 8 bit/s" });
        }
        Ok(Self { bytes_per_s })
    }

    pub(super) fn rate(self) -> Rate {
        Rate::from_bits_per_sec(self.bytes_per_s.saturating_mul(8))
    }

    /// `struct tc_ratespec`. A rate beyond 32 bits says so with all ones and
    /// travels in an attribute of its own, see [`KernelRate::wide`].
    pub(super) fn spec(self) -> [u8; RATESPEC_BYTES] {
        let mut spec = [0; RATESPEC_BYTES];
        spec[1] = LINK_LAYER_ETHERNET;
        let narrow = u32::try_from(self.bytes_per_s).unwrap_or(u32::MAX);
        spec[8..].copy_from_slice(&narrow.to_ne_bytes());
        spec
    }

    /// The rate for the 64-bit attribute, where 32 bits do not hold it.
    pub(super) fn wide(self) -> Option<[u8; 8]> {
        (self.bytes_per_s >= u64::from(u32::MAX)).then(|| self.bytes_per_s.to_ne_bytes())
    }

    /// Reads a rate back: 32 bits from the structure unless 64 are given.
    pub(super) fn read(narrow: u32, wide: Option<&[u8]>) -> Self {
        let wide = wide.and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
        Self { bytes_per_s: wide.unwrap_or(u64::from(narrow)) }
    }

    /// Ticks that `burst` takes at this rate, rounded up so that the kernel
    /// allows at least the burst.
    ///
    /// # Errors
    /// [`NetlinkError::OutOfRange`] beyond 2³² ticks (274 s).
    pub(super) fn ticks(
        self,
        operation: &'static str,
        field: &'static str,
        burst: Bytes,
    ) -> Result<u32, NetlinkError> {
        let per_tick = u128::from(self.bytes_per_s) * TICK_NS;
        let ticks = (u128::from(burst.get()) * NS_PER_S).div_ceil(per_tick);
        u32::try_from(ticks).map_err(|_| NetlinkError::OutOfRange {
            operation,
            field,
            value: burst.get(),
            allowed: "what the rate sends in 274 s",
        })
    }

    /// The burst of so many ticks, rounded down: at most what one tick carries
    /// more than was asked for.
    pub(super) fn burst(self, ticks: u32) -> Bytes {
        let bytes = u128::from(ticks) * TICK_NS * u128::from(self.bytes_per_s) / NS_PER_S;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_rate(bits: u64) -> KernelRate {
        KernelRate::new("test", "rate", Rate::from_bits_per_sec(bits)).unwrap()
    }

    #[test]
    fn a_burst_reads_back_as_at_least_itself_and_at_most_one_tick_more() {
        for bits in [8, 64_000, 1_500_000, 10_000_000, 1_000_000_000, 100_000_000_000] {
            let rate = kernel_rate(bits);
            let one_tick = bits / 8 * 64 / 1_000_000_000 + 1;
            for burst in [1, 40, 1500, 15_000, 1 << 20] {
                let Ok(ticks) = rate.ticks("test", "burst", Bytes(burst)) else {
                    assert!(burst * 8 / bits >= 274, "{bits} {burst}");
                    continue;
                };
                let back = rate.burst(ticks).get();
                assert!((burst..=burst + one_tick).contains(&back), "{bits} {burst} {back}");
            }
        }
    }

    #[test]
    fn a_burst_is_its_time_in_64_ns() {
        // 16,000 B at 2 Mbit/s take 64 ms.
        let ticks = kernel_rate(2_000_000).ticks("test", "burst", Bytes(16_000));
        assert_eq!(ticks.unwrap(), 1_000_000);
    }

    #[test]
    fn a_rate_beyond_32_bits_travels_in_64() {
        let rate = kernel_rate(100_000_000_000);
        let wide = rate.wide().unwrap();
        assert_eq!(rate.spec()[8..], u32::MAX.to_ne_bytes());
        assert_eq!(KernelRate::read(u32::MAX, Some(&wide)), rate);
        assert_eq!(kernel_rate(10_000_000).wide(), None);
        assert!(KernelRate::new("test", "rate", Rate::from_bits_per_sec(7)).is_err());
    }
}
