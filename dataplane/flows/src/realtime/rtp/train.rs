//! A train: packets of one SSRC that plausibly follow each other.

use super::super::clock::nearest_clock;
use super::{Header, NotRtp};

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
/// The same for a payload type that was not seen before: comfort noise and events go on where speech was.
const NEW_TYPE_REACH: i16 = 8;
/// Farthest a timestamp goes back between packets in order.
const TIMESTAMP_BACK: i64 = 27_000;
/// Parts of a `within` in which packets are counted; one more is kept.
const PARTS: u64 = 7;

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
    /// Where the header begins in the payload; [`Train::FREE`], or [`Train::UDPTL`] for fax, [`Train::IAX`] for IAX2, whose
    /// `ssrc` is the call number and whose `sequence` is the length of its frames.
    pub offset: u8,
    /// The count began anew because a packet did not continue it.
    failed: bool,
}

const UNEVEN: u8 = u8::MAX;

impl Train {
    /// No train.
    pub const FREE: u8 = 0xff;
    /// A train of UDPTL packets.
    pub const UDPTL: u8 = 0xfe;

    /// A train of frames of IAX2.
    pub const IAX: u8 = 0xfd;

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
            failed: false,
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
            failed: false,
        }
    }

    /// Begins anew with a header that does not continue it; `why` not. Silence is no failure.
    pub fn begin_anew(&mut self, now_us: u32, header: &Header, why: NotRtp) {
        *self = Self { failed: why != NotRtp::TooFew, ..Self::begin(self.offset, now_us, header) };
    }

    /// Whether it is one of the SSRC at `offset`.
    #[inline]
    pub fn is_of(&self, offset: u8, header: &Header) -> bool {
        self.offset == offset && self.ssrc == header.ssrc
    }

    /// Whether packets of the payload type were among those counted.
    pub fn has_type(&self, payload_type: u8) -> bool {
        self.payload_types.contains(&payload_type)
    }

    /// Whether a packet that is no continuation may be of other sequence numbers: its payload type is not the one the
    /// count began with, and its number is too far away.
    pub fn is_beside(&self, header: &Header) -> bool {
        self.payload_types[0] != header.payload_type && self.ahead(header).is_none()
    }

    /// By how much the sequence number goes on (1 … 64, of a new payload type 8) or is late (0 … −64, −8); `None` when farther.
    fn ahead(&self, header: &Header) -> Option<i16> {
        let ahead = header.sequence.wrapping_sub(self.sequence) as i16;
        let reach = if self.has_type(header.payload_type) { SEQUENCE_REACH } else { NEW_TYPE_REACH };
        (-reach..=reach).contains(&ahead).then_some(ahead)
    }

    /// Forgets that packets of the payload type were counted.
    pub fn forget_type(&mut self, payload_type: u8) {
        for known in self.payload_types[1..].iter_mut().filter(|t| **t == payload_type) {
            *known = 0xff;
        }
    }

    /// What a new train has to be better than to take its place, in packets counted. One that began within `kept_us` of its
    /// last packet is worth `begun`, unless it failed before; one that has had its time and is no media yet, or whose
    /// timestamp stands still for longer than a frame takes, is worth less than `begun` however many were counted.
    pub fn worth(&self, now_us: u32, within_us: u64, kept_us: u64, begun: u8) -> u8 {
        let (age, all) = (u64::from(self.age_us(now_us)), u64::from(now_us.wrapping_sub(self.first_us)));
        let stands = self.timestamp == self.first_timestamp && all > kept_us;
        match self.offset {
            Self::FREE => 0,
            _ if age > within_us => 1,
            Self::UDPTL => self.count().max(if age > kept_us { 0 } else { begun }),
            _ if all > within_us || stands => self.count().min(begun - 1),
            _ if age > kept_us || self.failed => self.count(),
            _ => self.count().max(begun),
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
        let ahead = self.ahead(header).ok_or(NotRtp::NoProgress)?;
        if ahead <= 0 {
            return Err(NotRtp::Late);
        }
        let step = i64::from(header.timestamp.wrapping_sub(self.timestamp) as i32);
        let most = CLOCK_HZ.1 * (elapsed_us + JITTER_US) / 1_000_000;
        if step < -TIMESTAMP_BACK || step > most as i64 {
            return Err(NotRtp::Timestamp);
        }
        if !self.has_type(header.payload_type) {
            let free = self.payload_types.iter().position(|t| *t == 0xff);
            self.payload_types[free.ok_or(NotRtp::NoProgress)?] = header.payload_type;
        }
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

    /// The same for IAX2, whose milliseconds count since its frames began. Without an announcement all frames have one length.
    pub fn step_iax(&mut self, within_us: u64, now_us: u32, stamp: u16, len: u16) -> Result<(), NotRtp> {
        let elapsed_us = u64::from(self.age_us(now_us));
        let step = stamp.wrapping_sub(self.timestamp as u16) as i16;
        match step {
            _ if elapsed_us > within_us => return Err(NotRtp::TooFew),
            -1_000..=0 => return Err(NotRtp::Late),
            1.. if u64::from(step.unsigned_abs()) * 1_000 <= elapsed_us + JITTER_US => {}
            _ => return Err(NotRtp::Timestamp),
        }
        let so_far = self.timestamp.wrapping_sub(self.first_timestamp);
        let equal = self.run == 0 || u32::from(step.unsigned_abs()) * u32::from(self.run) == so_far;
        self.run = match self.run {
            run if run < UNEVEN && equal && len == self.sequence => (run + 1).min(UNEVEN - 1),
            _ => UNEVEN,
        };
        self.count_one(within_us, now_us);
        self.timestamp = self.timestamp.wrapping_add(u32::from(step.unsigned_abs()));
        Ok(())
    }

    /// Whether the milliseconds of an IAX2 train fit the arrivals; [`NotRtp::TooFew`] while they run ahead as after a queue.
    pub fn milliseconds(&self, now_us: u32) -> Result<(), NotRtp> {
        let elapsed_us = u64::from(now_us.wrapping_sub(self.first_us));
        let us = u64::from(self.timestamp.wrapping_sub(self.first_timestamp)) * 1_000;
        match us {
            _ if us < elapsed_us / 2 || us > elapsed_us + JITTER_US => Err(NotRtp::Timestamp),
            _ if us > elapsed_us + elapsed_us / 10 + 4 * SETTLED_US.1 => Err(NotRtp::TooFew),
            _ => Ok(()),
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
