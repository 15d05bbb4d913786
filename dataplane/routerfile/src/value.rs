//! Text forms of values of router files and of what speaks of packets as they do: names, prefixes, ports, protocols, masked code points, flags.

use crate::api::Account;
use ipnet::IpNet;
use perhop_config::{TextError, packet};
use perhop_model::{MaskedByte, Name, Owner, OwnerPattern, PortRange};
use std::net::IpAddr;

/// A name of an object.
pub(super) fn name(text: &str) -> Result<Name, TextError> {
    Name::new(text)
        .map_err(|_| TextError::new("is not a name").allowed("1 to 128 characters of A-Z a-z 0-9 . _ : / -"))
}

/// Who objects belong to.
pub(super) fn owner(text: &str) -> Result<Owner, TextError> {
    let allowed = "agent, cli, api:NAME or tcapi:NAME";
    text.parse().map_err(|_| TextError::new("is not an owner").allowed(allowed))
}

/// An owner, or the beginning of names of clients and a `*`.
pub(super) fn owner_pattern(text: &str) -> Result<OwnerPattern, TextError> {
    let allowed = "agent, cli, file, api:NAME, tcapi:NAME, api:START* or tcapi:START*";
    text.parse().map_err(|_| TextError::new("is not an owner").allowed(allowed))
}

/// A user or group of the host: a number, or a name as useradd(8) takes it.
pub(super) fn account(text: &str) -> Result<Account, TextError> {
    if let Ok(id) = text.parse() {
        return Ok(Account::Id(id));
    }
    let is_letter = |c: u8| c.is_ascii_alphabetic() || matches!(c, b'_') || !c.is_ascii();
    let is_part =
        |c: u8| is_letter(c) || c.is_ascii_digit() || matches!(c, b'-' | b'.' | b'$' | b'@' | b'\\');
    let is_name =
        text.bytes().next().is_some_and(is_letter) && text.bytes().all(is_part) && text.len() <= 256;
    if is_name {
        return Ok(Account::Named(text.to_owned()));
    }
    Err(TextError::new("is no name of a user or group").hint("Write a name as in /etc/passwd, or a number"))
}

/// A prefix, `10.0.0.0/8`; an address alone means itself.
///
/// # Errors
/// It is none, or has bits beyond its length.
pub fn prefix(text: &str) -> Result<IpNet, TextError> {
    let net = match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => text.parse::<IpNet>().map_err(|_| {
            TextError::new("is not a prefix").hint("Write for example \"192.0.2.0/24\" or \"2001:db8::/32\"")
        })?,
    };
    if net.trunc() == net {
        Ok(net)
    } else {
        let hint = format!("Write \"{}\"", net.trunc());
        Err(TextError::new("has bits set beyond its prefix length").hint(hint))
    }
}

/// A transport port or a range of them, `5004` or `"5000-5999"`.
///
/// # Errors
/// It is neither, is above 65535, or ends before it begins.
pub fn ports(text: &str) -> Result<PortRange, TextError> {
    let wrong =
        || TextError::new("is not a port or a range of ports").hint("Write for example \"5000-5999\"");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |t: &str| t.trim().parse::<u64>().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    if first > 65_535 || last > 65_535 {
        return Err(TextError::new("is out of range").allowed("0 to 65535"));
    }
    if first > last {
        return Err(TextError::new("is an empty range").hint(format!("Write \"{last}-{first}\"")));
    }
    Ok(PortRange { first: first as u16, last: last as u16 })
}

/// A code point, or a value under a mask: `"EF"`, `46`, `"0x28/0x38"`.
pub(super) fn masked_dscp(text: &str) -> Result<MaskedByte, TextError> {
    let (value, mask) = packet::masked_dscp(text)?;
    within(MaskedByte { value, mask })
}

/// TCP flags: `"syn"` (set), `"syn/syn+ack"` (syn set and ack not set).
pub(super) fn tcp_flags(text: &str) -> Result<MaskedByte, TextError> {
    let (value, mask) = text.split_once('/').unwrap_or((text, text));
    within(MaskedByte { value: packet::tcp_flags(value)?, mask: packet::tcp_flags(mask)? })
}

fn within(masked: MaskedByte) -> Result<MaskedByte, TextError> {
    if masked.value & !masked.mask == 0 {
        Ok(masked)
    } else {
        Err(TextError::new("has bits that its mask does not compare")
            .hint("Bits of the value must be in the mask too"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        assert_eq!(prefix("10.0.0.1").map(|n| n.to_string()), Ok("10.0.0.1/32".into()));
        assert_eq!(prefix("2001:db8::/32").map(|n| n.prefix_len()), Ok(32));
        assert_eq!(prefix("10.0.0.1/8").map_err(|e| e.hint), Err(Some("Write \"10.0.0.0/8\"".into())));
        assert!(prefix("10.0.0.0/33").is_err());
    }

    #[test]
    fn ranges_and_masks() {
        assert_eq!(ports("5000-5999"), Ok(PortRange { first: 5000, last: 5999 }));
        assert_eq!(ports("53"), Ok(PortRange { first: 53, last: 53 }));
        assert_eq!(ports("6-5").map_err(|e| e.message), Err("is an empty range".into()));
        assert_eq!(ports("70000").map_err(|e| e.message), Err("is out of range".into()));
        assert_eq!(masked_dscp("EF"), Ok(MaskedByte { value: 46, mask: 63 }));
        assert_eq!(masked_dscp("0x28/0x38"), Ok(MaskedByte { value: 40, mask: 56 }));
        assert!(masked_dscp("0x29/0x38").is_err());
        assert_eq!(tcp_flags("syn/syn+ack"), Ok(MaskedByte { value: 2, mask: 18 }));
        assert!(tcp_flags("sin").is_err());
        assert_eq!(packet::protocol("UDP"), Ok(17));
        assert_eq!(packet::protocol("89"), Ok(89));
        assert!(packet::protocol("300").is_err());
    }
}
