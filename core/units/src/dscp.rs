//! Differentiated-services code points (RFC 2474).

use serde::{Deserialize, Serialize};

/// A code point, 0–63: the upper six bits of the IPv4 TOS octet or IPv6 traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Dscp(u8);

impl Dscp {
    /// Best effort (RFC 2474).
    pub const BE: Self = Self(0);
    /// Expedited forwarding (RFC 3246).
    pub const EF: Self = Self(46);

    /// The code point, or `None` above 63.
    pub const fn new(v: u8) -> Option<Self> {
        if v < 64 { Some(Self(v)) } else { None }
    }
    /// The code point of a TOS / traffic-class octet; the ECN bits are ignored.
    pub const fn from_octet(octet: u8) -> Self {
        Self(octet >> 2)
    }
    /// 0–63.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl From<Dscp> for u8 {
    fn from(d: Dscp) -> u8 {
        d.0
    }
}
impl TryFrom<u8> for Dscp {
    type Error = &'static str;
    fn try_from(v: u8) -> Result<Self, Self::Error> {
        Self::new(v).ok_or("a DSCP is 0 to 63")
    }
}
