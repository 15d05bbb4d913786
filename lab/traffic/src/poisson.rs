//! A Poisson flow of equal datagrams: exponential gaps of a mean that gives the rate.

use crate::error::TrafficError;
use crate::random::{Generator, Seed};
use crate::source::{Emission, Source, check_payload, check_rate, check_span};
use perhop_units::{Bytes, Duration, Rate};

/// Parameters of a Poisson flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoissonConfig {
    /// Mean rate at IP length, above 0 and at most [`Rate::MOST`].
    pub rate: Rate,
    /// UDP payload in bytes, 16 … 65507.
    pub payload_bytes: u16,
    /// What IP and UDP headers add.
    pub overhead_bytes: u16,
    /// The first gap begins here.
    pub start: Duration,
    /// No datagram from here on.
    pub stop: Duration,
    /// Stream number.
    pub stream: u16,
}

/// The source.
#[derive(Clone, Debug)]
pub struct Poisson {
    config: PoissonConfig,
    generator: Generator,
    at: Duration,
    index: u32,
}

impl Poisson {
    /// Builds the source; gaps follow from the seed and the stream number.
    ///
    /// # Errors
    /// A rate or payload out of range, or a stop before the start.
    pub fn new(config: PoissonConfig, seed: Seed) -> Result<Self, TrafficError> {
        check_rate("rate in bit/s", config.rate)?;
        check_payload(config.payload_bytes)?;
        check_span(config.start, config.stop)?;
        let mut source =
            Self { config, generator: seed.generator(config.stream), at: config.start, index: 0 };
        source.advance();
        Ok(source)
    }

    fn advance(&mut self) {
        let bytes = u64::from(self.config.payload_bytes) + u64::from(self.config.overhead_bytes);
        let mean = self.config.rate.time_for(Bytes(bytes));
        self.at = self.at + self.generator.exponential(mean);
    }
}

impl Source for Poisson {
    fn upcoming(&self) -> Option<Duration> {
        (self.at < self.config.stop).then_some(self.at)
    }
}

impl Iterator for Poisson {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let at = self.upcoming()?;
        let index = self.index;
        self.index = self.index.checked_add(1)?;
        self.advance();
        Some(Emission { at, stream: self.config.stream, index, len: self.config.payload_bytes, rtp: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts in windows of a Poisson process have variance equal to their mean.
    #[test]
    fn counts_in_windows_have_the_variance_of_their_mean() {
        let config = PoissonConfig {
            rate: Rate::from_mbit(8),
            payload_bytes: 972,
            overhead_bytes: 28,
            start: Duration::from_secs(1),
            stop: Duration::from_secs(101),
            stream: 3,
        };
        // 1000 packets a second, 10 a window of 10 ms.
        let mut counts = vec![0f64; 10_000];
        let mut last = Duration::ZERO;
        for emission in Poisson::new(config, Seed::new(11)).expect("valid") {
            assert!(emission.at >= last && emission.at >= config.start && emission.at < config.stop);
            last = emission.at;
            counts[((emission.at.as_nanos() - 1_000_000_000) / 10_000_000) as usize] += 1.0;
        }
        let n = counts.len() as f64;
        let mean = counts.iter().sum::<f64>() / n;
        let variance = counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / (n - 1.0);
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.06, "{}", variance / mean);
    }
}
