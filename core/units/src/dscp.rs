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
    /// Lower effort (RFC 8622).
    pub const LE: Self = Self(1);
    /// Voice-admit: capacity-admitted telephony (RFC 5865).
    pub const VA: Self = Self(44);
    /// Class selector 1 (RFC 2474).
    pub const CS1: Self = Self(8);
    /// Class selector 2 (RFC 2474).
    pub const CS2: Self = Self(16);
    /// Class selector 3 (RFC 2474).
    pub const CS3: Self = Self(24);
    /// Class selector 4 (RFC 2474).
    pub const CS4: Self = Self(32);
    /// Class selector 5 (RFC 2474).
    pub const CS5: Self = Self(40);
    /// Class selector 6 (RFC 2474).
    pub const CS6: Self = Self(48);
    /// Class selector 7 (RFC 2474).
    pub const CS7: Self = Self(56);
    /// Assured forwarding class 1, drop precedence 1 (RFC 2597).
    pub const AF11: Self = Self(10);
    /// Assured forwarding class 1, drop precedence 2 (RFC 2597).
    pub const AF12: Self = Self(12);
    /// Assured forwarding class 1, drop precedence 3 (RFC 2597).
    pub const AF13: Self = Self(14);
    /// Assured forwarding class 2, drop precedence 1 (RFC 2597).
    pub const AF21: Self = Self(18);
    /// Assured forwarding class 2, drop precedence 2 (RFC 2597).
    pub const AF22: Self = Self(20);
    /// Assured forwarding class 2, drop precedence 3 (RFC 2597).
    pub const AF23: Self = Self(22);
    /// Assured forwarding class 3, drop precedence 1 (RFC 2597).
    pub const AF31: Self = Self(26);
    /// Assured forwarding class 3, drop precedence 2 (RFC 2597).
    pub const AF32: Self = Self(28);
    /// Assured forwarding class 3, drop precedence 3 (RFC 2597).
    pub const AF33: Self = Self(30);
    /// Assured forwarding class 4, drop precedence 1 (RFC 2597).
    pub const AF41: Self = Self(34);
    /// Assured forwarding class 4, drop precedence 2 (RFC 2597).
    pub const AF42: Self = Self(36);
    /// Assured forwarding class 4, drop precedence 3 (RFC 2597).
    pub const AF43: Self = Self(38);

    /// Names and code points, each code point once.
    pub const NAMES: [(&'static str, Self); 23] = [
        ("BE", Self::BE),
        ("LE", Self::LE),
        ("CS1", Self::CS1),
        ("CS2", Self::CS2),
        ("CS3", Self::CS3),
        ("CS4", Self::CS4),
        ("CS5", Self::CS5),
        ("CS6", Self::CS6),
        ("CS7", Self::CS7),
        ("AF11", Self::AF11),
        ("AF12", Self::AF12),
        ("AF13", Self::AF13),
        ("AF21", Self::AF21),
        ("AF22", Self::AF22),
        ("AF23", Self::AF23),
        ("AF31", Self::AF31),
        ("AF32", Self::AF32),
        ("AF33", Self::AF33),
        ("AF41", Self::AF41),
        ("AF42", Self::AF42),
        ("AF43", Self::AF43),
        ("VA", Self::VA),
        ("EF", Self::EF),
    ];

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
