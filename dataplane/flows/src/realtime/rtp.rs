//! RTP on UDP, recognised from the packets alone.
//!
//! A flow (5-tuple) is RTP once `packets` packets of one SSRC have come within `within`, each with version 2, no RTCP
//! packet type and a plausible step from the one before:
//!
//! * the sequence number goes on by 1 … 64. A late or repeated packet (0 … 64 back) neither counts nor harms; any
//!   other step begins the count anew with that packet. So of the N packets counted, N − 1 show progress;
//! * the timestamp does not go back by more than 27,000 (B-frames) nor on by more than the fastest clock, 90 kHz,
//!   could in the time since plus 300 ms of jitter;
//! * no more than three payload types (a codec, comfort noise, telephone events).
//!
//! The window slides: the count forgets packets older than `within`, to 1 % of it. When the count is reached, the
//! timestamp since the count began must fit some clock between 8 and 90 kHz and the arrival times: at least
//! 4 kHz × elapsed (a queue may have stretched the train to twice its length) and at most 90 kHz × (elapsed +
//! 300 ms). A timestamp that has not moved at all is one video frame so far: the decision waits for the next frame.
//!
//! Two SSRCs are counted side by side (one when `packets` > 32); a third replaces the one seen less recently. Packets
//! that cannot be RTP (STUN, DTLS, QUIC, RTCP on the same ports) are passed over.
//!
//! What is kept out by what: QUIC, STUN, DTLS and ZRTP by the version bits (RFC 7983), RTCP by its packet types
//! (RFC 5761 §4), RTPS by its version bits, DNSCrypt and other random bytes by SSRC, sequence and timestamp together:
//! a random packet continues a candidate with a probability below 2⁻⁵⁰.
//!
//! Source: RFC 3550 §5.1 and A.1; L. Calarco, "Software Techniques for Multiservice IP Networks" (the count N within T).

use perhop_units::{Duration, Instant};
use serde::Serialize;
use thiserror::Error;

/// Bytes of the fixed RTP header.
pub const HEADER_LEN: usize = 12;
/// Slowest and fastest media clock, Hz.
const CLOCK_HZ: (u64, u64) = (8_000, 90_000);
/// Jitter forgiven when a train is compressed, µs.
const JITTER_US: u64 = 300_000;
/// Largest step of the sequence number that is progress, and farthest back that is merely late.
const SEQUENCE_REACH: i16 = 64;
/// Farthest a timestamp goes back between packets in order.
const TIMESTAMP_BACK: i64 = 27_000;
/// Window stamps a `within`.
const STAMPS: u64 = 100;

/// When a flow is RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpSettings {
    packets: u8,
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
    /// Silence.
    #[error("a recognised flow is forgotten after {0} ns; 1 s to 1 h are possible")]
    Idle(u64),
}

impl Default for RtpSettings {
    fn default() -> Self {
        Self { packets: 10, within: Duration::from_secs(1), idle: Duration::from_secs(30) }
    }
}

impl RtpSettings {
    /// `packets` (3 … 64) of one SSRC within `within` (1 ms … 60 s); forgotten after silence of `idle` (1 s … 1 h).
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
        Ok(Self { packets: n, within, idle })
    }

    /// Packets needed.
    pub const fn packets(&self) -> u8 {
        self.packets
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
        }
    }
}

/// A flow was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// SSRC.
    pub ssrc: u32,
    /// Payload type of the deciding packet, 0 … 127.
    pub payload_type: u8,
    /// Per cent.
    pub confidence: u8,
    /// Packet of the flow that decided, from 1.
    pub packet: u64,
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

/// A train of packets of one SSRC.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Candidate {
    ssrc: u32,
    /// Timestamp and arrival (µs, wrapping) of the packet with the highest sequence number.
    timestamp: u32,
    last_us: u32,
    /// Of the packet the count began with.
    first_timestamp: u32,
    first_us: u32,
    sequence: u16,
    /// Stamps in the window; 0 = free.
    count: u8,
    /// Ring position of the oldest stamp.
    oldest: u8,
    /// Payload types seen; 0xff = none.
    payload_types: [u8; 3],
    /// Settings the stamps were made under.
    epoch: u8,
}

/// What is known of a flow that is not recognised: 120 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates {
    candidates: [Candidate; 2],
    stamps: [u8; 64],
}

impl Default for Candidates {
    fn default() -> Self {
        Self { candidates: [Candidate::default(); 2], stamps: [0; 64] }
    }
}

impl Candidates {
    /// Looks at one header. `epoch` changes whenever `settings` do.
    pub fn observe(
        &mut self,
        settings: &RtpSettings,
        epoch: u8,
        now: Instant,
        header: &Header,
    ) -> Result<(u8, u8), NotRtp> {
        let side_by_side = settings.packets <= 32;
        let now_us = (now.as_nanos() / 1_000) as u32;
        let within_us = (settings.within.as_nanos() / 1_000).max(1);
        let stamp = (now.as_nanos() / 1_000 * STAMPS / within_us) as u8;
        let at = self.slot(side_by_side, epoch, now_us, header.ssrc);
        let ring = if side_by_side { &mut self.stamps[at * 32..at * 32 + 32] } else { &mut self.stamps[..] };
        let c = &mut self.candidates[at];
        if c.count == 0 {
            c.begin(ring, epoch, now_us, stamp, header);
            return Err(NotRtp::NoProgress);
        }
        match c.step(within_us, now_us, header) {
            Err(NotRtp::Late) => return Err(NotRtp::Late),
            Err(why) => {
                c.begin(ring, epoch, now_us, stamp, header);
                return Err(why);
            }
            Ok(()) => {}
        }
        while c.count > 0 && u64::from(stamp.wrapping_sub(ring[usize::from(c.oldest)])) > STAMPS {
            c.oldest = (c.oldest + 1) % ring.len() as u8;
            c.count -= 1;
        }
        // A full ring holds as many as are ever needed.
        if usize::from(c.count) == ring.len() {
            c.oldest = (c.oldest + 1) % ring.len() as u8;
            c.count -= 1;
        }
        ring[(usize::from(c.oldest) + usize::from(c.count)) % ring.len()] = stamp;
        c.count += 1;
        if c.count < settings.packets {
            return Err(NotRtp::TooFew);
        }
        match c.clock(now_us, within_us) {
            Ok(confidence) => {
                c.count = 0;
                Ok((confidence, header.payload_type))
            }
            Err(NotRtp::TooFew) => Err(NotRtp::TooFew),
            Err(why) => {
                c.begin(ring, epoch, now_us, stamp, header);
                Err(why)
            }
        }
    }

    /// The candidate of `ssrc`: its own, a free one, or the one seen less recently, freed.
    fn slot(&mut self, side_by_side: bool, epoch: u8, now_us: u32, ssrc: u32) -> usize {
        let usable = if side_by_side { &mut self.candidates[..] } else { &mut self.candidates[..1] };
        for c in usable.iter_mut().filter(|c| c.epoch != epoch) {
            c.count = 0;
        }
        if let Some(own) = usable.iter().position(|c| c.count > 0 && c.ssrc == ssrc) {
            return own;
        }
        let age = |c: &Candidate| if c.count == 0 { u32::MAX } else { now_us.wrapping_sub(c.last_us) };
        let oldest = if usable.len() > 1 && age(&usable[1]) > age(&usable[0]) { 1 } else { 0 };
        usable[oldest].count = 0;
        oldest
    }
}

impl Candidate {
    fn begin(&mut self, ring: &mut [u8], epoch: u8, now_us: u32, stamp: u8, header: &Header) {
        *self = Self {
            ssrc: header.ssrc,
            timestamp: header.timestamp,
            last_us: now_us,
            first_timestamp: header.timestamp,
            first_us: now_us,
            sequence: header.sequence,
            count: 1,
            oldest: 0,
            payload_types: [header.payload_type, 0xff, 0xff],
            epoch,
        };
        ring[0] = stamp;
    }

    /// Whether `header` plausibly follows, and if so takes it as the newest.
    fn step(&mut self, within_us: u64, now_us: u32, header: &Header) -> Result<(), NotRtp> {
        let elapsed_us = u64::from(now_us.wrapping_sub(self.last_us));
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
        self.sequence = header.sequence;
        self.timestamp = header.timestamp;
        self.last_us = now_us;
        Ok(())
    }

    /// Confidence in per cent that the timestamps since the count began are a clock's; [`NotRtp::TooFew`] when the
    /// first frame is still going on.
    fn clock(&self, now_us: u32, within_us: u64) -> Result<u8, NotRtp> {
        let elapsed_us = u64::from(now_us.wrapping_sub(self.first_us));
        let ticks = i64::from(self.timestamp.wrapping_sub(self.first_timestamp) as i32);
        if ticks == 0 && elapsed_us <= within_us {
            return Err(NotRtp::TooFew);
        }
        let Ok(ticks) = u64::try_from(ticks) else { return Err(NotRtp::Timestamp) };
        let least = CLOCK_HZ.0 / 2 * elapsed_us / 1_000_000;
        let most = CLOCK_HZ.1 * (elapsed_us + JITTER_US) / 1_000_000;
        if ticks < least.max(1) || ticks > most {
            return Err(NotRtp::Timestamp);
        }
        Ok(self.confidence(elapsed_us, ticks))
    }

    /// More when the rate is that of a usual clock within 10 % and the payload type is one in use.
    fn confidence(&self, elapsed_us: u64, ticks: u64) -> u8 {
        const USUAL_HZ: [u64; 8] = [8_000, 16_000, 24_000, 32_000, 44_100, 48_000, 90_000, 22_050];
        let usual = |hz: &u64| {
            let expected = hz * elapsed_us / 1_000_000;
            ticks.abs_diff(expected) * 10 <= expected
        };
        let clock = if USUAL_HZ.iter().any(usual) { 9 } else { 0 };
        let assigned = |t: &u8| matches!(t, 0 | 3..=18 | 25 | 26 | 28 | 31..=34 | 96..=127 | 0xff);
        let types = if self.payload_types.iter().all(assigned) { 6 } else { 0 };
        84 + clock + types
    }
}

/// Detection on one flow (one direction of one 5-tuple): pure, for captures and as the model the element is tested
/// against.
#[derive(Clone, Debug)]
pub struct RtpDetector {
    settings: RtpSettings,
    candidates: Candidates,
    packets: u64,
    current: Option<(Decision, Instant)>,
    last: Option<NotRtp>,
}

impl RtpDetector {
    /// Nothing seen yet.
    pub fn new(settings: RtpSettings) -> Self {
        Self { settings, candidates: Candidates::default(), packets: 0, current: None, last: None }
    }

    /// Looks at a UDP packet: its payload's length and first 12 bytes (anything behind a shorter payload). Returns
    /// the decision when this packet makes one: the flow becomes RTP, or goes on with another SSRC.
    pub fn observe(&mut self, now: Instant, payload_len: usize, head: &[u8; HEADER_LEN]) -> Option<Decision> {
        self.packets += 1;
        let header =
            if payload_len < HEADER_LEN { Err(NotRtp::TooShort) } else { Header::read(payload_len, head) };
        if let Some((decision, seen)) = &mut self.current {
            if header.is_ok_and(|h| h.ssrc == decision.ssrc) {
                *seen = now;
                return None;
            }
            if now.since(*seen) > self.settings.idle {
                self.current = None;
            }
        }
        let outcome = header.and_then(|h| {
            let made = self.candidates.observe(&self.settings, 0, now, &h)?;
            Ok((h.ssrc, made))
        });
        match outcome {
            Ok((ssrc, (confidence, payload_type))) => {
                let decision = Decision { ssrc, payload_type, confidence, packet: self.packets };
                self.current = Some((decision, now));
                Some(decision)
            }
            Err(why) => {
                self.last = Some(why);
                None
            }
        }
    }

    /// The decision in force at `now`.
    pub fn current(&self, now: Instant) -> Option<Decision> {
        self.current.filter(|(_, seen)| now.since(*seen) <= self.settings.idle).map(|(decision, _)| decision)
    }

    /// Why the last packet that was not of a recognised train was none.
    pub fn last_reason(&self) -> Option<NotRtp> {
        self.last
    }

    /// Packets seen.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

#[cfg(test)]
mod tests;
