//! A captured flow sent again: offsets and lengths given by the caller, scaled in time and size.

use crate::error::TrafficError;
use crate::source::{Emission, MAX_PAYLOAD, Source, check_payload, check_range, check_rate, check_span};
use crate::stamp::STAMP_LEN;
use perhop_units::{Bytes, Duration, Rate};
use std::sync::Arc;

/// Most packets of a capture.
pub const MAX_CAPTURED: usize = 10_000_000;
/// Latest offset in a capture: one day.
pub const MAX_CAPTURE_OFFSET: Duration = Duration::from_secs(86_400);

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When it was seen, since the beginning of the capture.
    pub offset: Duration,
    /// Its IP length in bytes.
    pub ip_bytes: u16,
}

/// Time of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayTime {
    /// Every gap is the captured one times this many thousandths, 1 … 1,000,000; 1000 leaves it as it was.
    Stretch {
        /// The factor in thousandths.
        milli: u32,
    },
    /// All gaps change by the factor that makes the mean rate at IP length over one pass this one.
    MeanRate(Rate),
}

/// Parameters of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayConfig {
    /// The capture in order of time, shared by all that replay it.
    pub capture: Arc<[Captured]>,
    /// Scaling of time.
    pub time: ReplayTime,
    /// Every IP length is the captured one times this many thousandths, 1 … 1,000,000.
    pub size_milli: u32,
    /// Largest IP length in bytes after scaling.
    pub most_bytes: u16,
    /// Begins again when the capture ends before the run.
    pub looped: bool,
    /// What IP and UDP headers add.
    pub overhead_bytes: u16,
    /// The first packet.
    pub start: Duration,
    /// No datagram from here on.
    pub stop: Duration,
    /// Stream number.
    pub stream: u16,
}

/// The source. A packet whose scaled length has no room for headers and stamp is sent as long as these need, and one
/// above the largest length is cut to it; both are counted by [`Replay::adjusted`]. One pass lasts from the first packet
/// to the last and a mean gap more.
#[derive(Clone, Debug)]
pub struct Replay {
    config: ReplayConfig,
    /// A captured offset times numerator / denominator is the replayed one.
    numerator: u128,
    denominator: u128,
    /// Length of one pass before scaling.
    pass_ns: u64,
    adjusted: u64,
    passes: u64,
    position: usize,
    index: u32,
    at: Option<Duration>,
}

impl Replay {
    /// Builds the source; O(packets) once.
    ///
    /// # Errors
    /// An empty or unordered capture, a factor, length or rate out of range, no time in a capture that is
    /// repeated, or a stop before the start.
    pub fn new(config: ReplayConfig) -> Result<Self, TrafficError> {
        check_span(config.start, config.stop)?;
        let packets = config.capture.len();
        let (Some(first), Some(last)) = (config.capture.first(), config.capture.last()) else {
            return Err(TrafficError::Empty { what: "captured packets" });
        };
        check_range("number of captured packets", packets as u64, 1, MAX_CAPTURED as u64)?;
        if let Some(i) = config.capture.windows(2).position(|pair| pair[1].offset < pair[0].offset) {
            return Err(TrafficError::OutOfOrder { what: "captured packets", index: i + 1 });
        }
        let most = MAX_CAPTURE_OFFSET.as_nanos();
        check_range("offset in the capture in ns", last.offset.as_nanos(), 0, most)?;
        check_range("size factor in thousandths", u64::from(config.size_milli), 1, 1_000_000)?;
        check_payload(config.most_bytes.saturating_sub(config.overhead_bytes))?;
        let span = (last.offset - first.offset).as_nanos();
        let pass_ns = span + span.div_ceil((packets as u64 - 1).max(1));
        let (mut total, mut adjusted) = (0u64, 0u64);
        for packet in config.capture.iter() {
            let (length, fits) = scaled(&config, packet.ip_bytes);
            total += u64::from(length);
            adjusted += u64::from(!fits);
        }
        let timeless = config.looped || matches!(config.time, ReplayTime::MeanRate(_));
        if pass_ns == 0 && timeless {
            return Err(TrafficError::Zero { what: "time between the first and the last captured packet" });
        }
        let (numerator, denominator) = match config.time {
            ReplayTime::Stretch { milli } => {
                check_range("time factor in thousandths", u64::from(milli), 1, 1_000_000)?;
                (u128::from(milli), 1000)
            }
            ReplayTime::MeanRate(rate) => {
                check_rate("mean rate in bit/s", rate)?;
                // At least 1 ns a pass, so that no factor is 0.
                let wanted = rate.time_for(Bytes(total)).as_nanos().max(1);
                (u128::from(wanted), u128::from(pass_ns))
            }
        };
        if config.looped {
            // Passes without end must take their time.
            let pass = (u128::from(pass_ns) * numerator / denominator).max(1);
            let rate = u128::from(total) * 8_000_000_000 / pass;
            let most = Rate::MOST.bits_per_sec();
            let given = u64::try_from(rate).unwrap_or(u64::MAX);
            check_range("mean rate of the scaled capture in bit/s", given, 1, most)?;
        }
        let mut replay = Self {
            config,
            numerator,
            denominator,
            pass_ns,
            adjusted,
            passes: 0,
            position: 0,
            index: 0,
            at: None,
        };
        replay.at = replay.due();
        Ok(replay)
    }

    /// Packets of the capture whose scaled length was moved into the limits.
    pub fn adjusted(&self) -> u64 {
        self.adjusted
    }

    fn due(&mut self) -> Option<Duration> {
        if self.position == self.config.capture.len() {
            if !self.config.looped {
                return None;
            }
            self.position = 0;
            self.passes += 1;
        }
        let first = self.config.capture.first()?.offset;
        let into = (self.config.capture.get(self.position)?.offset - first).as_nanos();
        let captured = u128::from(self.passes) * u128::from(self.pass_ns) + u128::from(into);
        let offset = u64::try_from((captured * self.numerator).div_ceil(self.denominator)).ok()?;
        let at = self.config.start + Duration(offset);
        (at < self.config.stop).then_some(at)
    }
}

/// IP length after scaling, and whether it had to be moved into the limits to be that.
fn scaled(config: &ReplayConfig, ip_bytes: u16) -> (u16, bool) {
    let wanted = (u64::from(ip_bytes) * u64::from(config.size_milli) + 500) / 1000;
    let least = u64::from(config.overhead_bytes) + STAMP_LEN as u64;
    let most = u64::from(config.most_bytes.min(MAX_PAYLOAD.saturating_add(config.overhead_bytes)));
    let length = wanted.clamp(least, most.max(least));
    (u16::try_from(length).unwrap_or(u16::MAX), length == wanted)
}

impl Source for Replay {
    fn upcoming(&self) -> Option<Duration> {
        self.at
    }
}

impl Iterator for Replay {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let at = self.at?;
        let index = self.index;
        self.index = self.index.checked_add(1)?;
        let (length, _) = scaled(&self.config, self.config.capture.get(self.position)?.ip_bytes);
        self.position += 1;
        self.at = self.due();
        let len = length.saturating_sub(self.config.overhead_bytes);
        Some(Emission { at, stream: self.config.stream, index, len, rtp: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(packets: &[(u64, u16)]) -> ReplayConfig {
        ReplayConfig {
            capture: packets
                .iter()
                .map(|&(ms, ip_bytes)| Captured { offset: Duration::from_millis(ms), ip_bytes })
                .collect(),
            time: ReplayTime::Stretch { milli: 1000 },
            size_milli: 1000,
            most_bytes: 1500,
            looped: false,
            overhead_bytes: 28,
            start: Duration::from_secs(1),
            stop: Duration::from_secs(1001),
            stream: 0,
        }
    }

    fn sent(config: ReplayConfig) -> Vec<(u64, u16)> {
        Replay::new(config).expect("valid").map(|e| (e.at.0 / 1_000_000 - 1000, e.len + 28)).collect()
    }

    #[test]
    fn packets_leave_as_captured_from_the_first_on() {
        let packets = [(100, 100), (150, 1500), (150, 40), (300, 900)];
        let plain = config(&packets);
        assert_eq!(Replay::new(plain.clone()).expect("valid").adjusted(), 1);
        assert_eq!(sent(plain.clone()), [(0, 100), (50, 1500), (50, 44), (200, 900)]);
        let slow =
            ReplayConfig { time: ReplayTime::Stretch { milli: 2500 }, size_milli: 2000, ..plain.clone() };
        assert_eq!(sent(slow), [(0, 200), (125, 1500), (125, 80), (500, 1500)]);
        let again = ReplayConfig { looped: true, stop: Duration::from_millis(1300), ..plain };
        // One pass is 200 ms and a mean gap of 66.67 ms.
        assert_eq!(sent(again), [(0, 100), (50, 1500), (50, 44), (200, 900), (266, 100)]);
    }

    #[test]
    fn a_mean_rate_is_met_over_whole_passes() {
        for rate in [10_000u64, 1_234_567, 80_000_000] {
            let replay = ReplayConfig {
                time: ReplayTime::MeanRate(Rate(rate)),
                looped: true,
                stop: Duration::from_secs(11),
                ..config(&[(0, 400), (7, 1500), (9, 60), (31, 1000), (90, 576)])
            };
            let bits: u64 = sent(replay).iter().map(|(_, len)| u64::from(*len) * 8).sum();
            // Ten seconds, and at most one pass too much.
            assert!(bits.abs_diff(rate * 10) <= 3536 * 8, "{bits} at {rate}");
        }
    }

    #[test]
    fn wrong_captures_are_named() {
        let new = |c| Replay::new(c).map(|_| ());
        assert_eq!(new(config(&[])), Err(TrafficError::Empty { what: "captured packets" }));
        assert_eq!(
            new(config(&[(1, 100), (3, 100), (2, 100)])).map_err(|e| e.to_string()),
            Err("captured packets: entry 2 lies before the one in front of it".to_owned())
        );
        let flash = ReplayConfig { looped: true, ..config(&[(5, 100), (5, 100)]) };
        assert!(matches!(new(flash), Err(TrafficError::Zero { .. })));
        let one = config(&[(5, 100)]);
        assert_eq!(sent(one.clone()), [(0, 100)]);
        let none = ReplayConfig { time: ReplayTime::MeanRate(Rate::ZERO), ..config(&[(5, 100), (6, 100)]) };
        assert_eq!(new(none), Err(TrafficError::RateZero));
        assert!(new(ReplayConfig { size_milli: 0, ..one }).is_err());
        let dense = config(&[(0, 1500), (0, 1500), (1, 1500)]);
        let flood = ReplayConfig { time: ReplayTime::Stretch { milli: 1 }, looped: true, ..dense };
        assert_eq!(new(flood.clone()), Ok(()));
        let first = Captured { offset: Duration::ZERO, ip_bytes: 1500 };
        let last = Captured { offset: Duration(1000), ..first };
        let flood = ReplayConfig { capture: [first, last].into(), ..flood };
        assert!(matches!(new(flood), Err(TrafficError::OutOfRange { .. })));
    }
}
