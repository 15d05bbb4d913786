//! What both ends of a connection have in common: framing, integrity, keep-alive.
//!
//! The link of an idle connection has no buffer.

mod jitter;
mod keep_alive;
mod keyring;
pub(crate) mod seal;

pub(crate) use jitter::Jitter;
pub(crate) use keep_alive::KeepAlive;
pub use keyring::{Key, Keyring};

use crate::wire::{Error, ErrorCode, Fault, Frames, Message};
use perhop_units::Instant;
use seal::Seal;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    frames: Frames,
    seal: Option<Box<Seal>>,
    pub(crate) keep_alive: KeepAlive,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Incoming {
    Message(Message, Vec<u8>),
    Fault(Fault),
    /// The connection is of no use any more, and why.
    Broken(Error),
}

impl Link {
    pub(crate) fn new(now: Instant) -> Self {
        Self { frames: Frames::default(), seal: None, keep_alive: KeepAlive::new(now) }
    }

    /// All messages from now on have digests.
    pub(crate) fn protect(&mut self, seal: Seal) {
        self.seal = Some(Box::new(seal));
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.frames.push(bytes);
    }

    /// Octets that have come and are no whole message.
    pub(crate) fn held(&self) -> usize {
        self.frames.held()
    }

    /// The next message; one that proves nothing where proof is asked for is not looked at.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Incoming> {
        let frame = match self.frames.next() {
            Ok(frame) => frame?,
            Err(_) => return Some(Incoming::Broken(Error::of(ErrorCode::BAD_MESSAGE_FORMAT))),
        };
        if let Some(seal) = &mut self.seal
            && let Err(error) = seal.check(now, &frame.bytes)
        {
            return Some(Incoming::Broken(error));
        }
        self.keep_alive.heard(now);
        Some(match frame.message {
            Ok(message) => Incoming::Message(message, frame.bytes),
            Err(fault) => Incoming::Fault(fault),
        })
    }

    /// A message as it is sent.
    pub(crate) fn encode(&mut self, now: Instant, message: &Message) -> Vec<u8> {
        match &mut self.seal {
            Some(seal) => seal.seal(now, message),
            None => message.to_bytes(),
        }
    }
}
