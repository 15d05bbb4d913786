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
