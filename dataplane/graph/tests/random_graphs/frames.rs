//! Random frames of every protocol the router parses, some damaged.

use perhop_units::Dscp;
use perhop_wire::Ecn;
use perhop_wire::build::{FrameBuilder, icmp4_echo, icmp6_echo, tcp4, tcp6, udp4, udp6};
use rand::Rng;

/// One frame. Addresses, ports and lengths are few enough that flows come back.
pub fn frame(rng: &mut impl Rng) -> Vec<u8> {
    let mut below = |n: u32| rng.next_u32() % n;
    let v4 = |n: u32| [10, 0, 0, n as u8];
    let v6 = |n: u32| [0x2001, 0xdb8, 0, 0, 0, 0, 0, n as u16];
    let (a, b) = (below(20), below(20));
    let builder: FrameBuilder = match below(6) {
        0 => udp6(v6(a), v6(b)),
        1 => tcp4(v4(a), v4(b)),
        2 => tcp6(v6(a), v6(b)),
        3 => icmp4_echo(v4(a), v4(b), 7, below(100) as u16),
        4 => icmp6_echo(v6(a), v6(b), 7, below(100) as u16),
        _ => udp4(v4(a), v4(b)),
    };
    let builder = builder
        .ports(5000 + below(16) as u16, 5000 + below(16) as u16)
        .dscp(Dscp::try_from(below(64) as u8).unwrap_or(Dscp::BE))
        .ecn([Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][below(4) as usize])
        .ttl([0, 1, 2, 64, 255][below(5) as usize])
        .identification(below(4));
    let builder = match below(5) {
        0 => builder.fragment(below(20) as u16 * 185, below(2) == 0),
        1 => builder.dont_fragment(),
        _ => builder,
    };
    let builder = match below(4) {
        0 => builder.vlan(below(4095) as u16, below(8) as u8),
        _ => builder,
    };
    let length = [0, 12, 160, 172, 512, 1400, 1700][below(7) as usize];
    // Half of the payloads look like RTP: version 2, a payload type, a sequence number.
    let mut payload = vec![0; length as usize];
    if payload.len() >= 12 && below(2) == 0 {
        payload[..4].copy_from_slice(&[0x80, below(2) as u8 * 8, 0, below(50) as u8]);
        payload[7] = below(50) as u8;
        payload[11] = a as u8;
    }
    let mut frame = builder.payload(&payload).build();
    match below(8) {
        0 => frame.truncate(below(frame.len() as u32 + 1) as usize),
        1 => {
            let at = below(frame.len() as u32) as usize;
            frame[at] ^= 1 << below(8);
        }
        _ => {}
    }
    frame
}
