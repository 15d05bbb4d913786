//! Seconds between keep-alives and between accounting reports (RFC 2748 §2.2.10, §2.2.15).

use super::Malformed;
use super::object::{Object, put_pair};

/// Reads either timer; what is reserved is passed over.
pub(super) fn read(object: &Object<'_>) -> Result<u16, Malformed> {
    if object.c_type != 1 {
        return Err(object.unknown());
    }
    object.pair().map(|(_, seconds)| seconds)
}

/// Appends the timer of this number.
pub(super) fn write(out: &mut Vec<u8>, c_num: u8, seconds: u16) {
    put_pair(out, c_num, 0, seconds);
}
