//! QUIC.
//!
//! Source: RFC 9000 §17.2 (long headers), §17.3 (short header), §5.1 (connection identifiers are constant and may be of
//! no length); RFC 9001 §5.4 (header protection makes five bits of the first byte and the packet number look random);
//! RFC 9287 (the fixed bit is random where both ends agree).

use super::exchange::{Exchange, Leg};
use perhop_units::Duration;

/// A connection: handshake, then requests with answers, or a call or game in datagrams (RFC 9221).
pub(super) fn quic(x: &mut Exchange) {
    let mut legs = x.client_legs(443);
    // What an end is addressed by: the client usually by nothing.
    let lens = [x.one_of(&[8, 8, 4, 16, 20]), x.one_of(&[0, 0, 8, 5, 20])];
    let ids = lens.map(|n| x.bytes(n));
    let greased = x.one_in(3);
    handshake(x, &mut legs, &ids);
    let length = x.ms(2_000, 8_000);
    if x.one_in(4) {
        for (end, leg) in legs.iter_mut().enumerate() {
            let mut at = x.ms(150, 200);
            while at < length {
                let len = x.number(40, 200);
                let payload = short(x, &ids[end], greased, len as usize);
                x.send(leg, at, payload);
                at = at + x.ms(19, 21);
            }
        }
        return;
    }
    let mut at = x.ms(150, 300);
    while at < length {
        let len = x.number(60, 500);
        let request = short(x, &ids[0], greased, len as usize);
        x.send(&mut legs[0], at, request);
        let mut then = at + x.ms(20, 80);
        for i in 0..x.number(2, 120) {
            let data = short(x, &ids[1], greased, 1_180);
            x.send(&mut legs[1], then, data);
            if i % 2 == 1 {
                let len = x.number(24, 40);
                let acknowledgment = short(x, &ids[0], greased, len as usize);
                let later = then + x.ms(5, 30);
                x.send(&mut legs[0], later, acknowledgment);
            }
            then = then + x.ms(0, 2);
        }
        at = then + x.ms(100, 2_000);
    }
}

fn handshake(x: &mut Exchange, legs: &mut [Leg; 2], ids: &[Vec<u8>; 2]) {
    let mut at = Duration::ZERO;
    // Initial and Handshake of both ends; packets of 1,200 bytes as they must be.
    for (end, packet_type) in [(0, 0u8), (1, 0), (1, 2), (0, 2), (0, 2)] {
        let (to, from) = (&ids[end], &ids[1 - end]);
        // Form, fixed bit and type in the clear, the rest protected.
        let mut bytes = vec![0xc0 | packet_type << 4 | x.number(0, 15) as u8, 0, 0, 0, 1, to.len() as u8];
        bytes.extend_from_slice(to);
        bytes.push(from.len() as u8);
        bytes.extend_from_slice(from);
        if packet_type == 0 {
            bytes.push(0);
        }
        let rest = 1_200 - bytes.len();
        bytes.extend_from_slice(&(0x4000 | (rest - 2) as u16).to_be_bytes());
        x.fill(&mut bytes, rest - 2);
        x.send(&mut legs[end], at, bytes);
        at = at + x.ms(1, 40);
    }
}

/// A packet with a short header: first byte, the receiver's connection identifier, then what looks random.
fn short(x: &mut Exchange, id: &[u8], greased: bool, len: usize) -> Vec<u8> {
    let mask = if greased { 0x7f } else { 0x3f };
    let mut bytes = vec![x.number(0, 255) as u8 & mask | if greased { 0 } else { 0x40 }];
    bytes.extend_from_slice(id);
    x.fill(&mut bytes, len);
    bytes
}
