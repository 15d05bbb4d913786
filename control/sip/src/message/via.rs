//! A value of Via (RFC 3261 §20.42; `rport` RFC 3581).

use super::scan::{self, Params};
use super::uri;
use std::net::IpAddr;

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A stream.
    Tcp,
    /// A stream over TLS.
    Tls,
}

impl Transport {
    /// Whether nothing is lost on it.
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Its name in Via.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
        }
    }

    /// The port that is meant where none is said (RFC 3261 §18.2.2).
    pub const fn port(self) -> u16 {
        match self {
            Self::Tls => 5061,
            _ => 5060,
        }
    }

    /// The transport of a name, whatever its case.
    pub fn of(text: &[u8]) -> Option<Self> {
        [Self::Udp, Self::Tcp, Self::Tls].into_iter().find(|t| text.eq_ignore_ascii_case(t.text().as_bytes()))
    }
}

/// One hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// The transport; `None` for one that is not known here.
    pub transport: Option<Transport>,
    /// Name or address of who sent it.
    pub host: &'a [u8],
    /// Its port, if it says one.
    pub port: Option<u16>,
    /// Parameters.
    pub params: Params<'a>,
}

/// How branches begin that identify transactions (RFC 3261 §8.1.1.7).
pub const COOKIE: &[u8] = b"z9hG4bK";

impl<'a> Via<'a> {
    /// Reads a value; `None` if it is none.
    pub fn read(value: &'a [u8]) -> Option<Self> {
        let end = value.iter().position(|&o| o == b';').unwrap_or(value.len());
        let (head, params) = value.split_at(end);
        let mut parts = head.splitn(3, |&o| o == b'/').map(scan::trim);
        let (name, version, rest) = (parts.next()?, parts.next()?, parts.next()?);
        if !name.eq_ignore_ascii_case(b"SIP") || version != b"2.0" {
            return None;
        }
        let end = rest.iter().position(|&o| scan::is_space(o))?;
        if !scan::token(&rest[..end]) {
            return None;
        }
        let (host, port) = uri::host_port(&rest[end..])?;
        let params = Params(scan::trim(params));
        params.are_named().then_some(Self { transport: Transport::of(&rest[..end]), host, port, params })
    }

    /// The branch, if there is one.
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.params.get("branch").filter(|b| !b.is_empty())
    }

    /// Where a response goes: what `received` says, else the host (RFC 3261 §18.2.2), at the port of `rport` (RFC 3581 §4), else its own.
    pub fn reply_to(&self) -> (&'a [u8], u16) {
        let transport = self.transport.unwrap_or(Transport::Udp);
        let host = self.params.get("received").filter(|r| !r.is_empty()).unwrap_or(self.host);
        let host = host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")).unwrap_or(host);
        let port = self.params.get("rport").and_then(|p| scan::number(p, 65_535)).map(|p| p as u16);
        (host, port.or(self.port).unwrap_or(transport.port()))
    }

    /// The address that a response goes to, if it is one and not one of many hosts.
    pub fn reply_address(&self) -> Option<(IpAddr, u16)> {
        let (host, port) = self.reply_to();
        let address = uri::address(host)?;
        let many = match address {
            IpAddr::V4(a) => a.is_broadcast() || a.is_multicast() || a.is_unspecified(),
            IpAddr::V6(a) => a.is_multicast() || a.is_unspecified(),
        };
        (!many).then_some((address, port))
    }
}
