//! Calls: RTP speech of a constant packet interval, many calls with staggered starts and random phases.
//!
//! One [`VoiceCalls`] is one direction of a set of calls; the other direction is a second one with other stream
//! numbers. SSRC, first sequence number and first time stamp are random, as RFC 3550 §5.1 wants.

use crate::error::TrafficError;
use crate::random::{Generator, Seed};
use crate::rtp::{RTP_HEADER_LEN, RtpHeader};
use crate::source::{Emission, MAX_PAYLOAD, Source, check_payload};
use perhop_units::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a codec puts on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoiceFormat {
    /// RTP payload type, 0 … 127.
    pub payload_type: u8,
    /// RTP payload in bytes, without RTP header; at least 16, which the stamp needs.
    pub payload_bytes: u16,
    /// Time from one packet to the next, above 0.
    pub packet_interval: Duration,
    /// RTP time-stamp step of one packet interval.
    pub timestamp_step: u32,
}

impl VoiceFormat {
    /// G.711 µ-law: 64 kbit/s in packets of 20 ms (RFC 3551 §4.5.14).
    pub const G711_ULAW: Self = Self::eight_khz(0, 160, 20);
    /// G.711 A-law: 64 kbit/s in packets of 20 ms (RFC 3551 §4.5.14).
    pub const G711_ALAW: Self = Self::eight_khz(8, 160, 20);
    /// G.729: 8 kbit/s, two frames of 10 ms and 10 B a packet (RFC 3551 §4.5.6).
    pub const G729: Self = Self::eight_khz(18, 20, 20);
    /// G.723.1 at 6.3 kbit/s: one frame of 30 ms and 24 B a packet (RFC 3551 §4.5.3).
    pub const G723_1_HIGH: Self = Self::eight_khz(4, 24, 30);
    /// G.723.1 at 5.3 kbit/s: one frame of 30 ms and 20 B a packet (RFC 3551 §4.5.3).
    pub const G723_1_LOW: Self = Self::eight_khz(4, 20, 30);

    /// A codec with a time-stamp clock of 8 kHz.
    const fn eight_khz(payload_type: u8, payload_bytes: u16, interval_ms: u32) -> Self {
        Self {
            payload_type,
            payload_bytes,
            packet_interval: Duration::from_millis(interval_ms as u64),
            timestamp_step: interval_ms * 8,
        }
    }
}

/// When a speaker's packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Always.
    Continuous,
    /// Silence suppression: talk spurts and silences of exponential length, in whole packets, at least one each.
    /// Time stamps go on in silence, sequence numbers do not, the marker bit begins a spurt (RFC 3551 §4.1).
    TalkSpurts {
        /// Mean length of a talk spurt, above 0.
        talk: Duration,
        /// Mean length of a silence, above 0.
        silence: Duration,
    },
}

impl Activity {
    /// Silence suppression with the means of ITU-T P.59 (1993), table 1: talk 1.004 s, pause 1.587 s, which is speech
    /// for 38.75 % of the time. Packets of comfort noise (4 B in G.723.1) are not sent: they have no room for a stamp.
    pub const CONVERSATION: Self =
        Self::TalkSpurts { talk: Duration::from_millis(1004), silence: Duration::from_millis(1587) };
}

/// Parameters of one direction of a set of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoiceConfig {
    /// Number of calls.
    pub calls: u16,
    /// Codec's packets.
    pub format: VoiceFormat,
    /// Start of the first call.
    pub start: Duration,
    /// Time from one call's start to the next.
    pub spacing: Duration,
    /// Length of every call.
    pub length: Duration,
    /// Speech only or silence too.
    pub activity: Activity,
    /// Stream number of the first call; the others follow.
    pub first_stream: u16,
}

/// The source of one direction of all calls. Call i starts at start + i · spacing + phase, the phase uniform over one
/// packet interval, and its packets follow at exact multiples of the interval.
#[derive(Clone, Debug)]
pub struct VoiceCalls {
    format: VoiceFormat,
    first_stream: u16,
    calls: Vec<Call>,
    due: BinaryHeap<Reverse<(Duration, u16)>>,
}

#[derive(Clone, Debug)]
struct Call {
    begin: Duration,
    end: Duration,
    /// Packet intervals since `begin`.
    slot: u64,
    index: u32,
    /// Packets left in this talk spurt.
    spurt: u64,
    marker: bool,
    activity: Activity,
    generator: Generator,
    first_sequence: u16,
    first_timestamp: u32,
    ssrc: u32,
}

impl VoiceCalls {
    /// Builds the source. What a call draws follows from the seed and its stream number alone.
    ///
    /// # Errors
    /// A payload out of range, a payload type above 127, an interval or mean period of zero, stream numbers past 65535.
    pub fn new(config: VoiceConfig, seed: Seed) -> Result<Self, TrafficError> {
        check(&config)?;
        let interval = config.format.packet_interval.as_nanos();
        let calls: Vec<Call> = (0..config.calls)
            .map(|i| {
                let mut generator = seed.generator(config.first_stream + i);
                let begin = config.start
                    + config.spacing.saturating_mul(u64::from(i))
                    + Duration(generator.below(interval));
                let identity = generator.bits();
                let mut call = Call {
                    begin,
                    end: begin + config.length,
                    slot: 0,
                    index: 0,
                    spurt: u64::MAX,
                    marker: true,
                    activity: config.activity,
                    first_sequence: identity as u16,
                    ssrc: (identity >> 32) as u32,
                    first_timestamp: generator.bits() as u32,
                    generator,
                };
                if let Activity::TalkSpurts { talk, .. } = config.activity {
                    call.spurt = call.packets(talk, interval);
                }
                call
            })
            .collect();
        let mut source =
            Self { format: config.format, first_stream: config.first_stream, calls, due: BinaryHeap::new() };
        for i in 0..config.calls {
            source.schedule(i);
        }
        Ok(source)
    }

    /// Synchronisation source of call `number`, for matching with what a router recognised.
    pub fn ssrc(&self, number: u16) -> Option<u32> {
        self.calls.get(usize::from(number)).map(|call| call.ssrc)
    }

    fn schedule(&mut self, number: u16) {
        let interval = self.format.packet_interval;
        if let Some(call) = self.calls.get(usize::from(number)) {
            let at = call.begin + interval.saturating_mul(call.slot);
            if at < call.end {
                self.due.push(Reverse((at, number)));
            }
        }
    }
}

fn check(config: &VoiceConfig) -> Result<(), TrafficError> {
    let format = &config.format;
    check_payload(format.payload_bytes)?;
    let limit = MAX_PAYLOAD - RTP_HEADER_LEN as u16;
    if format.payload_bytes > limit {
        return Err(TrafficError::PayloadTooLarge { given: format.payload_bytes, limit });
    }
    if format.payload_type > 127 {
        return Err(TrafficError::PayloadType { given: format.payload_type });
    }
    if format.packet_interval == Duration::ZERO {
        return Err(TrafficError::Zero { what: "packet interval" });
    }
    if let Activity::TalkSpurts { talk, silence } = config.activity {
        if talk == Duration::ZERO {
            return Err(TrafficError::Zero { what: "mean talk spurt" });
        }
        if silence == Duration::ZERO {
            return Err(TrafficError::Zero { what: "mean silence" });
        }
    }
    if config.calls > 0 && config.first_stream.checked_add(config.calls - 1).is_none() {
        return Err(TrafficError::StreamNumbers { first: config.first_stream, count: config.calls });
    }
    Ok(())
}

impl Call {
    /// A period of exponential length in whole packets, at least one.
    fn packets(&mut self, mean: Duration, interval_ns: u64) -> u64 {
        let period = self.generator.exponential(mean).as_nanos();
        ((period + interval_ns / 2) / interval_ns).max(1)
    }

    /// Emits the packet of the current slot and moves on to the next slot with speech.
    fn emit(&mut self, stream: u16, at: Duration, format: &VoiceFormat) -> Emission {
        let elapsed = (self.slot as u32).wrapping_mul(format.timestamp_step);
        let emission = Emission {
            at,
            stream,
            index: self.index,
            len: format.payload_bytes + RTP_HEADER_LEN as u16,
            rtp: Some(RtpHeader {
                marker: self.marker,
                payload_type: format.payload_type,
                sequence: self.first_sequence.wrapping_add(self.index as u16),
                timestamp: self.first_timestamp.wrapping_add(elapsed),
                ssrc: self.ssrc,
            }),
        };
        self.index = self.index.wrapping_add(1);
        self.slot += 1;
        self.spurt -= 1;
        self.marker = self.spurt == 0;
        if let (0, Activity::TalkSpurts { talk, silence }) = (self.spurt, self.activity) {
            let interval = format.packet_interval.as_nanos();
            self.slot += self.packets(silence, interval);
            self.spurt = self.packets(talk, interval);
        }
        emission
    }
}

impl Source for VoiceCalls {
    fn upcoming(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }
}

impl Iterator for VoiceCalls {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let Reverse((at, number)) = self.due.pop()?;
        let call = self.calls.get_mut(usize::from(number))?;
        let emission = call.emit(self.first_stream + number, at, &self.format);
        self.schedule(number);
        Some(emission)
    }
}

#[cfg(test)]
#[path = "voice_tests.rs"]
mod tests;
