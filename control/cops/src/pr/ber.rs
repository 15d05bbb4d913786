//! Values by the basic encoding rules, as many types as COPS-PR needs (RFC 3084 §4.1, §4.3; RFC 2578 §7.1).

use super::Malformed;

/// Most parts of an object identifier (RFC 2578 §3.5).
pub const MAX_ARCS: usize = 128;

/// Tags.
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT_IDENTIFIER: u8 = 0x06;
const IP_ADDRESS: u8 = 0x40;
const UNSIGNED: u8 = 0x42;

/// An object identifier: 2 to [`MAX_ARCS`] parts, the first two as X.660 has them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(Vec<u32>);

impl Oid {
    /// Of its parts; `None` if they are none of an object identifier.
    pub fn new(arcs: Vec<u32>) -> Option<Self> {
        let fits = match arcs.as_slice() {
            [0 | 1, second, ..] => *second < 40,
            // The first two are one number on the wire.
            [2, second, ..] => *second <= u32::MAX - 80,
            _ => false,
        };
        (fits && arcs.len() <= MAX_ARCS).then_some(Self(arcs))
    }

    /// Its parts.
    pub fn arcs(&self) -> &[u32] {
        &self.0
    }

    /// Whether it begins with all of another, or is the same.
    pub fn is_under(&self, prefix: &Self) -> bool {
        self.0.starts_with(&prefix.0)
    }

    fn read(contents: &[u8]) -> Option<Self> {
        if contents.last().is_none_or(|octet| octet & 0x80 != 0) {
            return None;
        }
        let (mut arcs, mut number) = (Vec::new(), 0u32);
        for octet in contents {
            number = number.checked_mul(128)? | u32::from(octet & 0x7f);
            if octet & 0x80 != 0 {
                continue;
            }
            if arcs.is_empty() {
                let first = (number / 40).min(2);
                arcs.extend([first, number - first * 40]);
            } else {
                arcs.push(number);
            }
            number = 0;
        }
        Self::new(arcs)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (head, rest) = self.0.split_at(2);
        for number in [head[0] * 40 + head[1]].iter().chain(rest) {
            let groups = (32 - number.leading_zeros()).div_ceil(7).max(1);
            for group in (0..groups).rev() {
                let more = if group > 0 { 0x80 } else { 0 };
                out.push(more | (number >> (7 * group)) as u8 & 0x7f);
            }
        }
    }
}

impl std::fmt::Display for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().enumerate().try_for_each(|(i, arc)| write!(f, "{}{arc}", if i > 0 { "." } else { "" }))
    }
}

/// An attribute of a provisioning instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// INTEGER of 32 bits: numbers, enumerations and truth values.
    Integer(i32),
    /// OCTET STRING.
    Octets(Vec<u8>),
    /// NULL: the attribute is not supported.
    Null,
    /// OBJECT IDENTIFIER.
    Oid(Oid),
    /// IpAddress.
    Address([u8; 4]),
    /// Unsigned32.
    Unsigned(u32),
}

impl Value {
    /// Reads the next value and takes it from the front. `at` is the place of the first octet, for errors.
    pub(super) fn read(bytes: &mut &[u8], at: usize) -> Result<Self, Malformed> {
        let (tag, contents) = split(bytes, at)?;
        let wrong = || Malformed::Length { at };
        Ok(match tag {
            INTEGER => {
                Self::Integer(i32::try_from(integer(contents, 4).ok_or_else(wrong)?).map_err(|_| wrong())?)
            }
            OCTET_STRING => Self::Octets(contents.to_vec()),
            NULL if contents.is_empty() => Self::Null,
            NULL => return Err(wrong()),
            OBJECT_IDENTIFIER => Self::Oid(Oid::read(contents).ok_or_else(wrong)?),
            IP_ADDRESS => Self::Address(contents.try_into().map_err(|_| wrong())?),
            UNSIGNED => {
                Self::Unsigned(u32::try_from(integer(contents, 5).ok_or_else(wrong)?).map_err(|_| wrong())?)
            }
            tag => return Err(Malformed::Tag { tag, at }),
        })
    }

    /// Appends it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(number) => put(out, INTEGER, shortest(&i64::from(*number).to_be_bytes())),
            Self::Unsigned(number) => put(out, UNSIGNED, shortest(&i64::from(*number).to_be_bytes())),
            Self::Octets(octets) => put(out, OCTET_STRING, octets),
            Self::Null => put(out, NULL, &[]),
            Self::Address(address) => put(out, IP_ADDRESS, address),
            Self::Oid(oid) => {
                let mut contents = Vec::new();
                oid.write(&mut contents);
                put(out, OBJECT_IDENTIFIER, &contents);
            }
        }
    }
}

/// Tag and contents of the next value. Lengths are definite, of up to two octets.
fn split<'a>(bytes: &mut &'a [u8], at: usize) -> Result<(u8, &'a [u8]), Malformed> {
    let wrong = Malformed::Length { at };
    let (&[tag, first], rest) = bytes.split_first_chunk().ok_or(wrong)?;
    let (length, rest) = match (first, rest) {
        (0..=0x7f, rest) => (usize::from(first), rest),
        (0x81, [length, rest @ ..]) => (usize::from(*length), rest),
        (0x82, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        _ => return Err(wrong),
    };
    let (contents, rest) = rest.split_at_checked(length).ok_or(wrong)?;
    *bytes = rest;
    Ok((tag, contents))
}

/// A number in two's complement of 1 to `most` octets.
fn integer(contents: &[u8], most: usize) -> Option<i64> {
    if contents.len() > most {
        return None;
    }
    let sign = if contents.first()? & 0x80 != 0 { -1 } else { 0 };
    Some(contents.iter().fold(sign, |number, octet| number << 8 | i64::from(*octet)))
}

/// Without the octets at the front that say nothing.
fn shortest(octets: &[u8]) -> &[u8] {
    let needless = |pair: &[u8]| matches!((pair[0], pair[1] & 0x80), (0, 0) | (0xff, 0x80));
    let skip = octets.windows(2).take_while(|pair| needless(pair)).count();
    &octets[skip..]
}

fn put(out: &mut Vec<u8>, tag: u8, contents: &[u8]) {
    out.push(tag);
    match contents.len() {
        length @ 0..=0x7f => out.push(length as u8),
        length @ 0x80..=0xff => out.extend([0x81, length as u8]),
        length => {
            out.push(0x82);
            out.extend((length as u16).to_be_bytes());
        }
    }
    out.extend(contents);
}
