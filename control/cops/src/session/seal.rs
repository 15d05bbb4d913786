//! Integrity of a connection's messages (RFC 2748 §4.1): each end counts the other's messages from a number of its own.

use super::keyring::Keyring;
use crate::wire::integrity::HMAC;
use crate::wire::{DIGEST, Error, ErrorCode, Message};
use perhop_units::Instant;
use std::sync::Arc;

/// The numbers of both directions and the keys.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    keyring: Arc<Keyring>,
    /// Of the next message that is sent.
    next_out: u32,
    /// Of the next message that must come.
    next_in: u32,
}

/// The object at the end of a sealed message.
struct Tail {
    key_id: u32,
    sequence: u32,
}

impl Tail {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (front, _) = bytes.split_last_chunk::<DIGEST>()?;
        let &[high, low, c_num, c_type, a, b, c, d, e, f, g, h] = front.last_chunk()?;
        let is = [high, low, c_num, c_type] == [0, 12 + DIGEST as u8, 16, HMAC];
        let (key_id, sequence) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        is.then_some(Self { key_id, sequence })
    }
}

/// Checks a message's digest; gives its number.
pub(crate) fn check(keyring: &Keyring, now: Instant, bytes: &[u8]) -> Result<u32, Error> {
    let tail = Tail::of(bytes).ok_or(Error::security_wanted(HMAC))?;
    let failure = Error::of(ErrorCode::AUTHENTICATION_FAILURE);
    let key = keyring.accepting(now, tail.key_id).ok_or(failure)?;
    if Message::is_sealed_with(bytes, &key.secret) { Ok(tail.sequence) } else { Err(failure) }
}

/// A message of number `sequence`, sealed. Without a valid key it goes without a digest, and the other end refuses it.
pub(crate) fn seal(keyring: &Keyring, now: Instant, message: &Message, sequence: u32) -> Vec<u8> {
    match keyring.sending(now) {
        Some(key) => message.sealed(key.id, &key.secret, sequence),
        None => message.to_bytes(),
    }
}

impl Seal {
    /// After the exchange of OPN and CAT: `theirs` is the number that the other end gave, `ours` the one that it was given.
    pub(crate) fn new(keyring: Arc<Keyring>, theirs: u32, ours: u32) -> Self {
        Self { keyring, next_out: theirs.wrapping_add(1), next_in: ours.wrapping_add(1) }
    }

    pub(crate) fn seal(&mut self, now: Instant, message: &Message) -> Vec<u8> {
        let sequence = self.next_out;
        self.next_out = sequence.wrapping_add(1);
        seal(&self.keyring, now, message, sequence)
    }

    pub(crate) fn check(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Error> {
        if check(&self.keyring, now, bytes)? != self.next_in {
            return Err(Error::of(ErrorCode::AUTHENTICATION_FAILURE));
        }
        self.next_in = self.next_in.wrapping_add(1);
        Ok(())
    }
}
