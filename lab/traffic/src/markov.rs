//! Markov-modulated Poisson: packets come as a Poisson process whose rate jumps between states.

use crate::error::TrafficError;
use crate::random::{Generator, Seed};
use crate::size::SizeMixture;
use crate::source::{Emission, Source, check_range, check_span};
use perhop_units::{Duration, Rate};

/// Most states of the modulating chain.
pub const MAX_STATES: usize = 64;
/// A mean stay in a state is at least one part in this many of the mean time between packets, which bounds the jumps
/// between two packets.
pub const JUMPS_PER_PACKET: u64 = 1000;

/// One state of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkovState {
    /// Mean rate at IP length in this state, at most [`Rate::MOST`]; 0 is silence.
    pub rate: Rate,
    /// Mean of the exponential stay in this state, above 0, at most one day.
    pub mean_stay: Duration,
}

/// Parameters of a Markov-modulated Poisson flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkovConfig {
    /// The states, 1 … [`MAX_STATES`]. A jump goes to each of the others with the same probability.
    pub states: Vec<MarkovState>,
    /// Packet sizes.
    pub sizes: SizeMixture,
    /// What IP and UDP headers add.
    pub overhead_bytes: u16,
    /// The flow begins here, in a state drawn with its share of time.
    pub start: Duration,
    /// No datagram from here on.
    pub stop: Duration,
    /// Stream number.
    pub stream: u16,
}

impl MarkovConfig {
    /// Three states around a mean rate: 0.4 and 1.0 of it for 400 ms each, bursts of 3.4 of it for 100 ms, and
    /// [`SizeMixture::FOUR_MODES`]. Our own choice, because the parameters of the published background load are not.
    pub fn bursty(mean: Rate, overhead_bytes: u16, start: Duration, stop: Duration, stream: u16) -> Self {
        let state = |tenths: u128, stay_ms| MarkovState {
            rate: Rate(u64::try_from(u128::from(mean.bits_per_sec()) * tenths / 10).unwrap_or(u64::MAX)),
            mean_stay: Duration::from_millis(stay_ms),
        };
        let states = vec![state(4, 400), state(10, 400), state(34, 100)];
        Self { states, sizes: SizeMixture::FOUR_MODES, overhead_bytes, start, stop, stream }
    }

    /// Long-run rate at IP length in bit/s: each state's share of time is its share of the mean stays, because jumps
    /// go to all others alike.
    pub fn mean_bit_s(&self) -> f64 {
        let stays: f64 = self.states.iter().map(|s| s.mean_stay.as_secs_f64()).sum();
        let bits: f64 =
            self.states.iter().map(|s| s.mean_stay.as_secs_f64() * s.rate.bits_per_sec() as f64).sum();
        bits / stays
    }

    fn check(&self) -> Result<(), TrafficError> {
        check_span(self.start, self.stop)?;
        if self.states.is_empty() {
            return Err(TrafficError::Empty { what: "states" });
        }
        check_range("number of states", self.states.len() as u64, 1, MAX_STATES as u64)?;
        self.sizes.check(self.overhead_bytes)?;
        if self.states.iter().all(|state| state.rate == Rate::ZERO) {
            return Err(TrafficError::RateZero);
        }
        let day = 86_400_000_000_000;
        for state in &self.states {
            check_range("mean stay in ns", state.mean_stay.as_nanos(), 1, day)?;
            let most = Rate::MOST.bits_per_sec();
            check_range("rate of a state in bit/s", state.rate.bits_per_sec(), 0, most)?;
        }
        let gap_ns = self.sizes.mean_bytes(self.overhead_bytes) * 8e9 / self.mean_bit_s();
        let least = (gap_ns / JUMPS_PER_PACKET as f64) as u64;
        for state in &self.states {
            check_range("mean stay in ns", state.mean_stay.as_nanos(), least, day)?;
        }
        Ok(())
    }
}

/// The source.
#[derive(Clone, Debug)]
pub struct MarkovPoisson {
    config: MarkovConfig,
    generator: Generator,
    mean_bits: f64,
    state: usize,
    /// The current state ends.
    until: Duration,
    at: Duration,
    len: u16,
    index: u32,
}

impl MarkovPoisson {
    /// Builds the source; jumps, gaps and sizes follow from the seed and the stream number.
    ///
    /// # Errors
    /// No states or too many, all rates zero, a rate, stay or size out of range, or a stop before the start.
    pub fn new(config: MarkovConfig, seed: Seed) -> Result<Self, TrafficError> {
        config.check()?;
        let mut generator = seed.generator(config.stream);
        let stays: u64 = config.states.iter().map(|s| s.mean_stay.as_nanos()).sum();
        let mut choice = generator.below(stays);
        let mut state = 0;
        for (i, candidate) in config.states.iter().enumerate() {
            state = i;
            if choice < candidate.mean_stay.as_nanos() {
                break;
            }
            choice -= candidate.mean_stay.as_nanos();
        }
        let mean_bits = config.sizes.mean_bytes(config.overhead_bytes) * 8.0;
        let at = config.start;
        let mut source = Self { config, generator, mean_bits, state, until: at, at, len: 0, index: 0 };
        source.stay();
        source.advance();
        Ok(source)
    }

    /// Draws how long the current state lasts; at least 1 ns, so that time goes on whatever is drawn.
    fn stay(&mut self) {
        if let Some(state) = self.config.states.get(self.state) {
            self.until = self.at + self.generator.exponential(state.mean_stay).max(Duration(1));
        }
    }

    /// Draws the next packet. A gap that outlasts the state is drawn anew in the next: exponential gaps have no memory.
    fn advance(&mut self) {
        let states = self.config.states.len() as u64;
        while self.at < self.config.stop {
            let rate = self.config.states.get(self.state).map_or(0, |s| s.rate.bits_per_sec());
            if rate > 0 {
                let gap = self.mean_bits * 1e9 / rate as f64 * -libm::log(self.generator.uniform());
                let at = self.at + Duration(libm::round(gap) as u64);
                if at < self.until {
                    self.at = at;
                    let overhead = self.config.overhead_bytes;
                    self.len = self.config.sizes.draw(overhead, &mut self.generator).saturating_sub(overhead);
                    return;
                }
            }
            self.at = self.until;
            if states > 1 {
                let step = 1 + self.generator.below(states - 1);
                self.state = ((self.state as u64 + step) % states) as usize;
            }
            self.stay();
        }
    }
}

impl Source for MarkovPoisson {
    fn upcoming(&self) -> Option<Duration> {
        (self.at < self.config.stop).then_some(self.at)
    }
}

impl Iterator for MarkovPoisson {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let at = self.upcoming()?;
        let (index, len) = (self.index, self.len);
        self.index = self.index.checked_add(1)?;
        self.advance();
        Some(Emission { at, stream: self.config.stream, index, len, rtp: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(states: Vec<MarkovState>, seconds: u64, seed: u64) -> (MarkovConfig, Vec<Emission>) {
        let config = MarkovConfig {
            states,
            sizes: SizeMixture::FOUR_MODES,
            overhead_bytes: 28,
            start: Duration::from_secs(1),
            stop: Duration::from_secs(1 + seconds),
            stream: 5,
        };
        let emissions = MarkovPoisson::new(config.clone(), Seed::new(seed)).expect("valid").collect();
        (config, emissions)
    }

    fn bits(emissions: &[Emission]) -> f64 {
        emissions.iter().map(|e| f64::from(e.len + 28) * 8.0).sum()
    }

    #[test]
    fn long_run_rate_is_the_mean_of_the_states() {
        let state = |rate, stay_ms| MarkovState { rate, mean_stay: Duration::from_millis(stay_ms) };
        for (seed, states) in [
            (1, MarkovConfig::bursty(Rate::from_mbit(1), 28, Duration(0), Duration(1), 0).states),
            (2, vec![state(Rate::from_mbit(1), 1000)]),
            (3, vec![state(Rate::ZERO, 50), state(Rate::from_mbit(3), 20), state(Rate::from_kbit(100), 80)]),
        ] {
            let (config, emissions) = run(states, 1000, seed);
            let ratio = bits(&emissions) / 1000.0 / config.mean_bit_s();
            assert!((ratio - 1.0).abs() < 0.04, "{seed}: {ratio}");
        }
    }

    /// The index of dispersion of a switched Poisson process exceeds 1 in windows as long as its stays, and is 1 for a
    /// single state.
    #[test]
    fn bursts_show_in_the_dispersion_of_counts() {
        let dispersion = |states| {
            let (_, emissions) = run(states, 1000, 7);
            let mut counts = vec![0f64; 5000];
            for e in &emissions {
                counts[((e.at.0 - 1_000_000_000) / 200_000_000) as usize] += 1.0;
            }
            let mean = counts.iter().sum::<f64>() / 5000.0;
            counts.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / 4999.0 / mean
        };
        let one = MarkovState { rate: Rate::from_mbit(2), mean_stay: Duration::from_millis(100) };
        let plain = dispersion(vec![one]);
        let bursty =
            dispersion(MarkovConfig::bursty(Rate::from_mbit(2), 28, Duration(0), Duration(1), 0).states);
        assert!((plain - 1.0).abs() < 0.1, "{plain}");
        assert!(bursty > 5.0, "{bursty}");
    }

    /// A stay ends in another state: silences beyond 20 ms last, for want of memory, 20 ms and a mean stay.
    #[test]
    fn stays_have_their_mean_length() {
        let stay = |rate| MarkovState { rate, mean_stay: Duration::from_millis(100) };
        let (_, emissions) = run(vec![stay(Rate::ZERO), stay(Rate::from_mbit(20))], 600, 8);
        let gaps: Vec<f64> = emissions.windows(2).map(|w| (w[1].at - w[0].at).as_millis_f64()).collect();
        let silences: Vec<f64> = gaps.into_iter().filter(|gap| *gap > 20.0).collect();
        let mean = silences.iter().sum::<f64>() / silences.len() as f64;
        assert!((mean - 120.0).abs() < 6.0, "{mean} ms over {}", silences.len());
    }

    #[test]
    fn wrong_parameters_are_named() {
        let new = |states| {
            let c = MarkovConfig::bursty(Rate(1), 28, Duration(0), Duration(1), 0);
            MarkovPoisson::new(MarkovConfig { states, ..c }, Seed::new(0)).map(|_| ())
        };
        assert_eq!(new(vec![]), Err(TrafficError::Empty { what: "states" }));
        let silent = MarkovState { rate: Rate::ZERO, mean_stay: Duration::from_secs(1) };
        assert_eq!(new(vec![silent]), Err(TrafficError::RateZero));
        let hasty = MarkovState { rate: Rate(1000), mean_stay: Duration(1000) };
        assert!(matches!(new(vec![hasty]), Err(TrafficError::OutOfRange { what: "mean stay in ns", .. })));
    }
}
