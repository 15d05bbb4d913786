//! RTP on UDP, recognised from the packets alone.
//!
//! A train of packets of one SSRC is RTP once `packets` of them have come within `within`, each with version 2, no RTCP
//! packet type and a plausible step from the one before:
//!
//! * the sequence number goes on by 1 … 64. A late or repeated packet (0 … 64 back) neither counts nor harms; any
//!   other step begins the count anew with that packet. So of the N packets counted, N − 1 show progress;
//! * the timestamp does not go back by more than 27,000 (B-frames) nor on by more than the fastest clock, 90 kHz,
//!   could in the time since plus 300 ms of jitter;
//! * no more than three payload types (a codec, comfort noise, telephone events).
//!
//! Fewer packets suffice when more speaks for them: three tenths (at least 3) on a connection on which STUN, DTLS, ZRTP or
//! RTCP was seen, and `regular` packets when each continues the one before without a gap and with the same timestamp
//! step (speech in packets of equal length).
//!
//! The window slides in sevenths: `packets` within `within` are always enough, and never when they need an eighth
//! more. When the count is reached, the timestamp since the count began must fit some clock between 8 and 90 kHz and the
//! arrival times: at least 4 kHz × elapsed (a queue may have stretched the train to twice its length) and at most
//! 90 kHz × (elapsed + 300 ms); where other evidence supports it, a clock of 1 kHz does too. A timestamp that has not moved at all is one video frame so far: the decision waits
//! for the next frame, unless other evidence supports all `packets` of it. Without support it also waits while the
//! train is shorter than 10 ms, or its timestamp ahead of 90 kHz × (1.1 × elapsed + 5 ms): that may be jitter, or a clock
//! of microseconds.
//!
//! What is kept out by what: QUIC, STUN, DTLS and ZRTP by the version bits (RFC 7983), RTCP by its packet types
//! (RFC 5761 §4), RTPS by its version bits, DNSCrypt and other random bytes by SSRC, sequence and timestamp together:
//! a random packet continues a train with a probability below 2⁻⁵⁰.
//!
//! Source: RFC 3550 §5.1 and A.1; L. Calarco, "Software Techniques for Multiservice IP Networks" (the count N within T).

use super::clock::nearest_clock;
use perhop_units::Duration;
use serde::Serialize;
use thiserror::Error;

/// Bytes of the fixed RTP header.
pub const HEADER_LEN: usize = 12;
/// Slowest and fastest media clock, Hz.
const CLOCK_HZ: (u64, u64) = (8_000, 90_000);
/// Slowest clock where other evidence supports the train: some applications count milliseconds.
const SLOW_CLOCK_HZ: u64 = 1_000;
/// Jitter forgiven when a train is compressed, µs.
const JITTER_US: u64 = 300_000;
/// Shortest train whose clock can be told, and jitter that leaves no doubt, µs: a counter of microseconds seems slower than
/// the fastest clock of media until the forgiven jitter is used up.
const SETTLED_US: (u64, u64) = (10_000, 5_000);
/// Largest step of the sequence number that is progress, and farthest back that is merely late.
const SEQUENCE_REACH: i16 = 64;
/// Farthest a timestamp goes back between packets in order.
const TIMESTAMP_BACK: i64 = 27_000;
/// Parts of a `within` in which packets are counted; one more is kept.
const PARTS: u64 = 7;

/// When a flow is RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpSettings {
    packets: u8,
    regular: u8,
    within: Duration,
    idle: Duration,
}

/// A setting out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RtpSettingsError {
    /// Number of packets.
    #[error("detection after {0} packets; 3 to 64 are possible")]
    Packets(u32),
    /// Window.
    #[error("detection within {0} ns; 1 ms to 60 s are possible")]
    Within(u64),
    /// Number of packets of a regular train.
    #[error("detection after {0} regular packets; 3 to the number of packets are possible")]
    Regular(u32),
    /// Silence.
    #[error("a recognised flow is forgotten after {0} ns; 1 s to 1 h are possible")]
    Idle(u64),
}

impl Default for RtpSettings {
    fn default() -> Self {
        Self { packets: 10, regular: 10, within: Duration::from_secs(1), idle: Duration::from_secs(30) }
    }
}

impl RtpSettings {
    /// `packets` (3 … 64) of one SSRC within `within` (1 ms … 60 s), as many of a regular train; forgotten after silence
    /// of `idle` (1 s … 1 h).
    ///
    /// # Errors
    /// The first value out of range.
    pub fn new(packets: u32, within: Duration, idle: Duration) -> Result<Self, RtpSettingsError> {
        let n = u8::try_from(packets).ok().filter(|n| (3..=64).contains(n));
        let n = n.ok_or(RtpSettingsError::Packets(packets))?;
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&within) {
            return Err(RtpSettingsError::Within(within.as_nanos()));
        }
        if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&idle) {
            return Err(RtpSettingsError::Idle(idle.as_nanos()));
        }
        Ok(Self { packets: n, regular: n, within, idle })
    }

    /// So many packets (3 … `packets`) suffice of a train without gaps whose timestamps make equal steps.
    ///
    /// # Errors
    /// Out of range.
    pub fn with_regular(self, regular: u32) -> Result<Self, RtpSettingsError> {
        let n = u8::try_from(regular).ok().filter(|n| (3..=self.packets).contains(n));
        Ok(Self { regular: n.ok_or(RtpSettingsError::Regular(regular))?, ..self })
    }

    /// Packets needed.
    pub const fn packets(&self) -> u8 {
        self.packets
    }
    /// Packets needed of a regular train.
    pub const fn regular(&self) -> u8 {
        self.regular
    }
    /// Packets needed where other evidence supports them: three tenths, at least 3.
    pub const fn supported(&self) -> u8 {
        self.packets.div_ceil(10) * 3
    }
    /// Time they may take.
    pub const fn within(&self) -> Duration {
        self.within
    }
    /// Silence after which a recognised flow is forgotten.
    pub const fn idle(&self) -> Duration {
        self.idle
    }
}

/// Why one packet, or a whole flow, is not RTP (yet).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotRtp {
    /// Less than a fixed header, or than the header it announces.
    TooShort,
    /// Version bits other than 2.
    Version,
    /// The second octet is an RTCP packet type.
    Rtcp,
    /// A header, but the first of its SSRC or no continuation of the one before.
    NoProgress,
    /// Continues a train that is too short, or too slow, so far.
    TooFew,
    /// Late or repeated.
    Late,
    /// The timestamps fit no clock.
    Timestamp,
    /// STUN.
    Stun,
    /// DTLS.
    Dtls,
    /// ZRTP.
    Zrtp,
    /// A voice server's address discovery.
    Discovery,
    /// Sizes or rate are no longer those of real time.
    Statistics,
}

impl NotRtp {
    /// Stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooShort => "too_short",
            Self::Version => "version",
            Self::Rtcp => "rtcp",
            Self::NoProgress => "no_progress",
            Self::TooFew => "too_few",
            Self::Late => "late",
            Self::Timestamp => "timestamp",
            Self::Stun => "stun",
            Self::Dtls => "dtls",
            Self::Zrtp => "zrtp",
            Self::Discovery => "discovery",
            Self::Statistics => "statistics",
        }
    }
}

/// The fields of a header that detection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sequence number.
    pub sequence: u16,
    /// Timestamp.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
    /// Payload type.
    pub payload_type: u8,
}

impl Header {
    /// Reads the first 12 bytes of a payload of `payload_len` bytes.
    ///
    /// # Errors
    /// Why it cannot be RTP.
    #[inline]
    pub fn read(payload_len: usize, head: &[u8; HEADER_LEN]) -> Result<Self, NotRtp> {
        if head[0] >> 6 != 2 {
            return Err(NotRtp::Version);
        }
        if (192..=223).contains(&head[1]) {
            return Err(NotRtp::Rtcp);
        }
        let announced = HEADER_LEN + usize::from(head[0] & 0x0f) * 4 + usize::from(head[0] >> 4 & 1) * 4;
        if payload_len < announced {
            return Err(NotRtp::TooShort);
        }
        Ok(Self {
            sequence: u16::from_be_bytes([head[2], head[3]]),
            timestamp: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            ssrc: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
            payload_type: head[1] & 0x7f,
        })
    }
}

/// A train of packets of one SSRC: 32 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Train {
    pub ssrc: u32,
    /// Timestamp and arrival (µs, wrapping) of the packet with the highest sequence number.
    timestamp: u32,
    last_us: u32,
    /// Of the packet the count began with.
    first_timestamp: u32,
    first_us: u32,
    /// Packets counted in parts of the window, four bits each, the running part lowest.
    window: u32,
    sequence: u16,
    /// Payload types seen; 0xff = none.
    payload_types: [u8; 3],
    /// Packets since the first that continued regularly; [`UNEVEN`] once one did not.
    run: u8,
    /// Where the header begins in the payload; [`Train::FREE`], or [`Train::UDPTL`] for fax.
    pub offset: u8,
}

const UNEVEN: u8 = u8::MAX;

impl Train {
    /// No train.
    pub const FREE: u8 = 0xff;
    /// A train of UDPTL packets.
    pub const UDPTL: u8 = 0xfe;

    /// A place for a train.
    pub const fn free() -> Self {
        Self {
            ssrc: 0,
            timestamp: 0,
            last_us: 0,
            first_timestamp: 0,
            first_us: 0,
            window: 0,
            sequence: 0,
            payload_types: [0xff; 3],
            run: 0,
            offset: Self::FREE,
        }
    }

    /// Begins with a header at `offset` of its payload.
    pub fn begin(offset: u8, now_us: u32, header: &Header) -> Self {
        Self {
            ssrc: header.ssrc,
            timestamp: header.timestamp,
            last_us: now_us,
            first_timestamp: header.timestamp,
            first_us: now_us,
            window: 1,
            sequence: header.sequence,
            payload_types: [header.payload_type, 0xff, 0xff],
            run: 0,
            offset,
        }
    }

    /// Packets in the window.
    pub fn count(&self) -> u8 {
        const LOW: u32 = 0x0f0f_0f0f;
        let pairs = (self.window & LOW) + (self.window >> 4 & LOW);
        (pairs.wrapping_mul(0x0101_0101) >> 24) as u8
    }

    /// Microseconds since its newest packet.
    pub fn age_us(&self, now_us: u32) -> u32 {
        now_us.wrapping_sub(self.last_us)
    }

    /// Whether `header` plausibly follows, and if so takes it as the newest.
    pub fn step(&mut self, within_us: u64, now_us: u32, header: &Header) -> Result<(), NotRtp> {
        let elapsed_us = u64::from(self.age_us(now_us));
        if elapsed_us > within_us {
            return Err(NotRtp::TooFew);
        }
        let ahead = header.sequence.wrapping_sub(self.sequence) as i16;
        if (-SEQUENCE_REACH..=0).contains(&ahead) {
            return Err(NotRtp::Late);
        }
        if !(1..=SEQUENCE_REACH).contains(&ahead) {
            return Err(NotRtp::NoProgress);
        }
        let step = i64::from(header.timestamp.wrapping_sub(self.timestamp) as i32);
        let most = CLOCK_HZ.1 * (elapsed_us + JITTER_US) / 1_000_000;
        if step < -TIMESTAMP_BACK || step > most as i64 {
            return Err(NotRtp::Timestamp);
        }
        let known = self.payload_types.iter().position(|t| *t == header.payload_type || *t == 0xff);
        self.payload_types[known.ok_or(NotRtp::NoProgress)?] = header.payload_type;
        let so_far = i64::from(self.timestamp.wrapping_sub(self.first_timestamp) as i32);
        let equal = step > 0 && (self.run == 0 || step * i64::from(self.run) == so_far);
        self.run = match self.run {
            UNEVEN => UNEVEN,
            run if ahead == 1 && equal => (run + 1).min(UNEVEN - 1),
            _ => UNEVEN,
        };
        self.count_one(within_us, now_us);
        self.sequence = header.sequence;
        self.timestamp = header.timestamp;
        Ok(())
    }

    /// The same for fax, which has neither timestamps nor a rate.
    pub fn step_udptl(&mut self, within_us: u64, now_us: u32, sequence: u16) -> Result<(), NotRtp> {
        match sequence.wrapping_sub(self.sequence) as i16 {
            _ if u64::from(self.age_us(now_us)) > within_us => Err(NotRtp::TooFew),
            -8..=0 => Err(NotRtp::Late),
            1..=8 => {
                self.count_one(within_us, now_us);
                self.sequence = sequence;
                Ok(())
            }
            _ => Err(NotRtp::NoProgress),
        }
    }

    fn count_one(&mut self, within_us: u64, now_us: u32) {
        let part = u32::try_from((within_us / PARTS).max(1)).unwrap_or(u32::MAX);
        let parts = (now_us / part).wrapping_sub(self.last_us / part);
        self.window = self.window.checked_shl(parts.saturating_mul(4)).unwrap_or(0);
        self.window += u32::from(self.window & 0xf < 0xf);
        self.last_us = now_us;
    }

    /// Whether it goes on without gaps in equal steps, for at least `packets`.
    pub fn is_regular(&self, packets: u8) -> bool {
        self.run != UNEVEN && self.run + 1 >= packets
    }

    /// Confidence in per cent that the timestamps since the count began are a clock's, and whether they are those of a
    /// usual one; [`NotRtp::TooFew`] when the first frame is still going on, or, without support, while the train may
    /// be compressed or of a faster clock.
    pub fn clock(&self, now_us: u32, within_us: u64, supported: bool) -> Result<(u8, bool), NotRtp> {
        let elapsed_us = u64::from(now_us.wrapping_sub(self.first_us));
        let ticks = i64::from(self.timestamp.wrapping_sub(self.first_timestamp) as i32);
        if ticks == 0 && elapsed_us <= within_us {
            return Err(NotRtp::TooFew);
        }
        let Ok(ticks) = u64::try_from(ticks) else { return Err(NotRtp::Timestamp) };
        let slowest = if supported { SLOW_CLOCK_HZ } else { CLOCK_HZ.0 };
        let least = slowest / 2 * elapsed_us / 1_000_000;
        let most = CLOCK_HZ.1 * (elapsed_us + JITTER_US) / 1_000_000;
        if ticks < least.max(1) || ticks > most {
            return Err(NotRtp::Timestamp);
        }
        let beyond_doubt = CLOCK_HZ.1 * (elapsed_us + elapsed_us / 10 + SETTLED_US.1) / 1_000_000;
        if !supported && (elapsed_us < SETTLED_US.0 || ticks > beyond_doubt) {
            return Err(NotRtp::TooFew);
        }
        Ok(self.confidence(elapsed_us, ticks))
    }

    /// The usual clock nearest to that of the timestamps so far, Hz.
    pub fn clock_hz(&self, now_us: u32) -> u32 {
        let elapsed_us = u64::from(now_us.wrapping_sub(self.first_us)).max(1);
        let ticks = u64::from(self.timestamp.wrapping_sub(self.first_timestamp));
        nearest_clock(u32::try_from(ticks * 1_000_000 / elapsed_us).unwrap_or(u32::MAX))
    }

    /// More when the rate is that of a usual clock within 10 % and the payload type is one in use.
    fn confidence(&self, elapsed_us: u64, ticks: u64) -> (u8, bool) {
        const USUAL_HZ: [u64; 8] = [8_000, 16_000, 24_000, 32_000, 44_100, 48_000, 90_000, 22_050];
        let usual = |hz: &u64| {
            let expected = hz * elapsed_us / 1_000_000;
            ticks.abs_diff(expected) * 10 <= expected
        };
        let usual = USUAL_HZ.iter().any(usual);
        let assigned = |t: &u8| matches!(t, 0 | 3..=18 | 25 | 26 | 28 | 31..=34 | 96..=127 | 0xff);
        let types = if self.payload_types.iter().all(assigned) { 6 } else { 0 };
        (84 + if usual { 9 } else { 0 } + types, usual)
    }
}

#[cfg(test)]
mod tests;
