//! Objects: the frame of everything in a message (RFC 2748 §2.2).
//!
//! ```text
//! +-------------------------------+---------------+---------------+
//! | length, octets, with this head|     C-Num     |    C-Type     |
//! +-------------------------------+---------------+---------------+
//! |  contents …                     up to a multiple of 4, which the length does not count
//! ```

use super::Malformed;
use thiserror::Error;

/// Octets of an object's head.
pub(crate) const HEAD: usize = 4;
/// Most octets that an object may hold.
pub const MAX_CONTENTS: usize = u16::MAX as usize - HEAD;

/// Numbers of objects.
pub(crate) mod c_num {
    pub(crate) const HANDLE: u8 = 1;
    pub(crate) const CONTEXT: u8 = 2;
    pub(crate) const IN_INTERFACE: u8 = 3;
    pub(crate) const OUT_INTERFACE: u8 = 4;
    pub(crate) const REASON: u8 = 5;
    pub(crate) const DECISION: u8 = 6;
    pub(crate) const LPDP_DECISION: u8 = 7;
    pub(crate) const ERROR: u8 = 8;
    pub(crate) const CLIENT_SI: u8 = 9;
    pub(crate) const KA_TIMER: u8 = 10;
    pub(crate) const PEP_ID: u8 = 11;
    pub(crate) const REPORT_TYPE: u8 = 12;
    pub(crate) const PDP_REDIRECT: u8 = 13;
    pub(crate) const LAST_PDP: u8 = 14;
    pub(crate) const ACCT_TIMER: u8 = 15;
    pub(crate) const INTEGRITY: u8 = 16;
}

/// The RFC's name of an object; none = it is not known.
pub const fn object_name(c_num: u8) -> Option<&'static str> {
    Some(match c_num {
        c_num::HANDLE => "Handle",
        c_num::CONTEXT => "Context",
        c_num::IN_INTERFACE => "IN-Int",
        c_num::OUT_INTERFACE => "OUT-Int",
        c_num::REASON => "Reason",
        c_num::DECISION => "Decision",
        c_num::LPDP_DECISION => "LPDPDecision",
        c_num::ERROR => "Error",
        c_num::CLIENT_SI => "ClientSI",
        c_num::KA_TIMER => "KATimer",
        c_num::PEP_ID => "PEPID",
        c_num::REPORT_TYPE => "Report-Type",
        c_num::PDP_REDIRECT => "PDPRedirAddr",
        c_num::LAST_PDP => "LastPDPAddr",
        c_num::ACCT_TIMER => "AcctTimer",
        c_num::INTEGRITY => "Integrity",
        _ => return None,
    })
}

/// More than an object can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{length} octets; an object holds {MAX_CONTENTS}")]
pub struct TooLong {
    /// How many there were.
    pub length: usize,
}

/// Contents that only a client-type understands: at most [`MAX_CONTENTS`] octets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Opaque(Vec<u8>);

impl Opaque {
    /// Of octets.
    ///
    /// # Errors
    /// There are too many.
    pub fn new(octets: Vec<u8>) -> Result<Self, TooLong> {
        if octets.len() > MAX_CONTENTS { Err(TooLong { length: octets.len() }) } else { Ok(Self(octets)) }
    }

    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.0
    }
}

/// An object, read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a> {
    pub(crate) c_num: u8,
    pub(crate) c_type: u8,
    /// Place of its head in the message.
    pub(crate) at: usize,
    pub(crate) contents: &'a [u8],
}

impl<'a> Object<'a> {
    /// Contents of a fixed length.
    pub(super) fn fixed<const N: usize>(&self) -> Result<[u8; N], Malformed> {
        self.contents.try_into().map_err(|_| self.wrong())
    }

    /// Two numbers of two octets each.
    pub(super) fn pair(&self) -> Result<(u16, u16), Malformed> {
        self.fixed().map(|[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// What [`Opaque`] holds.
    pub(super) fn opaque(&self) -> Opaque {
        Opaque(self.contents.to_vec())
    }

    /// The contents are none of this object.
    pub(super) fn wrong(&self) -> Malformed {
        Malformed::Value { c_num: self.c_num, at: self.at }
    }

    /// There is no such object, or not of this C-Type.
    pub(super) fn unknown(&self) -> Malformed {
        Malformed::UnknownObject { c_num: self.c_num, c_type: self.c_type, at: self.at }
    }
}

/// Takes objects from the front of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Objects<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Objects<'a> {
    /// `at`: place of the first octet in the message.
    pub(crate) fn of(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    fn front(&self) -> Result<Option<(Object<'a>, Self)>, Malformed> {
        let Some(&[high, low, c_num, c_type]) = self.bytes.first_chunk::<HEAD>() else {
            return if self.bytes.is_empty() { Ok(None) } else { Err(Malformed::Cut { at: self.at }) };
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let whole = length.next_multiple_of(HEAD);
        if length < HEAD || whole > self.bytes.len() {
            return Err(Malformed::Cut { at: self.at });
        }
        let rest = Self { bytes: &self.bytes[whole..], at: self.at + whole };
        Ok(Some((Object { c_num, c_type, at: self.at, contents: &self.bytes[HEAD..length] }, rest)))
    }

    /// The next object, whatever it is.
    pub(crate) fn next(&mut self) -> Result<Option<Object<'a>>, Malformed> {
        let Some((object, rest)) = self.front()? else { return Ok(None) };
        *self = rest;
        Ok(Some(object))
    }

    /// The next object if it is of this number.
    pub(super) fn take(&mut self, c_num: u8) -> Result<Option<Object<'a>>, Malformed> {
        match self.front()? {
            Some((object, rest)) if object.c_num == c_num => {
                *self = rest;
                Ok(Some(object))
            }
            Some((object, _)) if object_name(object.c_num).is_none() => Err(object.unknown()),
            _ => Ok(None),
        }
    }

    /// The next object, which must be of this number.
    pub(super) fn need(&mut self, c_num: u8) -> Result<Object<'a>, Malformed> {
        self.take(c_num)?.ok_or(Malformed::Missing { c_num, at: self.at })
    }

    /// That nothing is left.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        match self.front()? {
            None => Ok(()),
            Some((object, _)) if object_name(object.c_num).is_none() => Err(object.unknown()),
            Some((object, _)) => Err(Malformed::Unexpected { c_num: object.c_num, at: object.at }),
        }
    }
}

/// Appends an object whose contents `write` appends.
pub(crate) fn put(out: &mut Vec<u8>, c_num: u8, c_type: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0, 0, c_num, c_type]);
    write(out);
    let length = out.len() - at;
    debug_assert!(length <= usize::from(u16::MAX), "what goes into an object is bounded by its type");
    out[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    out.resize(at + length.next_multiple_of(HEAD), 0);
}

/// Appends an object of two numbers of two octets each.
pub(super) fn put_pair(out: &mut Vec<u8>, c_num: u8, first: u16, second: u16) {
    put(out, c_num, 1, |out| {
        out.extend(first.to_be_bytes());
        out.extend(second.to_be_bytes());
    });
}
