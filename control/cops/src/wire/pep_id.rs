//! Who a PEP is (RFC 2748 §2.2.11).

use super::object::{Object, c_num, put};
use super::{MAX_PEP_ID, Malformed};
use std::fmt;
use std::sync::Arc;

/// A name that stays the same when the PEP restarts: 1 to [`MAX_PEP_ID`] characters of ASCII, none of them zero. Cheap to
/// clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PepId(Arc<str>);

impl PepId {
    /// Of a text; `None` if it is no such name.
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=MAX_PEP_ID).contains(&text.len()) && text.is_ascii() && !text.contains('\0');
        fits.then(|| Self(text.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// It ends at the first zero, and there must be one. The RFC wants zeros behind it up to a multiple of 4; a length
    /// that leaves them out is taken too.
    pub(super) fn read(object: &Object<'_>) -> Result<Self, Malformed> {
        if object.c_type != 1 {
            return Err(object.unknown());
        }
        let end = object.contents.iter().position(|octet| *octet == 0).ok_or_else(|| object.wrong())?;
        let text = std::str::from_utf8(&object.contents[..end]).map_err(|_| object.wrong())?;
        Self::new(text).ok_or_else(|| object.wrong())
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, c_num::PEP_ID, 1, |out| {
            out.extend(self.0.as_bytes());
            let zeros = 4 - self.0.len() % 4;
            out.extend(std::iter::repeat_n(0, zeros));
        });
    }
}

impl fmt::Display for PepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
