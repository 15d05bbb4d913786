//! Exchanges in which a flow carries more than one plain source of RTP, or headers that few senders write.
//!
//! Source: RFC 3550 §5.1 (contributing sources, padding), §8 (SSRC changes); RFC 8285 (header extensions).

use super::exchange::Exchange;
use super::rtp::{Source, control};
use super::video::{VideoPlan, show};
use super::voice::{Codec, speak};
use perhop_units::Duration;

/// Two sources on one flow (speech and video, or two of speech), or one that changes its SSRC; RTCP on the same ports.
pub(super) fn several_sources(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(5_000, 12_000);
    let mut ssrc = [0; 2];
    let form = x.number(0, 2);
    for (i, leg) in legs.iter_mut().enumerate() {
        let codec = Codec::constant(x);
        let mut first = Source::new(x, codec.payload_type);
        ssrc[i] = first.ssrc();
        match form {
            // Both at once.
            0 => {
                speak(x, leg, &mut first, &codec, Duration::ZERO, length);
                let mut second = Source::new(x, 97);
                let plan = VideoPlan::draw(x);
                show(x, leg, &mut second, &plan, x_ms(200), length);
            }
            1 => {
                speak(x, leg, &mut first, &codec, Duration::ZERO, length);
                let other = Codec::constant(x);
                let mut second = Source::new(x, other.payload_type);
                let from = x.ms(0, 1_000);
                speak(x, leg, &mut second, &other, from, length);
            }
            // One after the other: a transfer, a restart.
            _ => {
                let change = x.ms(500, 4_000);
                speak(x, leg, &mut first, &codec, Duration::ZERO, change);
                let mut second = Source::new(x, codec.payload_type);
                speak(x, leg, &mut second, &codec, change, length);
            }
        }
    }
    control(x, &mut legs, ssrc, length, true);
}

fn x_ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Speech with one to four contributing sources, a header extension of one to five words, padding, or all of it.
pub(super) fn extended(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(4_000, 12_000);
    let mut ssrc = [0; 2];
    let (csrc, extension, pads) = (x.one_in(2), !x.one_in(3), x.one_in(3));
    for (i, leg) in legs.iter_mut().enumerate() {
        let codec = Codec::constant(x);
        let mut source = Source::new(x, codec.payload_type);
        source.pads = pads;
        if csrc {
            source.header.csrc = (0..x.number(1, 4)).map(|_| x.random.bits() as u32).collect();
        }
        if extension {
            source.extension = 4 * x.number(1, 5) as usize - 1;
        }
        ssrc[i] = source.ssrc();
        speak(x, leg, &mut source, &codec, Duration::ZERO, length);
    }
    control(x, &mut legs, ssrc, length, false);
}
