//! Calls through a relay.
//!
//! Source: RFC 8656 §12.4 (channel data), §11 (Send and Data indications); RFC 8489 §14 (attributes).

use super::exchange::{Exchange, Leg};
use super::rtp::Source;
use super::secure::stun;
use super::voice::Codec;
use perhop_units::Duration;

const ALLOCATE: u16 = 0x0003;
const CREATE_PERMISSION: u16 = 0x0008;
const CHANNEL_BIND: u16 = 0x0009;
const SUCCESS: u16 = 0x0100;
/// Send indications go to the relay, Data indications come from it.
const INDICATIONS: [u16; 2] = [0x0016, 0x0017];

/// Speech in channel data, or in indications in every fourth.
pub(super) fn turn(x: &mut Exchange) {
    let mut legs = x.client_legs(3_478);
    let length = x.ms(4_000, 10_000);
    let mut at = Duration::ZERO;
    for method in [ALLOCATE, ALLOCATE, CREATE_PERMISSION, CHANNEL_BIND] {
        let request = stun(x, method, 100);
        x.send(&mut legs[0], at, request);
        let answer = stun(x, method | SUCCESS, 72);
        at = at + x.ms(20, 80);
        x.send(&mut legs[1], at, answer);
    }
    let channel = 0x4000 + x.number(0, 0x0fff) as u16;
    let indicated = x.one_in(4);
    let peer = x.bytes(6);
    for (end, leg) in legs.iter_mut().enumerate() {
        let codec = if x.one_in(2) { Codec::constant(x) } else { Codec::variable(x) };
        let mut source = Source::new(x, codec.payload_type);
        let indication = indicated.then_some(INDICATIONS[end]);
        relayed(x, leg, &mut source, &codec, (at, length), channel, indication, &peer);
    }
}

#[expect(clippy::too_many_arguments, reason = "what a relay adds, beside what speech needs")]
fn relayed(
    x: &mut Exchange,
    leg: &mut Leg,
    source: &mut Source,
    codec: &Codec,
    (from, to): (Duration, Duration),
    channel: u16,
    indication: Option<u16>,
    peer: &[u8],
) {
    let mut at = from;
    while at < to {
        let len = codec.len(x);
        let inside = source.packet(x, codec.payload_type, at == from, codec.ticks(at - from), len);
        let payload = match indication {
            Some(method) => indicate(x, method, peer, &inside),
            None => [&channel.to_be_bytes()[..], &(inside.len() as u16).to_be_bytes(), &inside].concat(),
        };
        x.send(leg, at, payload);
        at = at + codec.interval;
    }
}

/// XOR-PEER-ADDRESS of an IPv4 peer, then DATA, padded.
fn indicate(x: &mut Exchange, method: u16, peer: &[u8], inside: &[u8]) -> Vec<u8> {
    let padded = inside.len().next_multiple_of(4);
    let mut bytes = stun(x, method, 0);
    bytes[2..4].copy_from_slice(&((16 + padded) as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0x12, 0, 8, 0, 1]);
    bytes.extend_from_slice(peer);
    bytes.extend_from_slice(&[0, 0x13]);
    bytes.extend_from_slice(&(inside.len() as u16).to_be_bytes());
    bytes.extend_from_slice(inside);
    bytes.resize(bytes.len() + padded - inside.len(), 0);
    bytes
}
