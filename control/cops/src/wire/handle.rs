//! Client handles (RFC 2748 §2.2.1, §2.4): what a PEP calls a request of its own.

use super::object::{Object, c_num, put};
use super::{MAX_HANDLE, Malformed};
use std::fmt;

/// A handle: 1 to [`MAX_HANDLE`] octets that mean nothing to a PDP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(Box<[u8]>);

impl Handle {
    /// Of octets; `None` if there are none or too many.
    pub fn new(octets: &[u8]) -> Option<Self> {
        (1..=MAX_HANDLE).contains(&octets.len()).then(|| Self(octets.into()))
    }

    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// The number of which [`From`] makes one; `None` if it was made otherwise.
    pub fn number(&self) -> Option<u64> {
        self.0.as_ref().try_into().ok().map(u64::from_be_bytes)
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        match (object.c_type, Self::new(object.contents)) {
            (1, Some(handle)) => Ok(handle),
            (1, None) => Err(Malformed::Handle { at: object.at }),
            _ => Err(object.unknown()),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, c_num::HANDLE, 1, |out| out.extend(&self.0));
    }
}

impl From<u64> for Handle {
    fn from(number: u64) -> Self {
        Self(Box::new(number.to_be_bytes()))
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}
