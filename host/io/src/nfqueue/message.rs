//! Messages of the kernel.

use super::{HEADER, PACKET, padded};
use std::ops::Range;
use thiserror::Error;

const ERROR: u16 = 2;

const PACKET_HEADER: u16 = 1;
const PAYLOAD: u16 = 10;
const FULL_LENGTH: u16 = 13;
const PACKET_INFO: u16 = 14;
/// Bits of an attribute's type that say how it is written.
const TYPE: u16 = 0x3fff;

const CHECKSUM_NOT_READY: u32 = 1;
const SEVERAL_SEGMENTS: u32 = 2;

/// Where in the kernel a packet was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// It came in and was not routed yet.
    Prerouting,
    /// It came in and is for this host.
    Input,
    /// It passes through.
    Forward,
    /// This host made it.
    Output,
    /// It leaves.
    Postrouting,
    /// Another.
    Other(u8),
}

impl Hook {
    /// By the kernel's number.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Prerouting,
            1 => Self::Input,
            2 => Self::Forward,
            3 => Self::Output,
            4 => Self::Postrouting,
            other => Self::Other(other),
        }
    }
}

/// A packet that waits for a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its number; they count up, and round after 2³².
    pub id: u32,
    /// Where it was queued.
    pub hook: Hook,
    /// Where in the datagram the IP packet is.
    pub payload: Range<usize>,
    /// Whether more of the packet was left behind: it cannot go back changed.
    pub cut: bool,
    /// The checksum field holds the pseudo-header's part only.
    pub checksum_missing: bool,
    /// Several segments in one, of which each gets a checksum of its own.
    pub several: bool,
}

/// What the kernel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet.
    Packet(Queued),
    /// The answer to a request: 0, or the error's number.
    Answer {
        /// Of the request.
        sequence: u32,
        /// As in errno(3).
        error: i32,
    },
    /// Something else.
    Other,
}

/// Why a datagram cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// It ends inside a message.
    #[error("the message at byte {at} ends at byte {end} of {len}")]
    Cut {
        /// Where the message begins.
        at: usize,
        /// Where it says that it ends.
        end: usize,
        /// What there is.
        len: usize,
    },
    /// An attribute is longer than its message, or shorter than its header.
    #[error("the attribute at byte {at} has the length {len}")]
    Attribute {
        /// Where it begins.
        at: usize,
        /// What it says.
        len: usize,
    },
    /// An attribute is shorter than what belongs into it.
    #[error("attribute {kind} at byte {at} is too short")]
    Short {
        /// Its type.
        kind: u16,
        /// Where it begins.
        at: usize,
    },
    /// A packet without its header, so without a number to answer to.
    #[error("the packet at byte {at} has no number")]
    NoNumber {
        /// Where the message begins.
        at: usize,
    },
}

/// Reads the message of `datagram` that begins `at`, and says where the next one begins; `None` at the end. O(attributes).
///
/// # Errors
/// See [`MessageError`]. What follows in the datagram is then unknown.
pub fn read(datagram: &[u8], at: usize) -> Result<Option<(Message, usize)>, MessageError> {
    if at >= datagram.len() {
        return Ok(None);
    }
    let cut = |end| MessageError::Cut { at, end, len: datagram.len() };
    let header: &[u8; 16] = datagram[at..].first_chunk().ok_or_else(|| cut(at.saturating_add(16)))?;
    let word = |o: usize| u32::from_ne_bytes([header[o], header[o + 1], header[o + 2], header[o + 3]]);
    let end = at.saturating_add(word(0) as usize);
    if end < at + 16 || end > datagram.len() {
        return Err(cut(end));
    }
    let message = match u16::from_ne_bytes([header[4], header[5]]) {
        PACKET => Message::Packet(packet(&datagram[..end], at)?),
        ERROR => {
            let code = datagram[at + 16..end].first_chunk::<4>().ok_or_else(|| cut(at + 20))?;
            Message::Answer { sequence: word(8), error: i32::from_ne_bytes(*code).saturating_neg() }
        }
        _ => Message::Other,
    };
    Ok(Some((message, at + padded(end - at))))
}

/// The packet of the message that begins `at` and ends with the slice.
fn packet(datagram: &[u8], at: usize) -> Result<Queued, MessageError> {
    let mut number = None;
    let mut queued = Queued {
        id: 0,
        hook: Hook::Other(u8::MAX),
        payload: 0..0,
        cut: false,
        checksum_missing: false,
        several: false,
    };
    let mut next = at + HEADER;
    while let Some(&[a, b, c, d]) = datagram.get(next..).and_then(<[u8]>::first_chunk) {
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let kind = u16::from_ne_bytes([c, d]) & TYPE;
        let body = next + 4..next + len;
        if len < 4 || body.end > datagram.len() {
            return Err(MessageError::Attribute { at: next, len });
        }
        let value = &datagram[body.clone()];
        let short = MessageError::Short { kind, at: next };
        let word = || value.first_chunk().map(|octets| u32::from_be_bytes(*octets)).ok_or(short);
        match kind {
            PACKET_HEADER => {
                // Number, protocol of the link, hook.
                number = Some(word()?);
                queued.hook = Hook::from_number(*value.get(6).ok_or(short)?);
            }
            PAYLOAD => queued.payload = body,
            FULL_LENGTH => queued.cut = true,
            PACKET_INFO => {
                let bits = word()?;
                queued.checksum_missing = bits & CHECKSUM_NOT_READY != 0;
                queued.several = bits & SEVERAL_SEGMENTS != 0;
            }
            _ => {}
        }
        next += padded(len);
    }
    queued.id = number.ok_or(MessageError::NoNumber { at })?;
    Ok(queued)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
