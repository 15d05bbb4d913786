//! Text forms of values of policies: names, prefixes, ports, protocols, masked code points, flags.

use super::days::days;
use super::{Days, Minute, PortPattern};
use ipnet::IpNet;
use perhop_config::TextError;
use perhop_model::{MaskedByte, Name, PortRange};
use perhop_units::Dscp;
use std::net::IpAddr;

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

/// TCP flags by name (RFC 9293 section 3.1).
const FLAGS: [(&str, u8); 8] =
    [("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32), ("ece", 64), ("cwr", 128)];

pub(crate) fn name(text: &str) -> Result<Name, TextError> {
    Name::new(text)
        .map_err(|_| TextError::new("is not a name").allowed("1 to 128 characters of A-Z a-z 0-9 . _ : / -"))
}

pub(crate) fn pattern(text: &str) -> Result<PortPattern, TextError> {
    let wrong =
        || TextError::new("is not a port of a router").hint("Write for example \"edge-1/wan\" or \"*/wan\"");
    text.parse().map_err(|_| wrong())
}

pub(crate) fn minute(text: &str) -> Result<Minute, TextError> {
    text.parse().map_err(|why: String| {
        TextError::new(why).hint("Write for example \"08:30\"").allowed("00:00 to 24:00")
    })
}

pub(crate) fn some_days(text: &str) -> Result<Days, TextError> {
    days(text).ok_or_else(|| {
        TextError::new("is not a day of the week").hint("Write for example \"sat\" or \"mon-fri\"")
    })
}

/// A prefix; an address alone means itself. Bits behind its length are left to whoever checks the policy.
pub(crate) fn prefix(text: &str) -> Result<IpNet, TextError> {
    text.parse::<IpAddr>().map(IpNet::from).or_else(|_| text.parse()).map_err(|_| {
        TextError::new("is not a prefix").hint("Write for example \"192.0.2.0/24\" or \"2001:db8::/32\"")
    })
}

pub(crate) fn ports(text: &str) -> Result<PortRange, TextError> {
    let wrong =
        || TextError::new("is not a port or a range of ports").hint("Write for example \"5000-5999\"");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong().allowed("0 to 65535"));
    Ok(PortRange { first: number(first)?, last: number(last)? })
}

pub(crate) fn protocol(text: &str) -> Result<u8, TextError> {
    if let Some((_, number)) = PROTOCOLS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        return Ok(*number);
    }
    text.trim().parse().map_err(|_| {
        let names = PROTOCOLS.map(|(name, _)| name).join(", ");
        TextError::new("is not a protocol").allowed(format!("{names}, or a number from 0 to 255"))
    })
}

/// `"EF"`, `46`, `"0x28/0x38"`.
pub(crate) fn masked_dscp(text: &str) -> Result<MaskedByte, TextError> {
    let Some((value, mask)) = text.split_once('/') else {
        let dscp: Dscp = text.parse().map_err(TextError::from)?;
        return Ok(MaskedByte { value: dscp.get(), mask: 63 });
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
    Ok(MaskedByte { value: number(value)?, mask: number(mask)? })
}

/// `"syn"` (set), `"syn/syn+ack"` (set and not set), `"none/syn"` (not set).
pub(crate) fn tcp_flags(text: &str) -> Result<MaskedByte, TextError> {
    let bits = |list: &str| {
        if list == "none" {
            return Ok(0);
        }
        list.split('+').map(str::trim).try_fold(0u8, |bits, flag| {
            let found = FLAGS.iter().find(|(name, _)| flag.eq_ignore_ascii_case(name));
            found.map(|(_, bit)| bits | bit).ok_or_else(|| {
                TextError::new("is not a set of TCP flags")
                    .hint("Write for example \"syn/syn+ack\"")
                    .allowed(FLAGS.map(|(name, _)| name).join(", "))
            })
        })
    };
    let (value, mask) = text.split_once('/').unwrap_or((text, text));
    Ok(MaskedByte { value: bits(value)?, mask: bits(mask)? })
}

/// Flags as [`tcp_flags`] reads them.
pub(crate) fn tcp_flags_text(flags: MaskedByte) -> String {
    let names = |bits: u8| {
        let set: Vec<&str> = FLAGS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
        if set.is_empty() { "none".to_owned() } else { set.join("+") }
    };
    format!("{}/{}", names(flags.value), names(flags.mask))
}
