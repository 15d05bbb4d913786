//! RTP on UDP, recognised from the packets alone.
//!
//! A train of packets of one SSRC is RTP once `packets` of them have come within `within`, each with version 2, no RTCP
//! packet type and a plausible step from the one before:
//!
//! * the sequence number goes on by 1 … 64, to a payload type not seen before by 1 … 8. A late or repeated packet (0 … 64 back)
//!   neither counts nor harms; any other step begins the count anew with that packet, or, if it is of another payload type than
//!   the first, a count of its own. So of the N packets counted, N − 1 show progress;
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

mod train;

pub(crate) use train::Train;

use perhop_units::Duration;
use serde::Serialize;
use thiserror::Error;

/// Bytes of the fixed RTP header.
pub const HEADER_LEN: usize = 12;

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

#[cfg(test)]
mod tests;
