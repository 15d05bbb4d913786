//! Games: small packets at a steady rate, with counters and clocks.
//!
//! Source: the published network code of Quake III (netchan: sequence number and, from clients, port), of Source engines
//! (sequence, acknowledgment, flags), RakNet's connected datagrams (flags, 24-bit number, reliability) and ENet's protocol
//! headers (peer with the flag for a 16-bit time in its top bit, commands with sequence numbers).

use super::exchange::Exchange;
use super::layout::Layout;
use perhop_units::Duration;

/// Time between a game's packets, µs: 20, 30, 60, 64 and 128 a second.
const TICKS_US: [u64; 5] = [50_000, 33_333, 16_667, 15_625, 7_813];

/// When packets are sent, with the timers of a game loop.
fn ticks(x: &mut Exchange) -> Vec<Duration> {
    let tick = Duration::from_micros(x.one_of(&TICKS_US));
    let length = x.ms(3_000, 9_000);
    let mut at = x.ms(0, 100);
    let mut times = Vec::new();
    while at < length {
        times.push(at + x.random.between(Duration::ZERO, Duration::from_millis(2)));
        at = at + tick;
    }
    times
}

/// The state of a world: words of which some change from packet to packet and some do not.
fn state(x: &mut Exchange, before: &mut [u8]) -> Vec<u8> {
    for word in before.chunks_mut(4) {
        if x.one_in(3) {
            let n = word.len();
            word.copy_from_slice(&x.bytes(n));
        }
    }
    let cut = x.number(before.len() as u64 / 2, before.len() as u64) as usize;
    before[..cut].to_vec()
}

/// Headers of random layout; in every eighth the fields are in the order of RTP's.
pub(super) fn game(x: &mut Exchange) {
    let mut legs = if x.one_in(2) { x.media_legs() } else { x.client_legs(27_015) };
    let likeness = x.one_in(8);
    for leg in &mut legs {
        let mut layout = if likeness { Layout::ordered_as_rtp(x) } else { Layout::draw(x) };
        let len = x.number(16, 160) as usize;
        let mut world = x.bytes(len);
        for at in ticks(x) {
            let mut payload = layout.write(x, at);
            payload.extend(state(x, &mut world));
            x.send(leg, at, payload);
        }
    }
}

/// One of the published headers.
pub(super) fn game_known(x: &mut Exchange) {
    let form = x.number(0, 3);
    let mut legs = x.client_legs(if form == 0 { 27_960 } else { 27_015 });
    for (end, leg) in legs.iter_mut().enumerate() {
        let len = x.number(20, 200) as usize;
        let mut world = x.bytes(len);
        let (port, peer, channel) = (x.bytes(2), x.number(0, 31) as u16, x.number(0, 3) as u8);
        let reliable = x.one_in(2);
        for (i, at) in (1u32..).zip(ticks(x)) {
            let mut payload = match form {
                0 if end == 0 => [&i.to_le_bytes()[..], &port].concat(),
                0 => i.to_le_bytes().to_vec(),
                1 => {
                    let flags = x.one_of(&[0, 0, 1, 0x20]);
                    [&i.to_le_bytes()[..], &i.saturating_sub(2).to_le_bytes(), &[flags]].concat()
                }
                2 => {
                    let number = i.to_le_bytes();
                    let bits = (len as u16 * 8).to_be_bytes();
                    [&[0x84][..], &number[..3], &[if reliable { 0x60 } else { 0 }], &bits].concat()
                }
                _ => {
                    let time = (at.as_nanos() / 1_000_000) as u16;
                    let (command, number) = if reliable { (0x86, i as u16) } else { (0x07, 1) };
                    let header = [&(0x8000 | peer).to_be_bytes()[..], &time.to_be_bytes()].concat();
                    let command = [&[command, channel][..], &number.to_be_bytes()].concat();
                    let unreliable = if reliable { Vec::new() } else { (i as u16).to_be_bytes().to_vec() };
                    [header, command, unreliable, (len as u16).to_be_bytes().to_vec()].concat()
                }
            };
            payload.extend(state(x, &mut world));
            x.send(leg, at, payload);
        }
    }
}
