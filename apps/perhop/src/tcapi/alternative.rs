//! Packets of a flow, as a person writes them: `src=192.0.2.5 protocol=udp dst-port=5004`.

use ipnet::IpNet;
use perhop_tcapi::wire::Alternative;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Why a text says no packets.
#[derive(Debug, Error)]
pub enum AlternativeError {
    /// Not `KEY=VALUE`.
    #[error("{0:?} is not KEY=VALUE: src, dst, protocol, src-port, dst-port, tos")]
    NoPair(String),
    /// The key is none of those.
    #[error("{0:?} is not a key: src, dst, protocol, src-port, dst-port, tos")]
    Key(String),
    /// The value is none of its key.
    #[error("{key}={value}: {expected}")]
    Value {
        /// Key.
        key: String,
        /// Value.
        value: String,
        /// What it is to be.
        expected: &'static str,
    },
    /// Addresses of two families.
    #[error("src and dst are of different families")]
    Families,
}

/// One of the alternatives of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets(pub Alternative);

impl FromStr for Packets {
    type Err = AlternativeError;

    fn from_str(text: &str) -> Result<Self, AlternativeError> {
        let mut all = Alternative::default();
        for word in text.split_whitespace() {
            let (key, value) =
                word.split_once('=').ok_or_else(|| AlternativeError::NoPair(word.to_owned()))?;
            let wrong =
                |expected| AlternativeError::Value { key: key.to_owned(), value: value.to_owned(), expected };
            match key {
                "src" => all.src = Some(net(value).ok_or_else(|| wrong("a prefix without bits beyond it"))?),
                "dst" => all.dst = Some(net(value).ok_or_else(|| wrong("a prefix without bits beyond it"))?),
                "protocol" => {
                    all.protocol = Some(protocol(value).ok_or_else(|| wrong("udp, tcp, or 0 to 255"))?);
                }
                "src-port" => {
                    all.src_ports = Some(ports(value).ok_or_else(|| wrong("a port, or 5000-5999"))?)
                }
                "dst-port" => {
                    all.dst_ports = Some(ports(value).ok_or_else(|| wrong("a port, or 5000-5999"))?)
                }
                "tos" => {
                    all.tos = Some(tos(value).ok_or_else(|| wrong("an octet, or octet/mask, as 0xb8/0xfc"))?)
                }
                _ => return Err(AlternativeError::Key(key.to_owned())),
            }
        }
        match (all.src, all.dst) {
            (Some(src), Some(dst)) if src.addr().is_ipv4() != dst.addr().is_ipv4() => {
                Err(AlternativeError::Families)
            }
            _ => Ok(Self(all)),
        }
    }
}

fn net(text: &str) -> Option<IpNet> {
    let net = text.parse::<IpAddr>().map(IpNet::from).or_else(|_| text.parse()).ok()?;
    (net.trunc() == net).then_some(net)
}

fn protocol(text: &str) -> Option<u8> {
    match text {
        "udp" => Some(17),
        "tcp" => Some(6),
        "sctp" => Some(132),
        number => number.parse().ok(),
    }
}

fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

fn tos(text: &str) -> Option<(u8, u8)> {
    let octet = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xfc"));
    let (value, mask) = (octet(value)?, octet(mask)?);
    (value & !mask == 0).then_some((value, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_are_written() {
        let read = |text: &str| text.parse::<Packets>().map(|p| p.0).map_err(|e| e.to_string());
        let all = read("src=192.0.2.5 dst=10.0.0.0/8 protocol=udp src-port=5000-5999 dst-port=5004 tos=0xb8");
        let expected = Alternative {
            src: Some("192.0.2.5/32".parse().expect("a prefix")),
            dst: Some("10.0.0.0/8".parse().expect("a prefix")),
            protocol: Some(17),
            src_ports: Some((5000, 5999)),
            dst_ports: Some((5004, 5004)),
            tos: Some((0xb8, 0xfc)),
        };
        assert_eq!(all, Ok(expected));
        for wrong in
            ["src", "sorc=1.2.3.4", "src=10.0.0.1/8", "dst-port=7-6", "tos=0x1/0", "src=10.0.0.1 dst=::1"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
