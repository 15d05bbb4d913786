//! Type-length-values: the frame of everything.
//!
//! ```text
//!  0                   1                   2                   3
//! +-------------------------------+-+-----------------------------+
//! |             type              |M|           0                 |
//! +-------------------------------+-+-----------------------------+
//! |                    length of the value, octets                |
//! +---------------------------------------------------------------+
//! |  value …                            zeros up to a multiple of 4
//! ```
//!
//! All numbers are big-endian. `M`: a receiver that does not know the type must refuse what it is in; without it, it is
//! passed over.

use super::Malformed;

/// Octets of the head.
pub const HEAD: usize = 8;
/// `M`.
const MANDATORY: u16 = 0x8000;

/// A head, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Type.
    pub kind: u16,
    /// Must be understood.
    pub mandatory: bool,
    /// Octets of the value.
    pub length: u32,
}

impl Head {
    /// Reads one; `None` if there are fewer than [`HEAD`] octets.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = *bytes.first_chunk::<HEAD>()?;
        let mandatory = u16::from_be_bytes([c, d]) & MANDATORY != 0;
        Some(Self { kind: u16::from_be_bytes([a, b]), mandatory, length: u32::from_be_bytes([e, f, g, h]) })
    }

    /// Octets with the head and what fills the value up.
    pub fn whole(self) -> usize {
        HEAD + padded(self.length as usize)
    }
}

/// The next multiple of 4.
pub const fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Appends one; `value` writes its value.
pub fn put(out: &mut Vec<u8>, kind: u16, mandatory: bool, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend(kind.to_be_bytes());
    out.extend((if mandatory { MANDATORY } else { 0 }).to_be_bytes());
    let at = out.len();
    out.extend([0; 4]);
    value(out);
    let length = out.len() - at - 4;
    out[at..at + 4].copy_from_slice(&(length as u32).to_be_bytes());
    out.resize(at + 4 + padded(length), 0);
}

/// Those in a value, in order, each with the place of its head in the message.
pub struct Each<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Each<'a> {
    /// `at`: place of the first octet in the message.
    pub fn of(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }
}

impl<'a> Iterator for Each<'a> {
    type Item = Result<(Head, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let at = self.at;
        let Some(head) = Head::read(self.bytes).filter(|head| head.whole() <= self.bytes.len()) else {
            self.bytes = &[];
            return Some(Err(Malformed::Cut { at }));
        };
        let (this, rest) = self.bytes.split_at(head.whole());
        (self.bytes, self.at) = (rest, at + head.whole());
        let (value, fill) = this[HEAD..].split_at(head.length as usize);
        if fill.iter().any(|octet| *octet != 0) {
            return Some(Err(Malformed::NotZero { at: at + HEAD + head.length as usize }));
        }
        Some(Ok((head, Value { bytes: value, kind: head.kind, at: at + HEAD })))
    }
}

/// A value that is read from its front.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    bytes: &'a [u8],
    kind: u16,
    at: usize,
}

impl<'a> Value<'a> {
    /// The next octets.
    ///
    /// # Errors
    /// There are not so many.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((front, rest)) = self.bytes.split_first_chunk::<N>() else { return Err(self.wrong()) };
        (self.bytes, self.at) = (rest, self.at + N);
        Ok(*front)
    }

    /// The next octet.
    ///
    /// # Errors
    /// There is none.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.take::<1>().map(|[octet]| octet)
    }
    /// A number of two octets.
    ///
    /// # Errors
    /// There are not so many.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }
    /// A number of four octets.
    ///
    /// # Errors
    /// There are not so many.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }
    /// A number of eight octets.
    ///
    /// # Errors
    /// There are not so many.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }

    /// An octet with the length of a text, and the text.
    ///
    /// # Errors
    /// It ends before, or is no UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = usize::from(self.u8()?);
        let Some((front, rest)) = self.bytes.split_at_checked(length) else { return Err(self.wrong()) };
        let text = std::str::from_utf8(front).map_err(|_| self.wrong())?;
        (self.bytes, self.at) = (rest, self.at + length);
        Ok(text)
    }

    /// All that is left, as text.
    ///
    /// # Errors
    /// It is no UTF-8.
    pub fn rest_text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes).map_err(|_| self.wrong())
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Where the next octet is in the message.
    pub fn at(&self) -> usize {
        self.at
    }

    /// That all is read.
    ///
    /// # Errors
    /// Something is left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.wrong()) }
    }

    /// The value is none of its type.
    pub fn wrong(&self) -> Malformed {
        Malformed::Value { kind: self.kind, at: self.at }
    }
}

/// Appends a text with its length before it; what is beyond 255 octets is cut at the end of a character.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(usize::from(u8::MAX));
    out.push(end as u8);
    out.extend(&text.as_bytes()[..end]);
}
