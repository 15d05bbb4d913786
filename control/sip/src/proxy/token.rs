//! What a proxy writes into its own Record-Route and branches, signed so that nobody else can make it up.
//!
//! The user part of Record-Route names the call and, where a phone is next to the proxy, the flow by which it is reached (the idea of RFC
//! 5626 §5.2): a phone behind a translator is reached only by the flow that it opened. So the proxy needs no memory to send a later request of the call
//! to the right place.

use crate::message::{COOKIE, Head, Message, Name, Transport};
use crate::peer::Peer;
use md5::{Digest, Md5};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

/// What a Record-Route of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The call.
    pub call: u64,
    /// The flow of the caller's phone, if that is next to the proxy.
    pub up: Option<Peer>,
    /// The flow of the callee's.
    pub down: Option<Peer>,
}

fn put(text: &mut String, peer: Option<Peer>) {
    let Some(peer) = peer else {
        text.push('x');
        return;
    };
    let letter = match peer.transport {
        Transport::Udp => 'u',
        Transport::Tcp => 't',
        Transport::Tls => 's',
    };
    let address = match peer.address.ip() {
        IpAddr::V4(a) => format!("{:08x}", u32::from(a)),
        IpAddr::V6(a) => format!("{:032x}", u128::from(a)),
    };
    let _ = write!(text, "{letter}{address}{:04x}", peer.address.port());
    if let Some(connection) = peer.connection {
        let _ = write!(text, "{connection:x}");
    }
}

fn take(text: &str) -> Option<Option<Peer>> {
    if text == "x" {
        return Some(None);
    }
    let transport = match text.as_bytes().first()? {
        b'u' => Transport::Udp,
        b't' => Transport::Tcp,
        b's' => Transport::Tls,
        _ => return None,
    };
    Some(Some(peer(transport, text.get(1..)?)?))
}

fn peer(transport: Transport, text: &str) -> Option<Peer> {
    // An address of version 6 has 24 digits more; a connection's number has at most 16.
    let digits = if text.len() >= 36 { 32 } else { 8 };
    let (address, rest) = (text.get(..digits)?, text.get(digits..)?);
    let ip = if digits == 8 {
        IpAddr::V4(u32::from_str_radix(address, 16).ok()?.into())
    } else {
        IpAddr::V6(u128::from_str_radix(address, 16).ok()?.into())
    };
    let port = u16::from_str_radix(rest.get(..4)?, 16).ok()?;
    let connection = rest.get(4..).filter(|c| !c.is_empty());
    let connection = connection.map(|c| u64::from_str_radix(c, 16)).transpose().ok()?;
    Some(Peer { transport, address: SocketAddr::new(ip, port), connection })
}

/// The first eight octets of a keyed MD5.
fn sign(secret: &[u8; 16], parts: &[&[u8]]) -> u64 {
    let mut digest = Md5::new();
    digest.update(secret);
    for part in parts {
        digest.update((part.len() as u32).to_be_bytes());
        digest.update(part);
    }
    // The key at both ends: lengthening what was signed does not help.
    digest.update(secret);
    digest.finalize()[..8].iter().fold(0, |word, octet| word << 8 | u64::from(*octet))
}

impl Token {
    /// The user part of a Record-Route.
    pub fn text(&self, secret: &[u8; 16]) -> String {
        let mut text = format!("{:016x}-", self.call);
        put(&mut text, self.up);
        text.push('-');
        put(&mut text, self.down);
        let mac = sign(secret, &[b"route", text.as_bytes()]);
        let _ = write!(text, "-{mac:016x}");
        text
    }

    /// Reads one; `None` unless this proxy has written it.
    pub fn read(user: &[u8], secret: &[u8; 16]) -> Option<Self> {
        let text = std::str::from_utf8(user).ok()?;
        let (signed, mac) = text.rsplit_once('-')?;
        if mac.len() != 16
            || u64::from_str_radix(mac, 16).ok()? != sign(secret, &[b"route", signed.as_bytes()])
        {
            return None;
        }
        let mut parts = signed.split('-');
        let call = u64::from_str_radix(parts.next()?, 16).ok()?;
        Some(Self { call, up: take(parts.next()?)?, down: take(parts.next()?)? })
    }

    /// The flow that a request from `source` goes to, if a phone is there. Connections may have been opened anew since, so the address counts if
    /// none is the same in whole.
    pub fn toward(&self, source: &Peer) -> Option<Peer> {
        let same = |flow: Option<Peer>| {
            flow.is_some_and(|f| f.transport == source.transport && f.address == source.address)
        };
        let near = |flow: Option<Peer>| flow.is_some_and(|f| f.address.ip() == source.address.ip());
        let from_up = match (same(self.up), same(self.down)) {
            (true, _) => true,
            (_, true) => false,
            _ => near(self.up) || (self.up.is_none() && !near(self.down) && self.down.is_some()),
        };
        if from_up { self.down } else { self.up }
    }
}

/// A branch: the cookie, what makes it unique, and what tells a loop from a spiral (RFC 3261 §16.6 item 8).
pub fn branch(unique: u64, loop_mark: u64) -> Vec<u8> {
    let mut branch = COOKIE.to_vec();
    branch.extend_from_slice(format!("{unique:016x}.{loop_mark:016x}").as_bytes());
    branch
}

/// The second part of a branch of ours.
pub fn loop_mark_of(branch: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(branch.strip_prefix(COOKIE)?).ok()?;
    let (unique, mark) = text.split_once('.')?;
    (unique.len() == 16 && mark.len() == 16).then(|| u64::from_str_radix(mark, 16).ok())?
}

/// What decides where a request goes. The first Via is no part of it: it differs each time a request comes round (RFC 5393 §4.2).
pub fn loop_mark(message: &Message, head: &Head<'_>, secret: &[u8; 16]) -> u64 {
    let number = head.cseq.to_be_bytes();
    let tag = |tag: Option<&'_ [u8]>| tag.unwrap_or_default().to_vec();
    let (to, from) = (tag(head.to.tag()), tag(head.from.tag()));
    let mut parts: Vec<&[u8]> = vec![b"loop", message.uri_text(), &to, &from, head.call_id, &number];
    for name in [Name::Route, Name::ProxyRequire, Name::ProxyAuthorization] {
        parts.extend(message.values(name));
        parts.push(b"");
    }
    sign(secret, &parts)
}

/// The word of a number.
pub fn word(secret: &[u8; 16], number: u64) -> u64 {
    sign(secret, &[b"word", &number.to_be_bytes()])
}

/// A tag for responses of the proxy's own, the same each time the same request comes (RFC 3261 §8.2.7).
pub fn tag(message: &Message, secret: &[u8; 16]) -> String {
    let via = message.values(Name::Via).next().unwrap_or_default();
    format!("{:016x}", sign(secret, &[b"tag", via, message.value(Name::CallId).unwrap_or_default()]))
}
