//! Packets of a flow, as a person writes them: `src=192.0.2.5 protocol=udp dst-port=5004`.

use perhop_config::{TextError, packet};
use perhop_routerfile::value;
use perhop_tcapi::wire::Alternative;
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
    #[error("{key}={value} {why}")]
    Value {
        /// Key.
        key: String,
        /// Value.
        value: String,
        /// Why not, as a predicate.
        why: TextError,
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
            let wrong = |why| AlternativeError::Value { key: key.to_owned(), value: value.to_owned(), why };
            let range = |value| value::ports(value).map(|p| (p.first, p.last)).map_err(wrong);
            match key {
                "src" => all.src = Some(value::prefix(value).map_err(wrong)?),
                "dst" => all.dst = Some(value::prefix(value).map_err(wrong)?),
                "protocol" => all.protocol = Some(packet::protocol(value).map_err(wrong)?),
                "src-port" => all.src_ports = Some(range(value)?),
                "dst-port" => all.dst_ports = Some(range(value)?),
                "tos" => all.tos = Some(tos(value).ok_or_else(not_an_octet).map_err(wrong)?),
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

fn not_an_octet() -> TextError {
    TextError::new("is no octet under a mask").hint("Write for example \"0xb8\" or \"0xb8/0xfc\"")
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
