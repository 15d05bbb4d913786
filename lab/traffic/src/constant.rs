//! A constant-rate flow of equal datagrams: the UDP flood.

use crate::error::TrafficError;
use crate::source::{Emission, Source, check_payload, check_rate, check_span};
use perhop_units::{Duration, Rate};

/// Parameters of a constant-rate flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantConfig {
    /// Rate at IP length, above 0 and at most [`Rate::MOST`].
    pub rate: Rate,
    /// UDP payload in bytes, 16 … 65507.
    pub payload_bytes: u16,
    /// What IP and UDP headers add: [`crate::UDP_IPV4_OVERHEAD`] or [`crate::UDP_IPV6_OVERHEAD`].
    pub overhead_bytes: u16,
    /// First datagram.
    pub start: Duration,
    /// No datagram from here on.
    pub stop: Duration,
    /// Stream number.
    pub stream: u16,
}

/// The source. Datagram k is due at start + k · bits / rate, rounded up to a whole ns: no drift, never early.
#[derive(Clone, Debug)]
pub struct Constant {
    config: ConstantConfig,
    index: u32,
}

impl Constant {
    /// Builds the source.
    ///
    /// # Errors
    /// A rate or payload out of range, or a stop before the start.
    pub fn new(config: ConstantConfig) -> Result<Self, TrafficError> {
        check_rate("rate in bit/s", config.rate)?;
        check_payload(config.payload_bytes)?;
        check_span(config.start, config.stop)?;
        Ok(Self { config, index: 0 })
    }
}

impl Source for Constant {
    fn upcoming(&self) -> Option<Duration> {
        let c = &self.config;
        let bits = (u128::from(c.payload_bytes) + u128::from(c.overhead_bytes)) * 8;
        let offset =
            (u128::from(self.index) * bits * 1_000_000_000).div_ceil(u128::from(c.rate.bits_per_sec()));
        let at = c.start + Duration(u64::try_from(offset).ok()?);
        (at < c.stop).then_some(at)
    }
}

impl Iterator for Constant {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let at = self.upcoming()?;
        let index = self.index;
        self.index = self.index.checked_add(1)?;
        Some(Emission { at, stream: self.config.stream, index, len: self.config.payload_bytes, rtp: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    fn config(rate: u64, payload: u16) -> ConstantConfig {
        ConstantConfig {
            rate: Rate(rate),
            payload_bytes: payload,
            overhead_bytes: 28,
            start: Duration::from_millis(500),
            stop: Duration::from_millis(2500),
            stream: 9,
        }
    }

    /// Bits sent in any prefix of time are those of the rate, to one packet, over random rates and sizes.
    #[test]
    fn rate_is_exact_over_any_span_and_nothing_is_early() {
        let mut generator = Seed::new(1).generator(0);
        for _ in 0..100 {
            let rate = 10_000 + generator.below(50_000_000);
            let payload = 16 + generator.below(1457) as u16;
            let bits = u128::from(payload + 28) * 8;
            let mut sent = 0u128;
            for emission in Constant::new(config(rate, payload)).expect("valid") {
                let elapsed = u128::from(emission.at.as_nanos() - 500_000_000);
                // Due exactly when the rate has earned what went before, and not a nanosecond earlier or later.
                assert!(elapsed * u128::from(rate) >= sent * 1_000_000_000);
                assert!(elapsed == 0 || (elapsed - 1) * u128::from(rate) < sent * 1_000_000_000);
                assert!(emission.at < Duration::from_millis(2500));
                sent += bits;
            }
            let earned = u128::from(rate) * 2;
            assert!(sent >= earned && sent - earned <= bits, "rate {rate}, sent {sent}");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        let new = |c| Constant::new(c).map(|_| ());
        assert_eq!(new(config(0, 100)), Err(TrafficError::RateZero));
        assert_eq!(new(config(1, 15)), Err(TrafficError::PayloadTooSmall { given: 15 }));
        assert_eq!(new(config(1, 65508)), Err(TrafficError::PayloadTooLarge { given: 65508, limit: 65507 }));
        let back = ConstantConfig { stop: Duration::ZERO, ..config(1, 100) };
        assert_eq!(
            new(back).map_err(|e| e.to_string()),
            Err("stop at 0 ms lies before the start at 500 ms".to_owned())
        );
    }
}
