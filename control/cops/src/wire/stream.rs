//! Messages out of a stream of octets.

use super::header::{HEADER, Header};
use super::{Fault, MAX_MESSAGE, Message};
use thiserror::Error;

/// Where messages begin can no longer be told: the connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Lost {
    /// Another version.
    #[error("this is no message of COPS version 1")]
    Version,
    /// A length that no message has.
    #[error("a message of {length} octets: it must be a multiple of 4 between {HEADER} and {MAX_MESSAGE}")]
    Length {
        /// What its header says.
        length: u32,
    },
}

/// One message, or what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The message.
    pub message: Result<Message, Fault>,
    /// Its octets.
    pub bytes: Vec<u8>,
}

/// Collects octets until they are messages. It holds at most one message that is not whole, and nothing between two.
#[derive(Debug, Default)]
pub struct Frames {
    held: Vec<u8>,
    /// Of these, what has been given out.
    done: usize,
}

impl Frames {
    /// More octets. O(octets).
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.done);
        self.done = 0;
        self.held.extend_from_slice(bytes);
    }

    /// The next message; `None` until more octets have come.
    ///
    /// # Errors
    /// Its end cannot be told.
    #[expect(clippy::should_implement_trait, reason = "an error ends it")]
    pub fn next(&mut self) -> Result<Option<Frame>, Lost> {
        let rest = &self.held[self.done..];
        let Some(header) = Header::read(rest) else {
            if rest.is_empty() {
                *self = Self::default();
            }
            return Ok(None);
        };
        let Header { length, .. } = header.ok_or(Lost::Version)?;
        let whole = length as usize;
        if !length.is_multiple_of(4) || !(HEADER..=MAX_MESSAGE).contains(&whole) {
            return Err(Lost::Length { length });
        }
        let Some(bytes) = rest.get(..whole) else { return Ok(None) };
        let frame = Frame { message: Message::read(bytes), bytes: bytes.to_vec() };
        self.done += whole;
        Ok(Some(frame))
    }

    /// Octets that are no whole message yet.
    pub fn held(&self) -> usize {
        self.held.len() - self.done
    }
}
