//! Frames of an encoder with a fixed group of pictures (GOP), fitted minute by minute to a mean and a peak rate.
//!
//! # Model
//! Twelve frames a group, `IBBPBBPBBPBB`. A frame's size is lognormal: mean of its type · exp(b · z), divided by the
//! mean of exp(b · z) over the frames of its type in this minute. z is standard normal: the root of 0.7 times a scene
//! factor, the same for all frames of a group and correlated by 0.9 from group to group, plus the root of 0.3 times a
//! factor of the frame. The spread b is found by bisection so that the largest bin of 100 ms in the minute has the peak
//! rate. Sizes are rounded so that their sum stays exact.
//!
//! # Source
//! Means and ratios: the MPEG-4 trace "Mr. Bean" (Fitzek, Reisslein 2001) as used by Huttunen (2005): 25 frames/s,
//! mean 130 kbit/s, largest 100 ms of the first minute 595 kbit/s, I:P:B 2053:821:411 B. Correlations are ours.

use crate::error::TrafficError;
use crate::random::{Generator, Seed};
use crate::source::check_range;
use crate::video::{BIN, Frame};
use perhop_units::{Duration, Rate};

/// Frames of a group.
pub const GOP_FRAMES: usize = 12;
/// What the sizes are fitted over.
pub const FIT_SPAN: Duration = Duration::from_secs(60);
/// A peak is at most this many times the mean; beyond, a minute would be little more than one bin.
pub const MOST_PEAK_TO_MEAN: u64 = 20;

/// Types of the frames of a group.
const PATTERN: [usize; GOP_FRAMES] = [I, B, B, P, B, B, P, B, B, P, B, B];
const I: usize = 0;
const P: usize = 1;
const B: usize = 2;
/// Share of the variance that all frames of a group have in common.
const SCENE_SHARE: f64 = 0.7;
/// Correlation of the scene factor from a group to the next.
const SCENE_CORRELATION: f64 = 0.9;
/// Largest spread tried; at this one nearly a whole minute's bytes are in a single frame.
const MOST_SPREAD: f64 = 64.0;
const BISECTIONS: u32 = 32;

/// Parameters of the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GopConfig {
    /// Time from one frame to the next, 1 ms … 1 s.
    pub frame_interval: Duration,
    /// Mean rate of frame bytes over each minute, at least 32 B a frame.
    pub mean: Rate,
    /// Rate of frame bytes in the largest bin of 100 ms of each minute. At least what the types alone give, at most
    /// [`MOST_PEAK_TO_MEAN`] times the mean.
    pub peak: Rate,
    /// Mean sizes of I-, P- and B-frames relative to each other, each 1 … 1,000,000.
    pub ratio: [u32; 3],
}

impl GopConfig {
    /// The published clip; see the head of this module.
    pub const MR_BEAN: Self = Self {
        frame_interval: Duration::from_millis(40),
        mean: Rate::from_kbit(130),
        peak: Rate::from_kbit(595),
        ratio: [2053, 821, 411],
    };

    /// Mean sizes of the types in bytes.
    fn type_means(&self) -> [f64; 3] {
        let weights: f64 = PATTERN.iter().map(|kind| f64::from(self.ratio[*kind])).sum();
        let group =
            self.mean.bits_per_sec() as f64 / 8.0 * self.frame_interval.as_secs_f64() * GOP_FRAMES as f64;
        self.ratio.map(|ratio| f64::from(ratio) * group / weights)
    }

    /// Whole groups in [`FIT_SPAN`], at least one.
    fn groups(&self) -> usize {
        let group = self.frame_interval.as_nanos() * GOP_FRAMES as u64;
        (FIT_SPAN.as_nanos() / group).max(1) as usize
    }

    fn check(&self) -> Result<(), TrafficError> {
        let interval = self.frame_interval.as_nanos();
        check_range("frame interval in ns", interval, 1_000_000, 1_000_000_000)?;
        for ratio in self.ratio {
            check_range("ratio of frame sizes", u64::from(ratio), 1, 1_000_000)?;
        }
        let least = 32 * 8 * 1_000_000_000 / interval;
        check_range("mean rate in bit/s", self.mean.bits_per_sec(), least, 10_000_000_000)?;
        let plain = vec![0.0; self.groups() * GOP_FRAMES];
        // A little above what all frames of equal types give, so that there is a spread that meets it.
        let least = peak_of(self, &plain, 0.0) * 1.02;
        let most = self.mean.bits_per_sec() * MOST_PEAK_TO_MEAN;
        check_range("peak rate in bit/s", self.peak.bits_per_sec(), libm::ceil(least) as u64, most)
    }
}

/// Endless frames, a minute at a time: drawing the first frame of a minute costs about 35 · 1500 exponentials.
#[derive(Clone, Debug)]
pub struct GopFrames {
    config: GopConfig,
    generator: Generator,
    scene: f64,
    minute: Vec<u32>,
    position: usize,
    sent: u64,
    spread: f64,
}

impl GopFrames {
    /// A generator whose frames follow from the seed and the stream number.
    ///
    /// # Errors
    /// A parameter out of range.
    pub fn new(config: GopConfig, seed: Seed, stream: u16) -> Result<Self, TrafficError> {
        config.check()?;
        let mut generator = seed.generator(stream);
        let scene = generator.normal();
        let mut frames =
            Self { config, generator, scene, minute: Vec::new(), position: 0, sent: 0, spread: 0.0 };
        frames.fit();
        Ok(frames)
    }

    /// Draws a minute and finds its spread.
    fn fit(&mut self) {
        let mut factors = Vec::with_capacity(self.config.groups() * GOP_FRAMES);
        for _ in 0..self.config.groups() {
            for _ in PATTERN {
                let own = self.generator.normal();
                factors.push(libm::sqrt(SCENE_SHARE) * self.scene + libm::sqrt(1.0 - SCENE_SHARE) * own);
            }
            let change = libm::sqrt(1.0 - SCENE_CORRELATION * SCENE_CORRELATION);
            self.scene = SCENE_CORRELATION * self.scene + change * self.generator.normal();
        }
        let peak = self.config.peak.bits_per_sec() as f64;
        // The peak is below the wanted one without spread, far above it with the largest, and continuous between.
        let (mut low, mut high) = (0.0, 1.0);
        while high < MOST_SPREAD && peak_of(&self.config, &factors, high) < peak {
            (low, high) = (high, high * 2.0);
        }
        for _ in 0..BISECTIONS {
            let middle = (low + high) / 2.0;
            if peak_of(&self.config, &factors, middle) < peak { low = middle } else { high = middle }
        }
        self.spread = high;
        let mut exact = 0.0;
        let mut rounded = 0;
        self.minute.clear();
        for size in sizes(&self.config, &factors, high) {
            exact += size;
            let until = (libm::round(exact) as u64).max(rounded);
            self.minute.push(u32::try_from(until - rounded).unwrap_or(u32::MAX));
            rounded = until;
        }
        self.position = 0;
    }
}

impl Iterator for GopFrames {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.position == self.minute.len() {
            self.fit();
        }
        let bytes = *self.minute.get(self.position)?;
        let at = self.config.frame_interval.saturating_mul(self.sent);
        self.position += 1;
        self.sent += 1;
        Some(Frame { at, bytes })
    }
}

/// Sizes of frames with these factors at a spread, in bytes and fractions.
fn sizes(config: &GopConfig, factors: &[f64], spread: f64) -> Vec<f64> {
    // The largest factor is taken off first, so that no exponential overflows.
    let largest = factors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = factors.iter().map(|z| libm::exp(spread * (z - largest))).collect();
    let (mut sums, mut counts) = ([0.0; 3], [0.0; 3]);
    for (weight, kind) in weights.iter().zip(PATTERN.iter().cycle()) {
        sums[*kind] += weight;
        counts[*kind] += 1.0;
    }
    let means = config.type_means();
    let scale = |kind: usize| if sums[kind] > 0.0 { means[kind] * counts[kind] / sums[kind] } else { 0.0 };
    let scales = [scale(I), scale(P), scale(B)];
    weights.iter().zip(PATTERN.iter().cycle()).map(|(weight, kind)| weight * scales[*kind]).collect()
}

/// Largest rate over a bin of 100 ms at a spread, in bit/s.
fn peak_of(config: &GopConfig, factors: &[f64], spread: f64) -> f64 {
    let (mut bin, mut sum, mut most) = (0, 0.0, 0.0f64);
    for (i, size) in sizes(config, factors, spread).into_iter().enumerate() {
        let this = config.frame_interval.as_nanos() * i as u64 / BIN.as_nanos();
        if this != bin {
            (bin, sum) = (this, 0.0);
        }
        sum += size;
        most = most.max(sum);
    }
    most * 8.0 / BIN.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::frame_rates;

    fn minutes(config: GopConfig, seed: u64, count: usize) -> Vec<Vec<Frame>> {
        let mut frames = GopFrames::new(config, Seed::new(seed), 0).expect("valid");
        let each = config.groups() * GOP_FRAMES;
        (0..count).map(|_| frames.by_ref().take(each).collect()).collect()
    }

    fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
        values.clone().sum::<f64>() / values.count() as f64
    }

    /// The published statistics: 25 frames/s, 650 B a frame, 130 kbit/s, largest bin of 100 ms 595 kbit/s, I:P:B
    /// 2053:821:411 B; in every minute of every seed.
    #[test]
    fn every_minute_has_the_published_statistics() {
        for seed in 0..10 {
            for minute in minutes(GopConfig::MR_BEAN, seed, 2) {
                assert_eq!(minute.len(), 1500);
                assert!(minute.windows(2).all(|w| w[1].at - w[0].at == Duration::from_millis(40)));
                let rates = frame_rates(&minute, Duration::from_secs(60)).expect("frames");
                assert!((rates.mean_bit_s - 130_000.0).abs() < 1.0, "seed {seed}: {rates:?}");
                assert!((rates.peak_bit_s - 595_000.0).abs() < 300.0, "seed {seed}: {rates:?}");
                let of = |kind| {
                    let sizes = minute.iter().zip(PATTERN.iter().cycle()).filter(move |(_, k)| **k == kind);
                    mean(sizes.map(|(frame, _)| f64::from(frame.bytes)))
                };
                for (kind, published) in [(I, 2053.0), (P, 821.0), (B, 411.0)] {
                    let measured = of(kind);
                    assert!((measured / published - 1.0).abs() < 0.002, "seed {seed}: {kind} {measured}");
                }
            }
        }
    }

    /// Logarithms within a type have the skewness and kurtosis of a normal, frames of a group are correlated by the
    /// scene's share, and groups by its memory.
    #[test]
    fn sizes_are_lognormal_with_a_scene_in_common() {
        let mut pairs = [(0.0, 0.0); 3];
        let (mut third, mut fourth, mut count) = (0.0, 0.0, 0.0);
        let mut spreads = Vec::new();
        for seed in 0..40 {
            let mut source = GopFrames::new(GopConfig::MR_BEAN, Seed::new(seed), 0).expect("valid");
            spreads.push(source.spread);
            let minute: Vec<Frame> = source.by_ref().take(1500).collect();
            let logs: Vec<f64> = minute.iter().map(|f| libm::log(f64::from(f.bytes))).collect();
            let b: Vec<f64> = (0..1500).filter(|i| PATTERN[i % 12] == B).map(|i| logs[i]).collect();
            let centre = mean(b.iter().copied());
            let deviation = libm::sqrt(mean(b.iter().map(|x| (x - centre) * (x - centre))));
            let z: Vec<f64> = b.iter().map(|x| (x - centre) / deviation).collect();
            third += z.iter().map(|x| x * x * x).sum::<f64>();
            fourth += z.iter().map(|x| x * x * x * x).sum::<f64>();
            count += z.len() as f64;
            // Eight B-frames a group: neighbours in it, a group apart, twenty groups apart.
            for (pair, lag) in pairs.iter_mut().zip([1, 8, 160]) {
                for i in 0..z.len() - lag {
                    if lag > 1 || i % 8 != 7 {
                        *pair = (pair.0 + z[i] * z[i + lag], pair.1 + 1.0);
                    }
                }
            }
        }
        let [near, group, far] = pairs.map(|(sum, n)| sum / n);
        assert!(
            (third / count).abs() < 0.1 && (fourth / count - 3.0).abs() < 0.3,
            "{third} {fourth} {count}"
        );
        // A minute has few independent scenes, so its own mean takes away part of the correlation.
        assert!(
            (near - 0.7).abs() < 0.1 && (group - 0.63).abs() < 0.1 && far.abs() < 0.2,
            "{near} {group} {far}"
        );
        assert!(spreads.iter().all(|b| (0.25..1.0).contains(b)), "{spreads:?}");
    }

    #[test]
    fn other_clips_are_fitted_too() {
        let ms = Duration::from_millis;
        for (config, bound) in [
            (GopConfig { peak: Rate::from_kbit(240), ..GopConfig::MR_BEAN }, 300.0),
            (GopConfig { peak: Rate::from_kbit(2600), ..GopConfig::MR_BEAN }, 300.0),
            (
                GopConfig {
                    frame_interval: ms(33),
                    mean: Rate::from_mbit(4),
                    peak: Rate::from_mbit(12),
                    ratio: [5, 3, 1],
                },
                400.0,
            ),
            (
                GopConfig {
                    frame_interval: ms(1000),
                    mean: Rate(2000),
                    peak: Rate(30_000),
                    ratio: [1, 1, 1],
                },
                200.0,
            ),
        ] {
            for seed in 0..4 {
                for minute in minutes(config, seed, 2) {
                    let shift = minute[0].at;
                    let minute: Vec<Frame> =
                        minute.iter().map(|f| Frame { at: f.at - shift, ..*f }).collect();
                    let span = config.frame_interval.saturating_mul(minute.len() as u64);
                    let rates = frame_rates(&minute, span).expect("frames");
                    let (mean, peak) = (config.mean.bits_per_sec() as f64, config.peak.bits_per_sec() as f64);
                    assert!((rates.mean_bit_s - mean).abs() < 1.0, "{config:?} {rates:?}");
                    assert!((rates.peak_bit_s - peak).abs() < bound, "{config:?} {rates:?}");
                }
            }
        }
    }

    #[test]
    fn seeds_and_streams_differ_and_repeat() {
        let take = |seed, stream| {
            let frames = GopFrames::new(GopConfig::MR_BEAN, Seed::new(seed), stream).expect("valid");
            frames.take(100).collect::<Vec<Frame>>()
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(2, 0));
        assert_ne!(take(1, 0), take(1, 1));
    }

    #[test]
    fn wrong_parameters_are_named() {
        let new = |config| GopFrames::new(config, Seed::new(0), 0).map(|_| ()).map_err(|e| e.to_string());
        let low = GopConfig { peak: Rate::from_kbit(200), ..GopConfig::MR_BEAN };
        assert_eq!(new(low), Err("peak rate in bit/s is 200000; allowed is 234480 to 2600000".to_owned()));
        let slow = GopConfig { mean: Rate(6399), ..GopConfig::MR_BEAN };
        assert_eq!(new(slow), Err("mean rate in bit/s is 6399; allowed is 6400 to 10000000000".to_owned()));
    }
}
