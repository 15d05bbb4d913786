//! Headers as programs invent them: counters, clocks and constant words of various widths in any order.

use super::exchange::Exchange;
use perhop_units::Duration;

/// One field of a header, at most 64 bits wide.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// The same in every packet.
    Constant { bytes: usize, value: u64 },
    /// One of four values.
    Flags([u8; 4]),
    /// Counts packets.
    Counter { bytes: usize, little: bool, value: u64 },
    /// Counts ticks of a clock from a value.
    Clock { bytes: usize, little: bool, hz: u64, start: u64 },
    /// Random.
    Random { bytes: usize },
}

/// A header of one sender.
#[derive(Clone, Debug)]
pub(super) struct Layout(Vec<Field>);

/// Ticks of games, seconds, milliseconds, microseconds and nanoseconds.
const CLOCKS_HZ: [u64; 6] = [30, 60, 1_000, 1_000, 1_000_000, 1_000_000_000];

impl Layout {
    /// A first byte, random in half of all, and two to six fields.
    pub fn draw(x: &mut Exchange) -> Self {
        let first = x.number(0, 255) as u8;
        let mut fields = vec![match x.number(0, 3) {
            0 => Field::Constant { bytes: 1, value: 0x80 },
            1 => Field::Flags([first, first | 0x80, first & 0x7f, first ^ 1]),
            _ => Field::Constant { bytes: 1, value: u64::from(first) },
        }];
        for _ in 0..x.number(2, 6) {
            let field = Self::field(x);
            fields.push(field);
        }
        Self(fields)
    }

    /// Fields in the order and widths of RTP's, with a clock that is none of a codec's.
    pub fn ordered_as_rtp(x: &mut Exchange) -> Self {
        let hz = x.one_of(&CLOCKS_HZ[..5]);
        let kind = x.number(0, 127);
        Self(vec![
            Field::Constant { bytes: 1, value: 0x80 },
            Field::Constant { bytes: 1, value: kind },
            Field::Counter { bytes: 2, little: false, value: x.random.bits() },
            Field::Clock { bytes: 4, little: false, hz, start: x.random.bits() },
            Field::Constant { bytes: 4, value: x.random.bits() },
        ])
    }

    fn field(x: &mut Exchange) -> Field {
        let little = x.one_in(2);
        match x.number(0, 9) {
            0..=2 => Field::Counter { bytes: x.one_of(&[1, 2, 2, 4, 4, 8]), little, value: start(x) },
            3..=5 => Field::Clock {
                bytes: x.one_of(&[2, 4, 4, 8]),
                little,
                hz: x.one_of(&CLOCKS_HZ),
                start: start(x),
            },
            6..=7 => Field::Constant { bytes: x.one_of(&[1, 2, 4, 4, 8]), value: x.random.bits() },
            8 => Field::Flags(x.random.bits().to_be_bytes()[..4].try_into().unwrap_or_default()),
            _ => Field::Random { bytes: x.one_of(&[1, 2, 4]) },
        }
    }

    /// The header of the next packet, sent at `at`.
    pub fn write(&mut self, x: &mut Exchange, at: Duration) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in &mut self.0 {
            let (width, little, value) = match field {
                Field::Constant { bytes, value } => (*bytes, false, *value),
                Field::Flags(flags) => (1, false, u64::from(x.one_of(flags))),
                Field::Counter { bytes, little, value } => {
                    *value = value.wrapping_add(1);
                    (*bytes, *little, *value)
                }
                Field::Clock { bytes, little, hz, start } => {
                    let ticks = u128::from(at.as_nanos()) * u128::from(*hz) / 1_000_000_000;
                    (*bytes, *little, start.wrapping_add(ticks as u64))
                }
                Field::Random { bytes } => (*bytes, false, x.random.bits()),
            };
            match little {
                true => bytes.extend_from_slice(&value.to_le_bytes()[..width]),
                false => bytes.extend_from_slice(&value.to_be_bytes()[8 - width..]),
            }
        }
        bytes
    }
}

/// Counters begin at nothing, clocks with the machine or in 1970.
fn start(x: &mut Exchange) -> u64 {
    match x.number(0, 3) {
        0 => 0,
        1 => x.number(0, 100_000_000),
        2 => 1_700_000_000_000_000 + x.number(0, 1 << 44),
        _ => x.random.bits(),
    }
}
