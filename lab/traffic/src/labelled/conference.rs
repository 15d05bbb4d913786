//! Conferences: what a selective forwarding unit sends to one who listens, and what it gets from one who sends several
//! layers of the same picture.
//!
//! Source: RFC 7667 §3.7 (selective forwarding), RFC 8843 (all of it on one pair of ports), RFC 8853 (simulcast), RFC 3711
//! (secure RTP).

use super::exchange::Exchange;
use super::rtp::{Source, control, reports};
use super::video::{VideoPlan, show};
use super::voice::{Codec, speak};
use perhop_units::Duration;

/// Most that a source begins after the first one.
const JOIN_MS: u64 = 1_000;

/// Three to five sources at once from each end: speakers, pictures, or speakers and one picture; their packets take turns.
/// Every second one is secured, without anything before that says so: its keys came by signalling. RTCP on the same ports.
pub(super) fn conference(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(3_000, 5_000);
    let (form, secured) = (x.number(0, 3), x.one_in(2));
    let mut ssrc = [0; 2];
    for (i, leg) in legs.iter_mut().enumerate() {
        let codec = Codec::variable(x);
        let sources = x.number(3, 5);
        for n in 0..sources {
            let source = Source::new(x, codec.payload_type);
            let mut source = if secured { source.secured(10) } else { source };
            if n == 0 {
                ssrc[i] = source.ssrc();
            }
            // All at once where a server has mixed their clocks, else as they join.
            let from = if form == 0 { Duration::from_millis(n) } else { x.ms(0, JOIN_MS) };
            let picture = form == 2 && n > 0 || form == 3 && n + 1 == sources;
            if picture {
                let plan = VideoPlan::draw(x);
                show(x, leg, &mut source, &plan, from, length);
            } else {
                speak(x, leg, &mut source, &codec, from, length);
            }
        }
    }
    if secured {
        for (i, leg) in legs.iter_mut().enumerate() {
            reports(x, leg, ssrc[i], ssrc[1 - i], length, true);
        }
    } else {
        control(x, &mut legs, ssrc, length, true);
    }
}
