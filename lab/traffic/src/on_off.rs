//! A flow that sends at its peak rate for a while and then is silent for a while.

use crate::error::TrafficError;
use crate::period::{Period, PeriodSampler};
use crate::random::{Generator, Seed};
use crate::source::{Emission, Source, check_payload, check_rate, check_span};
use perhop_units::{Bytes, Duration, Rate};

/// A mean on-period is at least one part in this many of a packet's time at the peak rate, which bounds the periods
/// that pass between two packets.
pub const PERIODS_PER_PACKET: u64 = 1000;

/// Parameters of an on/off flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOffConfig {
    /// Rate at IP length during an on-period, above 0 and at most [`Rate::MOST`].
    pub peak: Rate,
    /// UDP payload in bytes, 16 … 65507.
    pub payload_bytes: u16,
    /// What IP and UDP headers add.
    pub overhead_bytes: u16,
    /// Lengths of on-periods.
    pub on: Period,
    /// Lengths of off-periods.
    pub off: Period,
    /// The first period begins here; which kind it is, is drawn with the share of time of each.
    pub start: Duration,
    /// No datagram from here on.
    pub stop: Duration,
    /// Stream number.
    pub stream: u16,
}

/// The source. Packets are due at equal steps of a clock that runs in on-periods only, so that neither a short period
/// nor a packet cut by its end changes the rate.
#[derive(Clone, Debug)]
pub struct OnOff {
    config: OnOffConfig,
    on: PeriodSampler,
    off: PeriodSampler,
    generator: Generator,
    /// The current on-period in time of the run.
    period: (Duration, Duration),
    /// Length of all on-periods before it.
    on_before: u64,
    index: u32,
    at: Duration,
}

impl OnOff {
    /// Builds the source; periods follow from the seed and the stream number.
    ///
    /// # Errors
    /// A rate, payload, mean period or shape out of range, or a stop before the start.
    pub fn new(config: OnOffConfig, seed: Seed) -> Result<Self, TrafficError> {
        check_rate("peak rate in bit/s", config.peak)?;
        check_payload(config.payload_bytes)?;
        check_span(config.start, config.stop)?;
        let bytes = u64::from(config.payload_bytes) + u64::from(config.overhead_bytes);
        let least = config.peak.time_for(Bytes(bytes)).as_nanos() / PERIODS_PER_PACKET;
        config.on.check("mean on-period in ns", Duration(least))?;
        config.off.check("mean off-period in ns", Duration(1))?;
        let mut generator = seed.generator(config.stream);
        let (on, off) = (PeriodSampler::new(config.on), PeriodSampler::new(config.off));
        let (on_mean, off_mean) = (config.on.mean().as_nanos(), config.off.mean().as_nanos());
        let silent = generator.below(on_mean + off_mean) >= on_mean;
        let begin = if silent { config.start + off.draw(&mut generator) } else { config.start };
        let period = (begin, begin + on.draw(&mut generator));
        let mut source = Self { config, on, off, generator, period, on_before: 0, index: 0, at: begin };
        source.advance();
        Ok(source)
    }

    /// Finds when the packet `index` is due.
    fn advance(&mut self) {
        let c = &self.config;
        let bits = (u128::from(c.payload_bytes) + u128::from(c.overhead_bytes)) * 8;
        let clock =
            (u128::from(self.index) * bits * 1_000_000_000).div_ceil(u128::from(c.peak.bits_per_sec()));
        let clock = u64::try_from(clock).unwrap_or(u64::MAX);
        while self.period.0 < c.stop {
            let length = self.period.1 - self.period.0;
            let into = clock.saturating_sub(self.on_before);
            if into < length.as_nanos() {
                self.at = self.period.0 + Duration(into);
                return;
            }
            self.on_before = self.on_before.saturating_add(length.as_nanos());
            // A step of at least 1 ns: time goes on whatever is drawn.
            let begin = self.period.1 + self.off.draw(&mut self.generator).max(Duration(1));
            self.period = (begin, begin + self.on.draw(&mut self.generator));
        }
        self.at = c.stop;
    }
}

impl Source for OnOff {
    fn upcoming(&self) -> Option<Duration> {
        (self.at < self.config.stop).then_some(self.at)
    }
}

impl Iterator for OnOff {
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

    fn config(on: Period, off: Period) -> OnOffConfig {
        OnOffConfig {
            peak: Rate::from_mbit(1),
            payload_bytes: 97,
            overhead_bytes: 28,
            on,
            off,
            start: Duration::from_secs(2),
            stop: Duration::from_secs(2002),
            stream: 4,
        }
    }

    /// With constant periods every emission is known: 1 ms a packet, 10 of them, then 30 ms of nothing.
    #[test]
    fn constant_periods_give_bursts_of_known_length() {
        let on = Period::Constant { length: Duration::from_millis(10) };
        let off = Period::Constant { length: Duration::from_millis(30) };
        let times: Vec<u64> =
            OnOff::new(config(on, off), Seed::new(1)).expect("valid").take(100).map(|e| e.at.0).collect();
        for (k, at) in times.iter().enumerate() {
            let k = k as u64;
            assert_eq!(at - times[0], k / 10 * 40_000_000 + k % 10 * 1_000_000);
        }
    }

    #[test]
    fn long_run_rate_is_the_share_of_on_time() {
        let ms = Duration::from_millis;
        for (seed, on, off, bound) in [
            (1, Period::Exponential { mean: ms(100) }, Period::Exponential { mean: ms(300) }, 0.04),
            (2, Period::Exponential { mean: Duration(1_500) }, Period::Exponential { mean: ms(1) }, 0.04),
            (
                3,
                Period::Pareto { mean: ms(50), shape_milli: 1900 },
                Period::Exponential { mean: ms(50) },
                0.1,
            ),
        ] {
            let mut c = config(on, off);
            if seed == 2 {
                c.stop = Duration::from_secs(52);
            }
            let bits = OnOff::new(c, Seed::new(seed)).expect("valid").count() as f64 * 1000.0;
            let [on_s, off_s] = [on, off].map(|period| period.mean().as_secs_f64());
            let mean = c.peak.bits_per_sec() as f64 * on_s / (on_s + off_s);
            let ratio = bits / (c.stop - c.start).as_secs_f64() / mean;
            assert!((ratio - 1.0).abs() < bound, "{on:?}: {ratio}");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        let off = Period::Exponential { mean: Duration::from_millis(10) };
        let short = Period::Exponential { mean: Duration(999) };
        assert_eq!(
            OnOff::new(config(short, off), Seed::new(0)).map(|_| ()).map_err(|e| e.to_string()),
            Err("mean on-period in ns is 999; allowed is 1000 to 86400000000000".to_owned())
        );
        let flat = Period::Pareto { mean: Duration::from_millis(10), shape_milli: 1000 };
        assert_eq!(
            OnOff::new(config(off, flat), Seed::new(0)).map(|_| ()),
            Err(TrafficError::OutOfRange {
                what: "Pareto shape in thousandths",
                given: 1000,
                least: 1050,
                most: 10_000
            })
        );
    }
}
