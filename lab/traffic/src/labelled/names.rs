//! Name resolution.
//!
//! Source: RFC 1035 §4.1 (messages), RFC 6762 §18 (multicast DNS).

use super::exchange::Exchange;
use perhop_units::Duration;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A header (identifier, flags, counts), a question of a random name, and in an answer a few address records.
fn message(x: &mut Exchange, id: u16, flags: u16, answers: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [id, flags, 1, answers, 0, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    for _ in 0..x.number(2, 4) {
        let label = x.number(2, 12) as usize;
        bytes.push(label as u8);
        let name = x.bytes(label);
        bytes.extend(name.iter().map(|b| b'a' + b % 26));
    }
    bytes.push(0);
    bytes.extend_from_slice(&[0, x.one_of(&[1, 28, 65]), 0, 1]);
    for _ in 0..answers {
        bytes.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0]);
        x.fill(&mut bytes, 2);
        bytes.extend_from_slice(&[0, 4]);
        x.fill(&mut bytes, 4);
    }
    bytes
}

/// A question and its answer; in every second many of them between the same ports, as a forwarder's are.
pub(super) fn dns(x: &mut Exchange) {
    let mut legs = x.client_legs(53);
    let forwarder = x.one_in(2);
    let (questions, mean) = match forwarder {
        true => (x.number(20, 200), x.ms(5, 300)),
        false => (x.number(1, 2), x.ms(1, 5)),
    };
    // Identifiers are random; old programs count them.
    let (counted, mut id) = (x.one_in(4), x.random.bits() as u16);
    let mut at = Duration::ZERO;
    for _ in 0..questions {
        id = if counted { id.wrapping_add(1) } else { x.random.bits() as u16 };
        let question = message(x, id, 0x0100, 0);
        x.send(&mut legs[0], at, question);
        let answers = x.number(0, 4) as u16;
        let answer = message(x, id, 0x8180, answers);
        let later = at + x.ms(1, 120);
        x.send(&mut legs[1], later, answer);
        at = at + x.random.exponential(mean);
    }
}

/// Announcements and questions to the group.
pub(super) fn multicast_dns(x: &mut Exchange) {
    let v6 = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
    let mut leg = x.multicast_leg(Ipv4Addr::new(224, 0, 0, 251), v6, 5_353);
    let mut at = Duration::ZERO;
    for _ in 0..x.number(3, 40) {
        let (flags, answers) = if x.one_in(2) { (0x8400, x.number(1, 6) as u16) } else { (0, 0) };
        let payload = message(x, 0, flags, answers);
        x.send(&mut leg, at, payload);
        at = at + x.ms(20, 3_000);
    }
}
