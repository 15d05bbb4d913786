//! What only the client-type understands (RFC 2748 §2.2.9).

use super::object::{Object, c_num, put};
use super::{Malformed, Opaque};

/// Client specific information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientSi {
    /// From signalling, or of the PEP's state.
    Signaled(Opaque),
    /// Configuration by name.
    Named(Opaque),
}

impl ClientSi {
    /// The contents, whichever it is.
    pub fn contents(&self) -> &Opaque {
        match self {
            Self::Signaled(contents) | Self::Named(contents) => contents,
        }
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        match object.c_type {
            1 => Ok(Self::Signaled(object.opaque())),
            2 => Ok(Self::Named(object.opaque())),
            _ => Err(object.unknown()),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let c_type = if matches!(self, Self::Signaled(_)) { 1 } else { 2 };
        put(out, c_num::CLIENT_SI, c_type, |out| out.extend(self.contents().octets()));
    }
}
