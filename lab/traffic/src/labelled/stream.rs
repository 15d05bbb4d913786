//! TCP: data one way, acknowledgments the other.
//!
//! Source: RFC 9293 §3.1 (header), RFC 1122 §4.2.3.2 (one acknowledgment for two segments); RFC 2326 §10.12 (RTP between
//! the lines of RTSP).

use super::exchange::Exchange;
use super::rtp::Source;
use super::{Transport, exchange::Leg};
use perhop_units::Duration;

const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

/// A connection being written.
struct Connection {
    legs: [Leg; 2],
    next: [u32; 2],
}

impl Connection {
    fn segment(&mut self, x: &mut Exchange, end: usize, at: Duration, flags: u8, payload: Vec<u8>) {
        let transport = Transport::Tcp { flags, seq: self.next[end], ack: self.next[1 - end] };
        let counted = u32::from(flags & (SYN | FIN) != 0) + payload.len() as u32;
        self.next[end] = self.next[end].wrapping_add(counted);
        x.carry(&mut self.legs[end], at, transport, payload);
    }
}

/// Handshake, request, an answer of many segments with its acknowledgments, or a camera's RTP; end.
pub(super) fn tcp(x: &mut Exchange) {
    let camera = x.one_in(4);
    let legs = x.client_legs(if camera { 554 } else { 443 });
    let mut c = Connection { legs, next: [x.random.bits() as u32, x.random.bits() as u32] };
    let trip = x.ms(5, 100);
    let mut at = Duration::ZERO;
    for (end, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
        c.segment(x, end, at, flags, Vec::new());
        at = at + trip;
    }
    let request = x.bytes(300);
    c.segment(x, 0, at, ACK | PSH, request);
    at = at + trip;
    let mut source = Source::new(x, 96);
    for i in 0..x.number(20, 400) {
        let data = if camera {
            let rtp = source.packet(x, 96, true, i * 1_600, 400);
            [&[b'$', 0][..], &(rtp.len() as u16).to_be_bytes(), &rtp].concat()
        } else {
            x.bytes(1_400)
        };
        c.segment(x, 1, at, ACK | PSH, data);
        if i % 2 == 1 {
            c.segment(x, 0, at + trip, ACK, Vec::new());
        }
        at = at + if camera { Duration::from_millis(20) } else { x.ms(0, 10) };
    }
    c.segment(x, 0, at + trip, FIN | ACK, Vec::new());
    c.segment(x, 1, at + trip, FIN | ACK, Vec::new());
}
