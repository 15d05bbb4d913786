//! Sources and what they emit.

use crate::error::TrafficError;
use crate::rtp::{RTP_HEADER_LEN, RtpHeader};
use crate::stamp::{STAMP_LEN, Stamp};
use perhop_units::{Duration, Instant, Rate};

/// Bytes that UDP over IPv4 without options adds to a payload, at IP length.
pub const UDP_IPV4_OVERHEAD: u16 = 28;
/// Bytes that UDP over IPv6 without extension headers adds to a payload, at IP length.
pub const UDP_IPV6_OVERHEAD: u16 = 48;
/// Largest UDP payload over IPv4.
pub const MAX_PAYLOAD: u16 = u16::MAX - UDP_IPV4_OVERHEAD;

/// A sender as a state machine: emissions in order of time, the same ones for the same configuration and seed.
pub trait Source: Iterator<Item = Emission> + Send {
    /// When the next emission is due, since the start of the run; `None` when the source has finished.
    fn upcoming(&self) -> Option<Duration>;
}

/// One datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emission {
    /// When to send it, since the start of the run; never earlier.
    pub at: Duration,
    /// Stream it belongs to; the driver maps streams to sockets.
    pub stream: u16,
    /// Position in the stream, from 0.
    pub index: u32,
    /// UDP payload in bytes, RTP header included.
    pub len: u16,
    /// The RTP header, for speech.
    pub rtp: Option<RtpHeader>,
}

impl Emission {
    /// Writes the payload into the start of `buffer`, stamped as sent at `now`, and returns its length. Between header
    /// and stamp lie bytes that look random and follow from stream and index.
    ///
    /// # Errors
    /// [`TrafficError::BufferTooSmall`]; nothing is written then.
    pub fn fill(&self, now: Instant, buffer: &mut [u8]) -> Result<usize, TrafficError> {
        let given = buffer.len();
        let needed = usize::from(self.len);
        let payload = buffer.get_mut(..needed).ok_or(TrafficError::BufferTooSmall { given, needed })?;
        let header = if self.rtp.is_some() { RTP_HEADER_LEN } else { 0 };
        let least = header + STAMP_LEN;
        if needed < least {
            return Err(TrafficError::BufferTooSmall { given: needed, needed: least });
        }
        if let Some(rtp) = self.rtp {
            payload[..header].copy_from_slice(&rtp.to_bytes());
        }
        let mut word = u64::from(self.stream) << 32 | u64::from(self.index) | 1 << 63;
        for chunk in payload[header..needed - STAMP_LEN].chunks_mut(8) {
            // Marsaglia's xorshift: enough that no two payloads look alike.
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
        }
        let stamp = Stamp { stream: self.stream, index: self.index, sent: now };
        payload[needed - STAMP_LEN..].copy_from_slice(&stamp.to_bytes());
        Ok(needed)
    }
}

/// Checks a payload length that must hold a stamp.
pub(crate) fn check_payload(given: u16) -> Result<(), TrafficError> {
    if usize::from(given) < STAMP_LEN {
        return Err(TrafficError::PayloadTooSmall { given });
    }
    if given > MAX_PAYLOAD {
        return Err(TrafficError::PayloadTooLarge { given, limit: MAX_PAYLOAD });
    }
    Ok(())
}

/// Checks a rate that must be above 0 and at most [`Rate::MOST`].
pub(crate) fn check_rate(what: &'static str, rate: Rate) -> Result<(), TrafficError> {
    if rate == Rate::ZERO {
        return Err(TrafficError::RateZero);
    }
    check_range(what, rate.bits_per_sec(), 1, Rate::MOST.bits_per_sec())
}

/// Checks that a parameter lies in its range.
pub(crate) fn check_range(what: &'static str, given: u64, least: u64, most: u64) -> Result<(), TrafficError> {
    if (least..=most).contains(&given) {
        Ok(())
    } else {
        Err(TrafficError::OutOfRange { what, given, least, most })
    }
}

/// Checks that a source does not stop before it starts.
pub(crate) fn check_span(start: Duration, stop: Duration) -> Result<(), TrafficError> {
    if stop < start { Err(TrafficError::StopBeforeStart { start, stop }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_too_short_is_refused_untouched() {
        let emission = Emission { at: Duration::ZERO, stream: 1, index: 2, len: 32, rtp: None };
        let mut buffer = [7; 31];
        assert_eq!(
            emission.fill(Instant(5), &mut buffer),
            Err(TrafficError::BufferTooSmall { given: 31, needed: 32 })
        );
        assert_eq!(buffer, [7; 31]);
        let mut buffer = [7; 40];
        assert_eq!(emission.fill(Instant(5), &mut buffer), Ok(32));
        assert_eq!(buffer[32..], [7; 8]);
        assert_eq!(Stamp::at_end_of(&buffer[..32]), Some(Stamp { stream: 1, index: 2, sent: Instant(5) }));
        assert_ne!(buffer[..8], buffer[8..16]);
    }
}

#[cfg(test)]
#[path = "source_laws_tests.rs"]
mod laws;
