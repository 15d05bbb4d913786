//! The objects inside Named ClientSI and Named Decision Data (RFC 3084 §4).
//!
//! ```text
//! +-------------------------------+---------------+---------------+
//! | length, octets, with this head|     S-Num     |    S-Type     |
//! +-------------------------------+---------------+---------------+
//! |  contents …                     zeros up to a multiple of 4, which the length does not count
//! ```

use super::ber::{Oid, Value};
use super::{ClassCode, GlobalCode, Malformed};
use crate::wire::object::put;
use crate::wire::{Opaque, TooLong};

/// Octets of a head.
const HEAD: usize = 4;
/// The S-Type there is.
const BER: u8 = 1;
/// S-Nums.
const PRID: u8 = 1;
const PPRID: u8 = 2;
const EPD: u8 = 3;
const GPERR: u8 = 4;
const CPERR: u8 = 5;
const ERROR_PRID: u8 = 6;

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// PRID: the name of an instance.
    Prid(Oid),
    /// PPRID: the names of all instances that begin so.
    Prefix(Oid),
    /// EPD: the attributes of an instance.
    Data(Vec<Value>),
    /// GPERR: an error of no class, with more of it.
    Global(GlobalCode, u16),
    /// CPERR: an error of a class, with more of it.
    Class(ClassCode, u16),
    /// ErrorPRID: the instance of an error.
    ErrorPrid(Oid),
}

/// All objects in data.
///
/// # Errors
/// The first thing that is wrong with them, with its place in the data.
pub fn read_all(data: &[u8]) -> Result<Vec<Object>, Malformed> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let rest = &data[at..];
        let &[high, low, s_num, s_type] = rest.first_chunk::<HEAD>().ok_or(Malformed::Cut { at })?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let whole = length.next_multiple_of(HEAD);
        if length < HEAD || whole > rest.len() {
            return Err(Malformed::Cut { at });
        }
        if rest[length..whole].iter().any(|octet| *octet != 0) {
            return Err(Malformed::Padding { at: at + length });
        }
        all.push(object(s_num, s_type, &rest[HEAD..length], at)?);
        at += whole;
    }
    Ok(all)
}

fn object(s_num: u8, s_type: u8, contents: &[u8], at: usize) -> Result<Object, Malformed> {
    if !(PRID..=ERROR_PRID).contains(&s_num) || s_type != BER {
        return Err(Malformed::Unknown { s_num, s_type, at });
    }
    let name = || {
        let mut rest = contents;
        match (Value::read(&mut rest, at + HEAD)?, rest.is_empty()) {
            (Value::Oid(oid), true) => Ok(oid),
            _ => Err(Malformed::Value { at }),
        }
    };
    let error = || match *contents {
        [a, b, c, d] => Ok((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        _ => Err(Malformed::Value { at }),
    };
    Ok(match s_num {
        PRID => Object::Prid(name()?),
        PPRID => Object::Prefix(name()?),
        ERROR_PRID => Object::ErrorPrid(name()?),
        GPERR => error().map(|(code, sub)| Object::Global(GlobalCode(code), sub))?,
        CPERR => error().map(|(code, sub)| Object::Class(ClassCode(code), sub))?,
        _ => {
            let (mut values, mut rest) = (Vec::new(), contents);
            while !rest.is_empty() {
                let place = at + HEAD + contents.len() - rest.len();
                values.push(Value::read(&mut rest, place)?);
            }
            Object::Data(values)
        }
    })
}

/// Objects as data.
///
/// # Errors
/// They are more than an object of COPS can hold.
pub fn write_all(objects: &[Object]) -> Result<Opaque, TooLong> {
    let mut out = Vec::new();
    for object in objects {
        let (s_num, contents) = contents(object);
        if contents.len() > crate::wire::MAX_CONTENTS {
            return Err(TooLong { length: contents.len() });
        }
        put(&mut out, s_num, BER, |out| out.extend(contents));
    }
    Opaque::new(out)
}

fn contents(object: &Object) -> (u8, Vec<u8>) {
    let mut out = Vec::new();
    let mut error = |code: u16, sub: u16| {
        out.extend(code.to_be_bytes());
        out.extend(sub.to_be_bytes());
    };
    let s_num = match object {
        Object::Global(code, sub) => {
            error(code.0, *sub);
            GPERR
        }
        Object::Class(code, sub) => {
            error(code.0, *sub);
            CPERR
        }
        Object::Prid(oid) | Object::Prefix(oid) | Object::ErrorPrid(oid) => {
            Value::Oid(oid.clone()).write(&mut out);
            match object {
                Object::Prid(_) => PRID,
                Object::Prefix(_) => PPRID,
                _ => ERROR_PRID,
            }
        }
        Object::Data(values) => {
            values.iter().for_each(|value| value.write(&mut out));
            EPD
        }
    };
    (s_num, out)
}
