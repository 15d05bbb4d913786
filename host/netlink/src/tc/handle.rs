//! Names of qdiscs and classes: `major:minor`, both hexadecimal (tc(8)).

use std::fmt;
use std::str::FromStr;

/// A qdisc (`1:0`) or one of its classes (`1:10`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u32);

/// Text that is no handle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no handle; write MAJOR:MINOR in hexadecimal, each 0 to ffff, as \"1:10\"")]
pub struct ParseHandleError {
    text: String,
}

impl Handle {
    /// None: the kernel chooses, or any.
    pub const NONE: Self = Self(0);
    /// As a parent: the root of an interface's egress.
    pub const ROOT: Self = Self(0xffff_ffff);
    /// As a parent: the ingress of an interface.
    pub const INGRESS: Self = Self(0xffff_fff1);

    /// `major:minor`; a qdisc has minor 0.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// The qdisc's number.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The class's number in its qdisc.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ROOT => f.write_str("root"),
            Self::INGRESS => f.write_str("ingress"),
            _ => write!(f, "{:x}:{:x}", self.major(), self.minor()),
        }
    }
}

impl FromStr for Handle {
    type Err = ParseHandleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = || ParseHandleError { text: text.chars().take(40).collect() };
        let part = |digits: &str| {
            let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
            if !plain {
                return Err(fail());
            }
            if digits.is_empty() { Ok(0) } else { u16::from_str_radix(digits, 16).map_err(|_| fail()) }
        };
        match text {
            "root" => return Ok(Self::ROOT),
            "ingress" => return Ok(Self::INGRESS),
            _ => {}
        }
        let (major, minor) = text.split_once(':').ok_or_else(fail)?;
        if major.is_empty() {
            return Err(fail());
        }
        Ok(Self::new(part(major)?, part(minor)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_hexadecimal_and_reads_back() {
        for (text, handle) in [
            ("1:10", Handle::new(1, 16)),
            ("ffff:0", Handle::new(0xffff, 0)),
            ("root", Handle::ROOT),
            ("ingress", Handle::INGRESS),
        ] {
            assert_eq!(text.parse(), Ok(handle));
            assert_eq!(handle.to_string(), text);
        }
        assert_eq!("1:".parse(), Ok(Handle::new(1, 0)));
        for bad in ["", ":", "1", ":1", "1:10000", "x:1", "1:+1", "1:1:1"] {
            assert!(bad.parse::<Handle>().is_err(), "{bad}");
        }
    }
}
