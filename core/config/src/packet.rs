//! Text forms of what filters compare of packets, the same in every kind of file. Whether a value has bits that its mask does
//! not compare is for whoever checks the whole to say.

use crate::TextError;
use perhop_units::Dscp;
use perhop_wire::tcp::flags;

/// Protocols by name (IANA assigned protocol numbers).
const PROTOCOLS: [(&str, u8); 10] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("sctp", 132),
    ("udplite", 136),
];

/// A transport protocol, by name or number.
///
/// # Errors
/// It is no name of one that is known, and no number from 0 to 255.
pub fn protocol(text: &str) -> Result<u8, TextError> {
    if let Some((_, number)) = PROTOCOLS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        return Ok(*number);
    }
    text.trim().parse().map_err(|_| {
        let names = PROTOCOLS.map(|(name, _)| name).join(", ");
        TextError::new("is not a protocol").allowed(format!("{names}, or a number from 0 to 255"))
    })
}

/// A code point, or one under a mask: `"EF"`, `46`, `"0x28/0x38"`. Value and mask, 0 to 63 each.
///
/// # Errors
/// It is neither.
pub fn masked_dscp(text: &str) -> Result<(u8, u8), TextError> {
    let Some((value, mask)) = text.split_once('/') else {
        let dscp: Dscp = text.parse().map_err(TextError::from)?;
        return Ok((dscp.get(), 63));
    };
    let number = |text: &str| {
        let text = text.trim();
        let read =
            text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u8::from_str_radix(hex, 16).ok());
        read.filter(|value| *value < 64).ok_or_else(|| {
            TextError::new("is not a code point under a mask")
                .hint("Write for example \"0x28/0x38\"")
                .allowed("two numbers from 0 to 63")
        })
    };
    Ok((number(value)?, number(mask)?))
}

/// TCP flags, `"syn+ack"`: their bits.
///
/// # Errors
/// One of the names is none of [`flags::NAMES`].
pub fn tcp_flags(text: &str) -> Result<u8, TextError> {
    text.split('+').map(str::trim).try_fold(0, |bits, flag| {
        let found = flags::NAMES.iter().find(|(name, _)| flag.eq_ignore_ascii_case(name));
        found.map(|(_, bit)| bits | bit).ok_or_else(|| {
            TextError::new("is not a set of TCP flags")
                .hint("Write for example \"syn/syn+ack\"")
                .allowed(flags::NAMES.map(|(name, _)| name).join(", "))
        })
    })
}
