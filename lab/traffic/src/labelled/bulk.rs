//! Transfers and load generators over UDP.
//!
//! Source: iperf 2 and 3 (sequence number, seconds and microseconds); draft-gg-udt §3 and draft-sharabayko-srt §3 (data
//! packets of UDT and SRT); RFC 1350 §5 (TFTP); BEP 29 (uTP).

use super::exchange::Exchange;
use super::layout::Layout;
use perhop_units::Duration;

/// What a sender writes before its data.
#[derive(Clone, Debug)]
enum Header {
    /// Sequence number, seconds, microseconds; or the number last.
    Iperf {
        version: u8,
    },
    /// 31-bit number, place in its message and number of that, microseconds, socket.
    Udt {
        socket: u32,
        packets_a_message: u32,
    },
    /// Block number.
    Tftp,
    Own(Layout),
}

impl Header {
    fn draw(x: &mut Exchange) -> Self {
        match x.number(0, 7) {
            0 => Self::Iperf { version: x.one_of(&[2, 3]) },
            1 => Self::Udt { socket: x.random.bits() as u32, packets_a_message: x.one_of(&[1, 2, 4]) },
            2 => Self::Tftp,
            3 => Self::Own(Layout::ordered_as_rtp(x)),
            _ => Self::Own(Layout::draw(x)),
        }
    }

    fn write(&mut self, x: &mut Exchange, n: u32, at: Duration) -> Vec<u8> {
        let us = at.as_nanos() / 1_000;
        let words = match self {
            Self::Iperf { version } => {
                let (s, us) = (1_700_000_000 + (us / 1_000_000) as u32, (us % 1_000_000) as u32);
                if *version == 2 { vec![n, s, us] } else { vec![s, us, n] }
            }
            Self::Udt { socket, packets_a_message } => {
                let (message, at) = (n / *packets_a_message, n % *packets_a_message);
                let first = u32::from(at == 0) << 31;
                let last = u32::from(at + 1 == *packets_a_message) << 30;
                vec![n, first | last | message & 0x03ff_ffff, us as u32, *socket]
            }
            Self::Tftp => vec![3 << 16 | n & 0xffff],
            Self::Own(layout) => return layout.write(x, at),
        };
        words.into_iter().flat_map(u32::to_be_bytes).collect()
    }
}

/// Packets of equal size at a steady or bursty rate, behind counters and clocks; the receiver says something now and
/// then.
pub(super) fn bulk(x: &mut Exchange) {
    let mut legs = if x.one_in(2) { x.media_legs() } else { x.client_legs(5_201) };
    let mut header = Header::draw(x);
    let len = x.number(100, 1_300) as usize;
    // Random data, or the pattern of load generators.
    let random = x.one_in(2);
    let pattern: Vec<u8> = (0..len).map(|i| b'0' + (i % 10) as u8).collect();
    let pause = x.random.between(Duration::from_micros(200), Duration::from_millis(10));
    let burst = x.one_of(&[1, 1, 1, 4, 16]);
    let mut at = Duration::ZERO;
    for n in 0..x.number(100, 500) as u32 {
        let mut payload = header.write(x, n, at);
        if random {
            x.fill(&mut payload, len);
        } else {
            payload.extend_from_slice(&pattern);
        }
        x.send(&mut legs[0], at, payload);
        if n % 16 == 15 {
            let feedback = [&n.to_be_bytes()[..], &x.bytes(20)].concat();
            let later = at + x.ms(2, 40);
            x.send(&mut legs[1], later, feedback);
        }
        if n % burst == burst - 1 {
            at = at + pause.saturating_mul(u64::from(burst));
        }
    }
}

/// Version 1 behind the type of packet: connection, µs, their difference, window, sequence and acknowledgment numbers.
pub(super) fn utp(x: &mut Exchange) {
    let mut legs = x.client_legs(6_881);
    let connection = x.random.bits() as u16;
    let (offset, window) = (x.random.bits() as u32, x.number(30_000, 1_048_576) as u32);
    let delay = x.number(5_000, 300_000) as u32;
    let mut numbers = [1u16, x.random.bits() as u16];
    let mut at = Duration::ZERO;
    for n in 0..x.number(50, 400) {
        let data = n % 3 != 2;
        let end = usize::from(data);
        // Data comes from the second end, states from the first; the first packet asks for a connection.
        let first = match (n, data) {
            (0, _) => 0x41,
            (_, true) => 0x01,
            _ => 0x21,
        };
        let mut bytes = vec![first, 0];
        bytes.extend_from_slice(&connection.wrapping_add(end as u16).to_be_bytes());
        let us = (at.as_nanos() / 1_000) as u32;
        let jitter = x.number(0, 20_000) as u32;
        let mut window = window;
        if !data {
            window -= jitter;
        }
        for word in [us.wrapping_add(offset), delay + jitter, window] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(&numbers[end].to_be_bytes());
        bytes.extend_from_slice(&numbers[1 - end].to_be_bytes());
        if data {
            numbers[1] = numbers[1].wrapping_add(1);
            x.fill(&mut bytes, 1_380);
        }
        x.send(&mut legs[end], at, bytes);
        at = at + x.ms(0, 15);
    }
}
