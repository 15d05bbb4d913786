//! What one entry of [`super::Emulator`] does to packets, as plain structures, and how it is written.

use super::chance::BurstLoss;
use super::delay::MAX_DELAY;
use crate::drop::DrdConfig;
use perhop_units::{Duration, Probability, Rate};
use std::str::FromStr;

/// The most values of a table of delays, and instants of a recording.
pub(super) const MAX_VALUES: usize = 4096;

/// How delays are distributed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform, up to the spread to either side of the mean.
    #[default]
    Uniform,
    /// Normal with the spread as standard deviation.
    Normal,
    /// The mean plus a Pareto excess of shape 3 with the spread as standard deviation.
    Pareto,
    /// As measured: these delays in ascending order cut the distribution into parts that are equally likely; within a part all
    /// delays are.
    Table(Vec<Duration>),
}

/// Random delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Mean of the delay; not of a table, which has its own.
    pub mean: Duration,
    /// How far delays are from it.
    pub spread: Duration,
    /// Their distribution.
    pub distribution: Distribution,
    /// Correlation of a packet's delay with that of the packet before: of the normal variables behind both.
    pub correlation: Probability,
}

impl Delays {
    /// The delay that belongs to `z` of the standard normal distribution: the higher the longer. Never below zero.
    pub fn at(&self, z: f64) -> Duration {
        let (mean, spread) = (self.mean.0 as f64, self.spread.0 as f64);
        // The part of all delays that are shorter, and the part of those that are longer.
        let shorter = || 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
        let longer = || (0.5 * libm::erfc(z / std::f64::consts::SQRT_2)).max(1e-12);
        let ns = match &self.distribution {
            Distribution::Uniform => mean + (2.0 * shorter() - 1.0) * spread,
            Distribution::Normal => mean + z * spread,
            // Pareto of shape 3 and scale m has the standard deviation m·√3/2.
            Distribution::Pareto => {
                mean + (libm::cbrt(1.0 / longer()) - 1.0) * spread * 2.0 / libm::sqrt(3.0)
            }
            Distribution::Table(table) => {
                let at = shorter() * table.len().saturating_sub(1) as f64;
                let below = (at as usize).min(table.len().saturating_sub(2));
                let value = |n: usize| table.get(n).map_or(0.0, |d| d.0 as f64);
                value(below) + (value(below + 1) - value(below)) * (at - below as f64)
            }
        };
        Duration(ns.max(0.0) as u64)
    }

    /// The next delay; `z` is what is behind the one before.
    pub fn draw(&self, z: &mut Option<f64>, mut random: impl FnMut() -> u32) -> Duration {
        if self.spread == Duration::ZERO && !matches!(self.distribution, Distribution::Table(_)) {
            return self.mean;
        }
        // Box and Muller 1958; over (0, 1], so that the logarithm exists.
        let mut unit = || (f64::from(random()) + 1.0) / 4_294_967_296.0;
        let (u, v) = (unit(), unit());
        let fresh = libm::sqrt(-2.0 * libm::log(u)) * libm::cos(std::f64::consts::TAU * v);
        let rho = f64::from(self.correlation.0) / 4_294_967_296.0;
        // A normal variable whatever the correlation, so that the distribution stays as it is written.
        let next = z.map_or(fresh, |before| rho * before + libm::sqrt(1.0 - rho * rho) * fresh);
        *z = Some(next);
        self.at(next)
    }
}

/// From when on which conditions hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Since the first packet of the entry.
    pub from: Duration,
    /// Mean delay.
    pub delay: Duration,
    /// Probability of loss.
    pub loss: Probability,
}

/// All effects of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effects {
    /// Delays.
    pub delays: Delays,
    /// Independent loss.
    pub loss: Probability,
    /// Loss in bursts.
    pub burst: Option<BurstLoss>,
    /// Probability that a packet goes twice.
    pub duplicate: Probability,
    /// Probability that a packet skips its delay.
    pub reorder: Probability,
    /// Whether delays let packets overtake each other.
    pub overtake: bool,
    /// Bandwidth; zero: no limit.
    pub rate: Rate,
    /// Drops by the number of packets that wait for the bandwidth.
    pub drd: Option<DrdConfig>,
    /// Most packets inside.
    pub limit: u32,
    /// Conditions over time in place of mean delay and loss, in the order of time; empty: those.
    pub recorded: Vec<Recorded>,
    /// When the recording begins again.
    pub period: Duration,
}

impl Default for Effects {
    fn default() -> Self {
        Self {
            delays: Delays {
                mean: Duration::ZERO,
                spread: Duration::ZERO,
                distribution: Distribution::default(),
                correlation: Probability::ZERO,
            },
            loss: Probability::ZERO,
            burst: None,
            duplicate: Probability::ZERO,
            reorder: Probability::ZERO,
            overtake: false,
            rate: Rate::ZERO,
            drd: None,
            limit: 100_000,
            recorded: Vec::new(),
            period: Duration::ZERO,
        }
    }
}

impl Effects {
    /// What was recorded for the time `since` the first packet. O(log n).
    pub fn recorded_at(&self, since: Duration) -> Option<Recorded> {
        let at = since.0.checked_rem(self.period.0).unwrap_or(since.0);
        let after = self.recorded.partition_point(|r| r.from.0 <= at);
        self.recorded.get(after.checked_sub(1)?).copied()
    }
}

/// The words of the language, for messages.
pub(super) const WORDS: &str = "delay TIME, jitter TIME, uniform, normal, pareto, table TIME TIME…, correlation P, loss P, \
    burst P P P P, duplicate P, reorder P, overtake, rate RATE, drd MIN MAX, limit N, play TIME TIME P, …, every TIME";

/// Words one by one, with what to say of a bad one.
struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl Words<'_> {
    fn value<T: FromStr>(&mut self, of: &str) -> Result<T, String> {
        let word = self.0.next().ok_or_else(|| format!("{of} has no value"))?;
        word.parse().map_err(|_| format!("{of} {word} is not a value"))
    }

    /// Values as long as there are some.
    fn values<T: FromStr>(&mut self) -> Vec<T> {
        let mut values = Vec::new();
        while let Some(value) = self.0.peek().and_then(|word| word.parse().ok()) {
            values.push(value);
            self.0.next();
        }
        values
    }
}

impl FromStr for Effects {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = Words(text.split_whitespace().peekable());
        let mut effects = Self::default();
        let mut every = None;
        while let Some(word) = words.0.next() {
            let delays = &mut effects.delays;
            match word {
                "delay" => delays.mean = words.value(word)?,
                "jitter" => delays.spread = words.value(word)?,
                "uniform" => delays.distribution = Distribution::Uniform,
                "normal" => delays.distribution = Distribution::Normal,
                "pareto" => delays.distribution = Distribution::Pareto,
                "table" => delays.distribution = Distribution::Table(words.values()),
                "correlation" => delays.correlation = words.value(word)?,
                "loss" => effects.loss = words.value(word)?,
                "burst" => {
                    let (p, r) = (words.value(word)?, words.value(word)?);
                    let (loss_good, loss_bad) = (words.value(word)?, words.value(word)?);
                    effects.burst = Some(BurstLoss { p, r, loss_good, loss_bad });
                }
                "duplicate" => effects.duplicate = words.value(word)?,
                "reorder" => effects.reorder = words.value(word)?,
                "overtake" => effects.overtake = true,
                "rate" => effects.rate = words.value(word)?,
                "drd" => {
                    let (min, max) = (words.value(word)?, words.value(word)?);
                    let (start, ceiling) = (Probability::ZERO, DrdConfig::CEILING);
                    effects.drd = Some(DrdConfig { min, max, start, ceiling });
                }
                "limit" => effects.limit = words.value(word)?,
                "play" => {
                    let (from, delay) = (words.value(word)?, words.value(word)?);
                    effects.recorded.push(Recorded { from, delay, loss: words.value(word)? });
                }
                "every" => every = Some(words.value::<Duration>(word)?),
                other => return Err(format!("{other} is unknown")),
            }
        }
        effects.period = every.unwrap_or_default();
        effects.check().map_or(Ok(effects), Err)
    }
}

impl Effects {
    /// What is wrong with values that are well written.
    fn check(&self) -> Option<String> {
        let Delays { mean, spread, distribution, correlation } = &self.delays;
        let longest = self.recorded.iter().map(|r| r.delay).chain([*mean, *spread]).max();
        if longest.is_some_and(|d| d > MAX_DELAY) {
            return Some(format!("a delay is longer than {MAX_DELAY}"));
        }
        if let Distribution::Table(table) = distribution {
            if !(2..=MAX_VALUES).contains(&table.len()) {
                return Some(format!("a table of {} delays: 2 to {MAX_VALUES} are wanted", table.len()));
            }
            if !table.is_sorted() || table.last().is_some_and(|d| *d > MAX_DELAY) {
                return Some(format!("delays of a table ascend, to {MAX_DELAY} at most"));
            }
            if !self.recorded.is_empty() || *mean > Duration::ZERO || *spread > Duration::ZERO {
                return Some(
                    "a table has its own delays: delay, jitter and play do not go with it".to_owned(),
                );
            }
        }
        if *correlation == Probability::ONE {
            return Some("a correlation of 100 % is no distribution".to_owned());
        }
        if self.drd.is_some() && self.rate == Rate::ZERO {
            return Some("drd needs a rate: without one nothing waits".to_owned());
        }
        if self.drd.is_some_and(|d| d.min > d.max) {
            return Some("drd: the first number is above the second".to_owned());
        }
        if self.limit == 0 {
            return Some("a limit of 0 lets nothing pass".to_owned());
        }
        if self.recorded.len() > MAX_VALUES {
            return Some(format!("play is written {} times: {MAX_VALUES} at most", self.recorded.len()));
        }
        let instants = || self.recorded.iter().map(|r| r.from);
        if self.recorded.first().is_some_and(|r| r.from > Duration::ZERO) || !instants().is_sorted() {
            return Some("instants of play begin with 0s and ascend".to_owned());
        }
        if self.period > Duration::ZERO && instants().max().is_none_or(|last| last >= self.period) {
            return Some("every goes with play, and is later than the last instant".to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    const SEED: u64 = 12;

    fn drawn(text: &str, count: usize) -> Vec<f64> {
        let effects: Effects = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut rng = Pcg64Mcg::seed_from_u64(SEED);
        let mut z = None;
        let mut delay = || effects.delays.draw(&mut z, || rng.next_u32()).0 as f64 / 1e6;
        (0..count).map(|_| delay()).collect()
    }

    fn moments(values: &[f64]) -> (f64, f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let of = |lag: usize| {
            let pairs = values.iter().zip(&values[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / (n - lag as f64)
        };
        (mean, of(0).sqrt(), of(1) / of(0))
    }

    /// Distance of Kolmogorov and Smirnov between what was drawn and a distribution function.
    fn distance(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let at =
            |(i, v): (usize, &f64)| (cdf(*v) - i as f64 / n).abs().max((cdf(*v) - (i + 1) as f64 / n).abs());
        values.iter().enumerate().map(at).fold(0.0, f64::max)
    }

    #[test]
    fn delays_have_the_distribution_that_is_written() {
        const N: usize = 40_000;
        // Smaller with probability 99.9 % (1.95 / √n).
        let most = 1.95 / (N as f64).sqrt();
        let uniform = |v: f64| ((v - 40.0) / 20.0).clamp(0.0, 1.0);
        let normal = |v: f64| 0.5 * libm::erfc(-(v - 50.0) / 10.0 / std::f64::consts::SQRT_2);
        let scale = 2.0 * 2.0 / 3f64.sqrt();
        let pareto = |v: f64| 1.0 - (1.0 + (v - 50.0).max(0.0) / scale).powi(-3);
        // Quarters: 10 to 20, 20 to 22, 22 to 30, 30 to 90.
        let table = |v: f64| {
            let cuts = [10.0, 20.0, 22.0, 30.0, 90.0];
            let part = cuts.windows(2).position(|w| v < w[1]).unwrap_or(3);
            (part as f64 + ((v - cuts[part]) / (cuts[part + 1] - cuts[part])).clamp(0.0, 1.0)) / 4.0
        };
        let checks: [(&str, &dyn Fn(f64) -> f64); 4] = [
            ("delay 50ms jitter 10ms", &uniform),
            ("delay 50ms jitter 10ms normal", &normal),
            ("delay 50ms jitter 2ms pareto", &pareto),
            ("table 10ms 20ms 22ms 30ms 90ms", &table),
        ];
        for (text, cdf) in checks {
            let d = distance(drawn(text, N), cdf);
            assert!(d < most, "{text}: {d} of {most}, seed {SEED}");
        }
    }

    #[test]
    fn correlation_leaves_the_distribution_as_it_is() {
        for (percent, rho) in [(0, 0.0), (50, 0.5), (90, 0.9)] {
            let text = format!("delay 50ms jitter 5ms normal correlation {percent}%");
            let (mean, sigma, lag) = moments(&drawn(&text, 200_000));
            assert!((mean - 50.0).abs() < 0.25 && (sigma - 5.0).abs() < 0.15, "{text}: {mean} {sigma}");
            assert!((lag - rho).abs() < 0.02, "{text}: {lag}");
        }
    }

    #[test]
    fn a_recording_is_played_again_and_again() {
        let text = "play 0s 20ms 0% play 2s 80ms 5% play 3s 30ms 1% every 10s";
        let effects: Effects = text.parse().expect("it is well written");
        let at = |ms: u64| effects.recorded_at(Duration::from_millis(ms)).map(|r| r.delay.0 / 1_000_000);
        let wanted = [(0, 20), (1_999, 20), (2_000, 80), (2_999, 80), (3_000, 30), (9_999, 30), (12_500, 80)];
        assert!(wanted.iter().all(|(ms, delay)| at(*ms) == Some(*delay)), "{effects:?}");
        let once: Effects = "play 0s 20ms 0% play 2s 80ms 5%".parse().expect("it is well written");
        assert_eq!(
            once.recorded_at(Duration::from_secs(100)).map(|r| r.delay),
            Some(Duration::from_millis(80))
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, why) in [
            ("delay", "has no value"),
            ("delay 5", "is not a value"),
            ("lose 5%", "is unknown"),
            ("table 5ms", "2 to 4096"),
            ("table 5ms 3ms", "ascend"),
            ("table 5ms 6ms delay 1ms", "do not go with it"),
            ("delay 2h", "longer than"),
            ("drd 5 10", "needs a rate"),
            ("rate 1Mbit/s drd 10 5", "above the second"),
            ("limit 0", "lets nothing pass"),
            ("play 1s 5ms 0%", "begin with 0s"),
            ("play 0s 5ms 0% every 0ms", ""),
            ("every 5s", "goes with play"),
            ("correlation 100%", "no distribution"),
        ] {
            let got = text.parse::<Effects>();
            match got {
                Err(message) => assert!(message.contains(why) && !why.is_empty(), "{text}: {message}"),
                Ok(_) => assert!(why.is_empty(), "{text}"),
            }
        }
    }
}
