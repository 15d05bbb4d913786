//! Random bytes that begin as RTP does.

use super::exchange::Exchange;
use perhop_units::Duration;

/// Version 2 in the first byte; of sequence number, time stamp and source none, one or two are as RTP's.
pub(super) fn noise(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let (counted, clocked, constant) = x.one_of(&[
        (false, false, false),
        (false, false, true),
        (true, false, false),
        (false, true, false),
        (true, false, true),
        (false, true, true),
        (true, true, false),
    ]);
    let interval = x.ms(5, 40);
    for leg in &mut legs {
        let (mut sequence, mut time) = (x.random.bits() as u16, x.random.bits() as u32);
        let (source, len) = (x.bytes(4), x.number(20, 400) as usize);
        let mut at = Duration::ZERO;
        for _ in 0..x.number(50, 300) {
            let mut bytes = x.bytes(12 + len);
            bytes[0] = bytes[0] & 0x0f | 0x80;
            if counted {
                bytes[2..4].copy_from_slice(&sequence.to_be_bytes());
            }
            if clocked {
                bytes[4..8].copy_from_slice(&time.to_be_bytes());
            }
            if constant {
                bytes[8..12].copy_from_slice(&source);
            }
            sequence = sequence.wrapping_add(1);
            time = time.wrapping_add((interval.as_nanos() / 125_000) as u32);
            x.send(leg, at, bytes);
            at = at + interval;
        }
    }
}
