//! Explicit congestion notification (RFC 3168).

/// The ECN field: the lower two bits of the IPv4 TOS octet or IPv6 traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not support ECN.
    #[default]
    NotEct = 0b00,
    /// ECN-capable transport, code point 1 (L4S by RFC 9331).
    Ect1 = 0b01,
    /// ECN-capable transport, code point 0.
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// The field of a TOS / traffic-class octet; the DSCP is ignored.
    #[inline]
    #[must_use]
    pub const fn from_octet(octet: u8) -> Self {
        match octet & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits, 0–3.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}
