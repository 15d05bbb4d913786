//! Proof that a message is whole, and the wish for TLS (RFC 2748 §2.2.16, RFC 4261 §4.1).
//!
//! The digest is HMAC-MD5 cut to 96 bits (RFC 2104) over the message up to the digest.

use super::header::HEADER;
use super::object::{HEAD, Object, c_num, put};
use super::{Malformed, Message};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;

/// Octets of the digest.
pub const DIGEST: usize = 12;
/// C-Types.
pub(crate) const HMAC: u8 = 1;
pub(crate) const TLS: u8 = 2;
/// Of the flags: begin TLS.
const START_TLS: u16 = 1;

/// What the last object of a message says of security.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// A digest.
    Hmac {
        /// Which key.
        key_id: u32,
        /// Which message of this direction.
        sequence: u32,
        /// The digest.
        digest: [u8; DIGEST],
    },
    /// The sender wishes to begin TLS. In OPN and CAT of client-type 0 only.
    StartTls,
}

impl Integrity {
    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        match object.c_type {
            HMAC => {
                let octets: [u8; 8 + DIGEST] = object.fixed()?;
                let [a, b, c, d, e, f, g, h, digest @ ..] = octets;
                let key_id = u32::from_be_bytes([a, b, c, d]);
                Ok(Self::Hmac { key_id, sequence: u32::from_be_bytes([e, f, g, h]), digest })
            }
            TLS if object.pair()?.1 & START_TLS != 0 => Ok(Self::StartTls),
            TLS => Err(object.wrong()),
            _ => Err(object.unknown()),
        }
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Hmac { key_id, sequence, digest } => put(out, c_num::INTEGRITY, HMAC, |out| {
                out.extend(key_id.to_be_bytes());
                out.extend(sequence.to_be_bytes());
                out.extend(digest);
            }),
            Self::StartTls => put(out, c_num::INTEGRITY, TLS, |out| {
                out.extend([0, 0]);
                out.extend(START_TLS.to_be_bytes());
            }),
        }
    }
}

fn hmac_of(secret: &[u8]) -> Hmac<Md5> {
    Hmac::new_from_slice(secret).expect("HMAC takes a key of any length")
}

impl Message {
    /// As octets with a digest. What [`Message::integrity`] says does not count.
    pub fn sealed(&self, key_id: u32, secret: &[u8], sequence: u32) -> Vec<u8> {
        let integrity = Some(Integrity::Hmac { key_id, sequence, digest: [0; DIGEST] });
        let mut bytes = Self { integrity, ..self.clone() }.to_bytes();
        let covered = bytes.len() - DIGEST;
        let digest = hmac_of(secret).chain_update(&bytes[..covered]).finalize().into_bytes();
        bytes[covered..].copy_from_slice(&digest[..DIGEST]);
        bytes
    }

    /// Whether a message that ends with a digest was sealed with this secret. In constant time.
    pub fn is_sealed_with(bytes: &[u8], secret: &[u8]) -> bool {
        match bytes.split_last_chunk::<DIGEST>() {
            Some((covered, digest)) if covered.len() >= HEADER + HEAD => {
                hmac_of(secret).chain_update(covered).verify_truncated_left(digest).is_ok()
            }
            _ => false,
        }
    }
}
