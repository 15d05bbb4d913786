//! What can be set on an endpoint, with ranges.

use perhop_units::Duration;
use thiserror::Error;

/// Bytes of options that time-stamps take from each segment.
pub(crate) const STAMP_LEN: u64 = 12;

/// Parameters of an endpoint. [`Config::default`] is a present-day host; every field may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Largest segment in bytes without options, announced in the SYN and kept when sending: 88–65,495. A segment
    /// carries 12 bytes less with time-stamps.
    pub mss: u16,
    /// Initial congestion window in segments (RFC 6928): 1–10.
    pub initial_window: u8,
    /// Bytes written and not acknowledged that are held: 1 or more, at most 1 GiB.
    pub send_buffer: u32,
    /// Bytes received and not read that are held; bounds the window: at most 1 GiB, at least the payload of a segment.
    pub receive_buffer: u32,
    /// Congestion control.
    pub congestion: Algorithm,
    /// Count bytes acknowledged (RFC 3465) instead of acknowledgments (RFC 5681 §3.1) when a window grows.
    pub byte_counting: bool,
    /// Selective acknowledgment (RFC 2018) and recovery by it (RFC 6675).
    pub sack: bool,
    /// With `sack`, loss found by time instead of by counting, tail loss probes (RFC 8985), reports of duplicates (RFC 2883), and
    /// reductions for nothing taken back (RFC 4015).
    pub rack: bool,
    /// Proportional rate reduction during recovery by SACK (RFC 6937).
    pub prr: bool,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Time-stamps and protection against wrapped sequence numbers (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323 §2).
    pub window_scaling: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Nagle's algorithm (RFC 9293 §3.7.4).
    pub nagle: bool,
    /// Shrink the window after an idle time longer than the retransmission timeout (RFC 5681 §4.1).
    pub restart_after_idle: bool,
    /// Delayed acknowledgments (RFC 5681 §4.2).
    pub delayed_ack: DelayedAck,
    /// Retransmission timeout (RFC 6298).
    pub rto: RtoLimits,
    /// SYNs or SYN-ACKs sent again before giving up: up to 15.
    pub syn_retries: u8,
    /// Consecutive timeouts or unanswered probes before giving up (RFC 9293 §3.8.3, R2): 1–30.
    pub data_retries: u8,
    /// Time in TIME-WAIT: twice the maximum segment lifetime.
    pub time_wait: Duration,
    /// Most ranges held beyond a gap, at the sender and at the receiver: 4–1024.
    pub ranges: u16,
}

/// Congestion control algorithms that come with the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic(CubicConfig),
}

/// Choices of CUBIC (RFC 9438).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubicConfig {
    /// Never slower than Reno would be (§4.3).
    pub reno_friendly: bool,
    /// Release bandwidth faster when the saturation point falls (§4.7).
    pub fast_convergence: bool,
    /// When slow start ends before a loss.
    pub slow_start: SlowStartExit,
}

/// When slow start ends before a loss ends it (RFC 9438 §4.10). Both ways need time-stamps to see enough round-trip
/// times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowStartExit {
    /// Never.
    AtLoss,
    /// HyStart (Ha and Rhee 2011): acknowledgments without a gap for a round-trip time, or a longer delay.
    HyStart,
    /// HyStart++ (RFC 9406): a longer delay that lasts five rounds of slower growth.
    HyStartPlusPlus,
}

impl Default for CubicConfig {
    fn default() -> Self {
        Self { reno_friendly: true, fast_convergence: true, slow_start: SlowStartExit::AtLoss }
    }
}

/// When an acknowledgment of data in order is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// After this many segments: 1 acknowledges each, 2 is RFC 5681; up to 255.
    pub segments: u8,
    /// At the latest after this time (RFC 5681 §4.2: at most 500 ms).
    pub timeout: Duration,
}

/// Bounds of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoLimits {
    /// Before a round-trip time is known (RFC 6298 §2.1: 1 s).
    pub initial: Duration,
    /// Least (RFC 6298 §2.4 says 1 s; hosts use 200 ms): 1 ms or more.
    pub min: Duration,
    /// Most, after back-off (RFC 6298 §2.5: 60 s or more).
    pub max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            initial_window: 10,
            send_buffer: 4 << 20,
            receive_buffer: 4 << 20,
            congestion: Algorithm::Cubic(CubicConfig::default()),
            byte_counting: true,
            sack: true,
            rack: true,
            prr: true,
            limited_transmit: true,
            timestamps: true,
            window_scaling: true,
            ecn: false,
            nagle: false,
            restart_after_idle: true,
            delayed_ack: DelayedAck { segments: 2, timeout: Duration::from_millis(40) },
            rto: RtoLimits {
                initial: Duration::from_secs(1),
                min: Duration::from_millis(200),
                max: Duration::from_secs(60),
            },
            syn_retries: 6,
            data_retries: 15,
            time_wait: Duration::from_secs(60),
            ranges: 256,
        }
    }
}

impl Config {
    /// As RFC 5681, 6582 and 6298 describe a host without later extensions: NewReno, no SACK, time-stamps or scaling,
    /// timeout of at least 1 s, initial window of 2 segments.
    #[must_use]
    pub fn rfc() -> Self {
        let standard = Self::default();
        Self {
            initial_window: 2,
            send_buffer: 65_535,
            receive_buffer: 65_535,
            congestion: Algorithm::NewReno,
            sack: false,
            timestamps: false,
            window_scaling: false,
            rto: RtoLimits { min: Duration::from_secs(1), ..standard.rto },
            ..standard
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// The first value out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |field, given: u64, least: u64, most: u64| {
            if (least..=most).contains(&given) {
                Ok(())
            } else {
                Err(ConfigError { field, given, least, most })
            }
        };
        let ms = 1_000_000;
        let payload = u64::from(self.mss).saturating_sub(if self.timestamps { STAMP_LEN } else { 0 });
        range("mss", self.mss.into(), 88, 65_495)?;
        range("initial_window", self.initial_window.into(), 1, 10)?;
        range("send_buffer", self.send_buffer.into(), 1, 1 << 30)?;
        range("receive_buffer", self.receive_buffer.into(), payload, 1 << 30)?;
        range("delayed_ack.segments", self.delayed_ack.segments.into(), 1, 255)?;
        range("delayed_ack.timeout", self.delayed_ack.timeout.as_nanos(), 0, 500 * ms)?;
        range("rto.min", self.rto.min.as_nanos(), ms, 60_000 * ms)?;
        range("rto.max", self.rto.max.as_nanos(), self.rto.min.as_nanos(), 3_600_000 * ms)?;
        range("rto.initial", self.rto.initial.as_nanos(), self.rto.min.as_nanos(), self.rto.max.as_nanos())?;
        range("syn_retries", self.syn_retries.into(), 0, 15)?;
        range("data_retries", self.data_retries.into(), 1, 30)?;
        range("time_wait", self.time_wait.as_nanos(), 0, 3_600_000 * ms)?;
        range("ranges", self.ranges.into(), 4, 1024)
    }
}

/// A value out of range. Times are in ns, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field} = {given} is out of range: {least} to {most}")]
pub struct ConfigError {
    /// The field of [`Config`].
    pub field: &'static str,
    /// Its value.
    pub given: u64,
    /// Least allowed.
    pub least: u64,
    /// Most allowed.
    pub most: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_in_range() {
        assert_eq!(Config::default().check(), Ok(()));
        assert_eq!(Config::rfc().check(), Ok(()));
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_range() {
        let config = Config { initial_window: 11, ..Config::default() };
        let error = config.check().unwrap_err();
        assert_eq!(error.to_string(), "initial_window = 11 is out of range: 1 to 10");
        let config = Config { receive_buffer: 1000, ..Config::default() };
        assert_eq!(config.check().unwrap_err().least, 1448);
        let plain = Config { timestamps: false, ..config };
        assert_eq!(plain.check().unwrap_err().least, 1460);
    }
}
