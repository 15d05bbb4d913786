//! Video calls and cameras.
//!
//! Source: RFC 3551 §5 and RFC 6184 §5.1 (90 kHz, one time stamp a frame, marker on its last packet).

use super::exchange::{Exchange, Leg};
use super::rtp::{Source, control};
use perhop_units::Duration;

const CLOCK_HZ: u64 = 90_000;

/// Frames of one camera.
#[derive(Clone, Copy, Debug)]
pub(super) struct VideoPlan {
    payload_type: u8,
    /// Clock ticks from one frame to the next.
    frame_ticks: u64,
    /// Packets of a full picture and of another, at most.
    full: u64,
    packets: u64,
    /// Frames from one full picture to the next.
    group: u64,
    packet_bytes: u64,
    /// Time between packets of one frame.
    pace: Duration,
    /// Two frames of three are sent behind the one they precede.
    bidirectional: bool,
}

impl VideoPlan {
    /// 10 … 30 frames a second of 1 … 6 packets, a full picture of 4 … 24 packets each 1 … 10 s.
    pub fn draw(x: &mut Exchange) -> Self {
        // 10, 15, 24, 25, 29.97 and 30 frames a second.
        let frame_ticks = x.one_of(&[9_000, 6_000, 3_750, 3_600, 3_003, 3_000]);
        Self {
            payload_type: x.one_of(&[26, 31, 34, 96, 97, 98, 102, 107, 125]),
            frame_ticks,
            full: x.number(4, 24),
            packets: x.number(1, 6),
            group: x.number(1, 10) * CLOCK_HZ / frame_ticks,
            packet_bytes: x.number(600, 1_200),
            pace: x.random.between(Duration::from_micros(50), Duration::from_micros(800)),
            bidirectional: x.one_in(8),
        }
    }
}

/// Frames from `from` to `to`.
pub(super) fn show(
    x: &mut Exchange,
    leg: &mut Leg,
    source: &mut Source,
    plan: &VideoPlan,
    from: Duration,
    to: Duration,
) {
    for frame in 0.. {
        let mut at = from + Duration(frame * plan.frame_ticks * 1_000_000_000 / CLOCK_HZ);
        if at >= to {
            break;
        }
        let packets = if frame % plan.group == 0 { plan.full } else { x.number(1, plan.packets) };
        // Shown in the order 1 2 3, sent in the order 3 1 2.
        let shown = match (plan.bidirectional, frame % 3) {
            (true, 0) => frame + 2,
            (true, _) => frame - 1,
            (false, _) => frame,
        };
        for i in 0..packets {
            let last = i + 1 == packets;
            let len = if last { x.number(40, plan.packet_bytes) } else { plan.packet_bytes };
            let ticks = shown * plan.frame_ticks;
            let payload = source.packet(x, plan.payload_type, last, ticks, len as usize);
            x.send(leg, at, payload);
            at = at + plan.pace;
        }
    }
}

/// Video one way or both ways, with RTCP.
pub(super) fn video(x: &mut Exchange) {
    let mut legs = x.media_legs();
    let length = x.ms(3_000, 6_000);
    let both = x.one_in(2);
    let mut ssrc = [1, 2];
    for (i, leg) in legs.iter_mut().enumerate().take(if both { 2 } else { 1 }) {
        let plan = VideoPlan::draw(x);
        let mut source = Source::new(x, plan.payload_type);
        ssrc[i] = source.ssrc();
        show(x, leg, &mut source, &plan, Duration::ZERO, length);
    }
    control(x, &mut legs, ssrc, length, false);
}
