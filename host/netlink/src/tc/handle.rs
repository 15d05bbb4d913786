//! Names of qdiscs and classes: `major:minor`, both hexadecimal (tc(8)).

use std::fmt;

/// A qdisc (`1:0`) or one of its classes (`1:10`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u32);

impl Handle {
    /// None: the kernel chooses, or any.
    pub const NONE: Self = Self(0);
    /// As a parent: the root of an interface's egress.
    pub const ROOT: Self = Self(0xffff_ffff);
    /// As a parent: the ingress of an interface.
    pub const INGRESS: Self = Self(0xffff_fff1);
    /// As a parent of filters: those on arriving frames, of an `ingress` qdisc or a `clsact`.
    pub const ARRIVING: Self = Self(0xffff_fff2);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_hexadecimal() {
        for (text, handle) in [
            ("1:10", Handle::new(1, 16)),
            ("ffff:0", Handle::new(0xffff, 0)),
            ("root", Handle::ROOT),
            ("ingress", Handle::INGRESS),
        ] {
            assert_eq!(handle.to_string(), text);
        }
    }
}
