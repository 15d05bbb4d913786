//! Messages as they pass, told to a collector by HEP version 3 (the Homer encapsulation protocol, `sipcapture/HEP`).
//!
//! ```text
//!  "HEP3" │ length of all, 2 octets │ chunks: vendor 0, 2 │ type, 2 │ length with this head, 2 │ value
//! ```
//!
//! One datagram a message; one that the kernel has no room for is lost. Of what comes over connections only whole messages are told.

use super::settings::HepSettings;
use perhop_io::clock;
use perhop_sip::Peer;
use perhop_sip::message::{Piece, Stream, Transport};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Longest datagram, octets of UDP over IPv4.
const LONGEST: usize = 65_507;
/// Protocol type of SIP.
const SIP: u8 = 1;
/// Connections of which a part of a message is kept.
const STREAMS: usize = 20_000;

/// Numbers of chunks.
mod chunk {
    pub(super) const FAMILY: u16 = 1;
    pub(super) const PROTOCOL: u16 = 2;
    pub(super) const SOURCE_V4: u16 = 3;
    pub(super) const TARGET_V4: u16 = 4;
    pub(super) const SOURCE_V6: u16 = 5;
    pub(super) const TARGET_V6: u16 = 6;
    pub(super) const SOURCE_PORT: u16 = 7;
    pub(super) const TARGET_PORT: u16 = 8;
    pub(super) const SECONDS: u16 = 9;
    pub(super) const MICROSECONDS: u16 = 10;
    pub(super) const KIND: u16 = 11;
    pub(super) const AGENT: u16 = 12;
    pub(super) const PAYLOAD: u16 = 15;
}

/// The way to a collector.
pub(super) struct Hep {
    socket: UdpSocket,
    agent: u32,
    own: Vec<(Transport, SocketAddr)>,
    streams: HashMap<u64, Stream>,
}

impl Hep {
    pub(super) fn open(settings: &HepSettings, own: &[(Transport, SocketAddr)]) -> io::Result<Self> {
        let any: IpAddr = match settings.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(settings.address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, agent: settings.agent, own: own.to_vec(), streams: HashMap::new() })
    }

    /// A datagram has come.
    pub(super) fn came(&self, from: &Peer, bytes: &[u8]) {
        self.tell(from, bytes, true);
    }

    /// Octets of a connection have come.
    pub(super) fn came_by_stream(&mut self, from: &Peer, bytes: &[u8]) {
        let Some(number) = from.connection else { return };
        if self.streams.len() >= STREAMS && !self.streams.contains_key(&number) {
            return;
        }
        let mut whole = Vec::new();
        let stream = self.streams.entry(number).or_default();
        stream.push(bytes);
        loop {
            match stream.next() {
                Ok(Some(Piece::Message(message))) => whole.push(message),
                Ok(Some(Piece::Ping)) => {}
                Ok(None) => break,
                Err(_) => {
                    self.streams.remove(&number);
                    break;
                }
            }
        }
        whole.iter().for_each(|message| self.tell(from, message.bytes(), true));
    }

    /// A connection has ended.
    pub(super) fn ended(&mut self, connection: u64) {
        self.streams.remove(&connection);
    }

    /// A message was sent.
    pub(super) fn sent(&self, to: &Peer, bytes: &[u8]) {
        self.tell(to, bytes, false);
    }

    fn tell(&self, other: &Peer, bytes: &[u8], is_in: bool) {
        let own = self.own.iter().find(|(transport, _)| *transport == other.transport);
        let own = own.map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |(_, own)| *own);
        let (from, to) = if is_in { (other.address, own) } else { (own, other.address) };
        let now_us = clock::wall().0 / 1_000;
        let told = encode(from, to, other.transport, now_us, self.agent, bytes);
        if told.len() <= LONGEST {
            let _ = self.socket.send(&told);
        }
    }
}

/// A message, as it is told.
fn encode(
    from: SocketAddr,
    to: SocketAddr,
    transport: Transport,
    now_us: u64,
    agent: u32,
    bytes: &[u8],
) -> Vec<u8> {
    let mut out = b"HEP3\0\0".to_vec();
    let mut put = |kind: u16, value: &[u8]| {
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&kind.to_be_bytes());
        // What is longer than a datagram is not sent.
        out.extend_from_slice(&u16::try_from(6 + value.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(value);
    };
    // Who listens at all addresses may have no other of the family.
    let ips = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Ok((from, to)),
        (from, to) => {
            let wide = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            Err((wide(from), wide(to)))
        }
    };
    // As Linux numbers families.
    put(chunk::FAMILY, &[if ips.is_ok() { 2 } else { 10 }]);
    put(chunk::PROTOCOL, &[if transport == Transport::Udp { 17 } else { 6 }]);
    match ips {
        Ok((from, to)) => {
            put(chunk::SOURCE_V4, &from.octets());
            put(chunk::TARGET_V4, &to.octets());
        }
        Err((from, to)) => {
            put(chunk::SOURCE_V6, &from.octets());
            put(chunk::TARGET_V6, &to.octets());
        }
    }
    put(chunk::SOURCE_PORT, &from.port().to_be_bytes());
    put(chunk::TARGET_PORT, &to.port().to_be_bytes());
    let seconds = u32::try_from(now_us / 1_000_000).unwrap_or(u32::MAX);
    put(chunk::SECONDS, &seconds.to_be_bytes());
    put(chunk::MICROSECONDS, &((now_us % 1_000_000) as u32).to_be_bytes());
    put(chunk::KIND, &[SIP]);
    put(chunk::AGENT, &agent.to_be_bytes());
    put(chunk::PAYLOAD, bytes);
    let length = u16::try_from(out.len()).unwrap_or(u16::MAX);
    out[4..6].copy_from_slice(&length.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_told_octet_for_octet() {
        let at = |text: &str| text.parse().expect("an address");
        let told = encode(at("192.0.2.1:5060"), at("192.0.2.2:5062"), Transport::Udp, 7_000_009, 3, b"SIP");
        let expected = [
            &b"HEP3"[..],
            &[0, 102],
            &[0, 0, 0, 1, 0, 7, 2],
            &[0, 0, 0, 2, 0, 7, 17],
            &[0, 0, 0, 3, 0, 10, 192, 0, 2, 1],
            &[0, 0, 0, 4, 0, 10, 192, 0, 2, 2],
            &[0, 0, 0, 7, 0, 8, 0x13, 0xc4],
            &[0, 0, 0, 8, 0, 8, 0x13, 0xc6],
            &[0, 0, 0, 9, 0, 10, 0, 0, 0, 7],
            &[0, 0, 0, 10, 0, 10, 0, 0, 0, 9],
            &[0, 0, 0, 11, 0, 7, 1],
            &[0, 0, 0, 12, 0, 10, 0, 0, 0, 3],
            &[0, 0, 0, 15, 0, 9],
            b"SIP",
        ];
        let expected = expected.concat();
        assert_eq!(usize::from(expected[5]), expected.len());
        assert_eq!(told, expected);
        let wide = encode(at("[2001:db8::1]:1"), at("0.0.0.0:2"), Transport::Tls, 0, 0, b"");
        assert_eq!(&wide[6..13], [0, 0, 0, 1, 0, 7, 10]);
        assert_eq!(&wide[13..20], [0, 0, 0, 2, 0, 7, 6]);
        assert_eq!(&wide[20..26], [0, 0, 0, 5, 0, 22]);
    }
}
