//! Text forms of values of policies: names, prefixes, ports, protocols, masked code points, flags.

use super::days::days;
use super::{Days, Minute, PortPattern};
use ipnet::IpNet;
use perhop_config::{TextError, packet};
use perhop_model::{MaskedByte, Name, PortRange};
use perhop_wire::tcp::flags::NAMES;
use std::net::IpAddr;

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

/// `"EF"`, `46`, `"0x28/0x38"`.
pub(crate) fn masked_dscp(text: &str) -> Result<MaskedByte, TextError> {
    let (value, mask) = packet::masked_dscp(text)?;
    Ok(MaskedByte { value, mask })
}

/// `"syn"` (set), `"syn/syn+ack"` (set and not set), `"none/syn"` (not set).
pub(crate) fn tcp_flags(text: &str) -> Result<MaskedByte, TextError> {
    let bits = |list| if list == "none" { Ok(0) } else { packet::tcp_flags(list) };
    let (value, mask) = text.split_once('/').unwrap_or((text, text));
    Ok(MaskedByte { value: bits(value)?, mask: bits(mask)? })
}

/// Flags as [`tcp_flags`] reads them.
pub(crate) fn tcp_flags_text(flags: MaskedByte) -> String {
    let names = |bits: u8| {
        let set: Vec<&str> = NAMES.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
        if set.is_empty() { "none".to_owned() } else { set.join("+") }
    };
    format!("{}/{}", names(flags.value), names(flags.mask))
}
