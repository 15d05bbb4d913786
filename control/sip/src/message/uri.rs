//! SIP URIs (RFC 3261 §19.1) and name-addr (§20.10, §25.1).

use super::scan::{self, Params};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A URI of any scheme; of `sip` and `sips` its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// All of it.
    pub text: &'a [u8],
    /// What it is.
    pub scheme: Scheme,
    /// Before the `@`, without a password; as it stands, escapes included.
    pub user: Option<&'a [u8]>,
    /// Name or address; of an IPv6 address without the brackets. Empty for other schemes.
    pub host: &'a [u8],
    /// The port, if there is one.
    pub port: Option<u16>,
    /// Parameters of the URI.
    pub params: Params<'a>,
    /// What follows `?`.
    pub headers: Option<&'a [u8]>,
}

/// Schemes that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `sip`.
    Sip,
    /// `sips`: TLS on every hop.
    Sips,
    /// Any other, not looked into.
    Other,
}

impl<'a> Uri<'a> {
    /// Reads a URI that is all of `text`; `None` if it is none.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        if text.iter().any(|&o| scan::is_space(o) || o.is_ascii_control() || matches!(o, b'<' | b'>' | b'"'))
        {
            return None;
        }
        let colon = text.iter().position(|&o| o == b':')?;
        let name = &text[..colon];
        let is_scheme = |o: u8| o.is_ascii_alphanumeric() || matches!(o, b'+' | b'-' | b'.');
        if !name.first()?.is_ascii_alphabetic() || !name.iter().all(|&o| is_scheme(o)) {
            return None;
        }
        let scheme = match name {
            n if n.eq_ignore_ascii_case(b"sip") => Scheme::Sip,
            n if n.eq_ignore_ascii_case(b"sips") => Scheme::Sips,
            _ => Scheme::Other,
        };
        let rest = &text[colon + 1..];
        if scheme == Scheme::Other {
            let (user, host, port, headers) = (None, &[][..], None, None);
            return (!rest.is_empty()).then_some(Self {
                text,
                scheme,
                user,
                host,
                port,
                params: Params::default(),
                headers,
            });
        }
        let (user, rest) = match rest.iter().position(|&o| o == b'@') {
            Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
            None => (None, rest),
        };
        let user = user.map(|u| u.split(|&o| o == b':').next().unwrap_or(u));
        if user.is_some_and(<[u8]>::is_empty) || rest.contains(&b'@') {
            return None;
        }
        let end = rest.iter().position(|o| matches!(o, b';' | b'?')).unwrap_or(rest.len());
        let (host, port) = host_port(&rest[..end])?;
        let (params, headers) = match rest.iter().position(|&o| o == b'?') {
            Some(at) => (&rest[end..at.max(end)], Some(&rest[at + 1..])),
            None => (&rest[end..], None),
        };
        Some(Self { text, scheme, user, host, port, params: Params(params), headers })
    }

    /// Whether its proxy routes loosely (`lr`, §19.1.1).
    pub fn is_loose(&self) -> bool {
        self.params.iter().any(|(name, _)| unescape(name).eq_ignore_ascii_case(b"lr"))
    }

    /// The user with its escapes resolved; a null octet is one like any other.
    pub fn user_unescaped(&self) -> Option<Vec<u8>> {
        self.user.map(unescape)
    }

    /// The host as an address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        address(self.host)
    }

    /// What a location table knows somebody by (§10.3 step 5): scheme-less, user unescaped, host in lower case, without parameters.
    pub fn record(&self) -> Vec<u8> {
        let mut key = self.user_unescaped().unwrap_or_default();
        key.push(b'@');
        key.extend(self.host.iter().map(u8::to_ascii_lowercase));
        key
    }
}

/// Resolves `%` escapes; what is none stays.
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let digit = |octet: Option<&u8>| char::from(*octet?).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&octet) = text.get(at) {
        match (octet, digit(text.get(at + 1)), digit(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            _ => {
                out.push(octet);
                at += 1;
            }
        }
    }
    out
}

/// `host[:port]` with white space around the colon.
pub(crate) fn host_port(text: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let text = scan::trim(text);
    let (host, rest) = if let Some(inner) = text.strip_prefix(b"[") {
        let end = inner.iter().position(|&o| o == b']')?;
        std::str::from_utf8(&inner[..end]).ok()?.parse::<Ipv6Addr>().ok()?;
        (&inner[..end], &inner[end + 1..])
    } else {
        let end = text.iter().position(|&o| o == b':').unwrap_or(text.len());
        let host = scan::trim(&text[..end]);
        if host.is_empty()
            || !host.iter().all(|&o| o.is_ascii_alphanumeric() || matches!(o, b'-' | b'.' | b'_'))
        {
            return None;
        }
        (host, &text[end..])
    };
    let rest = scan::trim(rest);
    if rest.is_empty() {
        return Some((host, None));
    }
    let port = scan::number(scan::trim(rest.strip_prefix(b":")?), 65_535)?;
    Some((host, Some(port as u16)))
}

/// The address that a host is.
pub(crate) fn address(host: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(host).ok()?;
    text.parse::<Ipv4Addr>().map(IpAddr::V4).or_else(|_| text.parse::<Ipv6Addr>().map(IpAddr::V6)).ok()
}

/// `"name" <uri>;params`, or a URI alone with the parameters of the field behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameAddr<'a> {
    /// The name that is shown, quotes included; may be empty.
    pub display: &'a [u8],
    /// Whose it is.
    pub uri: Uri<'a>,
    /// Parameters of the field, not of the URI.
    pub params: Params<'a>,
}

impl<'a> NameAddr<'a> {
    /// Reads a value; `None` if it is none: an open quote, white space in a URI, a name of other than tokens, a URI with a comma or
    /// question mark outside brackets, a parameter without a name.
    pub fn read(value: &'a [u8]) -> Option<Self> {
        let value = scan::trim(value);
        let open = match value.first()? {
            b'"' => {
                let end = scan::quoted(value)?;
                end + value[end..]
                    .iter()
                    .position(|&o| !scan::is_space(o))
                    .filter(|at| value[end + at] == b'<')?
            }
            _ => match value.iter().position(|&o| o == b'<') {
                Some(at) if value[..at].iter().all(|&o| scan::is_token(o) || scan::is_space(o)) => at,
                Some(_) => return None,
                None => return Self::bare(value),
            },
        };
        let inside = &value[open + 1..];
        let close = inside.iter().position(|&o| o == b'>')?;
        let uri = Uri::read(&inside[..close])?;
        let params = params(&inside[close + 1..])?;
        Some(Self { display: scan::trim(&value[..open]), uri, params })
    }

    fn bare(value: &'a [u8]) -> Option<Self> {
        let end = value.iter().position(|&o| o == b';').unwrap_or(value.len());
        let uri = Uri::read(scan::trim(&value[..end]))?;
        if uri.headers.is_some() || uri.text.contains(&b',') {
            return None;
        }
        Some(Self { display: &[], uri, params: params(&value[end..])? })
    }

    /// The tag of a From or To.
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.get("tag").filter(|tag| !tag.is_empty())
    }
}

fn params(text: &[u8]) -> Option<Params<'_>> {
    let text = scan::trim(text);
    let params = Params(text);
    ((text.is_empty() || text.starts_with(b";")) && params.are_named()).then_some(params)
}
