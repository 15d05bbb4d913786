//! Messages out of a stream of octets.

use super::tlv::{HEAD, Head};
use super::{MAX_MESSAGE, Malformed, Message};
use thiserror::Error;

/// Where messages begin can no longer be told: the connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a message of {length} octets; at most {MAX_MESSAGE} are taken")]
pub struct Lost {
    /// What its head says, with the head.
    pub length: u64,
}

/// One message, or why the octets of one are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Transaction and epoch, as far as they could be read.
    pub begin: Option<(u64, u64)>,
    /// The message.
    pub message: Result<Message, Malformed>,
    /// Its octets.
    pub bytes: Vec<u8>,
}

/// Collects octets until they are messages. It holds at most one message that is not whole.
#[derive(Debug, Default)]
pub struct Frames {
    held: Vec<u8>,
    /// Of these, what has been given out.
    done: usize,
}

impl Frames {
    /// More octets. O(octets).
    pub fn push(&mut self, bytes: &[u8]) {
        if self.done > 0 {
            self.held.drain(..self.done);
            self.done = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// The next message; `None` until more octets have come.
    ///
    /// # Errors
    /// Its end cannot be told.
    #[expect(clippy::should_implement_trait, reason = "an error ends it")]
    pub fn next(&mut self) -> Result<Option<Frame>, Lost> {
        let rest = &self.held[self.done..];
        let Some(head) = Head::read(rest) else { return Ok(None) };
        let length = u64::from(head.length).next_multiple_of(4) + HEAD as u64;
        if length > MAX_MESSAGE as u64 {
            return Err(Lost { length });
        }
        let Some(whole) = rest.get(..head.whole()) else { return Ok(None) };
        let value = &whole[HEAD..HEAD + head.length as usize];
        let frame = Frame {
            begin: Message::begin_of(value),
            message: Message::read(head, value),
            bytes: whole.to_vec(),
        };
        self.done += whole.len();
        Ok(Some(frame))
    }

    /// Octets of a message that is not whole yet.
    pub fn held(&self) -> usize {
        self.held.len() - self.done
    }
}
