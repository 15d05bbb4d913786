//! What the demonstration is told, and when things happen in a run.

use crate::error::LabError;
use perhop_quality::Codec;
use perhop_units::{Duration, Rate};
use std::path::PathBuf;

/// Flood rate without `--flood`, in tenths of the link's rate: 16 Mbit/s on 10 Mbit/s.
const FLOOD_TENTHS: u64 = 16;

/// Options of `perhop demo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoOptions {
    /// Calls, 1 … 200.
    pub calls: u16,
    /// Their codec.
    pub codec: Codec,
    /// Rate of the link in both directions, 500 kbit/s … 200 Mbit/s.
    pub rate: Rate,
    /// One-way delay of the link, 0 … 1 s.
    pub delay: Duration,
    /// Rate of the flood at IP length; `None` = 1.6 times the link's, 0 = no flood. At most 1 Gbit/s.
    pub flood: Option<Rate>,
    /// Length of every call in s, 1 … 3600.
    pub seconds: u32,
    /// Seed of everything random in the traffic.
    pub seed: u64,
    /// Directory for captures of both runs.
    pub pcap: Option<PathBuf>,
    /// Directory for report and result.
    pub out: PathBuf,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            calls: 10,
            codec: Codec::G711U,
            rate: Rate::from_mbit(10),
            delay: Duration::from_millis(20),
            flood: None,
            seconds: 22,
            seed: 1,
            pcap: None,
            out: PathBuf::from("out/demo"),
        }
    }
}

impl DemoOptions {
    /// Checks every range.
    ///
    /// # Errors
    /// [`LabError::Option`] for the first option out of its range.
    pub fn check(&self) -> Result<(), LabError> {
        let bad = |option, given: String, allowed| Err(LabError::Option { option, given, allowed });
        if !(1..=200).contains(&self.calls) {
            return bad("calls", self.calls.to_string(), "1 to 200");
        }
        if !(500_000..=200_000_000).contains(&self.rate.bits_per_sec()) {
            return bad("rate", self.rate.to_string(), "500 kbit/s to 200 Mbit/s");
        }
        if self.delay > Duration::from_secs(1) {
            return bad("delay", self.delay.to_string(), "0 ms to 1 s");
        }
        if self.flood_rate() > Rate::from_mbit(1000) {
            return bad("flood", self.flood_rate().to_string(), "0 bit/s to 1 Gbit/s");
        }
        if !(1..=3600).contains(&self.seconds) {
            return bad("seconds", self.seconds.to_string(), "1 to 3600");
        }
        Ok(())
    }

    /// Rate of the flood.
    pub fn flood_rate(&self) -> Rate {
        self.flood.unwrap_or(Rate(self.rate.0 * FLOOD_TENTHS / 10))
    }

    /// When things happen in each of the two runs.
    pub fn timeline(&self) -> Timeline {
        let length = Duration::from_secs(u64::from(self.seconds));
        // Starts are spread so that no two calls are in step, and all meet a queue that is full already.
        let spread = Duration::from_secs(4).min(Duration(length.0 / 4));
        let calls_start = Duration::from_millis(1500);
        let calls_end = calls_start + spread + length + self.codec.packet_interval();
        Timeline {
            flood_start: Duration::from_millis(300),
            calls_start,
            call_spacing: Duration(spread.0 / u64::from(self.calls.max(1))),
            call_length: length,
            end: calls_end,
            quiet: calls_end + self.delay + Duration::from_millis(800),
        }
    }
}

/// Instants of a run, since its start. The bulk transfers begin at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// The flood begins, a moment after the transfers have connected.
    pub flood_start: Duration,
    /// The first call begins.
    pub calls_start: Duration,
    /// Time from one call's begin to the next.
    pub call_spacing: Duration,
    /// Length of every call.
    pub call_length: Duration,
    /// All calls have ended; bulk and flood stop.
    pub end: Duration,
    /// Whatever was on its way has arrived.
    pub quiet: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runs_of_the_default_fit_into_seventy_seconds() {
        let timeline = DemoOptions::default().timeline();
        assert!(timeline.quiet.saturating_mul(2) < Duration::from_secs(68), "{timeline:?}");
        assert!(timeline.call_length >= Duration::from_secs(22));
    }

    #[test]
    fn every_range_is_checked() {
        let base = DemoOptions::default();
        assert!(base.check().is_ok());
        let bad = [
            DemoOptions { calls: 0, ..base.clone() },
            DemoOptions { rate: Rate::from_kbit(1), ..base.clone() },
            DemoOptions { delay: Duration::from_secs(2), ..base.clone() },
            DemoOptions { flood: Some(Rate::from_mbit(2000)), ..base.clone() },
            DemoOptions { seconds: 0, ..base },
        ];
        for options in bad {
            let error = options.check().expect_err("out of range");
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }
}
