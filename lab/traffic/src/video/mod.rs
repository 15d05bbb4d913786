//! Video: frames at the encoder's pace, each sent at once in as many datagrams as it needs.
//!
//! Frames come from a trace of frame sizes ([`trace`]) or from a generator fitted to published statistics ([`gop`]).

pub mod gop;
pub mod trace;

use crate::error::TrafficError;
use crate::source::{Emission, Source, check_payload, check_range, check_span};
use crate::stamp::STAMP_LEN;
use gop::GopFrames;
use perhop_units::{Duration, Rate};
use std::sync::Arc;
use trace::FrameTrace;

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When it is sent, since the first frame.
    pub at: Duration,
    /// Its size in bytes, 0 for a frame that the encoder skipped.
    pub bytes: u32,
}

/// Parameters of a video flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoConfig {
    /// Largest UDP payload of a datagram in bytes, 32 … 65507; larger frames are split.
    pub most_payload_bytes: u16,
    /// The first frame.
    pub start: Duration,
    /// No datagram from here on.
    pub stop: Duration,
    /// Stream number.
    pub stream: u16,
}

/// The source. The datagrams of a frame are due at the same instant, in order. A frame, or its last piece, shorter than
/// the measurement stamp's 16 B is filled up by moving bytes from the piece in front of it, or, if there is none, with
/// bytes of padding.
#[derive(Clone, Debug)]
pub struct Video {
    config: VideoConfig,
    frames: Frames,
    at: Duration,
    left: u32,
    index: u32,
}

#[derive(Clone, Debug)]
enum Frames {
    Trace { trace: Arc<FrameTrace>, position: usize, passes: u64 },
    Gop(Box<GopFrames>),
}

impl Video {
    /// Replays a trace from its first frame on, again and again until the stop. Several flows can share one trace.
    ///
    /// # Errors
    /// A payload out of range, a stop before the start, or a trace with a mean rate above [`Rate::MOST`].
    pub fn from_trace(config: VideoConfig, trace: Arc<FrameTrace>) -> Result<Self, TrafficError> {
        if let Some(rates) = frame_rates(trace.frames(), trace.period()) {
            let given = libm::ceil(rates.mean_bit_s) as u64;
            check_range("mean rate of the trace in bit/s", given, 1, Rate::MOST.bits_per_sec())?;
        }
        Self::new(config, Frames::Trace { trace, position: 0, passes: 0 })
    }

    /// Sends generated frames.
    ///
    /// # Errors
    /// A payload out of range or a stop before the start.
    pub fn from_gop(config: VideoConfig, frames: GopFrames) -> Result<Self, TrafficError> {
        Self::new(config, Frames::Gop(Box::new(frames)))
    }

    fn new(config: VideoConfig, frames: Frames) -> Result<Self, TrafficError> {
        check_payload(config.most_payload_bytes)?;
        let least = 2 * STAMP_LEN as u64;
        check_range(
            "largest payload in bytes",
            u64::from(config.most_payload_bytes),
            least,
            u64::from(u16::MAX),
        )?;
        check_span(config.start, config.stop)?;
        let mut video = Self { config, frames, at: config.start, left: 0, index: 0 };
        video.frame();
        Ok(video)
    }

    /// Takes the next frame that has bytes, or ends. Both kinds of frames have one in every pass and advance in time.
    fn frame(&mut self) {
        while self.left == 0 && self.at < self.config.stop {
            let frame = self.frames.next();
            self.at = frame.map_or(self.config.stop, |f| self.config.start + f.at);
            self.left = frame.map_or(0, |f| f.bytes);
        }
    }

    /// Length of the next piece of a frame of which `left` bytes are to be sent.
    fn piece(&self) -> u16 {
        let most = u32::from(self.config.most_payload_bytes);
        let stamp = STAMP_LEN as u32;
        let length = if self.left <= most {
            self.left.max(stamp)
        } else if self.left - most < stamp {
            // The last piece gets the room it needs.
            self.left - stamp
        } else {
            most
        };
        length as u16
    }
}

impl Frames {
    fn next(&mut self) -> Option<Frame> {
        match self {
            Self::Gop(frames) => frames.next(),
            Self::Trace { trace, position, passes } => {
                if *position == trace.frames().len() {
                    *position = 0;
                    *passes += 1;
                }
                let frame = trace.frames().get(*position)?;
                *position += 1;
                let at = trace.period().saturating_mul(*passes) + frame.at;
                Some(Frame { at, bytes: frame.bytes })
            }
        }
    }
}

impl Source for Video {
    fn upcoming(&self) -> Option<Duration> {
        (self.left > 0 && self.at < self.config.stop).then_some(self.at)
    }
}

impl Iterator for Video {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let at = self.upcoming()?;
        let index = self.index;
        self.index = self.index.checked_add(1)?;
        let len = self.piece();
        self.left = self.left.saturating_sub(u32::from(len));
        self.frame();
        Some(Emission { at, stream: self.config.stream, index, len, rtp: None })
    }
}

/// Mean rate of frames over `span`, and the largest rate in bins of 100 ms counted from the first frame, both in
/// bit/s of frame bytes; `None` without frames or time. Frames are in order of time.
pub fn frame_rates(frames: &[Frame], span: Duration) -> Option<FrameRates> {
    let (mut total, mut bin, mut sum, mut most) = (0u64, 0u64, 0u64, 0u64);
    for frame in frames {
        let this = frame.at.as_nanos() / BIN.as_nanos();
        if this != bin {
            (bin, sum) = (this, 0);
        }
        total += u64::from(frame.bytes);
        sum += u64::from(frame.bytes);
        most = most.max(sum);
    }
    (!frames.is_empty() && span > Duration::ZERO).then(|| FrameRates {
        mean_bit_s: total as f64 * 8.0 / span.as_secs_f64(),
        peak_bit_s: most as f64 * 8.0 / BIN.as_secs_f64(),
    })
}

/// Resolution of peak rates.
pub(crate) const BIN: Duration = Duration::from_millis(100);

/// What [`frame_rates`] measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameRates {
    /// Mean rate in bit/s.
    pub mean_bit_s: f64,
    /// Largest rate over a bin of 100 ms in bit/s.
    pub peak_bit_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::TimeUnit;

    fn config(stop_ms: u64) -> VideoConfig {
        VideoConfig {
            most_payload_bytes: 1472,
            start: Duration::from_secs(1),
            stop: Duration::from_millis(stop_ms),
            stream: 2,
        }
    }

    fn sent(text: &str, stop_ms: u64) -> Vec<(u64, u16)> {
        let trace = FrameTrace::parse(text, TimeUnit::Milliseconds).expect("valid");
        let video = Video::from_trace(config(stop_ms), Arc::new(trace)).expect("valid");
        video.map(|e| (e.at.0 / 1_000_000 - 1000, e.len)).collect()
    }

    #[test]
    fn frames_are_split_and_the_trace_begins_again() {
        let text = "1 I 0 3000\n2 P 40 0\n3 B 80 1472\n4 B 120 5\n";
        assert_eq!(
            sent(text, 1285),
            [
                (0, 1472),
                (0, 1472),
                (0, 56),
                (80, 1472),
                (120, 16),
                (160, 1472),
                (160, 1472),
                (160, 56),
                (240, 1472),
                (280, 16)
            ]
        );
    }

    /// No byte of a frame of at least 16 B is lost or made, whatever its size, and every piece holds a stamp.
    #[test]
    fn pieces_sum_to_the_frame() {
        for bytes in (16..200).chain(1400..3100) {
            for most in [32u16, 100, 1472] {
                let trace = FrameTrace::parse(&format!("1 I 0 {bytes}"), TimeUnit::Milliseconds);
                let config = VideoConfig { most_payload_bytes: most, ..config(1040) };
                let video = Video::from_trace(config, Arc::new(trace.expect("valid"))).expect("valid");
                let pieces: Vec<u64> = video.map(|e| u64::from(e.len)).collect();
                assert_eq!(pieces.iter().sum::<u64>(), bytes, "{pieces:?}");
                assert!(pieces.iter().all(|len| (16..=u64::from(most)).contains(len)), "{pieces:?}");
                assert_eq!(pieces.len() as u64, bytes.div_ceil(u64::from(most)));
            }
        }
    }

    #[test]
    fn rates_are_counted_in_bins_from_the_first_frame() {
        let frame = |ms, bytes| Frame { at: Duration::from_millis(ms), bytes };
        let frames = [frame(0, 100), frame(99, 100), frame(100, 150), frame(950, 25)];
        let rates = frame_rates(&frames, Duration::from_secs(1)).expect("frames");
        assert_eq!(rates, FrameRates { mean_bit_s: 3000.0, peak_bit_s: 16_000.0 });
        assert_eq!(frame_rates(&[], Duration::from_secs(1)), None);
    }

    #[test]
    fn wrong_parameters_are_named() {
        let trace = Arc::new(FrameTrace::parse("1 I 0 9", TimeUnit::Milliseconds).expect("valid"));
        let new = |payload| {
            let config = VideoConfig { most_payload_bytes: payload, ..config(2000) };
            Video::from_trace(config, trace.clone()).map(|_| ())
        };
        assert_eq!(new(32), Ok(()));
        assert!(matches!(new(31), Err(TrafficError::OutOfRange { given: 31, least: 32, .. })));
        let dense = FrameTrace::parse("1 I 0 9000000\n2 P 0.001 1", TimeUnit::Milliseconds).expect("valid");
        assert!(matches!(
            Video::from_trace(config(2000), Arc::new(dense)).map(|_| ()),
            Err(TrafficError::OutOfRange { given: 36_000_004_000_000, .. })
        ));
        assert_eq!(new(15), Err(TrafficError::PayloadTooSmall { given: 15 }));
    }
}
