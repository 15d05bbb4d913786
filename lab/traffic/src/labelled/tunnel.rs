//! Tunnels, with a call, a transfer or pages inside.
//!
//! Source: J. Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel" §5.4 (messages of types 1, 2 and 4); OpenVPN's
//! network protocol (opcodes, peer identifier, packet identifier); RFC 4303 §2 and RFC 3948 §2 (ESP in UDP, keep-alives).

use super::exchange::Exchange;
use perhop_units::Duration;

/// When which end sends how many bytes of plain IP, after the tunnel has come up.
fn inside(x: &mut Exchange) -> Vec<(Duration, usize, usize)> {
    let length = x.ms(3_000, 8_000);
    let mut packets = Vec::new();
    let mut at = x.ms(200, 400);
    let form = x.number(0, 2);
    let (speech, interval) = (x.one_of(&[200, 60, 120]), x.one_of(&[20, 20, 30, 10]));
    while at < length {
        match form {
            0 => {
                packets.extend([(at, 0, speech), (at + x.ms(1, 5), 1, speech)]);
                at = at + Duration::from_millis(interval);
            }
            1 => {
                packets.push((at, 1, 1_400));
                if x.one_in(2) {
                    packets.push((at + x.ms(1, 10), 0, 52));
                }
                at = at + x.ms(1, 12);
            }
            _ => {
                packets.push((at, 0, x.number(60, 600) as usize));
                let mut then = at + x.ms(20, 90);
                for _ in 0..x.number(1, 40) {
                    packets.push((then, 1, x.number(200, 1_400) as usize));
                    then = then + x.ms(0, 3);
                }
                at = then + x.ms(50, 1_500);
            }
        }
    }
    packets.sort_by_key(|(at, ..)| *at);
    packets
}

/// Initiation, response, then transport data: type, receiver, counter (little endian), sealed packet padded to 16.
pub(super) fn wireguard(x: &mut Exchange) {
    let mut legs = x.client_legs(51_820);
    let receivers = [x.bytes(4), x.bytes(4)];
    for (end, message_type, len) in [(0, 1, 144), (1, 2, 88)] {
        let mut bytes = vec![message_type, 0, 0, 0];
        x.fill(&mut bytes, len);
        x.send(&mut legs[end], Duration::from_millis(60 * end as u64), bytes);
    }
    let mut counters = [0u64; 2];
    for (at, end, len) in inside(x) {
        let mut bytes = vec![4, 0, 0, 0];
        bytes.extend_from_slice(&receivers[1 - end]);
        bytes.extend_from_slice(&counters[end].to_le_bytes());
        counters[end] += 1;
        x.fill(&mut bytes, len.next_multiple_of(16) + 16);
        x.send(&mut legs[end], at, bytes);
    }
    let keep_alive = [&[4, 0, 0, 0][..], &receivers[1], &counters[0].to_le_bytes(), &x.bytes(16)].concat();
    x.send(&mut legs[0], Duration::from_secs(20), keep_alive);
}

const HARD_RESET_CLIENT: u8 = 7 << 3;
const HARD_RESET_SERVER: u8 = 8 << 3;
const CONTROL: u8 = 4 << 3;
const DATA_1: u8 = 6 << 3;
const DATA_2: u8 = 9 << 3;

/// Resets, control packets, then data with packet identifiers, and peer identifiers in version 2.
pub(super) fn openvpn(x: &mut Exchange) {
    let mut legs = x.client_legs(1_194);
    let sessions = [x.bytes(8), x.bytes(8)];
    for i in 0..10u8 {
        let end = usize::from(i % 2);
        let opcode = [HARD_RESET_CLIENT, HARD_RESET_SERVER, CONTROL][usize::from(i.min(2))];
        let mut bytes = vec![opcode];
        bytes.extend_from_slice(&sessions[end]);
        bytes.extend_from_slice(&[0, 0, 0, 0, i / 2]);
        let len = if i < 2 { 0 } else { x.number(50, 1_100) as usize };
        x.fill(&mut bytes, len);
        x.send(&mut legs[end], Duration::from_millis(20 * u64::from(i)), bytes);
    }
    let (second, peer) = (!x.one_in(3), x.number(0, 200) as u8);
    let mut numbers = [1u32; 2];
    for (at, end, len) in inside(x) {
        let mut bytes = if second { vec![DATA_2, 0, 0, peer] } else { vec![DATA_1] };
        bytes.extend_from_slice(&numbers[end].to_be_bytes());
        numbers[end] += 1;
        x.fill(&mut bytes, 16 + len);
        x.send(&mut legs[end], at, bytes);
    }
}

/// A few packets of IKE behind four zeros, then security parameter index, sequence number and what is sealed.
pub(super) fn esp(x: &mut Exchange) {
    let mut legs = x.legs(4_500, 4_500);
    let cookies = x.bytes(16);
    for i in 0..4u64 {
        let mut bytes = [&[0; 4][..], &cookies, &[0x2e, 0x20, 35, 8, 0, 0, 0, i as u8 / 2]].concat();
        let len = x.number(100, 1_000) as usize;
        x.fill(&mut bytes, len);
        x.send(&mut legs[i as usize % 2], Duration::from_millis(30 * i), bytes);
    }
    let indices = [x.bytes(4), x.bytes(4)];
    let mut numbers = [1u32; 2];
    for (at, end, len) in inside(x) {
        let mut bytes = [&indices[end][..], &numbers[end].to_be_bytes()].concat();
        numbers[end] += 1;
        x.fill(&mut bytes, 8 + len.next_multiple_of(4) + 18);
        x.send(&mut legs[end], at, bytes);
    }
    for i in 0..2 {
        x.send(&mut legs[0], Duration::from_secs(20 * (i + 1)), vec![0xff]);
    }
}
