//! A flow of equal datagrams whose rate changes in steps.

use crate::error::TrafficError;
use crate::source::{Emission, Source, check_payload, check_range, check_span};
use perhop_units::{Duration, Rate};

/// Most steps of a staircase.
pub const MAX_STEPS: usize = 10_000;

/// Longest step: 36 years.
pub const MAX_STEP: Duration = Duration(1 << 60);

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long it lasts, up to [`MAX_STEP`].
    pub duration: Duration,
    /// Rate at IP length, up to [`Rate::MOST`]; 0 is silence.
    pub rate: Rate,
}

/// Parameters of a staircase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaircaseConfig {
    /// The steps in order, 1 … [`MAX_STEPS`].
    pub steps: Vec<Step>,
    /// Begins again after the last step instead of ending there.
    pub repeat: bool,
    /// UDP payload in bytes, 16 … 65507.
    pub payload_bytes: u16,
    /// What IP and UDP headers add.
    pub overhead_bytes: u16,
    /// The first step begins here.
    pub start: Duration,
    /// No datagram from here on.
    pub stop: Duration,
    /// Stream number.
    pub stream: u16,
}

/// The source. Datagram k is due when the steps have earned k datagrams, rounded up to a whole ns: what a step leaves
/// over counts in the next.
#[derive(Clone, Debug)]
pub struct Staircase {
    config: StaircaseConfig,
    /// Bits · 10⁹ earned by all steps together.
    cycle_earned: u128,
    cycle_ns: u128,
    step: usize,
    /// Begin of the current step since `start`, in ns.
    begin_ns: u128,
    /// Bits · 10⁹ earned before the current step.
    earned: u128,
    index: u32,
    at: Option<Duration>,
}

impl Staircase {
    /// Builds the source.
    ///
    /// # Errors
    /// No steps or too many, a step out of range, all rates or durations zero, a payload out of range, or a stop before the start.
    pub fn new(config: StaircaseConfig) -> Result<Self, TrafficError> {
        check_payload(config.payload_bytes)?;
        check_span(config.start, config.stop)?;
        if config.steps.is_empty() {
            return Err(TrafficError::Empty { what: "steps" });
        }
        check_range("number of steps", config.steps.len() as u64, 1, MAX_STEPS as u64)?;
        for step in &config.steps {
            check_range("duration of a step in ns", step.duration.as_nanos(), 0, MAX_STEP.as_nanos())?;
            let most = Rate::MOST.bits_per_sec();
            check_range("rate of a step in bit/s", step.rate.bits_per_sec(), 0, most)?;
        }
        let cycle_earned: u128 = config.steps.iter().map(Step::earned).sum();
        let cycle_ns = config.steps.iter().map(|s| u128::from(s.duration.as_nanos())).sum();
        if cycle_earned == 0 {
            return Err(TrafficError::RateZero);
        }
        let mut source =
            Self { config, cycle_earned, cycle_ns, step: 0, begin_ns: 0, earned: 0, index: 0, at: None };
        source.at = source.due();
        Ok(source)
    }

    /// When datagram `index` is due; moves on to the step in which that is.
    fn due(&mut self) -> Option<Duration> {
        let c = &self.config;
        let bits = (u128::from(c.payload_bytes) + u128::from(c.overhead_bytes)) * 8;
        let target = u128::from(self.index) * bits * 1_000_000_000;
        if c.repeat && self.step == 0 {
            // Whole cycles at once, so that cycles which earn little cost no time.
            let cycles = (target - self.earned) / self.cycle_earned;
            self.earned += cycles * self.cycle_earned;
            self.begin_ns += cycles * self.cycle_ns;
        }
        loop {
            let Some(step) = c.steps.get(self.step) else {
                if !c.repeat {
                    return None;
                }
                self.step = 0;
                return self.due();
            };
            let missing = target - self.earned;
            if missing < step.earned() {
                let into = missing.div_ceil(u128::from(step.rate.bits_per_sec()));
                let offset = u64::try_from(self.begin_ns + into).ok()?;
                let at = c.start + Duration(offset);
                return (at < c.stop).then_some(at);
            }
            self.earned += step.earned();
            self.begin_ns += u128::from(step.duration.as_nanos());
            self.step += 1;
        }
    }
}

impl Step {
    /// Bits · 10⁹ in this step.
    fn earned(&self) -> u128 {
        u128::from(self.duration.as_nanos()) * u128::from(self.rate.bits_per_sec())
    }
}

impl Source for Staircase {
    fn upcoming(&self) -> Option<Duration> {
        self.at
    }
}

impl Iterator for Staircase {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let at = self.at?;
        let index = self.index;
        self.index = self.index.checked_add(1)?;
        self.at = self.due();
        Some(Emission { at, stream: self.config.stream, index, len: self.config.payload_bytes, rtp: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    fn config(steps: Vec<Step>, repeat: bool) -> StaircaseConfig {
        StaircaseConfig {
            steps,
            repeat,
            payload_bytes: 97,
            overhead_bytes: 28,
            start: Duration::from_secs(1),
            stop: Duration::from_secs(61),
            stream: 0,
        }
    }

    /// In every prefix of time the bits sent are those that the steps have earned, to one datagram.
    #[test]
    fn sent_bits_follow_the_steps_exactly() {
        let mut generator = Seed::new(6).generator(0);
        for _ in 0..200 {
            let steps: Vec<Step> = (0..1 + generator.below(6))
                .map(|_| Step {
                    duration: Duration(generator.below(3_000_000_000)),
                    rate: Rate(generator.below(3) * generator.below(1_000_000)),
                })
                .collect();
            let earned_until = |at: u128| {
                let (mut sum, mut begin) = (0u128, 0u128);
                for step in &steps {
                    let length = u128::from(step.duration.0);
                    sum += at.saturating_sub(begin).min(length) * u128::from(step.rate.0);
                    begin += length;
                }
                sum
            };
            let Ok(source) = Staircase::new(config(steps.clone(), false)) else {
                assert_eq!(earned_until(u128::MAX), 0);
                continue;
            };
            let mut sent = 0u128;
            for emission in source {
                let at = u128::from(emission.at.0 - 1_000_000_000);
                assert!(earned_until(at) >= sent && (at == 0 || earned_until(at - 1) < sent.max(1)));
                sent += 1000 * 1_000_000_000;
            }
            let all = earned_until(60_000_000_000);
            assert!(sent >= all && sent - all <= 1000 * 1_000_000_000, "{sent} of {all}");
        }
    }

    #[test]
    fn repetition_keeps_the_mean_rate_even_of_tiny_cycles() {
        let step = |ns, rate| Step { duration: Duration(ns), rate: Rate(rate) };
        for steps in [
            vec![step(1, 3_000), step(2, 0)],
            vec![step(1_000_000_000, 1_000_000), step(500_000_000, 0), step(500_000_000, 4_000_000)],
        ] {
            let cycle: u64 = steps.iter().map(|s| s.duration.0).sum();
            let earned: u128 = steps.iter().map(Step::earned).sum();
            let mean = earned / u128::from(cycle);
            let sent = Staircase::new(config(steps, true)).expect("valid").count() as u128 * 1000;
            assert!(sent.abs_diff(mean * 60) <= 1000, "{sent} bits at {mean} bit/s");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        let new = |steps| Staircase::new(config(steps, true)).map(|_| ());
        assert_eq!(new(vec![]), Err(TrafficError::Empty { what: "steps" }));
        let silent = Step { duration: Duration::from_secs(1), rate: Rate::ZERO };
        assert_eq!(new(vec![silent]), Err(TrafficError::RateZero));
        let many = vec![Step { rate: Rate(1), ..silent }; MAX_STEPS + 1];
        assert_eq!(
            new(many).map_err(|e| e.to_string()),
            Err("number of steps is 10001; allowed is 1 to 10000".to_owned())
        );
    }
}
