//! Proof of the sender: authenticators of requests and answers, and the attribute Message-Authenticator.
//!
//! A request's authenticator is MD5(code, id, length, 16 zeros, attributes, secret), an answer's the same with the request's
//! authenticator for the zeros (RFC 2866 section 3, RFC 5176 section 2.3). Message-Authenticator is HMAC-MD5 of the packet with
//! that in the place of the authenticator and zeros in its own, made before the authenticator is (RFC 3579 section 3.2,
//! RFC 5176 section 3.4). MD5 alone is forgeable with a chosen prefix; HMAC-MD5 is not, so the attribute is required wherever
//! the other side can send it.

use crate::attribute::{Attribute, kind};
use crate::packet::{Code, HEAD, Malformed, Packet, TooLong, whole};
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use std::fmt;
use std::ops::Range;
use thiserror::Error;

/// What two sides share. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// 1 to 256 octets; `None` of others: an empty one proves nothing.
    pub fn new(octets: &[u8]) -> Option<Self> {
        (1..=256).contains(&octets.len()).then(|| Self(octets.to_vec()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A packet does not prove that who sent it has the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsigned {
    /// It is none.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Its authenticator is another.
    #[error("the authenticator is wrong: another secret, or a changed packet")]
    Authenticator,
    /// It has no Message-Authenticator, and must have one.
    #[error("there is no Message-Authenticator")]
    Missing,
    /// Its Message-Authenticator is another, has another length, or is there twice.
    #[error("the Message-Authenticator is wrong")]
    MessageAuthenticator,
}

/// A request, signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The datagram.
    pub bytes: Vec<u8>,
    /// With which its answer is checked.
    pub authenticator: [u8; 16],
}

/// Makes a request with a Message-Authenticator, which goes first. One in `attributes` is left out.
///
/// # Errors
/// [`TooLong`].
pub fn request(
    code: Code,
    identifier: u8,
    attributes: &[Attribute],
    secret: &Secret,
) -> Result<Signed, TooLong> {
    let bytes = sign(code, identifier, attributes, &[0; 16], secret, true)?;
    let mut authenticator = [0; 16];
    authenticator.copy_from_slice(&bytes[4..HEAD]);
    Ok(Signed { bytes, authenticator })
}

/// Makes an answer to the request with this authenticator; with a Message-Authenticator if `proven`.
///
/// # Errors
/// [`TooLong`].
pub fn response(
    code: Code,
    identifier: u8,
    attributes: &[Attribute],
    of: &[u8; 16],
    secret: &Secret,
    proven: bool,
) -> Result<Vec<u8>, TooLong> {
    sign(code, identifier, attributes, of, secret, proven)
}

/// Checks a request; `required`: it must have a Message-Authenticator. One that is there must always be right.
///
/// # Errors
/// [`Unsigned`].
pub fn check_request(datagram: &[u8], secret: &Secret, required: bool) -> Result<(), Unsigned> {
    check(datagram, &[0; 16], secret, required)
}

/// Checks the answer to the request with this authenticator.
///
/// # Errors
/// [`Unsigned`].
pub fn check_response(
    datagram: &[u8],
    of: &[u8; 16],
    secret: &Secret,
    required: bool,
) -> Result<(), Unsigned> {
    check(datagram, of, secret, required)
}

fn sign(
    code: Code,
    identifier: u8,
    attributes: &[Attribute],
    seed: &[u8; 16],
    secret: &Secret,
    proven: bool,
) -> Result<Vec<u8>, TooLong> {
    let own = proven.then(|| Attribute::octets(kind::MESSAGE_AUTHENTICATOR, &[0; 16]));
    let others = attributes.iter().filter(|a| a.kind != kind::MESSAGE_AUTHENTICATOR).cloned();
    let packet = Packet {
        code,
        identifier,
        authenticator: *seed,
        attributes: own.into_iter().chain(others).collect(),
    };
    let mut bytes = packet.write()?;
    if proven {
        let proof = mac(&bytes, seed, None, secret).finalize().into_bytes();
        bytes[HEAD + 2..HEAD + 18].copy_from_slice(&proof);
    }
    let authenticator = digest(&bytes, seed, secret);
    bytes[4..HEAD].copy_from_slice(&authenticator);
    Ok(bytes)
}

fn check(datagram: &[u8], seed: &[u8; 16], secret: &Secret, required: bool) -> Result<(), Unsigned> {
    let bytes = whole(datagram)?;
    let differing = digest(bytes, seed, secret)
        .iter()
        .zip(&bytes[4..HEAD])
        .fold(0, |all, (one, other)| all | (one ^ other));
    if differing != 0 {
        return Err(Unsigned::Authenticator);
    }
    match proof_in(bytes)? {
        None if required => Err(Unsigned::Missing),
        None => Ok(()),
        Some(at) => mac(bytes, seed, Some(at.clone()), secret)
            .verify_slice(&bytes[at])
            .map_err(|_| Unsigned::MessageAuthenticator),
    }
}

/// Where the value of the one Message-Authenticator is.
fn proof_in(bytes: &[u8]) -> Result<Option<Range<usize>>, Unsigned> {
    let (mut at, mut found) = (HEAD, None);
    while let Some(head) = bytes.get(at..at + 2) {
        let length = usize::from(head[1]);
        if length < 2 || at + length > bytes.len() {
            return Err(Malformed::Attribute { at }.into());
        }
        if head[0] == kind::MESSAGE_AUTHENTICATOR {
            if length != 18 || found.is_some() {
                return Err(Unsigned::MessageAuthenticator);
            }
            found = Some(at + 2..at + length);
        }
        at += length;
    }
    if at == bytes.len() { Ok(found) } else { Err(Malformed::Attribute { at }.into()) }
}

/// Of the packet with `seed` for its authenticator and zeros at `zeros`.
fn mac(bytes: &[u8], seed: &[u8; 16], zeros: Option<Range<usize>>, secret: &Secret) -> Hmac<Md5> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Md5>::new_from_slice(&secret.0).expect("a key of any length");
    mac.update(&bytes[..4]);
    mac.update(seed);
    match zeros {
        None => mac.update(&bytes[HEAD..]),
        Some(at) => {
            mac.update(&bytes[HEAD..at.start]);
            mac.update(&[0; 16]);
            mac.update(&bytes[at.end..]);
        }
    }
    mac
}

/// A request with the authenticator that it needs, and what Message-Authenticator it has made right.
pub(crate) fn sealed(request: &[u8], secret: &Secret) -> Vec<u8> {
    let mut bytes = request.to_vec();
    bytes[4..HEAD].fill(0);
    if let Ok(Some(at)) = proof_in(&bytes) {
        let proof = mac(&bytes, &[0; 16], Some(at.clone()), secret).finalize().into_bytes();
        bytes[at].copy_from_slice(&proof);
    }
    let authenticator = digest(&bytes, &[0; 16], secret);
    bytes[4..HEAD].copy_from_slice(&authenticator);
    bytes
}

fn digest(bytes: &[u8], seed: &[u8; 16], secret: &Secret) -> [u8; 16] {
    let digest = Md5::new().chain_update(&bytes[..4]).chain_update(seed).chain_update(&bytes[HEAD..]);
    digest.chain_update(&secret.0).finalize().into()
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
