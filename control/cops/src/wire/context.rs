//! What made a PEP ask (RFC 2748 §2.2.2).

use super::Malformed;
use super::object::{Object, c_num, put_pair};

/// Type of the event, and what the client-type calls its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context {
    /// Bits of the request's type; several only if all ask the same.
    pub r_type: u16,
    /// Of the client-type.
    pub m_type: u16,
}

impl Context {
    /// A message came in, or something is to be admitted.
    pub const ADMISSION: u16 = 1;
    /// Resources are to be allocated.
    pub const ALLOCATION: u16 = 2;
    /// A message goes out.
    pub const OUTGOING: u16 = 4;
    /// Configuration is asked for.
    pub const CONFIGURATION: u16 = 8;

    /// Of a type of request, with message type 0.
    pub const fn of(r_type: u16) -> Self {
        Self { r_type, m_type: 0 }
    }

    /// Whether decisions on it are configuration, which must be reported on (§3.3).
    pub const fn is_configuration(self) -> bool {
        self.r_type & Self::CONFIGURATION != 0
    }

    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        if object.c_type != 1 {
            return Err(object.unknown());
        }
        object.pair().map(|(r_type, m_type)| Self { r_type, m_type })
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        put_pair(out, c_num::CONTEXT, self.r_type, self.m_type);
    }
}
